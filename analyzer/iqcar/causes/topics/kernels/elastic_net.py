"""Fits thousands of small ElasticNets to second moments of a job, resampled: compiled."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Counts = NDArray[np.uint16]

MOST_TASKS = 2048
"""Draws for jobs of more tasks are not kept: there are few such jobs."""
MOST_SIZES = 512
"""Sizes of jobs whose draws are kept at most: some 30 MB in all, jobs being mostly small."""


def folds_and_draws(tasks: int, folds: int, replicates: int, seed: int) -> Counts:
    """How often each task counts in each fold and in each replicate.

    Shape (folds + replicates, tasks) read-only.

    seed: the same for all jobs: those of as many tasks get the same draws.
    """
    draw = _kept if tasks <= MOST_TASKS else _drawn
    return draw(tasks, folds, replicates, seed)


def _drawn(tasks: int, folds: int, replicates: int, seed: int) -> Counts:
    fold = np.arange(tasks) % folds
    within = fold == np.arange(folds)[:, None]
    drawn = np.random.default_rng(seed).multinomial(
        tasks, np.full(tasks, 1.0 / tasks), size=replicates
    )
    counts = np.concatenate([within, drawn]).astype(np.uint16)
    counts.setflags(write=False)
    return counts


_kept = lru_cache(MOST_SIZES)(_drawn)


AT_ONCE = 16
"""Tasks whose products are held at once: with 20 metrics they fit the processor's first cache."""


@njit(cache=True, nogil=True)
def _add(into: Any, row: Any, weight: Any) -> None:
    for k in range(len(into)):
        into[k] += weight * row[k]


@njit(cache=True, nogil=True)
def _add_four(
    into: Any, a: Any, b: Any, c: Any, d: Any, wa: Any, wb: Any, wc: Any, wd: Any
) -> None:
    for k in range(len(into)):
        into[k] += (wa * a[k] + wb * b[k]) + (wc * c[k] + wd * d[k])


@njit(cache=True, nogil=True)
def _products(row: Any, into: Any) -> None:
    k = 0
    for i in range(len(row)):
        for j in range(i, len(row)):
            into[k] = row[i] * row[j]
            k += 1


@njit(cache=True, nogil=True)
def second_moments(values: Any, weights: Any) -> Any:
    """Weighted sums of products of columns, for many weightings at once.

    Shape (weightings, columns, columns).

    values: (tasks, columns).
    weights: (weightings, tasks); many are 0 in folds and bootstrap replicates, and cost nothing.
    """
    tasks, columns = values.shape
    products = np.empty((AT_ONCE, columns * (columns + 1) // 2))
    sums = np.zeros((len(weights), products.shape[1]))
    some = np.empty(AT_ONCE, np.int64)
    for start in range(0, tasks, AT_ONCE):
        count = min(AT_ONCE, tasks - start)
        for t in range(count):
            _products(values[start + t], products[t])
        for w in range(len(weights)):
            weight = weights[w, start : start + count]
            n = 0
            for t in range(count):
                some[n] = t
                n += weight[t] != 0
            for i in range(0, n - 3, 4):
                a, b, c, d = some[i], some[i + 1], some[i + 2], some[i + 3]
                _add_four(
                    sums[w], products[a], products[b], products[c], products[d],
                    float(weight[a]), float(weight[b]), float(weight[c]), float(weight[d]),
                )  # fmt: skip
            for i in range(n - n % 4, n):
                _add(sums[w], products[some[i]], float(weight[some[i]]))
    moments = np.empty((len(weights), columns, columns))
    for w in range(len(weights)):
        k = 0
        for i in range(columns):
            for j in range(i, columns):
                moments[w, i, j] = sums[w, k]
                moments[w, j, i] = sums[w, k]
                k += 1
    return moments


@njit(cache=True, nogil=True)
def covariances(moments: Any) -> Any:
    """Covariances of the metrics, and of metrics with latency.

    moments: (weightings, columns, columns) of a column of ones, metrics, and latency.

    What is returned:
    (weightings, metrics, metrics).
    (weightings, metrics).
    """
    weightings, columns, _ = moments.shape
    metrics = columns - 2
    gram = np.empty((weightings, metrics, metrics))
    cross = np.empty((weightings, metrics))
    for w in range(weightings):
        count = moments[w, 0, 0]
        mean = moments[w, 0] / count
        for i in range(metrics):
            row = moments[w, i + 1]
            for j in range(metrics):
                gram[w, i, j] = row[j + 1] / count - mean[i + 1] * mean[j + 1]
            cross[w, i] = row[metrics + 1] / count - mean[i + 1] * mean[metrics + 1]
    return gram, cross


@njit(cache=True, nogil=True)
def products_about(tests: Any, outside: Any) -> Any:
    """Mean products of metrics and latency in each fold about the means outside it.

    Shape (folds, columns − 1, columns − 1).

    tests, outside: (folds, columns, columns) second moments of a fold, and of what is not in it.
    """
    folds, columns, _ = tests.shape
    found = np.empty((folds, columns - 1, columns - 1))
    for f in range(folds):
        count = tests[f, 0, 0]
        inside = tests[f, 0] / count
        mean = outside[f, 0] / outside[f, 0, 0]
        for i in range(1, columns):
            for j in range(1, columns):
                cross = inside[i] * mean[j] + inside[j] * mean[i]
                found[f, i - 1, j - 1] = tests[f, i, j] / count - cross + mean[i] * mean[j]
    return found


MAX_SWEEPS = 500
"""Sweeps over all coefficients at most; with what is solved between them one or two will do."""
TOLERANCE = 1e-6
"""A sweep that moves no coefficient by more than this, in standard deviations, is the last."""


@njit(cache=True, nogil=True)
def _take_off(row: Any, step: Any, gradient: Any) -> None:
    for k in range(len(row)):
        gradient[k] -= row[k] * step


@njit(cache=True, nogil=True)
def _sweep(gram: Any, cross: Any, lasso: Any, ridge: Any, coef: Any, gradient: Any) -> Any:
    """Set one coefficient after the other to its best; says how far the furthest moved."""
    moved = 0.0
    for j in range(len(coef)):
        own = gram[j, j]
        if own <= 0.0:
            continue
        old = coef[j]
        wanted = gradient[j] + own * old
        new = 0.0
        if wanted > lasso:
            new = (wanted - lasso) / (own + ridge)
        elif wanted < -lasso:
            new = (wanted + lasso) / (own + ridge)
        step = new - old
        if step != 0.0:
            coef[j] = new
            _take_off(gram[j], step, gradient)
            moved = max(moved, abs(step))
    return moved


@njit(cache=True, nogil=True)
def _solve(
    gram: Any, cross: Any, lasso: Any, ridge: Any, coef: Any, some: Any, root: Any, b: Any
) -> Any:
    """Go towards the best values of the coefficients that are not 0, until one of them is.

    Their signs given, the best values are the solution of linear equations. Whether none became 0:
    then `coef` are the best values of these coefficients.
    """
    size = 0
    for j in range(len(coef)):
        if coef[j] != 0.0:
            some[size] = j
            size += 1
    for m in range(size):  # Cholesky's root of the gram matrix, and forward substitution
        i = some[m]
        total = cross[i] - (lasso if coef[i] > 0.0 else -lasso)
        for n in range(m):
            product = gram[i, some[n]]
            for k in range(n):
                product -= root[m, k] * root[n, k]
            product /= root[n, n]
            root[m, n] = product
            total -= product * b[n]
        square = gram[i, i] + ridge
        for k in range(m):
            square -= root[m, k] * root[m, k]
        if square <= 0.0:
            return True
        root[m, m] = np.sqrt(square)
        b[m] = total / root[m, m]
    reach, blocking = 1.0, -1
    for m in range(size - 1, -1, -1):
        b[m] /= root[m, m]
        for n in range(m):
            b[n] -= root[m, n] * b[m]
        old = coef[some[m]]
        if not b[m] * old > 0.0 and old / (old - b[m]) < reach:
            reach, blocking = old / (old - b[m]), m
    for m in range(size):
        coef[some[m]] += reach * (b[m] - coef[some[m]])
    if blocking >= 0:
        coef[some[blocking]] = 0.0
    return blocking < 0


@njit(cache=True, nogil=True)
def _descend(
    gram: Any, cross: Any, lasso: Any, ridge: Any, coef: Any, gradient: Any, some: Any, root: Any,
    b: Any,
) -> None:  # fmt: skip
    """Minimise ½ b'Gb − c'b + lasso·‖b‖₁ + ½ ridge·‖b‖², starting from `coef`, in place.

    Sweeps alone take very long where metrics are nearly the same. They only have to tell which
    coefficients are not 0, and their signs: those are solved for, and the next sweep tells
    whether others have to move, too.
    """
    for _ in range(MAX_SWEEPS):
        while not _solve(gram, cross, lasso, ridge, coef, some, root, b):
            pass
        gradient[:] = cross
        for j in range(len(coef)):
            if coef[j] != 0.0:
                _take_off(gram[j], coef[j], gradient)
        if _sweep(gram, cross, lasso, ridge, coef, gradient) <= TOLERANCE:
            return


@njit(cache=True, nogil=True)
def path_errors(grams: Any, crosses: Any, tests: Any, penalties: Any, ratio: Any) -> Any:
    """Squared error on each fold of a path of penalties, fitted on what is not in the fold.

    Shape (folds, penalties) mean squared errors.

    grams, crosses: (folds, metrics, metrics), (folds, metrics) second moments of the tasks outside
        each fold, centred there.
    tests: (folds, metrics + 1, metrics + 1) second moments of the fold's metrics and latency (last)
        about the means outside it.
    penalties: (penalties,) falling.
    ratio: share of the penalty that is lasso's.
    """
    folds, metrics = crosses.shape
    errors = np.empty((folds, len(penalties)))
    gradient, b, root = np.empty(metrics), np.empty(metrics), np.empty((metrics, metrics))
    some = np.empty(metrics, np.int64)
    for f in range(folds):
        coef = np.zeros(metrics)
        moments = tests[f]
        for p in range(len(penalties)):
            penalty = penalties[p]
            lasso, ridge = penalty * ratio, penalty * (1.0 - ratio)
            _descend(grams[f], crosses[f], lasso, ridge, coef, gradient, some, root, b)
            error = moments[metrics, metrics]
            for j in range(metrics):
                if coef[j] != 0.0:
                    about = -2.0 * moments[j, metrics]
                    for k in range(metrics):
                        about += coef[k] * moments[j, k]
                    error += coef[j] * about
            errors[f, p] = error
    return errors


@njit(cache=True, nogil=True)
def fit_each(grams: Any, crosses: Any, penalty: Any, ratio: Any) -> Any:
    """Coefficients of each replicate, (replicates, metrics), at one penalty."""
    replicates, metrics = crosses.shape
    coefs = np.zeros((replicates, metrics))
    gradient, b, root = np.empty(metrics), np.empty(metrics), np.empty((metrics, metrics))
    some = np.empty(metrics, np.int64)
    lasso, ridge = penalty * ratio, penalty * (1.0 - ratio)
    for i in range(replicates):
        if i > 0:
            coefs[i] = coefs[i - 1]
        _descend(grams[i], crosses[i], lasso, ridge, coefs[i], gradient, some, root, b)
    return coefs
