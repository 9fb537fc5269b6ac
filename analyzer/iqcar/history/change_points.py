"""Finds the runs at which a series of numbers changed its distribution.

E-divisive: Matteson & James, A Nonparametric Approach for Multiple Change Point Analysis of
Multivariate Data (2014), sections 2 and 3, with exponent 1. Significance is told by permutations
inside the segments.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from iqcar.tables.arrays import Floats

LEAST = 3
"""Runs on each side of a change at least."""
PERMUTATIONS = 399
ALPHA = 0.01
"""Share of series without any change in which one is found nevertheless."""
MOST = 300
"""Values looked at, the last ones: the distances of all pairs are kept."""


class ChangePoint(NamedTuple):
    """A change of a series.

    Attributes
    ----------
    at : int
        Position of the first value after it.
    p : float
        Share of permutations, the series itself included, that can be divided as well.
    """

    at: int
    p: float


def change_points(
    values: Floats, alpha: float = ALPHA, permutations: int = PERMUTATIONS
) -> list[ChangePoint]:
    """Divide a series again and again, as long as the best division is significant.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Finite numbers in order of time; of more than :data:`MOST` the last ones count.
    alpha : float
        A division is kept where its p is at most this.
    permutations : int
        The same ones for the same series.

    Returns
    -------
    list of ChangePoint
        In order of time.
    """
    before = max(len(values) - MOST, 0)
    series = np.asarray(values, np.float64)[before:]
    random = np.random.default_rng(len(series))
    borders, found = [0, len(series)], []
    while True:
        segments = list(pairwise(borders))
        best, at = _best(series, segments)
        if at < 0:
            break
        as_good = 1
        for _ in range(permutations):
            shuffled = series.copy()
            for low, high in segments:
                shuffled[low:high] = random.permutation(shuffled[low:high])
            as_good += _best(shuffled, segments)[0] >= best
            if as_good > alpha * (permutations + 1):
                break
        p = as_good / (permutations + 1)
        if p > alpha:
            break
        found.append(ChangePoint(before + at, p))
        borders = sorted([*borders, at])
    return sorted(found)


def _best(series: Floats, segments: list[tuple[int, int]]) -> tuple[float, int]:
    """Return the largest statistic over all segments, and where it divides; −1 if nowhere."""
    best, at = 0.0, -1
    for low, high in segments:
        if high - low < 2 * LEAST:
            continue
        statistic = divisions(series[low:high])
        first = int(statistic.argmax()) // statistic.shape[1]
        if statistic[first].max() > best:
            best, at = float(statistic[first].max()), low + LEAST + first
    return best, at


def divisions(segment: Floats) -> Floats:
    """Compute the scaled energy distance of both parts for every division (eq. 5 to 7).

    The first part begins where the segment begins; the second one follows it, and may end early, so
    that a change that was undone later is seen.

    Parameters
    ----------
    segment : ndarray of shape (n,), n ≥ 2 · LEAST

    Returns
    -------
    ndarray of shape (m, m), m = n − 2 · LEAST + 1
        At (i, j): the first part has LEAST + i values, the second one ends before value
        2 · LEAST + j; 0 where it would have less than LEAST values.
    """
    n = len(segment)
    sums = np.zeros((n + 1, n + 1))
    # Σ of distances between the first a and the first b values.
    np.abs(segment[:, None] - segment[None, :]).cumsum(0).cumsum(1, out=sums[1:, 1:])
    a = np.arange(LEAST, n - LEAST + 1)[:, None]
    b = np.arange(2 * LEAST, n + 1)[None, :]
    c = np.maximum(b - a, 2)  # of parts too short for a statistic: any length will do
    first = sums[a, a]
    between = sums[a, b] - first
    second = sums[b, b] - first - 2.0 * between
    energy = 2.0 * between / (a * c) - first / (a * (a - 1)) - second / (c * (c - 1))
    scaled: Floats = np.where(b - a >= LEAST, energy * a * c / (a + c), 0.0)
    return scaled
