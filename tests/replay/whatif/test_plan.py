"""Capacity plans: totals, knee, cost, and what is not a plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from iqcar.errors import UsageError
from iqcar.replay.whatif import edit_cluster
from iqcar.replay.whatif.plan_capacity import find_knee, plan_capacity
from iqcar.replay.whatif.question import parse_plan, parse_price
from iqcar.show.pictures.question_bars import capacity_plan
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.work import Cluster, QueryPlan, StagePlan
from tests.replay.whatif.test_predictions import model_of


@pytest.fixture(scope="module")
def plan():
    """Two queries of 60 tasks that only sleep, on 2 hosts with 5 slots each."""
    wide = StagePlan(60, sleep=1000.0, cpu=1.0, spread=0.0)
    plans = [QueryPlan("a", (wide,)), QueryPlan("b", (wide,), submit=500.0)]
    run = Simulation(Cluster(hosts=2, cores=100, slots=5), plans, 1)
    return plan_capacity(model_of(run), "slots", range(10, 121, 10), price=3.0)


def test_more_slots_take_less_until_all_tasks_run_at_once(plan) -> None:
    total = plan.values["total_ms"].to_numpy()
    assert (np.diff(total) <= 1e-6).all()
    assert plan.recorded == 10
    # 120 tasks of 1 s on n slots; on 120 both queries take a second.
    assert total[-1] == pytest.approx(2000, rel=0.02)
    makespan = plan.values["makespan_ms"].to_numpy()
    assert makespan[0] == pytest.approx(12_000, rel=0.02)
    assert makespan[1] == pytest.approx(6500, rel=0.1)


def test_the_knee_lies_where_the_curve_bends(plan) -> None:
    assert 20 <= plan.knee <= 40


def test_cost_is_slots_hours_and_price(plan) -> None:
    values = plan.values
    hours = values["makespan_ms"] / 3600e3
    np.testing.assert_allclose(values["cost"], values["value"] * hours * 3.0)
    assert ((values["slot_use"] > 0) & (values["slot_use"] <= 1)).all()
    used = values["slot_use"] * values["makespan_ms"] * values["slots"]
    np.testing.assert_allclose(used, used.iloc[0], rtol=0.02)


def test_the_knee_of_a_hyperbola() -> None:
    """Of a + b / n from 1 to 25 the distance from the chord is largest at √25."""
    values = np.arange(1.0, 26.0)
    assert find_knee(values, 10 + 100 / values) == 5
    assert find_knee(values, np.full(25, 7.0)) is None
    assert find_knee(values[:2], np.array([2.0, 1.0])) is None


def test_ranges_are_read() -> None:
    assert parse_plan("executors=4..8") == ("executors", [4, 5, 6, 7, 8])
    assert parse_plan("slots=8..32:8") == ("slots", [8, 16, 24, 32])
    _, values = parse_plan("executors=4..64")
    assert (values[0], values[-1], len(values)) == (4, 64, 16)
    assert parse_price("0.4/h") == parse_price("0.4") == 0.4


@pytest.mark.parametrize(
    "text", ["executors=8..4", "hosts=1..2", "executors=4", "slots=0..4", "slots=1..4000:1", ""]
)
def test_what_is_no_range_is_said(text: str) -> None:
    with pytest.raises(UsageError, match="--plan"):
        parse_plan(text)


def test_executors_in_local_mode_are_refused() -> None:
    """Nothing tells what a second executor would be."""
    wide = StagePlan(6, sleep=1000.0, cpu=1.0)
    model = model_of(Simulation(Cluster(hosts=1, slots=2), [QueryPlan("a", (wide,))], 1))
    tables = model.scenario.tables
    local = tables.with_(executors=tables.executors.assign(executor_id="driver"))
    model.scenario.__dict__["tables"] = local
    with pytest.raises(UsageError, match="local mode"):
        plan_capacity(model, "executors", [1, 2])


def test_the_picture_shows_every_value_the_knee_and_the_cost(plan) -> None:
    picture = str(capacity_plan(plan))
    assert picture.count("<circle") == len(plan.values)
    assert f"the knee is at {plan.knee}" in picture
    assert all(word in picture for word in ("cost", "\u2068knee\u2069", "\u2068recorded\u2069"))


def test_every_application_keeps_a_slot() -> None:
    """One of two has a tenth of the slots: of three it keeps one."""
    wide = StagePlan(20, sleep=1000.0, cpu=1.0)
    plans = [QueryPlan("a", (wide,)), QueryPlan("b", (wide,), app=1)]
    scenario = model_of(Simulation(Cluster(hosts=1, slots=9, apps=2), plans, 1)).scenario
    slots = scenario.slots
    few = slots._replace(change=np.where(slots.app == 1, 1, slots.change))
    after = edit_cluster.set_slots(replace(scenario, slots=few), 3).slots
    assert np.bincount(after.app, after.change).tolist() == [2, 1]


def test_executors_are_whole() -> None:
    """Two of three executors are on two hosts, with all their slots each."""
    plans = [QueryPlan("a", (StagePlan(60, sleep=1000.0, cpu=1.0),))]
    scenario = model_of(Simulation(Cluster(hosts=3, cores=100, slots=4), plans, 1)).scenario
    slots = edit_cluster.set_executors(scenario, 2).slots
    assert sorted(slots.change.tolist()) == [4, 4]
    assert len(set(slots.host.tolist())) == 2
