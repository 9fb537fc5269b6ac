"""Shares of topics from a job's stragglers: who has which, and what must hold whatever comes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.causes.topics.analyse_job import Deviations, Ranked
from iqcar.causes.topics.mixture_by_straggler import (
    NO_TOPIC,
    SHIFT,
    TopicShares,
    refined_mixtures,
    shares_of_job,
)
from iqcar.causes.topics.topic_result import TopicSettings
from tests.support import naive_hound

seeds = st.integers(0, 2**32 - 1)
METRICS = 5
PRIOR = TopicSettings().prior
TOPICS = np.zeros((3, 2 * METRICS))
TOPICS[0, [0, 1]] = 0.6, 0.4
TOPICS[1, METRICS + 2] = 1.0  # metric 2 lowered
TOPICS[2, 3] = 1.0
EVEN = np.full(3, 1 / 3)
SLOW = 30


def job(seed: int, tasks: int = 200, strength: float = 5.0) -> tuple[np.ndarray, np.ndarray]:
    """Two thirds of the 30 first tasks straggle by topic 0, one third by topic 1."""
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(tasks, METRICS))
    latent[: SLOW // 3, 2] -= strength
    latent[SLOW // 3 : SLOW, :2] += strength
    latency = rng.uniform(900, 1100, tasks)
    latency[:SLOW] *= 3
    return np.exp(0.3 * latent + 2), latency


def deviations_of(metrics: np.ndarray, latency: np.ndarray) -> Deviations:
    slow = latency > 1.5 * np.median(latency)
    return Ranked.of(metrics.T, slow).deviations()


def shares(metrics: np.ndarray, latency: np.ndarray, mixture: np.ndarray = EVEN) -> TopicShares:
    seen = deviations_of(metrics, latency)
    return shares_of_job(seen, TOPICS, mixture, EVEN, PRIOR)


def test_each_straggler_has_the_topic_whose_keywords_it_differs_in() -> None:
    mixture, responsibility = shares(*job(0))
    # Five deviations are never taken for none, and one in some hundred tasks is at three by itself.
    assert responsibility[: SLOW // 3, 1].min() > 0.9
    assert responsibility[SLOW // 3 :, 0].min() > 0.9
    assert mixture == pytest.approx([2 / 3, 1 / 3, 0], abs=0.03)


def test_the_models_mixture_stays_where_no_straggler_differs() -> None:
    metrics, latency = job(1)
    same = np.tile(metrics[-1], (len(latency), 1))
    models = np.array([0.2, 0.0, 0.8])
    mixture, responsibility = shares(same, latency, models)
    assert mixture.tolist() == models.tolist()
    assert responsibility.sum() < 0.5
    assert not shares(same, latency, np.zeros(3)).mixture.any()


def test_equal_evidence_is_decided_by_the_models() -> None:
    twins = np.stack([TOPICS[0], TOPICS[0]])
    seen = deviations_of(*job(2))
    for one, other in ((0.8, 0.2), (0.2, 0.8)):
        mixture, _ = shares_of_job(seen, twins, np.array([one, other]), np.ones(2) / 2, PRIOR)
        assert (mixture[0] > mixture[1]) == (one > other)


def test_one_wrong_reading_moves_one_straggler_at_most() -> None:
    metrics, latency = job(3)
    clean = shares(metrics, latency).mixture
    metrics[:2, 3] *= 1000
    wrong = shares(metrics, latency).mixture
    assert np.abs(wrong - clean).sum() / 2 <= 2 / SLOW + 0.01


@given(seed=seeds, tasks=st.integers(60, 120), strength=st.floats(0, 5), levels=st.integers(1, 9))
def test_the_sharing_equals_the_plain_one(seed, tasks, strength, levels) -> None:
    metrics, latency = job(seed, tasks, strength)
    metrics[:, 4] = np.random.default_rng(seed).integers(-1, levels, tasks)
    seen = deviations_of(metrics, latency)
    slow = latency > 1.5 * np.median(latency)
    away, products = naive_hound.deviations(metrics, slow, 4.0)
    assert seen.stragglers == pytest.approx(away, abs=1e-4)  # kept as float32
    assert seen.normal == pytest.approx(products, abs=1e-4)
    mixture = np.random.default_rng(seed).dirichlet(np.ones(3))
    mine = shares_of_job(seen, TOPICS, mixture, EVEN, PRIOR).responsibility
    prior = PRIOR * (mixture + EVEN) / 2
    expected = naive_hound.responsibilities(
        seen.stragglers.astype(float), seen.normal.astype(float),
        TOPICS[:, :METRICS] - TOPICS[:, METRICS:], prior, NO_TOPIC * PRIOR, SHIFT,
    )  # fmt: skip
    # Both end when shares no longer move: the last steps are of this size.
    assert mine == pytest.approx(expected, abs=1e-3)


@given(seed=seeds, strength=st.floats(0, 6))
def test_shares_sum_to_one_and_neither_order_nor_units_matter(seed: int, strength: float) -> None:
    metrics, latency = job(seed, 80, strength)
    mixture, responsibility = shares(metrics, latency)
    assert mixture.sum() == pytest.approx(1)
    assert (responsibility >= 0).all() and responsibility.sum(axis=1).max() <= 1 + 1e-9
    rng = np.random.default_rng(seed)
    tasks, order = rng.permutation(80), rng.permutation(METRICS)
    again = shares(metrics[tasks], latency[tasks])
    assert again.mixture == pytest.approx(mixture, abs=1e-5)
    topics = TOPICS[:, np.concatenate([order, order + METRICS])]
    seen = deviations_of(metrics[:, order], latency)
    moved = shares_of_job(seen, topics, EVEN, EVEN, PRIOR).mixture
    assert moved == pytest.approx(mixture, abs=1e-5)
    scaled = shares(metrics * np.array([1e-6, 1e9, 1, 3, 1e3]), latency * 7).mixture
    assert scaled == pytest.approx(mixture, abs=1e-4)  # float32 of the last digits
    relabelled = TOPICS[[2, 0, 1]]
    seen = deviations_of(metrics, latency)
    turned = shares_of_job(seen, relabelled, EVEN, EVEN, PRIOR).mixture
    assert turned == pytest.approx(mixture[[2, 0, 1]], abs=1e-9)


def test_constant_rare_negative_and_huge_metrics_do_no_harm() -> None:
    metrics, latency = job(4)
    clean = shares(metrics, latency).mixture
    metrics[:, 4] = 0.0
    assert shares(metrics, latency).mixture == pytest.approx(clean, abs=1e-9)
    metrics[:, 3] = 0.0
    metrics[-1, 3] = 1.0  # a count that one normal task has
    assert shares(metrics, latency).mixture == pytest.approx(clean, abs=0.05)
    metrics[:, 3] = -1e300
    metrics[-1, 3] = 1e300
    found = shares(metrics, latency)
    assert np.isfinite(found.responsibility).all()
    assert found.mixture == pytest.approx(clean, abs=0.05)


def test_a_value_that_only_stragglers_have_counts_although_normal_tasks_have_no_spread() -> None:
    metrics, latency = job(5, strength=0.0)
    metrics[:, 3] = np.arange(len(latency)) < SLOW
    assert shares(metrics, latency).mixture == pytest.approx([0, 0, 1], abs=0.02)


def test_jobs_without_anything_have_nothing() -> None:
    empty = Deviations(np.zeros((0, METRICS), np.float32), np.zeros((METRICS, METRICS), np.float32))
    assert shares_of_job(empty, TOPICS, EVEN, EVEN, PRIOR).mixture.tolist() == EVEN.tolist()
    none = refined_mixtures([empty], np.zeros((0, 2 * METRICS)), np.zeros((1, 0)), PRIOR)
    assert none.shape == (1, 0)
    assert not refined_mixtures([empty], TOPICS, np.zeros((1, 3)), PRIOR).any()
    assert refined_mixtures([], TOPICS, np.zeros((0, 3)), PRIOR).shape == (0, 3)
