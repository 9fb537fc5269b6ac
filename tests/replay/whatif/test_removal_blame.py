"""Blame by removal: Shapley values against their definition and against the simulator."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from iqcar.errors import UsageError
from iqcar.replay.whatif import removal_blame
from iqcar.replay.whatif.edit import remove
from iqcar.replay.whatif.model import Model
from iqcar.replay.whatif.outcome import replay_scenario
from iqcar.replay.whatif.removal_blame import RemovalBlame, blame_by_removal
from iqcar_lab.clusters.simulation import Simulation
from iqcar_lab.clusters.truth import FAMILIES, kendall_tau_b
from tests.replay.whatif.test_predictions import model_of

FAMILY, SEED = "two culprits", 5


@pytest.fixture(scope="module")
def crowd() -> Model:
    cluster, plans = FAMILIES[FAMILY](np.random.default_rng(SEED))
    return model_of(Simulation(cluster, plans, SEED))


@pytest.fixture(scope="module")
def found(crowd: Model) -> RemovalBlame:
    return blame_by_removal(crowd, [0], {1: 500.0})


def by_definition(value, n: int) -> np.ndarray:
    """Mean of what each adds over all orders."""
    added = np.zeros(n)
    orders = list(permutations(range(n)))
    for order in orders:
        for k, one in enumerate(order):
            added[one] += value(order[: k + 1]) - value(order[:k])
    return added / len(orders)


@pytest.mark.slow
def test_values_are_those_of_the_definition(crowd: Model, found: RemovalBlame) -> None:
    names = found.sources["name"].tolist()
    queries = crowd.scenario.tables.queries["name"].tolist()
    rows = [queries.index(name) for name in names]

    def duration(present) -> float:
        gone = [row for k, row in enumerate(rows) if k not in present]
        scenario = remove(crowd.scenario, gone)
        return float(replay_scenario(scenario, crowd.members[0]).duration_ms[0])

    assert found.exact
    expected = by_definition(duration, len(rows))
    np.testing.assert_allclose(found.sources["shapley_ms"], expected, atol=1e-6)


def test_values_sum_to_what_contention_cost(found: RemovalBlame) -> None:
    cost = found.duration_ms - found.alone_ms
    assert cost > 0
    assert found.sources["shapley_ms"].sum() == pytest.approx(cost)


def test_sampled_orders_sum_to_the_same(crowd: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal_blame, "EXACT", 0)
    sampled = blame_by_removal(crowd, [0], {})
    cost = sampled.duration_ms - sampled.alone_ms
    assert not sampled.exact
    assert sampled.sources["shapley_ms"].sum() == pytest.approx(cost)


def test_the_culprits_are_found_and_who_uses_nothing_is_not(found: RemovalBlame) -> None:
    """The truth is what the target gains in the simulator without each."""
    cluster, plans = FAMILIES[FAMILY](np.random.default_rng(SEED))
    whole = Simulation(cluster, plans, SEED).ended[0]
    gains = {
        plan.name: whole - Simulation(cluster, [p for p in plans if p is not plan], SEED).ended[0]
        for plan in plans[1:]
    }
    said = dict(zip(found.sources["name"], found.sources["shapley_ms"], strict=True))
    assert max(gains, key=gains.__getitem__) == found.sources["name"].iloc[0]
    names = sorted(said)
    truth, guess = (np.array([side[n] for n in names]) for side in (gains, said))
    truth, guess = (np.where(np.abs(v) < 0.005 * whole, 0.0, v) for v in (truth, guess))
    assert kendall_tau_b(truth, guess) > 0.7
    assert abs(said["sleeper"]) < 0.02 * whole


def test_disagreement_with_the_attribution_is_marked(found: RemovalBlame) -> None:
    sources = found.sources
    far = (sources["shapley_ms"] - sources["attributed_ms"]).abs() > 0.05 * found.duration_ms
    assert sources["disagrees"].tolist() == far.tolist()


def test_a_query_that_did_not_end_is_refused(crowd: Model) -> None:
    recorded = crowd.recorded_ms
    crowd.__dict__["recorded_ms"] = np.where(np.arange(len(recorded)) == 0, np.nan, recorded)
    try:
        with pytest.raises(UsageError, match="did not end"):
            blame_by_removal(crowd, [0], {})
    finally:
        crowd.__dict__["recorded_ms"] = recorded
