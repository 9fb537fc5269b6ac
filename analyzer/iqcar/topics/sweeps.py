"""Expectation and maximisation of a topic model over documents of few words: compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

TINY = 1e-12
"""Nothing is less probable than this: what is 0 once would stay it."""


@njit(cache=True, nogil=True)
def _dot(one: Any, other: Any) -> Any:
    total = 0.0
    for k in range(len(one)):
        total += one[k] * other[k]
    return total


@njit(cache=True, nogil=True)
def _share_out(topic_of_word: Any, mixture: Any, ratio: Any, share: Any, better: Any) -> None:
    for k in range(len(share)):
        part = ratio * topic_of_word[k]
        share[k] += part
        better[k] += part * mixture[k]


@njit(cache=True, nogil=True)
def sweeps(
    starts: Any, words: Any, weights: Any, topics: Any, mixtures: Any, sparse: Any, most: Any,
    tolerance: Any,
) -> None:  # fmt: skip
    """Improve topics and mixtures in place, until no word of a topic moves any more.

    Parameters
    ----------
    starts : (documents + 1,) first word of each document in the next two
    words, weights : which words a document has, and their shares of it
    topics : (words, topics) columns sum to 1
    mixtures : (documents, topics) rows sum to 1
    sparse : what the prior takes off each topic's share of a document
    most, tolerance : sweeps at most; a sweep that moves every word by less is the last
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
            total = 0.0
            for k in range(count):
                mixture[k] = max(mixture[k] * share[k] - sparse, TINY)
                total += mixture[k]
            for k in range(count):
                mixture[k] /= total
        moved = 0.0
        for k in range(count):
            total = better[:, k].sum()
            for w in range(len(topics)):
                new = better[w, k] / total if total > 0.0 else 0.0
                moved = max(moved, abs(new - topics[w, k]))
                topics[w, k] = new
        if moved < tolerance:
            return
