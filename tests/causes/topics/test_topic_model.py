"""Topic models: topics of documents that are known, and algorithm 4 step by step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.causes.topics.topic_model import (
    MOST_GROWN,
    TopicModel,
    agreed_topics,
    average_linkage,
    cosine,
    fit_topics,
    score,
    swept,
    trimmed,
    words_of,
)
from iqcar.causes.topics.topic_result import TopicSettings
from tests.support import naive_hound

seeds = st.integers(0, 2**32 - 1)
METRICS = 8
SETTINGS = TopicSettings()
TOPICS = np.zeros((5, METRICS))
TOPICS[0, :2], TOPICS[1, 2:4], TOPICS[2, 4] = (0.6, 0.4), (0.5, 0.5), 1.0
TOPICS[3, 5:7], TOPICS[4, 2:4] = (-0.7, -0.3), (-0.4, -0.6)


def documents(seed: int, jobs: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Profiles of jobs with one to three of five topics, and their true mixtures."""
    rng = np.random.default_rng(seed)
    mixtures = np.zeros((jobs, len(TOPICS)))
    for job in range(jobs):
        # Topics 1 and 4 are opposite values of the same metrics: no job has both.
        some = rng.permutation(rng.choice([[0, 1, 2, 3], [0, 2, 3, 4]]))[: rng.integers(1, 4)]
        mixtures[job, some] = rng.dirichlet(np.full(len(some), 3.0))
    profiles = mixtures @ TOPICS * rng.lognormal(0, 0.05, (jobs, METRICS))
    return profiles / np.abs(profiles).sum(axis=1, keepdims=True), mixtures


@given(seed=seeds)
def test_a_sweep_equals_the_plain_sums(seed: int) -> None:
    rng = np.random.default_rng(seed)
    words = words_of(documents(seed, 12)[0])
    topics, mixtures = rng.dirichlet(np.ones(16), 3), rng.dirichlet(np.ones(3), 12)
    better, share = np.zeros((3, 16)), np.full((12, 3), -0.001)
    for d, w in np.argwhere(words > 0):
        ratio = words[d, w] / (mixtures[d] @ topics[:, w])
        share[d] += mixtures[d] * ratio * topics[:, w]
        better[:, w] += topics[:, w] * ratio * mixtures[d]
    share = np.maximum(share, 1e-12)
    improved, moved = swept(words, topics, mixtures, 0.001)
    assert improved == pytest.approx(better / better.sum(axis=1, keepdims=True))
    assert moved == pytest.approx(share / share.sum(axis=1, keepdims=True))


def matched(found: TopicModel) -> np.ndarray:
    """For each true topic the learned one that is most like it."""
    alike = cosine(np.concatenate([words_of(TOPICS), found.topics]))[: len(TOPICS), len(TOPICS) :]
    assert alike.max(axis=1) == pytest.approx(1, abs=0.02)
    return alike.argmax(axis=1)


def test_topicsand_mixturesof_known_documents_are_found() -> None:
    profiles, mixtures = documents(0)
    model = fit_topics(profiles, SETTINGS)
    of = matched(model)
    distance = np.abs(model.mixtures[:, of] - mixtures).sum(axis=1) / 2
    assert distance.mean() < 0.06  # 5 % noise, and shares below 0.1 are dropped by algorithm 3


def test_topicsof_very_many_jobs_are_grown_from_some_and_mixturesfound_for_all() -> None:
    profiles, mixtures = documents(2, MOST_GROWN + 1500)
    profiles[::500] = 0
    model = fit_topics(profiles, SETTINGS)
    of = matched(model)
    some = profiles.any(axis=1)
    distance = np.abs(model.mixtures[:, of] - mixtures)[some].sum(axis=1) / 2
    assert distance.mean() < 0.06  # as above
    assert not model.mixtures[~some].any()
    assert model.mixtures[some].sum(axis=1) == pytest.approx(1)


@given(seed=seeds, jobs=st.integers(1, 40))
def test_weights_sum_to_one_and_nothing_trivial_is_kept(seed: int, jobs: int) -> None:
    profiles, _ = documents(seed, jobs)
    profiles[::7] = 0
    model = fit_topics(profiles, SETTINGS)
    assert model.topics.sum(axis=1) == pytest.approx(1)
    some = profiles.any(axis=1)
    assert model.mixtures[some].sum(axis=1) == pytest.approx(1)
    assert not model.mixtures[~some].any()
    for weights in (model.topics, model.mixtures):
        assert (weights[weights > 0] >= 0.1 - 1e-12).all()


@given(seed=seeds)
def test_relabelled_jobs_have_the_same_topics(seed: int) -> None:
    profiles, _ = documents(seed, 30)
    order = np.random.default_rng(seed).permutation(30)
    first, second = fit_topics(profiles, SETTINGS), fit_topics(profiles[order], SETTINGS)
    assert second.topics.tolist() == first.topics.tolist()
    assert second.mixtures.tolist() == first.mixtures[order].tolist()


def test_a_topic_of_too_few_jobs_is_not_kept() -> None:
    profiles, _ = documents(1)
    profiles[:4] = 0
    profiles[:4, 7] = 1.0
    model = fit_topics(profiles, SETTINGS)
    assert (model.mixtures > 0).mean(axis=0).min() >= 0.05 * 196 / 200
    assert not (model.topics[:, 7] > 0.5).any()


@pytest.mark.parametrize("jobs", [0, 1, 5000])
def test_no_one_and_thousands_of_identical_jobs(jobs: int) -> None:
    profile = np.array([0.5, -0.5, 0, 0])
    model = fit_topics(np.tile(profile, (jobs, 1)), SETTINGS)
    assert len(model.mixtures) == jobs
    if jobs:
        assert model.mixtures @ model.topics == pytest.approx(
            words_of(profile[None]).repeat(jobs, 0)
        )
    else:
        assert model.topics.shape == (0, 8)


def test_only_zeros_give_no_topics() -> None:
    model = fit_topics(np.zeros((7, 3)), SETTINGS)
    assert model.topics.shape == (0, 6)
    assert model.mixtures.shape == (7, 0)


def test_trimming_drops_trivial_weights_and_keeps_the_largest() -> None:
    weights = np.array([[0.5, 0.45, 0.05], [0, 0, 0], [0.05] * 3])
    assert trimmed(weights, 0.1) == pytest.approx(
        np.array([[10 / 19, 9 / 19, 0], [0, 0, 0], [1 / 3] * 3])
    )


@given(seed=seeds, items=st.integers(2, 9))
def test_clusters_and_score_equal_the_naive_ones(seed: int, items: int) -> None:
    vectors = np.random.default_rng(seed).random((items, 4)) ** 3
    alike = cosine(vectors)
    for wanted, cluster in average_linkage(alike).items():
        expected = naive_hound.average_linkage(alike, wanted)
        mine = {frozenset(np.flatnonzero(cluster == c).tolist()) for c in range(wanted)}
        assert mine == {frozenset(one) for one in expected}
        assert score(alike, cluster, 2 / 3) == pytest.approx(
            naive_hound.score(alike, expected, 2 / 3)
        )


def fitted(topics, mixtures) -> TopicModel:
    return TopicModel(np.array(topics, float), np.array(mixtures, float))


def test_a_topic_that_one_model_found_is_left_out_and_the_others_share_its_part() -> None:
    a, b, c = np.eye(6)[[0, 1, 2]]
    like_a = [0.9, 0, 0, 0.1, 0, 0]
    models = [
        fitted([a, b], [[1, 0], [0.5, 0.5]]),
        fitted([like_a, b], [[0.8, 0.2], [0.5, 0.5]]),
        fitted([a, c], [[0.6, 0.4], [0.3, 0.7]]),
    ]
    found = agreed_topics(models, SETTINGS)
    # The tenth of one third is trimmed.
    assert sorted(found.topics.tolist()) == sorted([a.tolist(), b.tolist()])
    of = [found.topics.tolist().index(one.tolist()) for one in (a, b)]
    # Job 0: 1, .8 and 1 (.6 of .6) → .933, of which .067 is trimmed; job 1: .5, .5 and 1.
    assert found.mixtures[:, of] == pytest.approx(np.array([[1, 0], [2 / 3, 1 / 3]]))


@pytest.mark.parametrize(
    "models",
    [
        [fitted([row], [[1.0]]) for row in np.eye(3)],
        [fitted(np.zeros((0, 3)), np.zeros((1, 0))) for _ in range(2)],
    ],
)
def test_models_that_share_nothing_or_have_nothing_have_no_topics(models) -> None:
    found = agreed_topics(models, SETTINGS)
    assert found.topics.shape == (0, 3)
    assert found.mixtures.shape == (1, 0)
