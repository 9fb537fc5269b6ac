"""BigRoots as printed: its equations one by one, its published arithmetic, and what must hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar_lab.printed.bigroots import (
    DEFAULT,
    FLOOR,
    LOCALITY,
    NUMERICAL,
    RESOURCE,
    TIME,
    PrintedTask,
    PrintedThresholds,
    Sample,
    locality_feature,
    mean_utilisation,
    printed_stragglers,
    root_causes,
    tasks_with_features,
    was_its_own,
)
from tests.support.straggler_truth import simulate

TABLE_IV = {
    1: ((0, 10, "cpu"), (100, 110, "disk")),
    2: ((30, 40, "cpu"), (63, 73, "cpu"), (83, 93, "cpu")),
    3: ((99, 109, "disk"),),
    4: ((27, 37, "network"), (87, 97, "disk"), (112, 122, "network")),
    5: ((33, 43, "disk"), (53, 63, "cpu"), (69, 79, "disk"), (100, 110, "cpu")),
}
"""Of each slave: seconds and feature."""


def stage(
    values: list[float], feature: str, durations: list[float] | None = None
) -> list[PrintedTask]:
    """Tasks on two nodes in turn, the last of which is a straggler."""
    took = durations or [1000.0] * (len(values) - 1) + [2000.0]
    each = zip(took, values, strict=True)
    return [PrintedTask(0, n % 2, d, {feature: v}) for n, (d, v) in enumerate(each)]


def named(tasks: list[PrintedTask], limits: PrintedThresholds = DEFAULT) -> set:
    return {(one.task, one.feature) for one in root_causes(tasks, limits)}


def test_equations_1_to_3_are_means_of_the_samples_from_start_to_end() -> None:
    samples = [Sample(1000.0 * t, 0.1 * t, 0.02 * t, 100.0 * t) for t in range(10)]
    assert mean_utilisation(samples, 2000, 4000) == pytest.approx(
        {"cpu": 0.3, "disk": 0.06, "network": 300.0}
    )
    assert mean_utilisation(samples, 2100, 2900) == {}


def test_equation_1_counts_user_time_only() -> None:
    tables = simulate(1, stages=1).tables
    samples = tables.samples.assign(cpu_user=30.0, cpu_system=60.0, cpu_iowait=10.0, cpu_idle=0.0)
    _, tasks = tasks_with_features(tables.with_(samples=samples))
    seen = [one.features["cpu"] for one in tasks if "cpu" in one.features]
    assert seen and seen == pytest.approx([0.3] * len(seen))


def test_equation_4_is_2_for_whatever_is_neither_in_the_process_nor_on_the_node() -> None:
    levels = ("PROCESS_LOCAL", "NODE_LOCAL", "RACK_LOCAL", "ANY", "NO_PREF")
    assert [locality_feature(one) for one in levels] == [0, 1, 2, 2, 2]


def test_equation_5_asks_for_both_conditions() -> None:
    values = [1.0] * 9 + [1.51]
    assert named(stage(values, "read_bytes")) == {(9, "read_bytes")}
    assert not named(stage([1.0] * 9 + [1.5], "read_bytes"))  # not above 1.5 × its peers'
    elsewhere = [PrintedTask(1, 0, 1000.0, {"read_bytes": 9.0}) for _ in range(10)]
    assert not named([*stage(values, "read_bytes"), *elsewhere])  # nor above the quantile of all


def test_one_group_of_peers_is_enough() -> None:
    """On its own node all read as much; on the other node, less."""
    tasks = [PrintedTask(0, n % 2, 1000.0, {"read_bytes": 1.0 + n % 2}) for n in range(18)]
    tasks += [PrintedTask(1, 0, 1000.0, {"read_bytes": 0.5}) for _ in range(40)]
    assert named([*tasks, PrintedTask(0, 1, 2000.0, {"read_bytes": 2.0})]) == {(58, "read_bytes")}


@pytest.mark.parametrize("feature", TIME)
def test_a_time_is_more_than_a_fifth_of_the_duration(feature: str) -> None:
    assert not named(stage([0.01] * 9 + [FLOOR], feature))
    assert named(stage([0.01] * 9 + [0.21], feature)) == {(9, feature)}


def test_equation_6_drops_what_rose_with_the_task_and_fell_with_it() -> None:
    def task(head: float | None, tail: float | None) -> PrintedTask:
        sides = ({} if edge is None else {"cpu": edge} for edge in (head, tail))
        return PrintedTask(0, 0, 2000.0, {"cpu": 0.8}, *sides)

    assert was_its_own(task(0.1, 0.1), "cpu", 0.5)
    assert not was_its_own(task(0.1, 0.7), "cpu", 0.5)
    assert not was_its_own(task(0.7, 0.1), "cpu", 0.5)
    assert not was_its_own(task(None, 0.1), "cpu", 0.5)
    # As the equation is printed this one would be dropped: a load that outlasts the task.
    assert not was_its_own(task(0.8, 0.8), "cpu", 0.5)


def test_equation_7_asks_that_normal_tasks_are_mostly_local() -> None:
    def with_normal(values: list[float]) -> set:
        return named(stage([*values, 2.0], LOCALITY))

    assert with_normal([0.0] * 7 + [1.0] * 3) == {(10, LOCALITY)}
    assert not with_normal([0.0] * 5 + [1.0] * 5)  # 5 < 10 / 2 does not hold
    assert not named(stage([0.0] * 10 + [1.0], LOCALITY))


def test_injections_of_table_4_are_named_where_and_when_they_were() -> None:
    """Tasks of 4 s on five slaves; those that overlap an injection take twice as long."""
    tasks, truth = [], set()
    for slave, injections in TABLE_IV.items():
        loads = {name: [0.0] * 140 for name in RESOURCE}
        for begin, end, name in injections:
            loads[name][begin:end] = [0.9] * (end - begin)
        second = [{name: max(0.1, loads[name][t]) for name in RESOURCE} for t in range(140)]
        samples = [Sample(1000.0 * (t + 1), **second[t]) for t in range(140)]
        for number, begin in enumerate(range(5, 120, 10)):
            hit = {n for a, b, n in injections if a <= begin and begin + 8 <= b}
            end = begin + (8 if hit else 4)
            truth |= {(len(tasks), name) for name in hit}
            spans = ((begin, end), (begin - 3, begin), (end + 1, end + 3))
            during, head, tail = (
                mean_utilisation(samples, 1000.0 * a, 1000.0 * b) for a, b in spans
            )
            tasks.append(PrintedTask(number, slave, 1000.0 * (end - begin), during, head, tail))
    assert truth
    assert named(tasks, PrintedThresholds(quantile=0.5)) == truth


COMPARED = (*NUMERICAL, *TIME, *RESOURCE)
LEVELS = st.sampled_from((0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 8.0))
FEATURES = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys((*NUMERICAL, *TIME, *RESOURCE), LEVELS),
        LOCALITY: st.sampled_from((0.0, 1.0, 2.0)),
    },
)
EDGES = st.fixed_dictionaries({}, optional=dict.fromkeys(RESOURCE, LEVELS))
TASKS = st.lists(
    st.builds(
        PrintedTask,
        stage=st.integers(0, 1),
        node=st.integers(0, 2),
        duration=st.sampled_from((10.0, 20.0, 31.0, 100.0)),
        features=FEATURES,
        head=EDGES,
        tail=EDGES,
    ),
    max_size=14,
)


@given(TASKS, st.randoms(use_true_random=False))
def test_the_order_of_tasks_changes_nothing(tasks: list[PrintedTask], random) -> None:
    order = list(range(len(tasks)))
    random.shuffle(order)
    mixed = [tasks[n] for n in order]
    back = sorted((order[one.task], *one[1:]) for one in root_causes(mixed))
    assert repr(back) == repr(sorted(tuple(one) for one in root_causes(tasks)))


@given(TASKS)
def test_a_task_with_no_feature_above_its_peers_has_no_cause(tasks: list[PrintedTask]) -> None:
    for one in root_causes(tasks):
        mine = tasks[one.task]
        peers = [
            t.features[one.feature]
            for n, t in enumerate(tasks)
            if n != one.task and t.stage == mine.stage and one.feature in t.features
        ]
        assert one.feature == LOCALITY or mine.features[one.feature] > min(peers)
    level = [one._replace(features=dict.fromkeys(COMPARED, 1.0)) for one in tasks]
    assert root_causes(level) == []


def test_planted_causes_of_a_whole_run_are_found() -> None:
    truth = simulate(2)
    found = printed_stragglers(truth.tables)
    delay = found["duration_ms"] - found["median_ms"]
    assert (np.diff(delay) <= 0).all()
    for feature, cause in (("read_bytes", "input-skew"), ("JVMGC_time", "gc")):
        of = found[found["feature"] == feature]
        true = truth.extra_ms[cause].to_numpy()[of["task"]] > 0
        assert true.mean() > 0.9
        slow = truth.extra_ms[cause].to_numpy()[found["task"].unique()] > 0
        assert len(of) > 0.8 * slow.sum()


def test_nothing_recorded_no_stragglers() -> None:
    tables = simulate(2, stages=1).tables
    empty = tables.with_(tasks=tables.tasks.iloc[:0], samples=tables.samples.iloc[:0])
    assert printed_stragglers(empty).empty
