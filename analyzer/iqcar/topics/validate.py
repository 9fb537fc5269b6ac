"""Checks of topics against the tasks themselves: rank-sum test, quartiles, mutual information."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from iqcar.topics.copula import rank_bins

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

SIGNIFICANT = 0.05
"""Stragglers and others differ where chance does so less often (§5.2)."""
INFORMATION_BINS = 8
"""Bins per variable of mutual information; of fewer than 64 tasks the square root."""


def differences(metrics: Floats, slow: Flags) -> tuple[Floats, Floats]:
    """How stragglers differ from other tasks in every metric (§5.2).

    Parameters
    ----------
    metrics : (tasks, metrics) finite
    slow : (tasks,) the stragglers: some, but not all

    Returns
    -------
    (metrics,) p-values of the rank-sum test
    (metrics,) mean quartile differences in interquartile ranges of all tasks; in standard
        deviations where these are 0
    """
    width = metrics.shape[1]
    p, difference = np.ones(width), np.zeros(width)
    for j in range(width):
        values = metrics[:, j]
        quartile = np.percentile(values, (25, 75))
        size = float(quartile[1] - quartile[0]) or float(values.std()) or 1.0
        p[j] = rank_sum_p(values, slow)
        difference[j] = mean_quartile_difference(values, slow) / size
    return p, difference


def rank_sum_p(values: Floats, chosen: Flags) -> float:
    """Two-sided p-value of the Wilcoxon rank-sum test, by the normal law, ties corrected.

    Parameters
    ----------
    values : (tasks,)
    chosen : (tasks,) which of them are the first sample
    """
    n, n1 = len(values), int(chosen.sum())
    n2 = n - n1
    if not n1 or not n2:
        return 1.0
    _, level, count = np.unique(values, return_inverse=True, return_counts=True)
    rank = np.cumsum(count) - (count - 1) / 2.0
    total = float(rank[level][chosen].sum())
    ties = float((count.astype(np.float64) ** 3 - count).sum())
    variance = n1 * n2 / 12.0 * ((n + 1) - ties / (n * (n - 1.0)))
    if variance <= 0:
        return 1.0
    z = (total - n1 * (n + 1) / 2.0) / math.sqrt(variance)
    return math.erfc(abs(z) / math.sqrt(2.0))


def mean_quartile_difference(values: Floats, chosen: Flags) -> float:
    """MQD: mean over the quartiles of the chosen's less the others' (§5.2)."""
    quartiles = (25, 50, 75)
    return float(
        (
            np.percentile(values[chosen], quartiles) - np.percentile(values[~chosen], quartiles)
        ).mean()
    )


def mutual_information(one: Floats, other: Floats) -> float:
    """Shannon's mutual information in nats of two variables in bins of equal ranks (appendix E)."""
    bins = max(min(INFORMATION_BINS, math.isqrt(len(one))), 2)
    a, u, wu = rank_bins(one, bins)
    b, v, wv = rank_bins(other, bins)
    both = np.bincount(a * len(v) + b, minlength=len(u) * len(v)) / len(one)
    alone = np.outer(wu, wv).ravel()
    seen = both > 0
    return max(float((both[seen] * np.log(both[seen] / alone[seen])).sum()), 0.0)
