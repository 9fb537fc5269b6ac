"""Sums the copula of a metric and latency over a grid of exact ranks: compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from iqcar.causes.topics.kernels.ranks import Ranks, codes_by_rank
from iqcar.tables.arrays import Floats, Ints


def rank_bins(values: Floats, most: int) -> tuple[Ints, Floats, Floats]:
    """Put values into bins of equal ranks; one bin per distinct value where there are few.

    values: (tasks,) finite numbers.
    most: bins at most, up to 256.

    What is returned:
    (tasks,) bin of each value, in rising order.
    (bins,) share of the values up to and in each bin: F(x) of its largest value.
    (bins,) share of the values in each bin.
    """
    ranks = Ranks.from_metrics(values[:, None])
    codes, counts, upto, inside = codes_by_rank(ranks.order, ranks.ordered, most)
    bins = int(counts[0])
    return codes[0].astype(np.int64), upto[0, :bins], inside[0, :bins]


# Sums may be taken in any order, which lets the processor take several terms at a time.
@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _distance(below: Any, scale: Any, u: Any, v: Any, wv: Any) -> Any:
    total = 0.0
    for b in range(len(v)):
        total += wv[b] * abs(below[b] * scale - u * v[b])
    return total


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _bounds(below: Any, scale: Any, u: Any, v: Any, wv: Any) -> Any:
    total = 0.0
    for b in range(len(v)):
        high = u if u < v[b] else v[b]
        low = u + v[b] - 1.0
        total += wv[b] * (high + (low if low > 0.0 else 0.0) - 2.0 * (below[b] * scale))
    return total


@njit(cache=True, nogil=True)
def _count_from(below: Any) -> None:
    for b in range(len(below)):
        below[b] += 1.0


@njit(cache=True, nogil=True)
def _copula_distances(
    starts: Any, sorted_columns: Any, below: Any, u: Any, v: Any, wu: Any, wv: Any
) -> Any:
    """Mean distance of a copula from independence, and between its bounds.

    `sorted_columns` holds the columns of the tasks row by row; `starts` (n_rows + 1,) where each
    row begins.
    """
    scale = 1.0 / len(sorted_columns)
    distance, bounds = 0.0, 0.0
    below[:] = 0.0
    for a in range(len(u)):
        for i in range(starts[a], starts[a + 1]):
            _count_from(below[sorted_columns[i] :])
        distance += wu[a] * _distance(below, scale, u[a], v, wv)
        bounds += wu[a] * _bounds(below, scale, u[a], v, wv)
    return distance, bounds


@njit(cache=True, nogil=True)
def _by_row(rows: Any, columns: Any, starts: Any, sorted_columns: Any) -> None:
    """Put the columns in the order of their rows."""
    starts[:] = 0
    for i in range(len(rows)):
        starts[rows[i] + 1] += 1
    for a in range(1, len(starts)):
        starts[a] += starts[a - 1]
    for i in range(len(rows) - 1, -1, -1):
        # Filled from behind: what is left over are the starts again, moved by one.
        starts[rows[i] + 1] -= 1
        sorted_columns[starts[rows[i] + 1]] = columns[i]
    for a in range(len(starts) - 1):
        starts[a] = starts[a + 1]
    starts[len(starts) - 1] = len(rows)


@njit(cache=True, nogil=True)
def copula_distances(
    codes: Any, counts: Any, upto: Any, inside: Any, columns: Any, v: Any, wv: Any
) -> Any:
    """Distances of the copula of every metric with latency; 0 for a metric of one value.

    Shape (2, n_metrics). Mean of |C(u, v) − uv|, and L1 − L2 of the Fréchet–Hoeffding bounds (paper
    §3.1).

    codes, counts, upto, inside: as :func:`iqcar.causes.topics.kernels.ranks.codes_by_rank` returns.
    them columns: (tasks,) bin of each task's latency.
    v, wv: share up to and in each of these bins, and in each.
    """
    metrics, tasks = codes.shape
    found = np.zeros((2, metrics))
    below = np.empty(len(v))
    by_row = np.empty(tasks, np.int64)
    for j in range(metrics):
        bins = counts[j]
        if bins < 2:
            continue
        starts = np.empty(bins + 1, np.int64)
        _by_row(codes[j], columns, starts, by_row)
        found[0, j], found[1, j] = _copula_distances(
            starts, by_row, below, upto[j, :bins], v, inside[j, :bins], wv
        )
    return found
