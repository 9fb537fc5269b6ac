"""How near topics come to what was planted: mixtures, causes, the dominant cause."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hound_traces import Planted, cause_of_words
from iqcar.topics import Topics
from iqcar.topics.summary import mixture_matrix


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
    of = causes_found(found)
    mixtures = mixture_matrix(found)
    estimate = np.zeros((len(mixtures), len(planted.causes)))
    for topic, cause in enumerate(of):
        if cause is not None:
            estimate[:, planted.causes.index(cause)] += mixtures[:, topic]
    truth = planted.mixtures[found.jobs["stage"].to_numpy()]
    distance = np.abs(truth - estimate).sum(axis=1) / 2
    distance = np.where(mixtures.any(axis=1), distance, 1.0)
    real, claimed = truth >= 0.1, estimate >= 0.1
    major = truth.max(axis=1) > 0.5
    return Nearness(
        float(distance.mean()),
        2 * float((real & claimed).sum()) / float(real.sum() + claimed.sum()),
        float((truth.argmax(axis=1) == estimate.argmax(axis=1))[major].mean()),
    )
