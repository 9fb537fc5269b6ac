"""Estimates a job's mixture of topics from the topic of each of its stragglers (phase II).

A share of a mixture is meant as a part of the job's stragglers (§5.1), but profiles weigh effects
on latency. Here each straggler is compared with the job's normal tasks in the keywords of every
topic, and the shares are what explains all stragglers best (expectation and maximisation). The
models' mixtures count as some stragglers more: where nothing stands out, they decide.

One visit of a job's tasks gives its :class:`Deviations`; topics are needed only afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from iqcar.causes.topics.kernels.straggler_kernels import deviate, explain
from iqcar.causes.topics.topic_result import TopicSettings
from iqcar.tables.arrays import Floats

Floats32 = NDArray[np.float32]

FARTHEST = 4.0
"""Standard deviations at which a deviation is cut off: one wrong reading is no more than this."""
SHIFT = 3.0
"""Standard deviations by which a cause is taken to move its keywords; 2 to 5 find the same."""
NO_TOPIC = 0.05
"""Part of the stragglers that is expected to have no topic."""
LEAST_SEEN = 0.5
"""A job keeps the models' mixture if fewer stragglers than this, summed, have a topic."""


@dataclass(frozen=True)
class Deviations:
    """How far one job's stragglers are from its normal tasks, in every metric.

    stragglers: (stragglers, metrics) in robust standard deviations of the normal tasks.
    normal: (metrics, metrics) mean products of the normal tasks' deviations.
    """

    stragglers: Floats32
    normal: Floats32


class TopicShares(NamedTuple):
    """A job's mixture, and where it comes from."""

    mixture: Floats
    """(topics,) sums to 1, or zeros."""
    responsibility: Floats
    """(stragglers, topics) how surely a straggler has a topic; what a row lacks to 1 is none."""


def deviations_of_job(metrics: Floats, latency: Floats, settings: TopicSettings) -> Deviations:
    """Compare stragglers with normal tasks: medians and quartiles of these, logs if all positive.

    metrics: (tasks, metrics) finite.
    latency: (tasks,) positive.
    """
    slow = latency > settings.straggler * np.median(latency)
    values = np.ascontiguousarray(metrics.T, np.float64)
    stragglers, normal = deviate(values, slow, FARTHEST)
    return Deviations(stragglers, normal)


def shares_of_job(
    deviations: Deviations,
    topics: Floats,
    mixture: Floats,
    popularity: Floats,
    settings: TopicSettings,
) -> TopicShares:
    """Share out a job's stragglers over the topics.

    deviations: of the job.
    topics: (topics, 2 × metrics) of the ensemble: metrics raised, then metrics lowered.
    mixture: (topics,) the job's, as the models see it.
    popularity: (topics,) mean mixture of all jobs; sums to 1.
    settings: `prior` stragglers are taken to have topics as the models say, half of them as in this
        job and half as in all: models miss topics of small jobs.
    """
    width = deviations.normal.shape[0]
    keywords = np.ascontiguousarray(topics[:, :width] - topics[:, width:])
    says = mixture if mixture.any() else popularity
    prior = settings.prior * (says + popularity) / 2.0
    responsibility = explain(
        deviations.stragglers, deviations.normal, keywords, prior, NO_TOPIC * settings.prior, SHIFT
    )
    seen = responsibility.sum()
    if seen < LEAST_SEEN:
        return TopicShares(mixture, responsibility)
    return TopicShares(responsibility.sum(axis=0) / seen, responsibility)


def refined_mixtures(
    deviations: Sequence[Deviations], topics: Floats, mixtures: Floats, settings: TopicSettings
) -> Floats:
    """Mixtures of all jobs from their stragglers, (jobs, topics), not yet trimmed."""
    some = mixtures.any(axis=1)
    if not some.any():
        return mixtures
    popularity = mixtures[some].mean(axis=0)
    refined = [
        shares_of_job(job, topics, mixture, popularity, settings).mixture
        for job, mixture in zip(deviations, mixtures, strict=True)
    ]
    return np.array(refined)
