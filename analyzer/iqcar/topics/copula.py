"""The copula of a metric and latency, summed over a grid of exact ranks: compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Rows = NDArray[np.int64]


def rank_bins(values: Floats, most: int) -> tuple[Rows, Floats, Floats]:
    """Put values into bins of equal ranks; one bin per distinct value where there are few.

    Parameters
    ----------
    values : (tasks,) finite numbers
    most : bins at most

    Returns
    -------
    (tasks,) bin of each value, in rising order
    (bins,) share of the values up to and in each bin: F(x) of its largest value
    (bins,) share of the values in each bin
    """
    _, level, count = np.unique(values, return_inverse=True, return_counts=True)
    upto = np.cumsum(count)
    of_level = np.arange(len(count))
    if len(count) > most:
        _, of_level = np.unique((upto * most + len(values) - 1) // len(values), return_inverse=True)
    inside = np.bincount(of_level, weights=count) / len(values)
    share = np.minimum(np.cumsum(inside), 1.0)
    share[-1] = 1.0
    return of_level[level].astype(np.int64), share, inside


@njit(cache=True, nogil=True)
def copula_distances(rows: Any, columns: Any, u: Any, v: Any, wu: Any, wv: Any) -> Any:
    """Mean distances of the copula from independence, and between its bounds.

    Parameters
    ----------
    rows, columns : (tasks,) bins of the two variables
    u, v : shares up to and in each bin
    wu, wv : shares in each bin

    Returns
    -------
    tuple of float
        Mean of |C(u, v) − uv|, and L1 − L2 of the Fréchet–Hoeffding bounds (paper §3.1).
    """
    tasks = len(rows)
    count = np.zeros((len(u), len(v)))
    for i in range(tasks):
        count[rows[i], columns[i]] += 1.0
    distance = 0.0
    bounds = 0.0
    below = np.zeros(len(v))
    for a in range(len(u)):
        running = 0.0
        row = count[a]
        for b in range(len(v)):
            running += row[b]
            below[b] += running
        for b in range(len(v)):
            copula = below[b] / tasks
            weight = wu[a] * wv[b]
            distance += weight * abs(copula - u[a] * v[b])
            low = max(u[a] + v[b] - 1.0, 0.0)
            bounds += weight * (min(u[a], v[b]) + low - 2.0 * copula)
    return distance, bounds
