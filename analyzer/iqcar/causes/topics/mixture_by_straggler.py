"""Estimates a job's mixture of topics from the topic of each of its stragglers (phase II).

A share of a mixture is meant as a part of the job's stragglers (§5.1), but profiles weigh signs of
metrics. Here each straggler is compared with the job's normal tasks in the keywords of every topic,
and the shares are what explains all stragglers best (expectation and maximisation). The model's
mixture counts as some stragglers more: where nothing stands out, it decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from iqcar.causes.topics.analyse_job import NOTHING, Deviations
from iqcar.tables.arrays import Floats

SHIFT = 3.0
"""Standard deviations by which a cause is taken to move its keywords; 2 to 5 find the same."""
NO_TOPIC = 0.05
"""Part of the stragglers that is expected to have no topic."""
LEAST_SEEN = 0.5
"""A job keeps the model's mixture if fewer stragglers than this, summed, have a topic."""
MOST_EVIDENCE = 300.0
"""Logarithm of how many times likelier a topic makes a straggler, at most: more would overflow."""
MOST_STEPS = 50
STILL = 1e-4
"""Expectation and maximisation end when no share moves by more than this, a part of a straggler."""


class TopicShares(NamedTuple):
    """A job's mixture, and where it comes from."""

    mixture: Floats
    """(topics,) sums to 1, or zeros."""
    responsibility: Floats
    """(stragglers, topics) how surely a straggler has a topic; what a row lacks to 1 is none."""


def refined_mixtures(
    deviations: Sequence[Deviations], topics: Floats, mixtures: Floats, prior: float
) -> Floats:
    """Mixtures of all jobs from their stragglers, (jobs, topics), not yet trimmed."""
    some = mixtures.any(axis=1)
    if not some.any():
        return mixtures
    popularity = mixtures[some].mean(axis=0)
    refined = [
        shares_of_job(job, topics, mixture, popularity, prior).mixture
        for job, mixture in zip(deviations, mixtures, strict=True)
    ]
    return np.array(refined)


def shares_of_job(
    deviations: Deviations, topics: Floats, mixture: Floats, popularity: Floats, prior: float
) -> TopicShares:
    """Share out a job's stragglers over the topics.

    deviations: of the job.
    topics: (topics, 2 × metrics): metrics raised, then metrics lowered.
    mixture: (topics,) the job's, as the model sees it.
    popularity: (topics,) mean mixture of all jobs; sums to 1.
    prior: stragglers that are taken to have topics as the model says, half of them as in this job
        and half as in all: the model misses topics of small jobs.
    """
    width = len(deviations.normal)
    keywords = topics[:, :width] - topics[:, width:]
    says = mixture if mixture.any() else popularity
    given = np.append(prior * (says + popularity) / 2.0, NO_TOPIC * prior)
    responsibility = _explained(deviations, keywords, given)
    seen = responsibility.sum()
    if seen < LEAST_SEEN:
        return TopicShares(mixture, responsibility)
    return TopicShares(responsibility.sum(axis=0) / seen, responsibility)


def _explained(deviations: Deviations, keywords: Floats, given: Floats) -> Floats:
    """How surely each straggler has each topic, where all of them are explained best.

    A straggler with a topic has that topic's keywords, weighed and in normal tasks' standard
    deviations, moved by :data:`SHIFT`; one with no topic is as normal tasks are. Shape (stragglers,
    topics) responsibility of each topic; what a row lacks to 1 is that of none.

    keywords: (topics, metrics) weight of each metric, negative where it is lowered.
    given: (topics + 1,) stragglers that every topic, and last none, is given beforehand.
    """
    stragglers, normal = (np.asarray(one, np.float64) for one in deviations)
    variance = np.einsum("ka,ab,kb->k", keywords, normal, keywords)
    # Keywords of which normal tasks have no spread at all deviate by as much as is possible.
    score = stragglers @ keywords.T / np.sqrt(np.where(variance > NOTHING, variance, 1.0))
    evidence = np.minimum(SHIFT * score - SHIFT**2 / 2.0, MOST_EVIDENCE)
    likelier = np.column_stack([np.exp(evidence), np.ones(len(score))])
    total = len(score) + given.sum()
    share, part = given / given.sum(), likelier
    for _ in range(MOST_STEPS):
        part = share * likelier
        part /= part.sum(axis=1, keepdims=True)
        before, share = share, (given + part.sum(axis=0)) / total
        if np.abs(share - before)[:-1].max(initial=0.0) * len(part) < STILL:
            break
    return part[:, :-1]
