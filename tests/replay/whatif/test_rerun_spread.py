"""How much runs of the same query differ, and that ranges cover it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from iqcar.replay.whatif.model import ENOUGH, Model, rerun_spread
from iqcar.replay.whatif.question import Question
from iqcar.replay.whatif.ranges import OF_80, OF_RERUNS
from iqcar.replay.whatif.scenario import Scenario
from iqcar.replay.whatif.what_if import answer
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.what_if_truth import find, model_of
from iqcar_lab.clusters.work import Cluster, QueryPlan, StagePlan

RUNS = 30


@pytest.fixture(scope="module")
def model() -> Model:
    work = StagePlan(4, cpu=1000.0, sleep=100.0)
    plans = [QueryPlan(f"run {k}", (work,), submit=6000.0 * k) for k in range(RUNS)]
    return model_of(Simulation(Cluster(hosts=1, slots=4), plans, 1))


def runs_of(model: Model, work: np.ndarray, names: list[str]) -> Scenario:
    """The scenario with so much work, and queries of these fingerprints."""
    scenario = model.scenario
    queries = scenario.tables.queries.assign(fingerprint=names)
    query = scenario.query_of_task
    alone = np.ones_like(scenario.alone) * work[query][:, None]
    return replace(scenario, alone=alone, tables=scenario.tables.with_(queries=queries))


def test_the_spread_of_two_runs_is_found(model: Model) -> None:
    work = np.exp(np.random.default_rng(3).normal(0.0, 0.1, RUNS))
    work[0] = 10.0  # the first run warms up
    spread = rerun_spread(runs_of(model, work, ["q"] * RUNS))
    assert spread == pytest.approx(np.full(RUNS, 0.1 * np.sqrt(2)), rel=0.35)


def test_few_runs_of_a_query_borrow_from_the_others(model: Model) -> None:
    rng = np.random.default_rng(4)
    noisy = np.arange(RUNS) < RUNS // 2
    work = np.exp(rng.normal(0.0, np.where(noisy, 0.2, 0.02)))
    names = ["noisy" if one else "steady" for one in noisy]
    names[0] = names[-1] = "once"
    spread = rerun_spread(runs_of(model, work, names))
    assert spread[-2] < spread[-1] < spread[1]
    assert spread[0] == spread[-1]


@pytest.mark.parametrize("alike", [0, ENOUGH])
def test_a_log_with_few_repetitions_tells_nothing(model: Model, alike: int) -> None:
    """The first of so many runs is left out, so that there are two pairs."""
    names = ["q"] * alike + [f"q{k}" for k in range(RUNS - alike)]
    assert (rerun_spread(runs_of(model, np.arange(1.0, RUNS + 1), names)) == 0).all()


def test_ranges_cover_that_runs_differ(model: Model) -> None:
    question = Question(slots=1)
    before = answer(model, question, find)
    told = replace(model, _bases={})
    told.__dict__["rerun_spread"] = np.full(RUNS, 0.1)
    after = answer(told, question, find)
    np.testing.assert_allclose(after.queries["predicted_ms"], before.queries["predicted_ms"])
    half = (after.queries["high_ms"] - after.queries["low_ms"]) / 2
    was = (before.queries["high_ms"] - before.queries["low_ms"]) / 2
    noise = OF_RERUNS * OF_80 * 0.1 * after.queries["predicted_ms"]
    np.testing.assert_allclose(half, np.hypot(was, noise))
    assert any("runs of the same query differ by 13 %" in one for one in after.assumptions)
    assert not any("runs of the same query" in one for one in before.assumptions)
