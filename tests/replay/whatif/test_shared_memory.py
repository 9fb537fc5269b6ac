"""Execution memory in predictions: who holds it makes others wait, until he is not there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from iqcar.causes.blame.attribute import attribute
from iqcar.enums import Request
from iqcar.model.waits.columns import wait_column
from iqcar.model.waits.executor_memory import memory_of_executor
from iqcar.replay.loop.memory_demands import memory_demands
from iqcar.replay.whatif.model import Model, build_model
from iqcar.replay.whatif.outcome import MEMORY
from iqcar.replay.whatif.question import Question
from iqcar.replay.whatif.what_if import answer
from iqcar.tables import CONF, TASK_RECORDS, Tables
from iqcar_lab.clusters.frames import frame
from iqcar_lab.clusters.recorded import replayable
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.what_if_truth import GB, find, model_of
from iqcar_lab.clusters.work import Cluster, QueryPlan, StagePlan

HOLD = StagePlan(6, cpu=100, sleep=5000, memory=3 * GB, spread=0.0)
SORT = StagePlan(12, read=20e6, cpu=400, memory=1 * GB)
PLANS = [
    QueryPlan("target", (SORT, replace(SORT, parents=(0,))), submit=500.0),
    QueryPlan("holder", (HOLD,)),
]
CLUSTER = Cluster(cores=12, disk=1e6, slots=12, memory=4 * GB)
WAITS = wait_column(Request.EXECUTION_MEMORY)


@pytest.fixture(scope="module")
def run() -> Simulation:
    return Simulation(CLUSTER, PLANS, 1)


@pytest.fixture(scope="module")
def model(run: Simulation) -> Model:
    return model_of(run)


def test_without_the_holder_nobody_waits_for_memory(run: Simulation, model: Model) -> None:
    true = Simulation(CLUSTER, PLANS[:1], 1).lasted()[0]
    assert true < 0.5 * run.lasted()[0]
    said = answer(model, Question(remove=("1",)), find)
    target = said.queries.loc[0]
    assert target["predicted_ms"] == pytest.approx(true, rel=0.03)
    assert target["memory_wait_before_ms"] > 0.3 * target["recorded_ms"]
    assert target["memory_wait_after_ms"] < 0.1 * target["memory_wait_before_ms"]
    assert any("execution memory" in one for one in said.assumptions)


def test_of_a_plain_log_too(run: Simulation) -> None:
    tables, waits = replayable(run, plain=True)
    plain = build_model(tables, waits, attribute(tables, waits).demand)
    assert plain is not None
    true = Simulation(CLUSTER, PLANS[:1], 1).lasted()[0]
    target = answer(plain, Question(remove=("1",)), find).queries.loc[0]
    assert target["predicted_ms"] == pytest.approx(true, rel=0.03)
    assert target["memory_wait_before_ms"] > 0.3 * target["recorded_ms"]


def test_replayed_waits_for_memory_are_the_recorded_ones(run: Simulation, model: Model) -> None:
    recorded = replayable(run)[1][WAITS].sum()
    replayed = model.base(model.members[0]).wait_ms[:, MEMORY].sum()
    assert replayed == pytest.approx(recorded, rel=0.05)


def test_waits_that_holding_does_not_explain_stay_and_the_range_covers_none(
    run: Simulation,
) -> None:
    """As if memory were ten times as much: nobody in the log was in the way."""
    tables, waits = replayable(run)
    conf = tables.conf.assign(value=["80g"] * len(tables.conf))
    tables = tables.with_(conf=conf)
    model = build_model(tables, waits, attribute(tables, waits).demand)
    assert model is not None and model.no_memory_waits is not None
    said = answer(model, Question(remove=("1",)), find)
    target = said.queries.loc[0]
    assert target["predicted_ms"] > 0.9 * target["recorded_ms"]
    assert target["low_ms"] < 0.5 * target["recorded_ms"]
    assert np.isnan(target["memory_wait_before_ms"])
    assert any("does not explain these waits" in one for one in said.assumptions)


def test_without_waits_for_memory_there_is_no_model_of_it() -> None:
    tables, waits = replayable(Simulation(replace(CLUSTER, memory=np.inf), PLANS, 1))
    assert memory_demands(tables, waits) is None


def test_a_task_wants_what_it_held_by_the_plugin_and_what_it_spilled(run: Simulation) -> None:
    tables, waits = replayable(run)
    records = frame(TASK_RECORDS, 1, task=[0], peak_held_bytes=[5.0])
    tasks = tables.tasks.assign(memory_spilled_bytes=2.0, peak_memory_bytes=9.0)
    found = memory_demands(tables.with_(tasks=tasks, task_records=records), waits)
    assert found is not None
    assert found.wanted[:2].tolist() == [7.0, 11.0]


@pytest.mark.parametrize(
    ("settings", "megabytes"),
    [
        ({"spark.executor.memory": "2g"}, 0.6 * (2048 - 300)),
        ({"spark.executor.memory": "1024", "spark.memory.fraction": "0.5"}, 0.5 * (1024 - 300)),
        ({"spark.master": "local[2]", "spark.driver.memory": "1g"}, 0.6 * (1024 - 300)),
        ({"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "64m"}, 64),
        ({}, 0.6 * (1024 - 300)),
        ({"spark.executor.memory": "much"}, 0),
    ],
)
def test_memory_of_an_executor_is_what_settings_leave(
    settings: dict[str, str], megabytes: float
) -> None:
    n = len(settings)
    conf = frame(CONF, n, app=[0] * n, key=list(settings), value=list(settings.values()))
    tables = Tables.empty().with_(conf=conf)
    assert memory_of_executor(tables, 0) == pytest.approx(megabytes * (1 << 20))
