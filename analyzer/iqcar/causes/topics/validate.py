"""Checks topics against tasks: rank-sum test, quartiles, mutual information.

Paper: Hound | §5.2, appendix E | exact; MQD in interquartile ranges |
  tests/causes/topics/test_job_analysis.py
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from iqcar.causes.topics.kernels.copula import rank_bins
from iqcar.tables.arrays import Floats, Ints

SIGNIFICANT = 0.05
"""Stragglers and others differ where chance does so less often (§5.2)."""
INFORMATION_BINS = 8
"""Bins per variable of mutual information; of fewer than 64 tasks the square root."""


@njit(cache=True, nogil=True)
def _quartiles(rising: Any) -> Any:
    """Lower quartile, median and upper quartile, between the two nearest values."""
    last = len(rising) - 1
    found = np.empty(3)
    for q in range(3):
        place = last * (q + 1) / 4.0
        below = int(place)
        above = min(below + 1, last)
        found[q] = rising[below] + (rising[above] - rising[below]) * (place - below)
    return found


@njit(cache=True, nogil=True)
def _rank_sum_p(rising: Any, slow: Any, stragglers: Any) -> Any:
    """Two-sided p-value of Wilcoxon's rank-sum test, by the normal law, ties corrected."""
    tasks = len(rising)
    total, ties = 0.0, 0.0
    start = 0
    while start < tasks:
        end, chosen = start, 0
        while end < tasks and rising[end] == rising[start]:
            chosen += slow[end]
            end += 1
        same = float(end - start)
        total += chosen * (start + end + 1) / 2.0
        ties += same * same * same - same
        start = end
    others = tasks - stragglers
    spread = tasks + 1.0 - ties / (tasks * (tasks - 1.0))
    variance = stragglers * others / 12.0 * spread
    if variance <= 0.0:
        return 1.0
    z = (total - stragglers * (tasks + 1) / 2.0) / math.sqrt(variance)
    return math.erfc(abs(z) / math.sqrt(2.0))


@njit(cache=True, nogil=True)
def differences(order: Any, ordered: Any, slow: Any) -> Any:
    """How stragglers differ from other tasks in every metric (§5.2).

    Shape (2, metrics). p-values of the rank-sum test; and MQD, the mean over the quartiles of the
    stragglers' less the others', in interquartile ranges of all tasks; in standard deviations where
    these are 0, in the metric's unit where all values are the same.

    order, ordered: (metrics, tasks) as of `Ranks`.
    slow: (tasks,) the stragglers: some, but not all.
    """
    metrics, tasks = ordered.shape
    found = np.zeros((2, metrics))
    stragglers = slow.sum()
    high, low = np.empty(stragglers), np.empty(tasks - stragglers)
    flags = np.empty(tasks, np.bool_)
    for j in range(metrics):
        rising = ordered[j]
        highs, lows = 0, 0
        for i in range(tasks):
            flags[i] = slow[order[j, i]]
            if flags[i]:
                high[highs] = rising[i]
                highs += 1
            else:
                low[lows] = rising[i]
                lows += 1
        found[0, j] = _rank_sum_p(rising, flags, stragglers)
        quartiles = _quartiles(rising)
        size = quartiles[2] - quartiles[0]
        if size == 0.0:
            size = rising.std()
        if size == 0.0:
            size = 1.0
        found[1, j] = ((_quartiles(high) - _quartiles(low)) / size).mean()
    return found


class Binned(NamedTuple):
    """A variable in bins of equal ranks: (tasks,) bin of each task, and (bins,) share of each."""

    codes: Ints
    shares: Floats


def in_bins(values: Floats) -> Binned:
    """Put the (tasks,) values of a variable into bins of equal ranks (appendix E)."""
    bins = max(min(INFORMATION_BINS, math.isqrt(len(values))), 2)
    codes, _, shares = rank_bins(values, bins)
    return Binned(codes, shares)


def mutual_information(one: Binned, other: Binned) -> float:
    """Shannon's mutual information in nats of two variables of the same tasks (appendix E)."""
    bins = len(one.shares) * len(other.shares)
    codes = one.codes * len(other.shares) + other.codes
    both = np.bincount(codes, minlength=bins) / len(codes)
    alone = np.outer(one.shares, other.shares).ravel()
    seen = both > 0
    return max(float((both[seen] * np.log(both[seen] / alone[seen])).sum()), 0.0)
