"""Fits a topic model to documents of few words by expectation and maximisation: compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

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
