"""The sweep: sums over pairs of intervals without listing pairs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.causes.blame.sweep import (
    SOURCE_ENDS,
    SOURCE_STARTS,
    TARGET_ENDS,
    TARGET_STARTS,
    pair_integrals,
)
from iqcar.causes.blame.usage_sweep import mean_of_others, usage_during
from iqcar.tables.arrays import Schedule, by_time, schedule
from tests.support.examples import examples


class Intervals(NamedTuple):
    """Tasks that are target from asked to launch and source from launch to finish."""

    domain: np.ndarray
    asked: np.ndarray
    launch: np.ndarray
    finish: np.ndarray
    rate: np.ndarray
    weight: np.ndarray
    group: np.ndarray
    source: np.ndarray

    def events(self) -> Schedule:
        return schedule(
            self.domain,
            (self.asked, TARGET_STARTS),
            (self.launch, TARGET_ENDS | SOURCE_STARTS),
            (self.finish, SOURCE_ENDS),
        )

    def overlap(self) -> np.ndarray:
        """Overlap of target i's wait with source j's run, 0 across domains."""
        begin = np.maximum(self.asked[:, None], self.launch[None, :])
        end = np.minimum(self.launch[:, None], self.finish[None, :])
        same = (self.domain[:, None] == self.domain[None, :]) & (self.domain[:, None] >= 0)
        return np.where(same, np.maximum(end - begin, 0.0), 0.0)

    def in_order(self, events: Schedule) -> tuple[Any, ...]:
        """Columns of the pair sums; the second weight of a task is the first times its row."""
        second = self.weight * np.arange(len(self.weight))
        columns = (self.rate, self.source, self.weight, second, self.group)
        rate, source, weight, second, group = (column[events.row] for column in columns)
        return rate, source, (weight, second), group


def intervals(n: int, domains: int, groups: int, seed: int, start: float = 1.7e12) -> Intervals:
    rng = np.random.default_rng(seed)
    launch = start + rng.integers(0, 60, n)
    return Intervals(
        domain=rng.integers(-1, domains, n),
        asked=launch - rng.integers(0, 20, n),
        launch=launch,
        finish=launch + rng.integers(0, 25, n),
        rate=rng.choice([0.0, 0.25, 1.0, 2.0], n),
        weight=rng.choice([0.0, 0.5, 3.0], n),
        group=rng.integers(groups, size=n),
        source=rng.integers(-1, groups, n),
    )


random_intervals = st.builds(
    intervals,
    st.integers(0, 60),
    st.integers(1, 3),
    st.integers(1, 25),
    st.integers(0, 2**32),
)


@examples(50)
@given(random_intervals)
def test_an_order_that_is_known_changes_nothing(tasks: Intervals) -> None:
    moments = (tasks.launch, TARGET_STARTS), (tasks.finish, TARGET_ENDS)
    order = by_time(tasks.launch, tasks.finish)
    for found, expected in zip(
        schedule(tasks.domain, *moments, order=order),
        schedule(tasks.domain, *moments),
        strict=True,
    ):
        np.testing.assert_array_equal(found, expected)


@examples(150)
@given(random_intervals)
def test_usage_during_a_target_is_the_sum_over_its_overlaps(tasks: Intervals) -> None:
    is_target = tasks.weight > 0
    expected = np.where(is_target, tasks.overlap() @ tasks.rate, 0.0)
    np.testing.assert_allclose(usage_during(tasks.events(), tasks.rate, is_target), expected)


@examples(150)
@given(random_intervals)
def test_means_of_others_are_sums_over_overlaps_with_tasks_of_all_and_of_one_owner(
    tasks: Intervals,
) -> None:
    speed, levels = tasks.weight, np.array([0.25, 1.0, 5.0])
    life, overlap = np.arange(1.0, len(speed) + 1), tasks.overlap()
    siblings = tasks.group[:, None] == tasks.group
    nothing = 0.0 * life
    found = mean_of_others(tasks.events(), speed, tasks.rate, nothing, life, levels, tasks.group)
    np.testing.assert_allclose(found.tasks, overlap @ tasks.rate / life)
    np.testing.assert_allclose(found.siblings, (overlap * siblings) @ tasks.rate / life)
    moved = tasks.rate[:, None] * np.minimum(speed[:, None], levels)
    np.testing.assert_allclose(found.taken, overlap @ moved / life[:, None])


@examples(150)
@given(random_intervals, st.booleans())
def test_pairs_are_the_sums_over_all_overlaps_of_a_group_and_a_source(
    tasks: Intervals, every_group_has_its_domain: bool
) -> None:
    groups = int(max(tasks.group.max(initial=0), tasks.source.max(initial=0))) + 1
    group = tasks.group
    if every_group_has_its_domain:
        group = tasks.group * 4 + tasks.domain + 1
        groups *= 4
    events = tasks.events()
    found = pair_integrals(
        events,
        *tasks._replace(group=group).in_order(events),
        n_sources=groups,
        n_groups=groups,
        one_domain=every_group_has_its_domain,
    )
    each = tasks.overlap() * np.where(tasks.source >= 0, tasks.rate, 0.0)
    expected = np.zeros((2, groups, groups))
    for k, weight in enumerate((tasks.weight, tasks.weight * np.arange(len(group)))):
        np.add.at(expected[k], (group[:, None], tasks.source[None, :]), each * weight[:, None])
    table = np.zeros_like(expected)
    assert len(set(zip(found.group, found.source, strict=True))) == len(found.group)
    table[0, found.group, found.source] = found.first
    table[1, found.group, found.source] = found.second
    np.testing.assert_allclose(table, expected, rtol=1e-9, atol=1e-9)
    assert (found.first > 0).all()


def test_more_groups_and_sources_alive_than_there_is_room_for_at_first() -> None:
    n = 100
    at = np.arange(n, dtype=float)
    tasks = Intervals(
        domain=np.zeros(n, dtype=int),
        asked=at,
        launch=at + 200,
        finish=at + 400,
        rate=np.ones(n),
        weight=np.ones(n),
        group=np.arange(n),
        source=np.arange(n)[::-1].copy(),
    )
    events = tasks.events()
    found = pair_integrals(events, *tasks.in_order(events), n, n, one_domain=True)
    table = np.zeros((n, n))
    table[found.group, found.source] = found.first
    np.testing.assert_allclose(table, tasks.overlap()[:, ::-1])


def test_a_short_task_late_in_a_long_log_keeps_its_precision() -> None:
    # A month of 1000 busy cores in thirds of one, then a task of one millisecond.
    month = 30 * 86_400_000.0
    n = 1000
    begin = np.append(np.linspace(0, 1, n), [month - 1.0, month - 1.0])
    end = np.append(np.full(n, month - 1.0), [month, month])
    events = schedule(
        np.zeros(n + 2, dtype=int),
        (begin, TARGET_STARTS | SOURCE_STARTS),
        (end, TARGET_ENDS | SOURCE_ENDS),
    )
    rate = np.append(np.full(n, 1 / 3), [1 / 3, 0.1])
    is_target = np.arange(n + 2) >= n
    used = usage_during(events, rate, is_target)
    assert used[n:] == pytest.approx([1 / 3 + 0.1] * 2, rel=1e-9)


def test_sources_that_are_gone_leave_exactly_nothing() -> None:
    begin = np.array([0.0, 0.1, 0.2, 10.0])
    end = np.array([5.0, 5.3, 5.7, 20.0])
    events = schedule(
        np.zeros(4, dtype=int),
        (begin, TARGET_STARTS | SOURCE_STARTS),
        (end, TARGET_ENDS | SOURCE_ENDS),
    )
    rate = np.array([0.1, 0.2, 0.3, 0.0])
    assert usage_during(events, rate, np.array([False] * 3 + [True]))[3] == 0.0
    found = pair_integrals(
        events,
        rate,
        np.array([0, 0, 0, 1]),
        (np.array([0.0, 0, 0, 1]), np.array([0.0, 0, 0, 1])),
        np.zeros(4, dtype=int),
        n_sources=2,
        n_groups=1,
        one_domain=True,
    )
    assert len(found.group) == 0
