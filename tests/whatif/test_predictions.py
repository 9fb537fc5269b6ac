"""Predictions against the simulator: what it does when one thing is changed is the truth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from iqcar.blame.attribute import attribute
from iqcar.replay.task_demands import COMPUTE, PROCESSOR
from iqcar.whatif import edit
from iqcar.whatif.model import Model, build_model
from iqcar.whatif.question import Question
from iqcar.whatif.scenario import Scenario, replay_scenario
from iqcar.whatif.what_if import answer
from tests.support.cluster_simulator import Cluster, QueryPlan, Simulation
from tests.support.simulated_log import replayable
from tests.support.simulated_truth import FAMILIES

SEEDS = (71, 72)
NOTICED = 0.02
"""Change of a query's duration, true or said, from which a pair counts."""

Asked = tuple[str, Question, Simulation, int | None]


def model_of(run: Simulation) -> Model:
    tables, waits = replayable(run)
    model = build_model(tables, waits, attribute(tables, waits).demand)
    assert model is not None
    return model


def questions(cluster: Cluster, plans: list[QueryPlan], seed: int) -> Iterator[Asked]:
    """Questions, and the run that answers each; with the query that is not there."""

    def run(cluster: Cluster, plans: list[QueryPlan]) -> Simulation:
        return Simulation(cluster, plans, seed)

    for gone in range(len(plans)):
        rest = [plan for q, plan in enumerate(plans) if q != gone]
        yield "remove", Question(remove=(str(gone),)), run(cluster, rest), gone
    last = len(plans) - 1
    later = [replace(p, submit=p.submit + 3000.0) if q == last else p for q, p in enumerate(plans)]
    yield "start", Question(start={str(last): 3000.0}), run(cluster, later), None
    for name, question in (
        ("disk", Question(disk=2.0)),
        ("network", Question(network=2.0)),
        ("cores", Question(cpu=2.0)),
    ):
        more = replace(cluster, **{name: 2 * getattr(cluster, name)})
        yield name, question, run(more, plans), None
    slots = cluster.slots // 2
    in_all = slots * cluster.hosts * cluster.apps
    yield "slots", Question(slots_in_all=in_all), run(replace(cluster, slots=slots), plans), None
    mode = "FIFO" if cluster.fair else "FAIR"
    other = run(replace(cluster, fair=not cluster.fair), plans)
    yield "mode", Question(mode=mode), other, None


def errors(family: str, seed: int) -> Iterator[tuple[float, float, float]]:
    """True and predicted change of each query in each question, and 1 within the range."""
    cluster, plans = FAMILIES[family](np.random.default_rng([seed, len(family)]))
    model = model_of(Simulation(cluster, plans, seed))
    for _, question, run, gone in questions(cluster, plans, seed):
        said = answer(model, question, lambda name, _: (int(name),)).queries
        ends = np.array(run.ended) - np.array([plan.submit for plan in run.plans])
        if gone is not None:
            ends = np.insert(ends, gone, np.nan)
        for query, row in said.iterrows():
            true = ends[query] / row["recorded_ms"] - 1.0
            predicted = row["change_percent"] / 100.0
            if max(abs(true), abs(predicted)) > NOTICED:
                within = row["low_ms"] <= ends[query] <= row["high_ms"]
                yield true, predicted, float(within)


@pytest.fixture(scope="module")
def scored() -> np.ndarray:
    return np.array([e for family in FAMILIES for seed in SEEDS for e in errors(family, seed)])


@pytest.mark.slow
def test_predictions_are_near_the_truth(scored: np.ndarray) -> None:
    """Seeds that nothing was tuned on: there the median is 0.7 % and the 90 % quantile 4 %."""
    true, said, _ = scored.T
    error = np.abs(said - true)
    assert len(error) > 200
    assert np.median(np.abs(true)) > 0.07
    assert np.median(error) < 0.02
    assert np.quantile(error, 0.9) < 0.09
    assert np.mean(np.sign(true) == np.sign(said)) > 0.9


@pytest.mark.slow
def test_ranges_hold_what_they_say(scored: np.ndarray) -> None:
    """80 % is said; on a simulator that shares as the model does more than that is right."""
    assert 0.75 < scored[:, 2].mean() <= 1.0


@pytest.fixture(scope="module")
def crowd() -> Model:
    cluster, plans = FAMILIES["two culprits"](np.random.default_rng(5))
    return model_of(Simulation(cluster, plans, 5))


def test_nothing_changes_where_nothing_is_changed(crowd: Model) -> None:
    same = answer(crowd, Question(), lambda name, _: ()).queries
    np.testing.assert_allclose(same["predicted_ms"], same["recorded_ms"])


def test_the_order_of_rows_changes_nothing(crowd: Model) -> None:
    cluster, plans = FAMILIES["two culprits"](np.random.default_rng(5))
    tables, waits = replayable(Simulation(cluster, plans, 5))
    order = np.random.default_rng(1).permutation(len(tables.tasks))
    tables = tables.with_(tasks=tables.tasks.iloc[order].reset_index(drop=True))
    waits = waits.iloc[order].reset_index(drop=True)
    model = build_model(tables, waits, attribute(tables, waits).demand)
    assert model is not None
    np.testing.assert_allclose(
        replay_scenario(model.scenario).duration_ms,
        replay_scenario(crowd.scenario).duration_ms,
        rtol=1e-6,
    )


def unchanged(scenario: Scenario) -> dict[str, Scenario]:
    """Edits that change nothing."""
    n = len(scenario.tables.queries)
    return {
        "scale": edit.scale_work(scenario, dict.fromkeys(range(n), 1.0)),
        "start": edit.start_later(scenario, dict.fromkeys(range(n), 0.0)),
        "disk": edit.faster_device(scenario, 0, 1.0),
        "remove": edit.remove(scenario, []),
        "cap": edit.cap_tasks(scenario, dict.fromkeys(range(n), 10_000)),
        "partitions": edit.repartition(scenario, {}),
    }


def test_edits_that_change_nothing_change_nothing(crowd: Model) -> None:
    before = replay_scenario(crowd.scenario).duration_ms
    for name, scenario in unchanged(crowd.scenario).items():
        np.testing.assert_allclose(replay_scenario(scenario).duration_ms, before, err_msg=name)


def test_a_cap_bounds_the_tasks_of_a_query(crowd: Model) -> None:
    """With one task at a time its tasks run one after another."""
    slow = replay_scenario(edit.cap_tasks(crowd.scenario, {1: 1}))
    scenario = crowd.scenario
    of_query = scenario.query_of_task == 1
    alone = scenario.alone[of_query].sum()
    assert slow.duration_ms[1] >= alone * 0.999


@pytest.fixture(scope="module")
def crowded_from_outside() -> Model:
    """Half of the processor time of each task is a wait for what is no task."""
    cluster, plans = FAMILIES["two culprits"](np.random.default_rng(5))
    tables, waits = replayable(Simulation(cluster, plans, 5))
    half = waits["compute_ms"] / 2
    assert half.sum() > 0.1 * waits["duration_ms"].sum()
    busy = waits.assign(compute_ms=half, run_queue_ms=waits["run_queue_ms"] + half)
    model = build_model(tables, busy, attribute(tables, busy).demand)
    assert model is not None
    return model


def test_waits_for_processors_that_no_task_explains_stay(crowded_from_outside: Model) -> None:
    """A JVM compiles, collects and plans on the processors, too: tasks wait, but not for tasks."""
    assert crowded_from_outside.median_error < 0.02


def test_processors_shared_with_others_are_shared_in_proportion(
    crowded_from_outside: Model,
) -> None:
    scenario = crowded_from_outside.scenario
    half, double = (edit.faster_device(scenario, PROCESSOR, by) for by in (0.5, 2.0))
    computes = scenario.alone[:, COMPUTE] > 1.0
    before = scenario.alone[computes, COMPUTE]
    worked = before * scenario.use[computes, COMPUTE]
    np.testing.assert_allclose(half.alone[computes, COMPUTE], 2 * before)
    np.testing.assert_allclose(
        double.alone[computes, COMPUTE], np.maximum(before / 2, np.minimum(worked, before))
    )
    for one in (half, double):
        moved = one.alone[computes, COMPUTE] * one.use[computes, COMPUTE]
        np.testing.assert_allclose(moved, worked)
