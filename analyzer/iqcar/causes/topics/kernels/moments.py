"""Sums products of columns for many weightings of a job's tasks, in one visit: compiled."""

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

    Returns
    -------
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
