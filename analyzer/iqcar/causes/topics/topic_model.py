"""Finds topics that recur in the causality profiles of many jobs.

A topic model by expectation and maximisation, with LDA's priors at their mode. It grows a topic
at a time from what the last one explains worst, so nothing is drawn and nothing is restarted.
Documents hold expected counts of words instead of words drawn at random.

Paper: Hound | algorithm 3 | leaves it: expected counts, topics grown one by one |
  tests/causes/topics/test_topic_model.py
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from iqcar.tables.arrays import Flags, Floats, share_of

TINY = 1e-12
"""Nothing is less probable than this: what is 0 once would stay it."""


# Sums may be taken in any order, which lets the processor take several terms at a time.
@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _dot(one: Any, other: Any) -> Any:
    total = 0.0
    for k in range(len(one)):
        total += one[k] * other[k]
    return total


@njit(cache=True, nogil=True)
def _share_out(topic_of_word: Any, mixture: Any, ratio: Any, share: Any, better: Any) -> None:
    for k in range(len(share)):
        share[k] += ratio * topic_of_word[k]
        better[k] += ratio * mixture[k]


@njit(cache=True, nogil=True)
def _add(topic_of_word: Any, ratio: Any, share: Any) -> None:
    for k in range(len(share)):
        share[k] += ratio * topic_of_word[k]


@njit(cache=True, nogil=True)
def _improved(mixture: Any, share: Any, sparse: Any) -> Any:
    """Improve a mixture in place; says how far the topic that moved most did."""
    total, moved = 0.0, 0.0
    for k in range(len(mixture)):
        share[k] = max(mixture[k] * share[k] - sparse, TINY)
        total += share[k]
    for k in range(len(mixture)):
        new = share[k] / total
        moved = max(moved, abs(new - mixture[k]))
        mixture[k] = new
    return moved


@njit(cache=True, nogil=True)
def fold_in(
    starts: Any, words: Any, weights: Any, topics: Any, mixtures: Any, sparse: Any, most: Any,
    tolerance: Any,
) -> None:  # fmt: skip
    """Improve mixtures in place while topics stay as they are.

    starts, words, weights, topics, mixtures, sparse: as of :func:`sweeps`.
    most, tolerance: steps of each document at most; one that moves no share by more is the last.
    """
    share = np.empty(topics.shape[1])
    for d in range(len(mixtures)):
        mixture = mixtures[d]
        for _ in range(most):
            share[:] = 0.0
            for i in range(starts[d], starts[d + 1]):
                row = topics[words[i]]
                _add(row, weights[i] / max(_dot(row, mixture), TINY), share)
            if _improved(mixture, share, sparse) < tolerance:
                break


@njit(cache=True, nogil=True)
def sweeps(
    starts: Any, words: Any, weights: Any, topics: Any, mixtures: Any, sparse: Any, most: Any,
    tolerance: Any,
) -> None:  # fmt: skip
    """Improve topics and mixtures in place, until no word of a topic moves any more.

    starts: (documents + 1,) first word of each document in the next two.
    words, weights: which words a document has, and their shares of it.
    topics: (words, topics) columns sum to 1.
    mixtures: (documents, topics) rows sum to 1.
    sparse: what the prior takes off each topic's share of a document.
    most, tolerance: sweeps at most; a sweep that moves every word by less is the last.
    """
    count = topics.shape[1]
    better = np.empty_like(topics)
    share = np.empty(count)
    for _ in range(most):
        better[:] = 0.0
        for d in range(len(mixtures)):
            mixture = mixtures[d]
            share[:] = 0.0
            for i in range(starts[d], starts[d + 1]):
                word = words[i]
                ratio = weights[i] / max(_dot(topics[word], mixture), TINY)
                _share_out(topics[word], mixture, ratio, share, better[word])
            _improved(mixture, share, sparse)
        better *= topics
        moved = 0.0
        for k in range(count):
            total = better[:, k].sum()
            for w in range(len(topics)):
                new = better[w, k] / total if total > 0.0 else 0.0
                moved = max(moved, abs(new - topics[w, k]))
                topics[w, k] = new
        if moved < tolerance:
            return


MAX_SWEEPS = 200
"""Sweeps after each new topic at most; most end after some dozens."""
TOLERANCE = 1e-5
"""A sweep that moves no word of a topic by more than this is the last."""
SEED_SHARE = 0.5
"""Part of every job that a new topic starts with: enough to grow, wherever it belongs."""
PATIENCE = 4
"""Growing ends with so many words that made a topic of too few jobs; the paper stops at one."""

MOST_GROWN = 2000
"""Jobs that topics are grown from at most, evenly chosen of all kinds of profiles: a coverage of
5 % is then known to half a percent. The mixtures of the others are found with these topics."""


@dataclass
class TopicModel:
    """Topics of causality profiles; in scikit-learn's manner.

    topics_: (topics, words) weights of words, rows sum to 1; metric j raised is word j, lowered it
        is word j + metrics.
    mixtures_: (jobs, topics) rows sum to 1; zeros for a job without a profile.
    coverage_: (topics,) share of the jobs with a profile that have the topic.
    """

    least_topics: int = 5
    most_topics: int = 30
    coverage: float = 0.05
    trim: float = 0.1
    words: int = 500
    topics_: Floats = field(init=False, repr=False)
    mixtures_: Floats = field(init=False, repr=False)
    coverage_: Floats = field(init=False, repr=False)

    def fit(self, profiles: Floats) -> TopicModel:
        """Find topics.

        profiles: (jobs, metrics) causality profiles; a job's sizes sum to 1 or are all 0.
        """
        documents = words_of(profiles)
        some = documents.any(axis=1)
        kept = documents[some]
        if not len(kept):
            kept = np.zeros((0, max(documents.shape[1], 1)))
        order = np.lexsort(kept.T[::-1])  # sums do not depend on the order of jobs, to the bit
        documents = kept[order]
        # In this order, documents at even distances are a selection of all kinds.
        some_of = min(len(documents), MOST_GROWN)
        chosen = np.linspace(0, len(documents) - 1, some_of).astype(np.int64)
        topics, mixtures = self._grow(documents[chosen])
        if some_of < len(documents):
            mixtures = self._fold_in(documents, topics)
        topics, mixtures = trimmed(topics, self.trim), trimmed(mixtures, self.trim)
        all_mixtures = np.zeros((len(profiles), len(topics)))
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        all_mixtures[some] = mixtures[back]
        self.topics_, self.mixtures_ = topics, all_mixtures
        self.coverage_ = (all_mixtures > 0).sum(axis=0) / max(int(some.sum()), 1)
        return self

    def _grow(self, documents: Floats) -> tuple[Floats, Floats]:
        """Add topics until one of them is of too few jobs; leave those out."""
        width = documents.shape[1]
        if not len(documents):
            return np.zeros((0, width)), np.zeros((0, 0))
        most = min(self.most_topics, int(documents.any(axis=0).sum()), len(documents))
        topics = documents.mean(axis=0, keepdims=True)
        mixtures = np.ones((len(documents), 1))
        tried = np.zeros(width, bool)
        failures = 0
        while len(topics) < most and failures < PATIENCE:
            missing = float(np.abs(documents - mixtures @ topics).sum(axis=1).mean()) / 2
            if missing < self.trim:  # one more topic would tell trivial words apart
                break
            more, more_mixtures, word = _with_one_more(documents, topics, mixtures, tried)
            more, more_mixtures = self._improve(documents, more, more_mixtures)
            enough = len(more) >= min(self.least_topics, most)
            if enough and self._under_covered(more_mixtures).any():
                # Too few jobs have it: the others keep its jobs, and the next word is tried.
                failures += 1
                tried[word] = True
                continue
            topics, mixtures = more, more_mixtures
        while len(topics) > 1 and (rare := self._under_covered(mixtures)).any():
            worst = int(np.argmin(np.where(rare, self._covered(mixtures), np.inf)))
            topics = np.delete(topics, worst, 0)
            mixtures = _normalised(np.delete(mixtures, worst, 1) + TINY)
            topics, mixtures = self._improve(documents, topics, mixtures)
        return topics, mixtures

    def _fold_in(self, documents: Floats, topics: Floats) -> Floats:
        """Mixtures of documents that topics were not grown from."""
        starts, word, weights, sparse = self._sparse(documents, len(topics))
        mixtures = np.full((len(documents), len(topics)), 1.0 / max(len(topics), 1))
        of_word = np.ascontiguousarray(topics.T)
        fold_in(starts, word, weights, of_word, mixtures, sparse, MAX_SWEEPS, TOLERANCE)
        return mixtures

    def _sparse(
        self, documents: Floats, topics: int
    ) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats, float]:
        """Where a document's words start, its words, their weights; what the prior takes off."""
        document, word = np.nonzero(documents)
        starts = np.searchsorted(document, np.arange(len(documents) + 1))
        return starts, word, documents[document, word], (1.0 - 1.0 / topics) / self.words

    def _covered(self, mixtures: Floats) -> Floats:
        share: Floats = (trimmed(mixtures, self.trim) > 0).mean(axis=0)
        return share

    def _under_covered(self, mixtures: Floats) -> Flags:
        return self._covered(mixtures) < self.coverage

    def _improve(
        self, documents: Floats, topics: Floats, mixtures: Floats
    ) -> tuple[Floats, Floats]:
        """Expectation and maximisation in turn (LDA at its mode, with priors 1 / topics)."""
        starts, word, weights, sparse = self._sparse(documents, len(topics))
        of_word = np.ascontiguousarray(topics.T)
        mixtures = np.ascontiguousarray(mixtures)
        sweeps(starts, word, weights, of_word, mixtures, sparse, MAX_SWEEPS, TOLERANCE)
        return np.ascontiguousarray(of_word.T), mixtures


def words_of(profiles: Floats) -> Floats:
    """Share of each word in a job's document: raised metrics first, then lowered ones."""
    return np.concatenate([np.maximum(profiles, 0.0), np.maximum(-profiles, 0.0)], axis=1)


def trimmed(weights: Floats, least: float) -> Floats:
    """Drop weights below the least and let the rest of each row sum to 1 again.

    A row whose weights are all below keeps the largest alone; a row of zeros stays.
    """
    largest = weights.max(axis=1, initial=0.0, keepdims=True)
    kept = np.where(weights >= np.minimum(least, largest), weights, 0.0)
    return _normalised(np.where(largest > 0, kept, 0.0))


def _normalised(weights: Floats) -> Floats:
    return share_of(weights, weights.sum(axis=1, keepdims=True))


def _with_one_more(
    documents: Floats, topics: Floats, mixtures: Floats, tried: Flags
) -> tuple[Floats, Floats, int]:
    """Add a topic: the word least explained of those not tried, with what is missing beside it."""
    missing = np.maximum(documents - mixtures @ topics, 0.0)
    word = int(np.argmax(np.where(tried, -1.0, (missing * documents).sum(axis=0))))
    new = missing[:, word] @ missing
    if not new.sum() > 0:
        new = documents.mean(axis=0)
    topics = np.concatenate([topics, _normalised(new[None])])
    first = np.full((len(documents), 1), SEED_SHARE)
    return topics, np.concatenate([mixtures * (1.0 - SEED_SHARE), first], axis=1), word
