"""Blame against the truth: what removing the culprit would have gained.

The thresholds leave slack around what 24 seeds give (``scripts/bench_blame.py --truth --full``);
a change of the formula that costs more than that shows here.
"""

from __future__ import annotations

import numpy as np
import pytest

from iqcar.causes.blame.attribute import attribute
from iqcar.enums import REQUESTS, Request
from iqcar_lab.clusters import truth
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.work import Cluster, QueryPlan, StagePlan

pytestmark = pytest.mark.slow

SEEDS = range(2)


def cases(*families: str) -> list[truth.Case]:
    return [truth.case(f, s) for f in families or truth.FAMILIES for s in SEEDS]


# --- the simulator itself


def alone(stage: StagePlan, **cluster: float) -> Simulation:
    return Simulation(Cluster(hosts=1, **cluster), [QueryPlan("q", (stage,))], seed=1)


def test_a_task_alone_takes_as_long_as_its_work() -> None:
    run = alone(StagePlan(1, read=2e6, cpu=30.0), disk=2e5)
    scale = run.tasks[0].scale
    assert run.ended[0] == pytest.approx((10.0 + 30.0) * scale)
    assert run.tasks[0].spent[Request.RUN_QUEUE] == pytest.approx(0.0, abs=1e-9)


def test_tasks_share_processors_only_when_there_are_too_few() -> None:
    enough = alone(StagePlan(4, cpu=100.0), cores=4.0)
    longest = max(t.scale for t in enough.tasks)
    assert enough.ended[0] == pytest.approx(100.0 * longest)
    few = alone(StagePlan(4, cpu=100.0), cores=1.0)
    assert few.ended[0] == pytest.approx(100.0 * sum(t.scale for t in few.tasks))


def test_work_does_not_depend_on_who_else_is_there() -> None:
    stage = StagePlan(6, cpu=100.0)
    one, two = QueryPlan("one", (stage,)), QueryPlan("two", (stage,))
    both = Simulation(Cluster(), [one, two], seed=3)
    single = Simulation(Cluster(), [two], seed=3)
    assert sorted(t.scale for t in both.tasks if t.query == 1) == sorted(
        t.scale for t in single.tasks
    )


# --- the formulas


@pytest.fixture(scope="module")
def scores() -> dict[str, truth.Score]:
    return {name: truth.score(cases(), predict) for name, predict in truth.FORMULAS.items()}


@pytest.mark.long
def test_blame_by_time_in_the_resource_predicts_who_is_worth_removing(
    scores: dict[str, truth.Score],
) -> None:
    ours = scores["ours"]
    assert ours.tau > 0.82
    assert ours.top > 0.85
    assert ours.false_blame < 0.10


@pytest.mark.long
def test_no_other_formula_comes_near(scores: dict[str, truth.Score]) -> None:
    ours = scores["ours"]
    for name in ("as printed", "simple overlap"):
        assert scores[name].tau < ours.tau - 0.15, name
        assert scores[name].false_blame > ours.false_blame + 0.10, name


def test_profiles_tell_who_computed_while_the_target_waited_for_the_processor() -> None:
    """Tasks that go through their phases once wait unevenly, which their averages hide."""
    once = [truth.case("processor", seed, rounds=1) for seed in range(8)]
    averaged, profiled = truth.score(once, truth.ours), truth.score(once, truth.by_interval)
    assert profiled.tau > averaged.tau + 0.02
    assert profiled.false_blame < averaged.false_blame - 0.01


@pytest.mark.long
@pytest.mark.parametrize("rounds", [1, 4])
def test_profiles_rank_no_worse_than_averages(rounds: int) -> None:
    every = [truth.case(f, s, rounds) for f in truth.FAMILIES for s in SEEDS]
    averaged, profiled = truth.score(every, truth.ours), truth.score(every, truth.by_interval)
    assert profiled.tau > averaged.tau - 0.03
    assert profiled.false_blame < averaged.false_blame + 0.02


def test_readers_of_the_page_cache_are_not_blamed_for_the_disk() -> None:
    for case in cases("disk, reader", "disk, writer"):
        predicted = truth.ours(case)
        cached = case.tables.queries["name"].tolist().index("cached")
        assert predicted[cached] < 0.15 * sum(predicted.values())


def test_a_writer_is_blamed_by_those_who_read() -> None:
    for case in cases("disk, writer"):
        predicted = truth.ours(case)
        writer = case.tables.queries["name"].tolist().index("writer-0")
        assert predicted[writer] == max(predicted.values())


def test_a_query_of_another_application_is_blamed_through_the_host() -> None:
    score = truth.score(cases("two applications"), truth.ours)
    assert score.tau > 0.7
    assert score.false_blame < 0.12


def test_time_lost_to_slots_is_near_the_gain_of_removing_their_holder() -> None:
    for case in cases("slots, fifo", "slots, fair"):
        predicted = truth.ours(case)
        hog = case.tables.queries["name"].tolist().index("hog")
        share = predicted[hog] / case.tables.queries["duration_ms"][case.target]
        assert share == pytest.approx(case.gains[hog], abs=0.15)


def test_where_nobody_is_guilty_hardly_any_time_is_lost_to_others() -> None:
    rng = np.random.default_rng(5)
    plans = [truth._target(rng)]
    plans += [truth._query(rng, name, work, 0) for name, work in truth.IDLE.items()]
    run = Simulation(Cluster(slots=32), plans, seed=5)
    case = truth.Case("quiet", *run.emit(), 0, {})
    lost = sum(truth.ours(case).values()) / case.tables.queries["duration_ms"][0]
    assert lost < 0.06


def test_a_store_that_is_not_shared_costs_nobody_time() -> None:
    rng = np.random.default_rng(5)
    plans = [truth._target(rng), truth._query(rng, "reader", truth.HEAVY["reader"], 0)]
    run = Simulation(Cluster(slots=32, disk=1e9, disk_each=3e4), plans, seed=5)
    tables, waits = run.emit()
    demands = attribute(tables, waits).demands
    reads = demands[demands["request"] == REQUESTS.index(Request.IO_READ)]
    assert reads["lost_ms"].sum() < 0.02 * reads["wait_ms"].sum()


def test_splitting_elapsed_time_beats_adding_up_task_time() -> None:
    def by_task_time(case: truth.Case) -> dict[int, float]:
        return truth.predicted(case, elapsed=False)

    every = cases()
    assert truth.score(every, truth.ours).tau > truth.score(every, by_task_time).tau
