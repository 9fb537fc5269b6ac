"""How near topics come to what was planted: mixtures, causes, the dominant cause."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from iqcar.causes.topics.topic_counts import mixture_matrix
from iqcar.causes.topics.topic_result import Topics
from tests.support.hound_traces import Planted, cause_of_words


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


def _variation(truth: np.ndarray, estimate: np.ndarray, says: np.ndarray) -> np.ndarray:
    return np.where(says, np.abs(truth - estimate).sum(axis=1) / 2, 1.0)
