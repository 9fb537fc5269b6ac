"""Tests per category whether runs after differ from runs before by more than a margin.

Two to eight runs a side tell little about the variance of one category. Each category's variance is
therefore shrunk toward what the others show (Smyth 2004, *Linear models and empirical Bayes methods
for assessing differential expression*), the difference of mean logarithms is tested against a
margin (McCarthy & Smyth 2009, *Testing significance relative to a fold-change threshold*), and
p-values are adjusted for the number of categories (Benjamini & Hochberg 1995).

Paper: Spectroscope | §5.1 | leaves it: shrunk t tests against a margin |
  tests/comparison/test_shrunken_t.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, polygamma, stdtr, stdtrit

from iqcar.enums import VERDICTS, ChangeVerdict
from iqcar.tables.arrays import Floats, Ints, sum_by

LEAST_SD = 1e-3
"""Standard deviation of a log value that runs are taken to have at least: recorded times are whole
milliseconds, and bytes that were equal in two runs need not be in a third."""
MOST_PRIOR_DF = 50.0
"""Degrees of freedom of the prior at most: beyond, its variance decides alone."""
LEAST_PRIOR_DF = 0.2
"""Degrees of freedom of the prior at least: below, it decides nothing."""
LEAST_CATEGORIES = 5
"""Categories of repeated runs below which their spread of variances is not estimated."""
LEAST_OF_GROUP = 10
"""Categories of one kind from which they have a prior of their own: with it, 12 equal categories
are rejected at .05 in .046 to .063 of simulated cases, 5 to 8 in up to .074."""
POWER = 0.8
"""Chance of a verdict other than "cannot tell" for which the needed runs are counted."""
MOST_RUNS_NEEDED = 100
"""Runs a side up to which needed runs are counted; more counts as this."""


class Prior(NamedTuple):
    """What is known of a category's variance before its own runs are seen."""

    variance: float
    """Of the log values of runs of one side (Smyth's s0²)."""
    df: float
    """Degrees of freedom that it is worth (Smyth's d0)."""


MOST_WIDENED = 3.0
"""Times as much as usual that equal runs can differ; beyond, most categories have changed."""
NORMAL_MAD = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""


class Verdicts(NamedTuple):
    """Differences of categories and how sure they are; arrays of shape (n_categories,)."""

    difference: Floats
    """Mean log value after, less before; NaN where a side has no run."""
    low: Floats
    high: Floats
    """Interval of 1 − alpha of the difference."""
    p: Floats
    """Probability of such a difference if the true one is as large as the margin; NaN where a side
    has no run."""
    q: Floats
    """`p` adjusted for all categories of this call (Benjamini–Hochberg); NaN as `p`."""
    verdict: NDArray[np.int8]
    """Position in :data:`iqcar.enums.VERDICTS`."""
    runs_needed: Ints
    """Where it cannot be told: runs a side with which it could, in 4 of 5 cases, if difference and
    variance are as estimated; at most :data:`MOST_RUNS_NEEDED`. Else 0; also 0 where a side has no
    run."""


class _Runs(NamedTuple):
    """Sufficient statistics of every category, each of shape (n_categories,)."""

    runs: tuple[Floats, Floats]  # number of them on either side
    difference: Floats
    squares: Floats  # of deviations from the mean of the own side
    df: Ints


def judge(
    category: Ints,
    side: Ints,
    value: Floats,
    *,
    n: int,
    margin: float,
    alpha: float,
    one_run: Prior,
    group: Ints | None = None,
    widen: bool = False,
) -> Verdicts:
    """Judge every category by one measure, such as its time, of every run.

    ``category``, ``side`` (0 before, 1 after) and ``value``, (n_rows,): one row per category, <
    ``n``, and run; a value that is NaN, infinite, 0 or less is unknown and left out. ``margin``:
    relative difference below which nothing has changed, such as 0.05; symmetric in logarithms: up
    to × (1 + margin) and / (1 + margin). ``alpha``: level of the tests and, over all categories, of
    the rate of false discoveries; < 0.5. ``one_run``: prior where too few categories have repeated
    runs to estimate one. ``group``, (n,): kind of each category, such as query or stage: categories
    of one kind have a prior of their own, because a whole varies less than its parts; a kind with
    too few has that of all. ``widen``: whether the prior for one run a side is at least what most
    categories differ by.

    Changed: `q` is at most ``alpha``. Same: the interval of 1 − 2 ``alpha`` lies within the margin
    (two one-sided tests). Cannot tell: neither. No category is both of the first.
    """
    runs = _runs(np.asarray(category), np.asarray(side), np.asarray(value, np.float64), n)
    groups = np.zeros(n, np.int64) if group is None else np.asarray(group)
    prior = _priors(runs, groups, one_run, widen)
    variance = (prior.df * prior.variance + runs.squares) / (prior.df + runs.df)
    df = np.minimum(prior.df + runs.df, prior.most_df)
    with np.errstate(divide="ignore"):
        error = np.sqrt(variance * (1 / runs.runs[0] + 1 / runs.runs[1]))
    least = float(np.log1p(margin))
    size = np.abs(runs.difference)
    p = np.minimum(stdtr(df, (least - size) / error) + stdtr(df, (-least - size) / error), 1.0)
    q = adjusted(p)
    half_width, one_sided = t_quantile((alpha / 2, alpha), df) * error
    changed = q <= alpha
    same = size + one_sided <= least
    verdict = np.where(changed, _CHANGED, np.where(same, _SAME, _CANNOT_TELL)).astype(np.int8)
    unclear = (verdict == _CANNOT_TELL) & np.isfinite(p)
    next_level = alpha * (changed.sum() + 1) / max(int(np.isfinite(p).sum()), 1)
    needed = np.zeros(n, np.int64)
    for prior_df in np.unique(prior.df[unclear]).tolist():  # one per group
        members = unclear & (prior.df == prior_df)
        needed[members] = _runs_needed(
            (size - least)[members], variance[members], prior_df, alpha, next_level
        )
    # With as many runs as there are it was not told: at least one more.
    more = np.minimum(*runs.runs).astype(np.int64) + 1
    needed = np.where(unclear, np.clip(needed, more, max(MOST_RUNS_NEEDED, *more, 0)), 0)
    low, high = runs.difference - half_width, runs.difference + half_width
    return Verdicts(runs.difference, low, high, p=p, q=q, verdict=verdict, runs_needed=needed)


_CHANGED, _SAME, _CANNOT_TELL = (
    VERDICTS.index(verdict)
    for verdict in (ChangeVerdict.CHANGED, ChangeVerdict.SAME, ChangeVerdict.CANNOT_TELL)
)


def _runs(category: Ints, side: Ints, value: Floats, n: int) -> _Runs:
    known = np.isfinite(value) & (value > 0)
    cell = (category[known] * 2 + side[known]).astype(np.int64)
    log = np.log(value[known])
    order = np.lexsort((log, cell))  # sums then do not depend on the order of rows
    cell, log = cell[order], log[order]
    count = np.bincount(cell, minlength=2 * n)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = sum_by(cell, log, 2 * n) / count
    squares = sum_by(cell, (log - mean[cell]) ** 2, 2 * n)
    before, after = count[0::2], count[1::2]
    return _Runs(
        runs=(before.astype(np.float64), after.astype(np.float64)),
        difference=mean[1::2] - mean[0::2],
        squares=squares[0::2] + squares[1::2],
        df=np.maximum(before - 1, 0) + np.maximum(after - 1, 0),
    )


class _Priors(NamedTuple):
    """The prior of each category, (n_categories,)."""

    variance: Floats
    df: Floats
    most_df: Floats  # that a test can have: those of all variances that the prior was made from


def _priors(runs: _Runs, group: Ints, one_run: Prior, widen: bool) -> _Priors:
    repeated = runs.df > 0
    if widen and not repeated.any():
        one_run = _widened(one_run, runs.difference)
    found = _Priors(*(np.empty(len(group)) for _ in range(3)))
    for number in np.unique(group).tolist():
        members = group == number
        rows = repeated & members
        rows = rows if rows.sum() >= LEAST_OF_GROUP else repeated
        df = runs.df[rows]
        prior = fit_prior(runs.squares[rows] / df, df, one_run)
        most_df = float(df.sum()) if len(df) >= LEAST_CATEGORIES else np.inf
        for column, value in zip(found, (*prior, most_df), strict=True):
            column[members] = value
    return found


def _widened(one_run: Prior, difference: Floats) -> Prior:
    """Widen the prior to what most categories differ by, where none has several runs.

    What differs as its neighbours do is how this cluster's runs vary, or one cause for all. A
    category that stands out from most others does not count: the spread is that of the middle half.
    """
    known = difference[np.isfinite(difference)]
    if len(known) < LEAST_CATEGORIES:
        return one_run
    spread = NORMAL_MAD * float(np.median(np.abs(known - np.median(known))))
    variance = min(spread**2 / 2, MOST_WIDENED**2 * one_run.variance)
    return Prior(max(one_run.variance, variance), one_run.df)


def fit_prior(variance: Floats, df: Ints, default: Prior) -> Prior:
    """Estimate the prior from the variances of the categories, by moments of their logarithms.

    ``variance``, (n_categories,): of the log values of each category. ``df``, (n_categories,):
    degrees of freedom of each variance, > 0. ``default``: for fewer than :data:`LEAST_CATEGORIES`
    categories, with their pooled variance where that is larger. Returns variance and degrees
    of freedom of Smyth (2004), section 6.2; the latter between :data:`LEAST_PRIOR_DF` and
    :data:`MOST_PRIOR_DF`.
    """
    if len(variance) < LEAST_CATEGORIES:
        squares = np.sort(variance * df)  # the sum then does not depend on their order
        pooled = float(np.sum(squares)) / max(int(df.sum()), 1)
        return Prior(max(default.variance, pooled), default.df)
    half = df / 2
    excess = np.log(np.maximum(variance, LEAST_SD**2)) - digamma(half) + np.log(half)
    excess.sort()  # the mean then does not depend on the order of categories
    spread = float(np.var(excess, ddof=1) - np.mean(polygamma(1, np.sort(half))))
    prior_df = np.array(2 * _trigamma_inverse(spread))
    level = np.mean(excess) + digamma(prior_df / 2) - np.log(prior_df / 2)
    return Prior(float(np.exp(level)), float(prior_df))


def t_quantile(tails: Sequence[float], df: Floats) -> Floats:
    """What Student's t exceeds with each probability of ``tails``: (n_tails, *shape of df)."""
    distinct, place = np.unique(df, return_inverse=True)
    found = -stdtrit(distinct, np.array(tails)[:, None])
    return np.asarray(found[:, place].reshape(len(tails), *np.shape(df)))


def _trigamma_inverse(value: float) -> float:
    """Argument at which the trigamma function has the value, within half the prior's df."""
    low, high = LEAST_PRIOR_DF / 2, MOST_PRIOR_DF / 2
    if value <= polygamma(1, high):
        return high
    for _ in range(60):  # the function falls; a halved interval ends at the last bit
        middle = (low + high) / 2
        low, high = (middle, high) if polygamma(1, middle) > value else (low, middle)
    return low


def adjusted(p: Floats) -> Floats:
    """Adjust p-values for their number: the rate of false discoveries at which each would be one.

    ``p``, (n,): NaN where there was no test; those do not count. Returns (n,), ≥ ``p``, NaN where
    ``p`` is (Benjamini & Hochberg 1995).
    """
    q = np.full(len(p), np.nan)
    tested = np.flatnonzero(np.isfinite(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    scaled = p[order] * (len(order) / np.arange(1, len(order) + 1))
    q[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return q


def _runs_needed(
    beyond: Floats, variance: Floats, prior_df: float, alpha: float, next_level: float
) -> Ints:
    """Runs a side with which a difference so far beyond (or, < 0, within) the margin is told."""
    runs = np.arange(1, MOST_RUNS_NEEDED + 1)
    df = np.asarray(prior_df + 2.0 * (runs - 1), np.float64)
    sure, changed, same = t_quantile((1 - POWER, next_level, alpha), df)
    errors = np.sqrt(2 / runs)
    as_changed, as_same = (changed + sure) * errors, (same + sure) * errors
    needed = np.full(len(beyond), MOST_RUNS_NEEDED, np.int64)
    with np.errstate(divide="ignore", invalid="ignore"):
        far = np.abs(beyond) / np.sqrt(variance)
    for required, where in ((as_changed, beyond > 0), (as_same, beyond <= 0)):
        # The required distance falls with the runs: count those with which it is too large.
        too_few = len(runs) - np.searchsorted(required[::-1], far[where], side="right")
        needed[where] = np.minimum(too_few + 1, MOST_RUNS_NEEDED)
    return needed
