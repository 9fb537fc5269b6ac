"""Finds the runs at which a series of numbers changed its distribution.

E-divisive: Matteson & James, A Nonparametric Approach for Multiple Change Point Analysis of
Multivariate Data (2014), sections 2 and 3, with exponent 1. Significance is told by permutations
inside the segments: by few of them where Cantelli's inequality says that all would agree.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from iqcar.base.kernels import compiled
from iqcar.tables.arrays import Floats

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

    at: position of the first value after it.
    p: share of permutations, the series itself included, that can be divided as well.
    """

    at: int
    p: float


def change_points(
    values: Floats, alpha: float = ALPHA, permutations: int = PERMUTATIONS
) -> list[ChangePoint]:
    """Divide a series again and again, as long as the best division is significant.

    values: ndarray of shape (n,); finite numbers in order of time; of more than :data:`MOST` the
        last ones count.
    alpha: a division is kept where its p is at most this.
    permutations: the same ones for the same series.

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
        statistic, first = best_division(series[low:high])
        if statistic > best:
            best, at = statistic, low + first
    return best, at


def best_division(segment: Floats) -> tuple[float, int]:
    """Find the division with the largest scaled energy distance of both parts (eq. 5 to 7).

    The first part begins where the segment begins; the second one follows it, and may end early, so
    that a change that was undone later is seen.

    segment: ndarray of shape (n,), n ≥ 2 · LEAST

    Returns the statistic, and the length of the first part; (0, -1) if it is nowhere
    above 0.
    """
    n = len(segment)
    number = np.arange(n + 1.0)
    over = np.concatenate([[0.0], 1.0 / number[1:]])
    statistics = np.zeros(n + 1)
    sums = Distances(
        segment=segment, number=number, over=over, near=np.zeros(n), whole=np.zeros(n + 1),
        between=np.zeros(n + 1), statistics=statistics,
    )  # fmt: skip
    at = compiled(divide)(sums)
    return float(statistics[0]), at


class Distances(NamedTuple):
    """A segment, numbers and what divides by them, and sums of distances.

    near: of each value from the first a ones.
    whole: of all ordered pairs of the first b values.
    between: between the first a values and those up to b.
    statistics: of the first a values, for all b; the first one is the largest of all in the end.
    """

    segment: Floats
    number: Floats
    over: Floats
    near: Floats
    whole: Floats
    between: Floats
    statistics: Floats


def divide(sums: Distances) -> int:
    """Find the best division; returns the length of its first part, −1 if it is nowhere above 0.

    Eq. 6, 2 · between/(a·c) − first/(a·(a − 1)) − second/(c·(c − 1)), times a·c/b.
    """
    segment, number, over, near = sums.segment, sums.number, sums.over, sums.near
    whole, between, statistics = sums.whole, sums.between, sums.statistics
    n, best, at = len(sums.segment), 0.0, -1
    for a in range(n):
        whole[a + 1] = whole[a] + 2.0 * near[a]
        value = segment[a]
        for k in range(a, n):
            near[k] += abs(segment[k] - value)
    for k in range(n):
        near[k] = 0.0
    for a in range(1, n - LEAST + 1):
        value = segment[a - 1]
        for k in range(a, n):
            near[k] += abs(segment[k] - value)
        if a < LEAST:
            continue
        total = 0.0
        for k in range(a, n):
            total += near[k]
            between[k + 1] = total
        first, first_over, times = whole[a], whole[a] * over[a - 1], number[a]
        for b in range(a + LEAST, n + 1):
            second = whole[b] - first - 2.0 * between[b]
            within = first_over * number[b - a] + second * (times * over[b - a - 1])
            statistics[b] = (2.0 * between[b] - within) * over[b]
        for b in range(a + LEAST, n + 1):
            if statistics[b] > best:
                best, at = statistics[b], a
    statistics[0] = best
    return at
