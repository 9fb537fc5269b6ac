"""Sums of products of columns for many weightings of a job's tasks, in one visit: compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def _add(into: Any, row: Any, weight: Any) -> None:
    for k in range(len(into)):
        into[k] += weight * row[k]


@njit(cache=True, nogil=True)
def second_moments(values: Any, weights: Any) -> Any:
    """Weighted sums of products of columns, for many weightings at once.

    Parameters
    ----------
    values : (tasks, columns)
    weights : (weightings, tasks); many are 0 in folds and bootstrap replicates, and cost nothing

    Returns
    -------
    (weightings, columns, columns)
    """
    tasks, columns = values.shape
    products = np.empty(columns * (columns + 1) // 2)
    sums = np.zeros((len(weights), len(products)))
    for t in range(tasks):
        k = 0
        for i in range(columns):
            for j in range(i, columns):
                products[k] = values[t, i] * values[t, j]
                k += 1
        for w in range(len(weights)):
            weight = weights[w, t]
            if weight != 0.0:
                _add(sums[w], products, weight)
    whole = np.empty((len(weights), columns, columns))
    for w in range(len(weights)):
        k = 0
        for i in range(columns):
            for j in range(i, columns):
                whole[w, i, j] = sums[w, k]
                whole[w, j, i] = sums[w, k]
                k += 1
    return whole
