"""How near topics come to what was planted: mixtures, causes, the dominant cause."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from iqcar.causes.topics.jobs import TopicJob
from iqcar.causes.topics.kernels.ranks import Ranks
from iqcar.causes.topics.topic_counts import mixture_matrix
from iqcar.causes.topics.topic_result import Topics
from tests.support.hound_traces import METRICS, Planted, cause_of_words, words_of_cause


class Nearness(NamedTuple):
    """How near mixtures are to the truth."""

    variation: float
    """Mean total variation distance of a job's mixture to the planted one; 1 for an empty one."""
    f1: float
    """F1 of the causes with at least a tenth of a job's stragglers."""
    dominant: float
    """Share of the jobs with a dominant cause of which it is the largest in the mixture."""


def causes_found(found: Topics) -> list[str | None]:
    """Planted cause of each topic; None if it is none."""
    return [cause_of_words(found.words_of(topic)) for topic in range(len(found.topics))]


def nearness(planted: Planted, found: Topics) -> Nearness:
    """Compare the mixtures of topics with those planted."""
    stage = found.jobs["stage"].to_numpy()
    return nearness_of(planted, causes_found(found), mixture_matrix(found), stage)


def nearness_of(
    planted: Planted, causes: list[str | None], mixtures: np.ndarray, stage: np.ndarray
) -> Nearness:
    """Compare the mixtures, (jobs, topics), of topics that are such causes with those planted."""
    estimate = np.zeros((len(mixtures), len(planted.causes)))
    for topic, cause in enumerate(causes):
        if cause is not None:
            estimate[:, planted.causes.index(cause)] += mixtures[:, topic]
    truth = planted.mixtures[stage]
    distance = _variation(truth, estimate, mixtures.any(axis=1))
    real, claimed = truth >= 0.1, estimate >= 0.1
    major = truth.max(axis=1) > 0.5
    return Nearness(
        float(distance.mean()),
        2 * float((real & claimed).sum()) / float(real.sum() + claimed.sum()),
        float((truth.argmax(axis=1) == estimate.argmax(axis=1))[major].mean()),
    )


def variation_of_profiles(planted: Planted, profiles: np.ndarray, stage: np.ndarray) -> np.ndarray:
    """Total variation of each job's profile to the truth, given the true topics, (jobs,).

    No word belongs to two causes, so the likeliest mixture of a profile is the part of its words
    that each cause has.
    """
    words = np.concatenate([np.maximum(profiles, 0), np.maximum(-profiles, 0)], axis=1)
    names = [f"{metric}({sign})" for sign in "+-" for metric in METRICS]
    belongs = np.array([[n in words_of_cause(cause) for n in names] for cause in planted.causes])
    weight = words @ belongs.T
    total = weight.sum(axis=1, keepdims=True)
    mixtures = np.divide(weight, total, out=np.zeros_like(weight), where=total > 0)
    return _variation(planted.mixtures[stage], mixtures, total[:, 0] > 0)


def _variation(truth: np.ndarray, estimate: np.ndarray, says: np.ndarray) -> np.ndarray:
    return np.where(says, np.abs(truth - estimate).sum(axis=1) / 2, 1.0)


def known(job: TopicJob) -> tuple[np.ndarray, np.ndarray]:
    """Metrics (tasks, metrics) and latencies of a job; what is unknown takes the job's median."""
    return np.ascontiguousarray(Ranks.from_metrics(job.metrics).values.T), job.latency_ms
