"""Meta learner and ensemble: topics of documents that are known, and algorithm 4 step by step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.causes.topics.ensemble import TopicEnsemble, average_linkage, cosine, score
from iqcar.causes.topics.topic_model import (
    MOST_GROWN,
    TopicModel,
    fold_in,
    sweeps,
    trimmed,
    words_of,
)
from tests.support import naive_hound

seeds = st.integers(0, 2**32 - 1)
METRICS = 8
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
def test_a_compiled_sweep_equals_the_matrices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    documents_ = words_of(documents(seed, 12)[0])
    topics, mixtures = rng.dirichlet(np.ones(16), 3), rng.dirichlet(np.ones(3), 12)
    expected = naive_hound.topic_sweep(documents_, topics, mixtures, 0.001)
    row, word = np.nonzero(documents_)
    starts = np.searchsorted(row, np.arange(13))
    of_word = topics.T.copy()
    sweeps(starts, word, documents_[row, word], of_word, mixtures, 0.001, 1, 0.0)
    improved = of_word.T
    assert improved == pytest.approx(expected[0])
    assert mixtures == pytest.approx(expected[1])


@given(seed=seeds)
def test_a_step_of_folding_in_equals_the_matrices_and_moves_mixtures_only(seed: int) -> None:
    rng = np.random.default_rng(seed)
    documents_ = words_of(documents(seed, 12)[0])
    topics, mixtures = rng.dirichlet(np.ones(16), 3), rng.dirichlet(np.ones(3), 12)
    expected = naive_hound.topic_sweep(documents_, topics, mixtures, 0.001)[1]
    row, word = np.nonzero(documents_)
    starts = np.searchsorted(row, np.arange(13))
    fold_in(starts, word, documents_[row, word], topics.T.copy(), mixtures, 0.001, 1, 0.0)
    assert mixtures == pytest.approx(expected)


def matched(found: TopicModel) -> np.ndarray:
    """For each true topic the learned one that is most like it."""
    alike = cosine(np.concatenate([words_of(TOPICS), found.topics_]))[: len(TOPICS), len(TOPICS) :]
    assert alike.max(axis=1) == pytest.approx(1, abs=0.02)
    return alike.argmax(axis=1)


def test_topics_and_mixtures_of_known_documents_are_found() -> None:
    profiles, mixtures = documents(0)
    model = TopicModel().fit(profiles)
    of = matched(model)
    distance = np.abs(model.mixtures_[:, of] - mixtures).sum(axis=1) / 2
    assert distance.mean() < 0.06  # 5 % noise, and shares below 0.1 are dropped by algorithm 3


def test_topics_of_very_many_jobs_are_grown_from_some_and_mixtures_found_for_all() -> None:
    profiles, mixtures = documents(2, MOST_GROWN + 1500)
    profiles[::500] = 0
    model = TopicModel().fit(profiles)
    of = matched(model)
    some = profiles.any(axis=1)
    distance = np.abs(model.mixtures_[:, of] - mixtures)[some].sum(axis=1) / 2
    assert distance.mean() < 0.06  # as above
    assert not model.mixtures_[~some].any()
    assert model.mixtures_[some].sum(axis=1) == pytest.approx(1)


@given(seed=seeds, jobs=st.integers(1, 40))
def test_weights_sum_to_one_and_nothing_trivial_is_kept(seed: int, jobs: int) -> None:
    profiles, _ = documents(seed, jobs)
    profiles[::7] = 0
    model = TopicModel().fit(profiles)
    assert model.topics_.sum(axis=1) == pytest.approx(1)
    some = profiles.any(axis=1)
    assert model.mixtures_[some].sum(axis=1) == pytest.approx(1)
    assert not model.mixtures_[~some].any()
    for weights in (model.topics_, model.mixtures_):
        assert (weights[weights > 0] >= 0.1 - 1e-12).all()
    assert model.coverage_ == pytest.approx(
        naive_hound.coverage(model.mixtures_[some]) if some.any() else model.coverage_
    )


@given(seed=seeds)
def test_relabelled_jobs_have_the_same_topics(seed: int) -> None:
    profiles, _ = documents(seed, 30)
    order = np.random.default_rng(seed).permutation(30)
    first, second = TopicModel().fit(profiles), TopicModel().fit(profiles[order])
    assert second.topics_.tolist() == first.topics_.tolist()
    assert second.mixtures_.tolist() == first.mixtures_[order].tolist()


def test_a_topic_of_too_few_jobs_is_not_kept() -> None:
    profiles, _ = documents(1)
    profiles[:4] = 0
    profiles[:4, 7] = 1.0
    model = TopicModel().fit(profiles)
    assert (model.coverage_ >= 0.05).all()
    assert not (model.topics_[:, 7] > 0.5).any()


@pytest.mark.parametrize("jobs", [0, 1, 5000])
def test_no_one_and_thousands_of_identical_jobs(jobs: int) -> None:
    profile = np.array([0.5, -0.5, 0, 0])
    model = TopicModel().fit(np.tile(profile, (jobs, 1)))
    assert len(model.mixtures_) == jobs
    if jobs:
        assert model.mixtures_ @ model.topics_ == pytest.approx(
            words_of(profile[None]).repeat(jobs, 0)
        )
    else:
        assert model.topics_.shape == (0, 8)


def test_only_zeros_give_no_topics() -> None:
    model = TopicModel().fit(np.zeros((7, 3)))
    assert model.topics_.shape == (0, 6)
    assert model.mixtures_.shape == (7, 0)


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


def fitted(topics: np.ndarray, mixtures: np.ndarray) -> TopicModel:
    model = TopicModel()
    model.topics_, model.mixtures_ = np.array(topics, float), np.array(mixtures, float)
    model.coverage_ = naive_hound.coverage(model.mixtures_)
    return model


def test_a_topic_that_one_model_found_is_rejected_and_the_others_share_its_part() -> None:
    a, b, c = np.eye(6)[[0, 1, 2]]
    like_a = [0.9, 0, 0, 0.1, 0, 0]
    models = [
        fitted([a, b], [[1, 0], [0.5, 0.5]]),
        fitted([like_a, b], [[0.8, 0.2], [0.5, 0.5]]),
        fitted([a, c], [[0.6, 0.4], [0.3, 0.7]]),
    ]
    found = TopicEnsemble().fit(models)
    assert found.rejected_ == [(2, 1)]
    assert found.members_ == [[(0, 0), (1, 0), (2, 0)], [(0, 1), (1, 1)]]
    assert found.topics_[1].tolist() == b.tolist()
    assert found.topics_[0].tolist() == a.tolist()  # the tenth of one third is trimmed
    # Job 0: 1, .8 and 1 (.6 of .6) → .933, of which .067 is trimmed; job 1: .5, .5 and 1.
    assert found.mixtures_ == pytest.approx(np.array([[1, 0], [2 / 3, 1 / 3]]))
    # Distances of job 1 are 0, .5 and .5.
    assert found.agreement_[1] == pytest.approx(2 / 3)


def test_models_that_share_nothing_have_no_topics() -> None:
    models = [fitted([row], [[1.0]]) for row in np.eye(3)]
    found = TopicEnsemble().fit(models)
    assert found.topics_.shape == (0, 3)
    assert found.mixtures_.shape == (1, 0)
    assert np.isnan(found.agreement_).all()


def test_models_without_topics_have_none_together() -> None:
    models = [fitted(np.zeros((0, 4)), np.zeros((3, 0))) for _ in range(3)]
    found = TopicEnsemble().fit(models)
    assert found.topics_.shape == (0, 4)
    assert found.mixtures_.shape == (3, 0)
