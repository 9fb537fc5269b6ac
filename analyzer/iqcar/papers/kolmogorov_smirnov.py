"""Tests whether two samples have one distribution, in many categories at once.

The test of Kolmogorov and Smirnov, which Spectroscope takes (CMU-PDL-10-107, section 5.1).

Paper: Spectroscope | §5.1: the test | exact | tests/papers/test_spectroscope.py
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from iqcar.tables.arrays import Floats, Ints

MOST_EXACT = 10_000
"""Product of the numbers of values up to which p is exact; beyond, its limit is near."""
LIMIT_TERMS = 100
"""Terms of the limit's alternating series; the last one is below 1e-21 above the least argument."""
LEAST_ARGUMENT = 0.05
"""Argument of the limit below which p is 1 to the last bit."""


class KsTest(NamedTuple):
    """Results of shape (n_categories,); NaN where a side has no value."""

    statistic: Floats
    """Largest difference of the two distribution functions."""
    p: Floats
    """Probability of at least that, two-sided, if the distributions are equal; with ties, at
    most."""


def ks_test(category: Ints, side: Ints, value: Floats, n: int) -> KsTest:
    """Compare the values of both sides in every category.

    ``category``, (n_rows,): number of the category, < ``n``. ``side``, (n_rows,): 0 or 1.
    ``value``, (n_rows,): NaN is left out. ``n``: number of categories. Returns KsTest: by counting
    paths (Hodges 1957) where both sides are small, else by Kolmogorov's limit with the correction
    of Stephens (1970).
    """
    known = ~np.isnan(value)
    category, side, value = category[known], side[known], value[known]
    order = np.lexsort((value, category))
    category, after, value = category[order], side[order] == 1, value[order]
    count = np.bincount(category * 2 + after, minlength=2 * n).reshape(n, 2)
    statistic, p = np.full(n, np.nan), np.full(n, np.nan)
    both = (count > 0).all(axis=1)
    if not both.any():
        return KsTest(statistic, p)
    start = np.concatenate([[0], np.cumsum(count.sum(axis=1))])
    upto_after = np.concatenate([[0], np.cumsum(after)])
    upto_before = np.arange(len(after) + 1) - upto_after
    lower = start[category]
    rows = np.arange(1, len(after) + 1)
    # Times both numbers of values, so that the difference stays a whole number.
    gap = np.abs(
        (upto_after[rows] - upto_after[lower]) * count[category, 0]
        - (upto_before[rows] - upto_before[lower]) * count[category, 1]
    )
    tied = np.zeros(len(gap), bool)  # with the next value: both functions rise together
    tied[:-1] = (value[1:] == value[:-1]) & (category[1:] == category[:-1])
    gap[tied] = 0
    largest = np.zeros(n, np.int64)
    filled = np.flatnonzero(count.sum(axis=1) > 0)
    largest[filled] = np.maximum.reduceat(gap, start[filled])
    size = count.prod(axis=1)
    statistic[both] = largest[both] / size[both]
    exact = both & (size <= MOST_EXACT)
    cases, of_case = np.unique(
        np.column_stack([count[exact], largest[exact]]), axis=0, return_inverse=True
    )
    p[exact] = np.array([_exact(*case) for case in cases.tolist()], float)[of_case.ravel()]
    many = both & ~exact
    p[many] = _limit(statistic[many], size[many] / count[many].sum(axis=1))
    return KsTest(statistic, p)


def _exact(before: int, after: int, gap: int) -> float:
    """Probability that a random order of the values has a gap of at least this somewhere.

    The order is drawn value by value from those left; ``here[i]`` is the probability that i of
    those drawn are from before and that no gap was so large yet.
    """
    before, after = sorted((before, after))  # the fewer make the shorter array
    i = np.arange(before + 1)
    here = np.zeros(before + 1)
    here[0] = 1.0
    reached = 0.0
    total = before + after
    for drawn in range(total):
        j = drawn - i
        one_more = here * (before - i) / (total - drawn)
        here = here * np.maximum(after - j, 0) / (total - drawn)
        here[1:] += one_more[:-1]
        large = np.abs(i * after - (drawn + 1 - i) * before) >= gap
        reached += float(here[large].sum())
        here[large] = 0.0
    return min(reached, 1.0)


def _limit(statistic: Floats, effective: Floats) -> Floats:
    """Kolmogorov's limit for ``effective`` = product over sum of the numbers of values."""
    root = np.sqrt(effective)
    scaled = (root + 0.12 + 0.11 / root) * statistic
    k = np.arange(1, LIMIT_TERMS + 1)
    terms = (-1.0) ** (k - 1) * np.exp(-2 * k**2 * scaled[:, None] ** 2)
    p: Floats = np.clip(2 * terms.sum(axis=1), 0.0, 1.0)
    return np.where(scaled < LEAST_ARGUMENT, 1.0, p)
