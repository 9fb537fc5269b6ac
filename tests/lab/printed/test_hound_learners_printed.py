"""Hound's base learners as printed: formulas by hand, minima, and what the text promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar_lab.printed.hound import (
    PRINTED,
    adaboost_ipw,
    bagged_elastic_net,
    boosted_propensities,
    elastic_net,
    ipw,
    schweizer_wolff,
    ssw,
    weak_classifier,
)
from tests.support.naive_hound import schweizer_wolff as by_pairs

values = st.lists(st.integers(0, 6).map(float), min_size=2, max_size=12)


def drawn(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def cost(x: np.ndarray, y: np.ndarray, beta: np.ndarray, ridge: float, lasso: float) -> float:
    """L of algorithm 1."""
    return float(((y - x @ beta) ** 2).sum() + ridge * (beta**2).sum() + lasso * np.abs(beta).sum())


@given(st.integers(0, 99), st.floats(0.1, 20), st.floats(0, 20))
def test_nothing_nearby_costs_less_than_algorithm_1s_coefficients(
    seed: int, ridge: float, lasso: float
) -> None:
    rng = drawn(seed)
    x, y = rng.normal(size=(15, 3)), rng.normal(size=15)
    beta = elastic_net(x, y, ridge, lasso)
    least = cost(x, y, beta, ridge, lasso)
    for step in 0.01 * rng.normal(size=(20, 3)):
        assert cost(x, y, beta + step, ridge, lasso) >= least - 1e-6


def test_one_metric_by_hand() -> None:
    # Minimises (1 − β)² + (2 − 2β)² + λ₁ β² + λ₂ β: β = (5 − λ₂ / 2) / (5 + λ₁).
    x, y = np.array([[1.0], [2.0]]), np.array([1.0, 2.0])
    assert elastic_net(x, y, 1.0, 2.0) == pytest.approx(4 / 6, abs=1e-4)
    assert elastic_net(x, y, 1.0, 10.0) == pytest.approx(0)


def test_a_group_of_correlated_metrics_is_included_together() -> None:
    """§3.1: CPI with cache misses, where lasso would pick one of them."""
    rng = drawn(1)
    cpi = rng.normal(size=200)
    x = np.stack([cpi, cpi + 0.05 * rng.normal(size=200), rng.normal(size=200)], axis=1)
    one, other, noise = bagged_elastic_net(x, cpi + 0.3 * rng.normal(size=200), drawn())
    assert one == pytest.approx(other, rel=0.3) and one > 0.3
    assert abs(noise) < 0.1


@given(values, st.randoms(use_true_random=False))
def test_ssw_is_the_sum_over_all_pairs_with_the_sign_of_the_nearer_bound(values, random) -> None:
    x, y = np.array(values), np.array(random.sample(values, len(values)))
    size, bounds = by_pairs(x, y)
    wanted = 0.0 if abs(bounds) <= 1e-12 else -np.sign(bounds) * size
    assert ssw(x, y) == pytest.approx(wanted)
    # Of few values, many of them equal, the estimate from a sample can be beyond the bound of SW.
    if len(set(values)) == len(values):
        assert -1 - 1e-9 <= ssw(x, y) <= 1 + 1e-9


def test_ssw_of_three_pairs_by_hand() -> None:
    # Ranks 1 2 3 with 1 3 2, in ninths: C = 3 3 3 / 3 3 6 / 3 6 9, uv = 1 2 3 / 2 4 6 / 3 6 9.
    # Σ |C − uv| = 5 / 9, and 12 / (N² − 1) = 3 / 2.
    assert ssw(np.array([1.0, 2, 3]), np.array([1.0, 3, 2])) == pytest.approx(5 / 6)


def test_ssw_has_the_properties_that_the_text_asks_for() -> None:
    x = np.arange(40.0)
    assert ssw(x, x) == pytest.approx(1) and ssw(x, -x) == pytest.approx(-1)
    grid_x, grid_y = (side.ravel() for side in np.meshgrid(np.arange(6.0), np.arange(6.0)))
    assert ssw(grid_x, grid_y) == 0  # independent: equidistant from both bounds
    y = x + drawn().normal(0, 9, 40)
    assert ssw(np.exp(x / 9), y**3) == pytest.approx(ssw(x, y))  # strictly increasing
    assert ssw(x, y, epsilon=1.0) == 0
    assert schweizer_wolff(np.stack([x, -x], axis=1), y, drawn()) == pytest.approx(
        [ssw(x, y), ssw(-x, y)]
    )


def test_ipw_by_hand() -> None:
    z, r = np.array([1.0, 1, 0, 0]), np.array([3.0, 5, 1, 2])
    # (3 / .5 + 5 / .25) / 4 − (1 / .75 + 2 / .5) / 4
    assert ipw(z, r, np.array([0.5, 0.25, 0.25, 0.5])) == pytest.approx(26 / 4 - 16 / 3 / 4)
    assert ipw(z, r, np.full(4, 0.5)) == pytest.approx(4 - 1.5)


def test_the_weak_classifier_is_the_split_with_fewest_errors_on_what_was_drawn() -> None:
    x, z = np.array([[1.0, 5], [2, 5], [3, 5], [4, 5]]), np.array([-1.0, 1, -1, 1])
    order = np.argsort(x, axis=0, kind="stable")
    assert weak_classifier(x, z, np.array([1, 1, 0, 1]), order).tolist() == [-1, 1, 1, 1]
    assert weak_classifier(x, z, np.array([0, 1, 1, 0]), order).tolist() == [1, 1, -1, -1]
    assert weak_classifier(x, z, np.array([0, 2, 0, 2]), order).tolist() == [1, 1, 1, 1]


def test_propensities_of_algorithm_2_follow_the_confounder() -> None:
    rng = drawn(2)
    x = rng.normal(size=(300, 2))
    true = 1 / (1 + np.exp(-2 * x[:, 0]))
    z = np.where(rng.uniform(size=300) < true, 1.0, -1.0)
    e = boosted_propensities(x, z, drawn())
    assert ((e > 0) & (e < 1)).all()
    assert np.corrcoef(e, true)[0, 1] > 0.8


def test_one_round_of_algorithm_2_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iqcar_lab.printed.hound.ROUNDS", 1)
    x = np.arange(10.0)[:, None]
    z = np.where(x[:, 0] >= 5, 1.0, -1.0)
    z[9] = -1.0
    e = boosted_propensities(x, z, drawn())
    # α = ½ log((1 − ε) / ε) and e = 1 / (1 + exp(−2α h)) make 1 − ε and ε.
    of_tasks = drawn().choice(10, 10, p=np.full(10, 0.1))
    h = np.where(e > 0.5, 1.0, -1.0)
    error = max((h != z)[of_tasks].mean(), 0.05)
    assert e == pytest.approx(np.where(h > 0, 1 - error, error))


def test_the_effect_of_processors_is_without_that_of_their_memory() -> None:
    """§3.1: servers with new processors often have faster memory, too."""
    rng = drawn(4)
    memory = rng.normal(size=600)
    processor = memory + rng.normal(size=600)
    latency = 10 - 2 * (memory > 0) + 0.1 * rng.normal(size=600)
    x = np.stack([processor, memory], axis=1)
    high = processor > np.median(processor)
    apart = (latency[high].mean() - latency[~high].mean()) / latency.std()
    by_processor, by_memory = adaboost_ipw(x, latency, drawn())
    assert apart < -0.8
    assert abs(by_processor) < 0.3 and by_memory < -1.5


def test_a_metric_with_one_value_has_no_effect_by_any_learner() -> None:
    rng = drawn(5)
    x = np.stack([np.ones(30), rng.normal(size=30)], axis=1)
    y = 5 + x[:, 1]
    for learner in PRINTED.values():
        constant, varying = learner(x, y, drawn())
        assert constant == pytest.approx(0, abs=1e-9) and varying > 0.05


def test_a_single_metric_and_damaged_readings_are_looked_at_without_a_warning() -> None:
    rng = drawn(7)
    y = np.concatenate([rng.uniform(1, 2, 19), [1e300]])
    x = np.concatenate([rng.uniform(1, 2, (19, 1)), [[1e300]]])
    for learner in PRINTED.values():
        (effect,) = learner(x, y, drawn())
        assert np.isfinite(effect)
