"""Finds the runs at which a series of numbers changed its distribution.

E-divisive: Matteson & James, A Nonparametric Approach for Multiple Change Point Analysis of
Multivariate Data (2014), sections 2 and 3, with exponent 1. Significance is told by permutations
inside the segments.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iqcar.tables.compiled import count_steps, kernel

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
        count_steps(__name__, (high - low) ** 2)
        statistic, first = best_division(series[low:high])
        if statistic > best:
            best, at = float(statistic), low + first
    return best, at


@kernel(error_model="numpy", nogil=True)
def best_division(segment: Floats) -> tuple[float, int]:
    """Find the division with the largest scaled energy distance of both parts (eq. 5 to 7).

    The first part begins where the segment begins; the second one follows it, and may end early, so
    that a change that was undone later is seen.

    Parameters
    ----------
    segment : ndarray of shape (n,), n ≥ 2 · LEAST

    Returns
    -------
    (float, int)
        The statistic, and the length of the first part; (0, -1) if it is nowhere above 0.
    """
    n = len(segment)
    whole = np.zeros(n + 1)  # Σ of distances of all ordered pairs of the first b values
    for b in range(2, n + 1):
        total = 0.0
        for i in range(b - 1):
            total += abs(segment[b - 1] - segment[i])
        whole[b] = whole[b - 1] + 2.0 * total
    over = np.zeros(n + 1)  # divisions take longer than all the rest
    over[1:] = 1.0 / np.arange(1, n + 1)
    sums = np.zeros(n + 1)  # Σ of distances between the first a and the first b values
    best, at = 0.0, -1
    for a in range(1, n - LEAST + 1):
        total = 0.0
        for b in range(1, n + 1):
            total += abs(segment[a - 1] - segment[b - 1])
            sums[b] += total
        if a < LEAST:
            continue
        first = whole[a]
        for b in range(a + LEAST, n + 1):
            c = b - a
            between = sums[b] - first
            second = whole[b] - first - 2.0 * between
            # Eq. 6, 2 · between/(a·c) − first/(a·(a − 1)) − second/(c·(c − 1)), times a·c/b.
            within = first * (c * over[a - 1]) + second * (a * over[c - 1])
            scaled = (2.0 * between - within) * over[b]
            if scaled > best:
                best, at = scaled, a
    return best, at
