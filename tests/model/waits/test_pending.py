"""Waits before applications ran, put down to those that held containers meanwhile."""

from __future__ import annotations

import itertools
import sys
from math import nan
from typing import Any

import numpy as np
import pytest

from iqcar.logs.find.resource_manager import YarnApplication, YarnTold
from iqcar.model.waits import pending
from iqcar.model.waits.pending import MOST_HOLDERS, pending_waits
from tests.support.tiny_tables import tiny_tables


def app(number: int, **more: Any) -> YarnApplication:
    """An application that was launched at once, at 0 s, ran to 100 s, and held 1 GB."""
    plain = YarnApplication(
        application_id=f"application_1_{number:04}", name=f"a{number}", user="ann", queue="etl",
        state="FINISHED", diagnostics="", submitted_ms=0.0, launched_ms=0.0, until_ms=100_000.0,
        memory_mb_s=100_000.0,
    )  # fmt: skip
    return plain._replace(**more)


def told(*apps: YarnApplication, memory: float = 4000.0) -> YarnTold:
    return YarnTold("http://rm", apps, memory, 8.0, 1.0)


LATE = app(9, submitted_ms=20_000.0, launched_ms=60_000.0, queue="adhoc")


def test_who_held_containers_meanwhile_shares_the_wait_by_memory() -> None:
    big, early = app(1, memory_mb_s=300_000.0), app(3, until_ms=20_000.0)
    (one,) = pending_waits(tiny_tables(), told(big, app(2), early, LATE)).pending
    assert one.wait_ms == 40_000
    assert [h.application.name for h in one.holders] == ["a1", "a2"]
    assert [h.lost_ms for h in one.holders] == [30_000, 10_000]
    assert one.held == pytest.approx(1.0)
    assert (one.rest_ms, one.unattributed_ms, one.app) == (0, 0, -1)


def test_the_log_tells_when_an_application_held_its_memory() -> None:
    tables = tiny_tables(
        applications=[{"application_id": "application_1_0001", "end_ms": 100_000.0}],
        executors=[
            {"executor_id": "1", "cores": 1.0, "added_ms": 0.0, "removed_ms": 20_000.0},
            {"executor_id": "2", "cores": 1.0, "added_ms": 50_000.0, "removed_ms": 70_000.0},
        ],
    )
    (one,) = pending_waits(tables, told(app(1), app(2), LATE)).pending
    # a1: 2,500 MB in 10 of the 40 s; a2: 1,000 MB in all of them.
    assert {h.application.name: h.lost_ms for h in one.holders} == pytest.approx(
        {"a1": 40_000 * 25 / 65, "a2": 40_000 * 40 / 65}
    )
    assert [h.app for h in one.holders if h.application.name == "a1"] == [0]


@pytest.mark.parametrize(("ended", "end_ms"), [(False, 10_000.0), (True, 500_000.0)])
def test_a_log_may_lag_behind_the_manager_or_be_newer(ended: bool, end_ms: float) -> None:
    tables = tiny_tables(
        applications=[{"application_id": app(1).application_id, "end_ms": end_ms, "ended": ended}],
        executors=[{"executor_id": "1", "cores": 1.0, "added_ms": 0.0}],
    )
    (one,) = pending_waits(tables, told(app(1), LATE)).pending
    assert one.held == pytest.approx(0.25)  # 1,000 of 4,000 MB all the time
    assert [h.lost_ms for h in one.holders] == [40_000]


def test_who_waits_still_waits_until_now_and_holds_nothing() -> None:
    waiting = LATE._replace(state="ACCEPTED", launched_ms=nan, memory_mb_s=0.0)
    found = pending_waits(tiny_tables(), told(app(1), waiting))
    (one,) = found.pending
    assert (one.until_ms, found.waiting) == (100_000, 1)
    assert [h.application.name for h in one.holders] == ["a1"]


def test_a_master_that_was_launched_and_has_not_registered_waits_no_longer() -> None:
    found = pending_waits(tiny_tables(), told(app(1), LATE._replace(state="ACCEPTED")))
    (one,) = found.pending
    assert (one.wait_ms, one.application.waits, found.waiting) == (40_000, False, 0)


def test_ordinary_starts_and_unknown_times_are_no_waits() -> None:
    quick = app(2, launched_ms=4_900.0)
    old = app(3, submitted_ms=10_000.0, launched_ms=nan)  # Hadoop before 3.2 does not tell
    assert pending_waits(tiny_tables(), told(app(1), quick, old)).pending == ()


def test_where_nobody_held_anything_nobody_is_named() -> None:
    (one,) = pending_waits(tiny_tables(), told(LATE, memory=nan)).pending
    assert (one.holders, one.unattributed_ms) == ((), 40_000)
    assert np.isnan(one.held)


def test_the_manager_may_have_forgotten_an_application_of_the_logs() -> None:
    tables = tiny_tables(applications=[{"application_id": "application_1_0007"}])
    assert pending_waits(tables, told(LATE)).unknown == 1


@pytest.mark.parametrize("seed", range(20))
def test_parts_sum_to_the_wait(seed: int) -> None:
    rng = np.random.default_rng(seed)
    apps = []
    for number in range(rng.integers(1, 3 * MOST_HOLDERS)):
        since, wait, ran = rng.integers(0, 90_000, 3).tolist()
        held = float(rng.integers(0, 1000))
        times = {"submitted_ms": since, "launched_ms": since + wait, "until_ms": since + wait + ran}
        apps.append(app(number, memory_mb_s=held, **{k: float(v) for k, v in times.items()}))
    found = pending_waits(tiny_tables(), told(*apps)).pending
    for one in found:
        parts = sum(h.lost_ms for h in one.holders) + one.rest_ms + one.unattributed_ms
        assert parts == pytest.approx(one.wait_ms)
        assert one.application not in [h.application for h in one.holders]
    assert [one.wait_ms for one in found] == sorted((one.wait_ms for one in found), reverse=True)


def test_of_very_many_waits_the_longest_are_explained_and_all_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late = [LATE._replace(application_id=f"application_1_9{n}", submitted_ms=n) for n in range(9)]
    monkeypatch.setattr(pending, "MOST_WORK", 4 * 10)  # each wait is looked for among ten
    found = pending_waits(tiny_tables(), told(app(1), *late)).pending
    assert len(found) == 9
    assert [bool(one.holders) for one in found] == [True] * 4 + [False] * 5
    for one in found[4:]:
        assert np.isnan(one.held)
        assert (one.rest_ms, one.unattributed_ms) == (0, one.wait_ms)


MANY_APPS, MANY_QUEUES = 30_000, 10_000


def test_a_manager_that_knows_very_many_applications_in_many_queues_costs_little_each() -> None:
    apps = [
        app(n, queue=f"q{n % MANY_QUEUES}", submitted_ms=0.0, launched_ms=6_000.0 + n)
        for n in range(MANY_APPS)
    ]
    tables = tiny_tables(applications=[{"application_id": apps[0].application_id}])
    calls, most = itertools.count(), 200 * MANY_APPS

    def count(*_: object) -> None:
        # Whoever compares each with each makes some hundred million.
        assert next(calls) < most

    sys.setprofile(count)
    try:
        found = pending_waits(tables, told(*apps)).pending
    finally:
        sys.setprofile(None)
    assert len(found) == MANY_APPS
