"""Base learners of topics: against naive references, scikit-learn, and what must hold for all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.causes.topics.kernels.adaboost import boosted_scores, weighted_effect
from iqcar.causes.topics.kernels.copula import copula_distances, rank_bins
from iqcar.causes.topics.kernels.elastic_net import fit_each, second_moments
from iqcar.causes.topics.kernels.ranks import Ranks, codes_by_rank, two_means_cuts
from iqcar.causes.topics.learners import (
    AdaBoostIPW,
    BaggedElasticNet,
    SignedSchweizerWolff,
    binned,
    treatments,
)
from iqcar.causes.topics.topic_result import TopicSettings
from tests.support import naive_hound

ALL = (
    BaggedElasticNet, SignedSchweizerWolff, AdaBoostIPW,
)  # fmt: skip
seeds = st.integers(0, 2**32 - 1)


def job(seed: int, tasks: int = 60, metrics: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """A job whose latency grows with metric 0, falls with 1, and has 2 beside 0; 3 is counts."""
    rng = np.random.default_rng(seed)
    x = rng.lognormal(size=(tasks, metrics))
    x[:, 2] = x[:, 0] * rng.lognormal(0, 0.1, tasks)
    x[:, 3] = rng.poisson(0.3, tasks)
    y = 1000 * np.exp(0.8 * np.log(x[:, 0]) - 0.5 * np.log(x[:, 1]) + 0.2 * rng.normal(size=tasks))
    return x, y


@pytest.mark.parametrize("learner", ALL)
@given(seed=seeds)
def test_sizes_of_a_profile_sum_to_one_and_a_constant_metric_has_none(learner, seed) -> None:
    x, y = job(seed, metrics=5)
    x[:, 4] = 1e12
    profile = learner().fit(x, y).profile_
    assert np.abs(profile).sum() == pytest.approx(1)
    assert profile[4] == 0
    assert np.abs(profile).max() <= 1


@pytest.mark.parametrize("learner", ALL)
@given(seed=seeds)
def test_neither_the_order_of_tasks_nor_that_of_metrics_matters(learner, seed) -> None:
    x, y = job(seed)
    rng = np.random.default_rng(seed)
    tasks, metrics = rng.permutation(len(x)), rng.permutation(x.shape[1])
    profile = learner().fit(x, y).profile_
    # Sums in another order differ in the last digits, and a descent ends within its tolerance.
    assert learner().fit(x[tasks], y[tasks]).profile_ == pytest.approx(profile, abs=1e-9)
    if learner is not AdaBoostIPW:  # of equally good stumps it takes the first
        assert learner().fit(x[:, metrics], y).profile_ == pytest.approx(profile[metrics], abs=1e-3)


@pytest.mark.parametrize("learner", ALL)
def test_units_of_metrics_do_not_matter(learner) -> None:
    x, y = job(5)
    scaled = learner().fit(x * np.array([1e-6, 1e9, 1, 4, 1e3, 7]), y).profile_
    assert scaled == pytest.approx(learner().fit(x, y).profile_, abs=1e-6)


@pytest.mark.parametrize("learner", ALL)
def test_constant_latency_no_metrics_and_huge_numbers_give_zeros_or_a_profile(learner) -> None:
    x, y = job(1)
    assert not learner().fit(x, np.full(len(x), 7.0)).profile_.any()
    assert learner().fit(x[:, :0], y).profile_.shape == (0,)
    huge = learner().fit(x * 1e290, y * 1e290).profile_
    assert np.isfinite(huge).all()
    assert np.abs(huge).sum() == pytest.approx(1)


@given(seed=seeds, tasks=st.integers(2, 40), levels=st.integers(1, 12))
def test_schweizer_wolff_equals_all_pairs_where_the_grid_holds_all_ranks(seed, tasks, levels):
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, levels, tasks).astype(float), rng.normal(size=tasks)
    distance, bounds = naive_hound.schweizer_wolff(x, y)
    ranks = Ranks.from_metrics(x[:, None])
    columns, v, wv = rank_bins(y, 128)
    codes = codes_by_rank(ranks.order, ranks.ordered, 128)
    (mine,), (mine_bounds,) = copula_distances(*codes, columns, v, wv)
    assert 12 * mine * tasks**2 / (tasks**2 - 1) == pytest.approx(distance, abs=1e-9)
    assert mine_bounds == pytest.approx(bounds, abs=1e-9)


@pytest.mark.slow
def test_schweizer_wolff_on_a_grid_is_close_to_all_pairs() -> None:
    # 128 of 300 ranks: the sum over the grid is a trapezoid rule, off by some thousandths.
    x, y = job(3, tasks=300)
    learned = SignedSchweizerWolff(spearman=0, floor=0).fit(x, y).dependence_
    for j in (0, 1, 3, 5):
        distance, bounds = naive_hound.schweizer_wolff(x[:, j], y)
        assert learned[j] == pytest.approx(-np.sign(bounds) * distance, abs=0.01)


@pytest.mark.slow
def test_the_difference_of_the_bounds_is_a_sixth_of_spearmans_correlation() -> None:
    from scipy.stats import spearmanr

    x, y = job(4, tasks=100)
    for j in (0, 1, 5):
        _, bounds = naive_hound.schweizer_wolff(x[:, j], y)
        assert -6 * bounds == pytest.approx(spearmanr(x[:, j], y).statistic, abs=0.02)


@given(seed=seeds)
def test_schweizer_wolff_does_not_see_increasing_transforms(seed: int) -> None:
    x, y = job(seed, tasks=200)
    plain = SignedSchweizerWolff().fit(x, y).profile_
    assert SignedSchweizerWolff().fit(x**3, np.log(y)).profile_.tolist() == plain.tolist()
    every = SignedSchweizerWolff(spearman=0, floor=1.5)
    continuous = np.delete(x, 3, 1)
    plain = every.fit(continuous, y).dependence_
    # The grid's lines lie at the upper ends of its bins: the other way round it is off a little,
    # and what is close to the floor or to no sign can be on its other side.
    clear = np.abs(plain) > 0.2
    assert every.fit(-continuous, y).dependence_[clear] == pytest.approx(-plain[clear], abs=0.03)


def test_independent_metrics_are_mostly_below_the_floor() -> None:
    # Of independent metrics 13 % have a Spearman's ρ of more than 1.5 standard errors.
    rng = np.random.default_rng(0)
    found = SignedSchweizerWolff().fit(rng.normal(size=(257, 400)), rng.normal(size=257))
    assert (found.dependence_ != 0).mean() < 0.16


@given(seed=seeds, rounds=st.integers(0, 8))
def test_boosting_equals_algorithm_2(seed: int, rounds: int) -> None:
    x, _ = job(seed, tasks=40, metrics=4)
    codes, bins = binned(x, 6)
    z = treatments(x, at_median=False)[0]
    expected = naive_hound.boosted_scores(codes, z, 0, rounds)
    assert boosted_scores(codes, bins, z, 0, rounds) == pytest.approx(expected, abs=1e-6)


def test_boosting_orders_tasks_as_scikit_learns_does() -> None:
    from sklearn.ensemble import AdaBoostClassifier
    from sklearn.tree import DecisionTreeClassifier

    x, _ = job(2, tasks=400)
    codes, bins = binned(x, 64)
    z = treatments(x, at_median=True)[2]
    theirs = AdaBoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=20)
    theirs.fit(np.delete(codes, 2, 0).T, z)
    decision = theirs.decision_function(np.delete(codes, 2, 0).T)
    mine = boosted_scores(codes, bins, z, 2, 20)
    assert np.corrcoef(mine, decision)[0, 1] > 0.97  # they stop at other equally good stumps


def test_weighted_effect_is_hajeks_and_does_not_depend_on_the_zero_of_latency() -> None:
    rng = np.random.default_rng(1)
    z = np.where(rng.random(200) < 0.3, 1.0, -1.0)
    e, response = rng.uniform(0.05, 0.95, 200), rng.normal(size=200)
    effect, error = weighted_effect(z, e, response)
    assert effect == pytest.approx(naive_hound.hajek(z, e, response))
    assert weighted_effect(z, e, response + 1000)[0] == pytest.approx(effect)
    assert 0 < error < 1


def test_boosted_propensities_remove_confounding() -> None:
    # Latency depends on metric 0 only; metric 1 follows it. Its plain effect is large, its causal
    # one is 0: weighting by propensities has to remove most of the difference.
    rng = np.random.default_rng(5)
    cause = rng.normal(size=3000)
    x = np.stack([cause, cause + rng.normal(size=3000)], axis=1)
    y = cause + 0.1 * rng.normal(size=3000)
    plain = AdaBoostIPW(rounds=0, at_median=True).fit(x, y).effect_[1]
    held = AdaBoostIPW(rounds=20, bins=32, at_median=True).fit(x, y).effect_[1]
    assert plain > 1.0
    assert abs(held) < 0.4 * plain


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30))
def test_two_means_is_the_best_of_all_cuts(values: list[float]) -> None:
    array = np.array(values)
    cut = two_means_cuts(np.sort(array)[None], 0.0)[0]

    def spread(at: float) -> float:
        low, high = array[array <= at], array[array > at]
        return sum(((part - part.mean()) ** 2).sum() for part in (low, high) if len(part))

    best = min(spread(at) for at in array)
    assert spread(cut) <= best + 1e-6 * (1 + (array**2).sum())


def test_second_moments_are_weighted_sums_of_products() -> None:
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=(50, 4)), rng.random((3, 50))
    expected = np.einsum("wt,ti,tj->wij", weights, values, values)
    assert second_moments(values, weights) == pytest.approx(expected)


@pytest.mark.parametrize("penalty", [0.01, 0.1, 0.5])
def test_the_descent_finds_scikit_learns_elastic_net(penalty: float) -> None:
    from sklearn.linear_model import ElasticNet

    x, y = job(7, tasks=80)
    x, y = (x - x.mean(axis=0)) / x.std(axis=0), (y - y.mean()) / y.std()
    gram, cross = x.T @ x / len(x), x.T @ y / len(x)
    mine = fit_each(gram[None], cross[None], penalty, 0.5)[0]
    theirs = ElasticNet(alpha=penalty, l1_ratio=0.5, tol=1e-10).fit(x, y).coef_
    assert mine == pytest.approx(theirs, abs=2e-4)  # two metrics are nearly the same
    best = naive_hound.elastic_net_objective(x, y, mine, penalty, 0.5)
    rng = np.random.default_rng(0)
    for _ in range(100):
        other = mine + rng.normal(0, 0.05, len(mine))
        assert naive_hound.elastic_net_objective(x, y, other, penalty, 0.5) >= best - 1e-9


def test_bagging_agrees_with_scikit_learns_bagged_elastic_nets() -> None:
    # Other folds and other draws: on larger jobs the reference agrees with itself to .976.
    from sklearn.linear_model import ElasticNet, ElasticNetCV

    mine, theirs = [], []
    for seed in range(12):
        x, y = job(seed, tasks=120, metrics=12)
        mine.append(BaggedElasticNet(cautious=False, outermost=0).fit(x, y).profile_)
        z, r = (x - x.mean(axis=0)) / x.std(axis=0), (y - y.mean()) / y.std()
        chosen = ElasticNetCV(l1_ratio=0.5, cv=5, alphas=30).fit(z, r).alpha_
        rng = np.random.default_rng(seed)
        coefs = []
        for _ in range(32):
            drawn = rng.integers(0, len(z), len(z))
            coefs.append(ElasticNet(alpha=chosen, l1_ratio=0.5).fit(z[drawn], r[drawn]).coef_)
        mean = np.mean(coefs, axis=0)
        theirs.append(mean / np.abs(mean).sum())
    assert np.corrcoef(np.concatenate(mine), np.concatenate(theirs))[0, 1] > 0.93


def test_the_same_seed_gives_the_same_profile_and_another_one_nearly_the_same() -> None:
    x, y = job(1, tasks=200)
    first = BaggedElasticNet(random_state=1).fit(x, y).profile_
    assert BaggedElasticNet(random_state=1).fit(x, y).profile_.tolist() == first.tolist()
    other = BaggedElasticNet(random_state=2).fit(x, y).profile_
    assert other.tolist() != first.tolist()
    assert np.abs(other - first).sum() < 0.2


def test_cutting_off_wrong_readings_keeps_the_profile_where_it_was() -> None:
    moved = {0.0: [], 0.005: []}
    for share, distances in moved.items():
        for seed in range(20):
            x, y = job(seed, tasks=300)
            clean = BaggedElasticNet(outermost=share).fit(x, np.log(y)).profile_
            x[np.random.default_rng(seed).integers(300), :2] *= 1000
            wrong = BaggedElasticNet(outermost=share).fit(x, np.log(y)).profile_
            distances.append(np.abs(wrong - clean).sum() / 2)
    assert np.mean(moved[0.005]) < np.mean(moved[0.0]) / 4


def test_collinear_metrics_share_the_blame_instead_of_opposite_signs() -> None:
    # Appendix F: least squares gives correlated metrics opposite signs, BAE does not.
    rng = np.random.default_rng(3)
    latent = rng.normal(size=60)
    x = np.stack([latent + 0.02 * rng.normal(size=60) for _ in range(3)], axis=1)
    y = latent + 0.3 * rng.normal(size=60)
    assert (BaggedElasticNet().fit(x, y).profile_ > 0).all()


def test_three_kinds_of_learners_find_the_plain_cause() -> None:
    x, y = job(11, tasks=300)
    for learner in TopicSettings().learners().of_model.values():
        profile = learner.fit(x, y).profile_
        assert profile[0] > 0.1 or profile[2] > 0.1
        assert profile[1] < 0
