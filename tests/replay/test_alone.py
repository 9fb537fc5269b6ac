"""Every query replayed alone: worlds agree with removal of all others, and cost what they must."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from iqcar.causes.blame.attribute import measure_demand
from iqcar.replay import alone
from iqcar.replay.alone import blame_run, others_cost
from iqcar.replay.loop.loop_input import Run
from iqcar.replay.whatif.edit import cap_tasks, keep_starts, remove
from iqcar.replay.whatif.model import Model, build_model
from iqcar.replay.whatif.outcome import replay_scenario
from iqcar.replay.whatif.scenario import Scenario
from iqcar_lab.clusters.recorded import replayable
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.what_if_truth import SCENARIOS
from iqcar_lab.clusters.work import Cluster, QueryPlan, StagePlan

MB = 1e6
NEAR = 1e-6
CLOCK_MS = 1e-3
"""Times since the epoch are no finer."""


def some_plans(seed: int, apps: int) -> list[QueryPlan]:
    """Readers, fetchers and computers in two branches that join, of one application or several."""
    rng = np.random.default_rng(seed)
    plans = []
    for k in range(6):
        work = {"read": 60 * MB, "fetch": 0.0, "cpu": 300.0, "write": 10 * MB}
        if k % 3 == 1:
            work = {"read": 5 * MB, "fetch": 40 * MB, "cpu": 400.0, "write": 0.0}
        if k % 3 == 2:
            work = {"read": 5 * MB, "fetch": 0.0, "cpu": 1500.0, "write": 0.0}
        stages = (
            StagePlan(int(rng.integers(4, 12)), **work),
            StagePlan(int(rng.integers(4, 12)), cpu=200.0, read=20 * MB),
            StagePlan(int(rng.integers(3, 9)), fetch=10 * MB, cpu=150.0, parents=(0, 1)),
        )
        plans.append(QueryPlan(f"q-{k}", stages, k % apps, float(rng.integers(0, 4000))))
    return plans


def model_of(cluster: Cluster, plans: list[QueryPlan], seed: int) -> tuple[Model, object]:
    tables, waits = replayable(Simulation(cluster, plans, seed))
    model = build_model(tables, waits, measure_demand(tables, waits))
    assert model is not None
    return model, waits


def in_worlds(scenario: Scenario) -> tuple[np.ndarray, Run]:
    """Duration of each query in a world of its own."""
    found = alone._run_alone(
        scenario,
        alone._worlds(scenario),
        alone.TaskNeeds(scenario.alone, scenario.use, scenario.capacity),
    )
    return alone._durations(scenario, found), found


def check_removals(one: Scenario, took: np.ndarray) -> None:
    """Take all other queries away, for each."""
    n = len(took)
    for query in range(n):
        others = [other for other in range(n) if other != query]
        removed = replay_scenario(remove(one, others)).duration_ms[query]
        assert took[query] == pytest.approx(removed, abs=CLOCK_MS), query


@pytest.mark.long
@pytest.mark.parametrize("fair", [False, True])
@pytest.mark.parametrize("apps", [1, 2, 3])
def test_worlds_are_like_the_removal_of_all_others(apps: int, fair: bool) -> None:
    cluster = Cluster(slots=5, apps=apps, fair=fair, disk=1.5e5, hosts=2)
    model, _ = model_of(cluster, some_plans(apps, apps), 3)
    one = keep_starts(model.scenario)
    took, _ = in_worlds(one)
    check_removals(one, took)


def test_worlds_keep_the_order_within_a_query_of_a_fair_pool() -> None:
    """FAIR inside a pool divides its slots among the stages of one query, too."""
    cluster = Cluster(slots=3, hosts=2, disk=1.5e5, pools=(("shared", 1.0, True),))
    plans = [replace(plan, pool="shared") for plan in some_plans(2, 1)]
    model, _ = model_of(cluster, plans, 2)
    one = keep_starts(model.scenario)
    check_removals(one, in_worlds(one)[0])


def test_worlds_keep_the_cap_of_a_query() -> None:
    """That it may run only so many tasks is nobody else's doing."""
    model, _ = model_of(Cluster(slots=8, hosts=2, disk=1.5e5), some_plans(2, 1), 2)
    one = cap_tasks(keep_starts(model.scenario), {1: 3, 4: 2})
    took, _ = in_worlds(one)
    assert took[4] > 1.5 * in_worlds(keep_starts(model.scenario))[0][4]
    check_removals(one, took)


def test_worlds_are_like_removal_where_tasks_wait_for_memory() -> None:
    cluster, plans = SCENARIOS["memory"](np.random.default_rng(1))
    model, _ = model_of(cluster, plans, 1)
    one = keep_starts(model.scenario)
    assert len(one.memory), "memory is shared in the model"
    took, found = in_worlds(one)
    assert found.lacked_memory.any(), "tasks of one query wait for each other, too"
    check_removals(one, took)


def test_no_task_is_slower_alone_nor_faster_than_it_can() -> None:
    model, _ = model_of(Cluster(slots=16, hosts=2, disk=1.5e5), some_plans(7, 1), 7)
    one = keep_starts(model.scenario)
    _, found = in_worlds(one)
    assert (found.spent >= one.alone * (1 - NEAR) - NEAR).all()


def test_others_cost_nothing_where_nobody_else_ran_and_never_more_than_the_run() -> None:
    plans = some_plans(2, 1)
    lonely = QueryPlan("lonely", plans[0].stages, 0, 300_000.0)
    model, waits = model_of(Cluster(slots=6, hosts=2, disk=1.5e5), [*plans, lonely], 2)
    cost = others_cost(model, waits)
    assert cost is not None
    assert cost.lost_ms[6] == pytest.approx(0.0, abs=1e-3)
    assert cost.low_ms[6] == 0.0
    mine = model.scenario.tables.tasks["query"].to_numpy() == 6
    for request, part in cost.to_others.items():
        np.testing.assert_allclose(np.nan_to_num(part[mine]), 0.0, atol=1e-6, err_msg=request)
    known = np.isfinite(cost.lost_ms)
    assert known.sum() >= 5
    assert cost.lost_ms[known][:6].sum() > 1000.0, "the others did lose something"
    check_range(cost, model)


def check_range(cost: alone.OthersCost, model: Model) -> None:
    """Amounts lie within their ranges, and these between nothing and the whole run."""
    known = np.isfinite(cost.lost_ms)
    low, lost, high = (x[known] for x in (cost.low_ms, cost.lost_ms, cost.high_ms))
    assert (low >= 0).all()
    assert (low <= lost + 1e-6).all()
    assert (lost <= high + 1e-6).all()
    assert (high <= model.recorded_ms[known] + 1e-6).all()
    for parts in (cost.to_others, cost.to_tasks):
        for part in parts.values():
            assert (np.isnan(part) | ((part >= 0) & (part <= 1))).all()


def test_a_replay_that_lasts_longer_than_the_run_claims_no_more_than_the_run() -> None:
    """Replays up to 30 % off count; a query that only waits must not lose 120 % of itself."""
    hog = QueryPlan("hog", (StagePlan(60, cpu=1000.0),), 0, 0.0)
    small = QueryPlan("small", (StagePlan(2, cpu=100.0),), 0, 100.0)
    model, waits = model_of(Cluster(slots=2, hosts=1, fair=False), [hog, small], 1)
    recorded = model.recorded_ms
    tables = model.scenario.tables
    shorter = tables.queries.assign(duration_ms=recorded / 1.25)
    scenario = replace(model.scenario, tables=tables.with_(queries=shorter))
    changed = replace(model, scenario=scenario, unfitted=scenario, _bases={})
    cost = others_cost(changed, waits)
    assert cost is not None
    assert np.isfinite(cost.lost_ms).all()
    check_range(cost, changed)
    before = others_cost(model, waits)
    assert before is not None
    share = before.lost_ms / model.recorded_ms
    assert share[1] > 0.9
    np.testing.assert_allclose(cost.lost_ms / changed.recorded_ms, share, atol=0.005)


def test_queries_one_after_another_are_not_replayed() -> None:
    plans = [replace(plan, submit=200_000.0 * k) for k, plan in enumerate(some_plans(1, 1))]
    blame, model = blame_run(*replayable(Simulation(Cluster(hosts=2), plans, 1)))
    assert model is None
    assert blame.cost is None
