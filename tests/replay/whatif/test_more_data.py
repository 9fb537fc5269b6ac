"""Twice the data is more tasks where data adds tasks, else longer ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from iqcar.replay.whatif.data_growth import Coalescing, coalescing_of, tasks_of_data
from iqcar.replay.whatif.edit import scale_data
from iqcar.replay.whatif.intervene import intervene
from iqcar.replay.whatif.model import Model
from iqcar.replay.whatif.question import Question
from iqcar.replay.whatif.scenario import Scenario
from iqcar.replay.whatif.what_if import answer
from iqcar.tables import CONF
from iqcar_lab.clusters.frames import frame
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.what_if_truth import find, model_of, more_data
from iqcar_lab.clusters.work import Cluster, QueryPlan, StagePlan

MB = 1e6
CLUSTER = Cluster(hosts=2, slots=4, cores=8.0)
SCAN = StagePlan(10, read=40 * MB, cpu=400)
PLANS = [
    QueryPlan("grows", (SCAN, StagePlan(6, fetch=20 * MB, cpu=300, parents=(0,)))),
    QueryPlan("beside", (replace(SCAN, tasks=16),), submit=500.0),
]


@pytest.fixture(scope="module")
def model() -> Model:
    return model_of(Simulation(CLUSTER, PLANS, 1))


def counted(scenario: Scenario) -> dict[int, int]:
    """Tasks of each stage."""
    steps = np.flatnonzero(scenario.stage_of_step >= 0)
    tasks = np.diff(scenario.steps.first_task)
    return {int(scenario.stage_of_step[step]): int(tasks[step]) for step in steps}


@pytest.mark.parametrize(
    ("factor", "scans"), [(2.0, 20), (2.5, 25), (0.5, 5), (0.01, 1), (1.0, 10)]
)
def test_scans_get_more_tasks_and_shuffles_larger_ones(
    model: Model, factor: float, scans: int
) -> None:
    before, after = model.scenario, scale_data(model.scenario, {0: factor})
    assert counted(after) == {0: scans, 1: 6, 2: 16}
    for name in ("alone", "gc"):
        was, now = (
            np.array([getattr(one, name)[one.work.step == step].sum() for step in steps])
            for one in (before, after)
            for steps in [np.flatnonzero(before.query_of_step == 0)]
        )
        np.testing.assert_allclose(now, factor * was, rtol=0.1)
    others = [one.alone[one.query_of_task == 1] for one in (before, after)]
    np.testing.assert_array_equal(*others)


def test_tasks_of_more_data_are_like_the_recorded_ones(model: Model) -> None:
    """Three times the data: each recorded task three times, on all hosts alike."""
    before, after = model.scenario, scale_data(model.scenario, {0: 3.0})
    scan = np.flatnonzero(before.stage_of_step == 0)[0]
    was, now = (one.alone[one.work.step == scan].sum(axis=1) for one in (before, after))
    np.testing.assert_allclose(np.sort(now), np.sort(np.tile(was, 3)))
    hosts = np.bincount(after.work.host[after.work.step == scan])
    assert hosts.max() - hosts.min() <= 3


@pytest.mark.parametrize("seed", [1, None])
def test_it_is_what_the_simulator_does(model: Model, seed: int | None) -> None:
    """Further tasks of the recorded sizes, or of sizes that nobody knows."""
    twice = [more_data(PLANS[0], 2, seed), PLANS[1]]
    true = Simulation(CLUSTER, twice, 1).lasted()
    said = answer(model, Question(scale={"0": 2.0}), find)
    recorded = said.queries["recorded_ms"].to_numpy()
    assert true[0] > 1.3 * recorded[0]
    np.testing.assert_allclose(said.queries["predicted_ms"] / recorded, true / recorded, atol=0.12)


def test_the_answer_says_which_stages_get_more_tasks(model: Model) -> None:
    said = " ".join(intervene(model.scenario, Question(scale={"0": 2.0}), find).assumptions)
    assert "1 stage of files or merged partitions: tasks like the recorded ones" in said
    assert "1 stage of a fixed number of tasks: each does more" in said


def naive_tasks(total: float, parallel: int, advisory: float, least: float, most: int) -> float:
    """What ShufflePartitionsUtil aims at: bytes through the size of a partition."""
    size = max(least, min(advisory, total / parallel))
    return min(max(total / size, 1.0), most)


@pytest.mark.parametrize("total", [1e5, 3e6, 2e7, 5e8, 1e10, 1e13])
@pytest.mark.parametrize("parallel_first", ["true", "false"])
def test_merged_partitions_are_as_many_as_the_rule_of_adaptive_execution_makes(
    total: float, parallel_first: str
) -> None:
    settings = {
        "spark.sql.shuffle.partitions": "400",
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": parallel_first,
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "128m",
    }
    rule = coalescing_of(settings, "3.5.1", slots=16)
    assert rule is not None
    parallel = 16 if parallel_first == "true" else 1
    expected = naive_tasks(total, parallel, 128 * 2**20, 2**20, 400)
    assert rule.tasks(total) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("settings", "version"),
    [
        ({}, "3.1.2"),
        ({}, ""),
        ({"spark.sql.adaptive.enabled": "false"}, "3.5.0"),
        ({"spark.sql.adaptive.coalescePartitions.enabled": "false"}, "3.5.0"),
    ],
)
def test_without_adaptive_execution_nothing_is_merged(
    settings: dict[str, str], version: str
) -> None:
    assert coalescing_of(settings, version, 8) is None


def test_settings_that_cannot_be_read_are_the_defaults() -> None:
    bad = {"spark.sql.shuffle.partitions": "many", "spark.default.parallelism": "-3"}
    rule = coalescing_of({**bad, "spark.sql.adaptive.enabled": "true"}, "3.0.0", 8)
    assert rule == Coalescing(initial=200, least_number=1, advisory=64 * 2**20, least=2**20)


def adaptive(model: Model, partitions: int, advisory: str) -> Scenario:
    """The same run as a SQL execution with adaptive execution."""
    tables = model.scenario.tables
    values = {
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": advisory,
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    }
    tables = tables.with_(
        applications=tables.applications.assign(spark_version="3.5.1"),
        jobs=tables.jobs.assign(sql_execution=tables.jobs["query"]),
        conf=frame(
            CONF, 3, app=[0] * 3, sql_execution=[-1] * 3, key=list(values), value=[*values.values()]
        ),
    )
    return replace(model.scenario, tables=tables)


def test_a_shuffle_of_merged_partitions_gets_more_of_them(model: Model) -> None:
    """6 tasks of some 20 MB, as the rule makes of 20 MB each; a repartition(6) stays."""
    merged = adaptive(model, 200, "20m")
    assert counted(scale_data(merged, {0: 2.0}))[1] == pytest.approx(12, abs=1)
    for fixed in (adaptive(model, 6, "20m"), adaptive(model, 200, "200k")):
        assert counted(scale_data(fixed, {0: 2.0}))[1] == 6
    factor = np.where(merged.query_of_step == 0, 2.0, 1.0)
    np.testing.assert_array_equal(tasks_of_data(merged, factor)[merged.query_of_step != 0], 1.0)
