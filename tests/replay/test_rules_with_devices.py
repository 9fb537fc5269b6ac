"""Rules predicted with shared devices: against a simulated truth, and as slots alone predict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import iqcar
from iqcar.causes.blame.attribute import attribute
from iqcar.causes.graph.iqc_graph import build_graph
from iqcar.replay.proposals import DeviceReplay
from iqcar.replay.rule_effect.effect import Prediction, predict
from iqcar.replay.whatif.model import build_model
from iqcar.rules.propose_rules import propose
from iqcar.rules.rule import RuleType
from iqcar.say.rule_lines import rule_lines
from iqcar.tables import Tables
from iqcar_lab.clusters.recorded import replayable
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.work import Cluster, QueryPlan, StagePlan
from tests.replay.test_rejected_rules import query
from tests.support.naive_replay import ExecutorPlan, Problem
from tests.support.replayed_log import write_log

CLUSTER = Cluster(slots=48)
HOG = QueryPlan(
    "hog",
    tuple(
        StagePlan(120, read=60e6, cpu=300, read_rate=3e4, parents=tuple(range(k))) for k in range(2)
    ),
    submit=3000.0,
)
PLANS = [
    HOG,
    *(
        QueryPlan(f"v{k:02}", (StagePlan(8, read=15e6, cpu=100, read_rate=3e4),), submit=4000.0 * k)
        for k in range(20)
    ),
]
"""A query that fills all disks with fewer tasks than there are slots, and small ones beside it."""


def run_of(plans: list[QueryPlan]) -> tuple[Simulation, Tables, pd.DataFrame]:
    run = Simulation(CLUSTER, plans, 1)
    tables, waits = replayable(run)
    names = [plan.name for plan in plans]
    queries = tables.queries.assign(
        name=names,
        query_id=[f"app-0/{name}" for name in names],
        fingerprint=[f"name:{name}" for name in names],
    )
    return run, tables.with_(queries=queries), waits


def predicted(tables: Tables, waits: pd.DataFrame) -> Prediction:
    blame = attribute(tables, waits)
    graph = build_graph(tables, blame)
    model = build_model(tables, waits, blame.demand)
    return predict(tables, graph, propose(tables, graph), devices=DeviceReplay(model))


def durations(run: Simulation) -> np.ndarray:
    return np.array(run.ended) - np.array([plan.submit for plan in run.plans])


def test_a_rule_for_a_victim_that_waits_for_a_disk_is_predicted_and_a_cap_helps_it() -> None:
    run, tables, waits = run_of(PLANS)
    prediction = predicted(tables, waits)
    weights = [rule for rule in prediction.rules if rule.rule_type is not RuleType.CAP]
    assert weights and {rule.resource for rule in weights} == {"io"}
    for rule in weights:
        # No slot was short: no weight changes anything.
        assert rule.expected["model"] == "devices" and "disks" in rule.expected["assumptions"]
        assert rule.expected["outlook"] == "no-gain" and not rule.helps_pools
    (cap,) = (rule for rule in prediction.rules if rule.rule_type is RuleType.CAP)
    assert cap.helps_pools and cap.resource == "io" and cap.expected["outlook"] == "helps"
    lines = {line.id: line for line in rule_lines(prediction.rules)}
    assert lines["AGG-1"].instead.startswith(
        "Its weight will not help: it shares out slots, not IO."
    )
    assert lines[cap.id].instead == "" and "its share is" not in cap.reason
    most = int(cap.rule_value * CLUSTER.slots * CLUSTER.hosts)
    truth = durations(Simulation(CLUSTER, [replace(HOG, cap=most), *PLANS[1:]], 1))
    before = durations(run)
    saved = before.sum() - truth.sum()
    said = cap.expected["before_ms"] - cap.expected["after_ms"]
    assert saved > 0.15 * before.sum()
    assert said == pytest.approx(saved, rel=0.2)
    # A disk does as much for fewer tasks: the hog hardly pays. Who meets whom on a host hangs on
    # the last bit of a time, so on another processor the same run moves by some percent.
    pays = 100 * (truth[0] / before[0] - 1)
    assert abs(pays) < 10
    assert cap.expected["source_change_percent"] == pytest.approx(pays, abs=10)
    assert prediction.together.outlook == "helps"
    assert prediction.together.model == "devices"


def test_where_the_model_does_not_reproduce_the_run_slots_alone_predict() -> None:
    """Tasks that took half as long again as anything explains."""
    _, tables, waits = run_of(PLANS)
    slow = tables.queries["duration_ms"] * 1.5
    tables = tables.with_(queries=tables.queries.assign(duration_ms=slow))
    prediction = predicted(tables, waits)
    assert {rule.expected for rule in prediction.rules} == {None}
    assert not any(rule.helps_pools for rule in prediction.rules)
    assert prediction.together is None


@pytest.fixture(scope="module")
def of_slots(tmp_path_factory: pytest.TempPathFactory) -> iqcar.Diagnosis:
    problem = Problem(
        (query(1.0, 64, 1_000.0), query(100.0, 8, 500.0), query(2_000.0, 4, 700.0)),
        (ExecutorPlan(0.0, 8),),
    )
    log: Path = tmp_path_factory.mktemp("slots") / "app"
    return iqcar.diagnose(iqcar.read(write_log(log, problem, names=("etl", "a", "b"))))


def test_where_only_slots_are_short_both_replays_say_the_same(of_slots: iqcar.Diagnosis) -> None:
    tables, waits = of_slots.tables, of_slots.waits
    rules = propose(tables, of_slots.graph)
    model = build_model(tables, waits, of_slots.blame.demand)
    slots = predict(tables, of_slots.graph, rules)
    devices = predict(tables, of_slots.graph, rules, devices=DeviceReplay(model))
    assert [rule.id for rule in slots.rules] == [rule.id for rule in devices.rules]
    for one, other in zip(slots.rules, devices.rules, strict=True):
        assert (one.expected["model"], other.expected["model"]) == ("slots", "devices")
        assert one.expected["sentence"] == other.expected["sentence"]
        for name in ("victims_after_ms", "after_ms", "before_ms"):
            assert one.expected[name] == pytest.approx(other.expected[name], rel=1e-6)


def test_where_no_device_can_be_short_rules_are_replayed_in_slots(
    of_slots: iqcar.Diagnosis,
) -> None:
    assert {rule.expected["model"] for rule in of_slots.rules if rule.expected} == {"slots"}
