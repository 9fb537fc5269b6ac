"""Finds the runs at which a series of numbers changed its distribution.

E-divisive: Matteson & James, A Nonparametric Approach for Multiple Change Point Analysis of
Multivariate Data (2014), sections 2 and 3, with exponent 1. Significance is told by permutations
inside the segments: by few of them where Cantelli's inequality says that all would agree.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from iqcar.tables.arrays import Floats
from iqcar.tables.compiled import count_steps, kernel

LEAST = 3
"""Runs on each side of a change at least."""
PERMUTATIONS = 199
CLEAR_AFTER = 19
"""Permutations after which the others are left out where a division stands far above these."""
ALPHA = 0.01
"""Share of series without any change in which one is found nevertheless."""
MOST = 300
"""Values looked at, the last ones: the distances of all pairs are kept."""


class ChangePoint(NamedTuple):
    """A change of a series.

    Attributes
    ----------
    at : position of the first value after it.
    p : share of permutations, the series itself included, that can be divided as well.
    """

    at: int
    p: float


def change_points(
    values: Floats, alpha: float = ALPHA, permutations: int = PERMUTATIONS
) -> list[ChangePoint]:
    """Divide a series again and again, as long as the best division is significant.

    Parameters
    ----------
    values : ndarray of shape (n,); finite numbers in order of time; of more than :data:`MOST` the
        last ones count.
    alpha : a division is kept where its p is at most this.
    permutations : the same ones for the same series.

    The result is in order of time.
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
        p = _share_as_good(
            series, segments, best, random=random, alpha=alpha, permutations=permutations
        )
        if p > alpha:
            break
        found.append(ChangePoint(before + at, p))
        borders = sorted([*borders, at])
    return sorted(found)


def _share_as_good(
    series: Floats,
    segments: list[tuple[int, int]],
    best: float,
    random: np.random.Generator,
    alpha: float,
    permutations: int,
) -> float:
    """Return the share of permutations with a statistic at least as large; above alpha, a part.

    A variable is k deviations above its mean with probability 1/(1 + k²) at most (Cantelli). Where
    that is at most alpha after some permutations, none of the others is taken to be as large.
    """
    statistics = np.empty(permutations)
    as_good = 1
    for number in range(permutations):
        shuffled = series.copy()
        for low, high in segments:
            shuffled[low:high] = random.permutation(shuffled[low:high])
        statistics[number] = statistic = _best(shuffled, segments)[0]
        as_good += statistic >= best
        if as_good > alpha * (permutations + 1):
            break
        if number + 1 == CLEAR_AFTER:
            above = best - statistics[: number + 1].mean()
            variance = statistics[: number + 1].var(ddof=1)
            if above > 0 and variance <= alpha * (variance + above**2):
                break
    return as_good / (permutations + 1)


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


_VECTORS = {"nnan", "ninf", "nsz", "reassoc", "contract"}
"""All numbers are finite; sums may be taken in any order."""


@kernel(error_model="numpy", nogil=True, fastmath=_VECTORS)
def best_division(segment: Floats) -> tuple[float, int]:
    """Find the division with the largest scaled energy distance of both parts (eq. 5 to 7).

    The first part begins where the segment begins; the second one follows it, and may end early, so
    that a change that was undone later is seen.

    Parameters
    ----------
    segment : ndarray of shape (n,), n ≥ 2 · LEAST

    Returns the statistic, and the length of the first part; (0, -1) if it is nowhere
    above 0.
    """
    n = len(segment)
    number = np.arange(n + 1).astype(np.float64)
    over = np.zeros(n + 1)  # divisions take longer than all the rest
    over[1:] = 1.0 / number[1:]
    near = np.zeros(n)  # Σ of distances of each value from the first a ones
    whole = np.zeros(n + 1)  # Σ of distances of all ordered pairs of the first b values
    for a in range(n):
        whole[a + 1] = whole[a] + 2.0 * near[a]
        _add_distances(near[a:], segment[a:], segment[a])
    near[:] = 0.0
    between = np.zeros(n + 1)  # Σ of distances between the first a values and those up to b
    statistics = np.zeros(n + 1)
    # Bits of numbers above 0, read as integers, have the order of the numbers, and those of numbers
    # below 0 are below 0. Only the maximum of integers compiles to vector instructions.
    bits = statistics.view(np.int64)
    best, at = bits[0], -1
    for a in range(1, n - LEAST + 1):
        _add_distances(near[a:], segment[a:], segment[a - 1])
        if a < LEAST:
            continue
        _add_up(near[a:], between[a + 1 :])
        ends = a + LEAST
        _add_statistics(
            statistics[ends:], between[ends:], whole[ends:], over[ends:], number[LEAST:],
            over[LEAST - 1 :], whole[a], whole[a] * over[a - 1], number[a],
        )  # fmt: skip
        largest = best
        for each in bits[ends:]:
            largest = max(largest, each)
        if largest > best:
            best, at = largest, a
    bits[0] = best
    return statistics[0], at


@kernel(error_model="numpy", fastmath=_VECTORS, inline="always")
def _add_distances(near: Floats, values: Floats, value: float) -> None:
    """Add to a sum of distances that of each value from another one."""
    for k in range(len(near)):
        near[k] += abs(values[k] - value)


@kernel(error_model="numpy", fastmath=_VECTORS, inline="always")
def _add_up(near: Floats, between: Floats) -> None:
    """Fill in the sums of the first values, of one up to all."""
    total = 0.0
    for k in range(len(near)):
        total += near[k]
        between[k] = total


@kernel(error_model="numpy", fastmath=_VECTORS, inline="always")
def _add_statistics(
    statistics: Floats,
    between: Floats,
    whole: Floats,
    over_b: Floats,
    c: Floats,
    over_c_less_1: Floats,
    first: float,
    first_over: float,
    a: float,
) -> None:
    """Fill in the statistics of a first part of a values, for all ends b = a + c.

    Eq. 6, 2 · between/(a·c) − first/(a·(a − 1)) − second/(c·(c − 1)), times a·c/b.
    """
    for k in range(len(between)):
        second = whole[k] - first - 2.0 * between[k]
        within = first_over * c[k] + second * (a * over_c_less_1[k])
        statistics[k] = (2.0 * between[k] - within) * over_b[k]
