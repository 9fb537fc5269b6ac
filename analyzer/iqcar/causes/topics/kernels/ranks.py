"""Sorts every metric of a job once; computes its ranks, bins, medians and cuts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from iqcar.tables.arrays import Floats, Ints

LEAST_KNOWN = 0.5
"""A metric that fewer of a job's tasks have is taken as unknown for the whole job."""


@dataclass(frozen=True)
class Ranks:
    """A job's metrics, metric by metric, and their order.

    values: (metrics, tasks) finite.
    order: (metrics, tasks) tasks from the smallest value to the largest.
    ordered: (metrics, tasks) values in that order.
    """

    values: Floats
    order: Ints
    ordered: Floats

    @classmethod
    def from_metrics(cls, metrics: Floats) -> Ranks:
        """Sort the metrics of a job, and fill in what is unknown.

        metrics: (tasks, metrics); NaN where unknown. What is unknown takes the median of the job; a
            metric that most tasks lack is 0 for all: it cannot be a cause.
        """
        values = np.array(metrics.T, np.float64, order="C")
        order = np.argsort(values, axis=1)
        ordered = np.empty_like(values)
        _fill(values, order, ordered, LEAST_KNOWN)
        return cls(values, order, ordered)


@njit(cache=True, nogil=True)
def _fill(values: Any, order: Any, ordered: Any, least_known: Any) -> None:
    """Put the median where there is NaN, which is last in the order, and move it to its place."""
    metrics, tasks = values.shape
    lacking = np.empty(tasks, order.dtype)
    for j in range(metrics):
        row, sort, into = values[j], order[j], ordered[j]
        known = tasks
        while known > 0 and np.isnan(row[sort[known - 1]]):
            known -= 1
        missing = tasks - known
        if missing > tasks * (1.0 - least_known):
            row[:] = 0.0
            into[:] = 0.0
            continue
        for i in range(known):
            into[i] = row[sort[i]]
        if missing == 0:
            continue
        half = known // 2
        low = into[half] if known % 2 else into[half - 1]
        middle = low / 2.0 + into[half] / 2.0
        for i in range(missing):
            lacking[i] = sort[known + i]
            row[lacking[i]] = middle
        # An odd one out at the median may stand on either side of its equals.
        for i in range(known - 1, half - 1, -1):
            sort[i + missing] = sort[i]
            into[i + missing] = into[i]
        for i in range(missing):
            sort[half + i] = lacking[i]
            into[half + i] = middle


@njit(cache=True, nogil=True)
def codes_by_rank(order: Any, ordered: Any, most: Any) -> Any:
    """Put the tasks into bins of equal ranks; one bin per distinct value where there are few.

    order, ordered: (metrics, tasks) as of `Ranks`.
    most: bins at most, up to 256.

    What is returned:
    (metrics, tasks) uint8, bin of each task, in rising order.
    (metrics,) how many bins there are.
    (metrics, most) share of the tasks up to and in each bin; 1 beyond the last.
    (metrics, most) share of the tasks in each bin; 0 beyond the last.
    """
    metrics, tasks = ordered.shape
    codes = np.empty((metrics, tasks), np.uint8)
    counts = np.zeros(metrics, np.int64)
    upto = np.ones((metrics, most))
    inside = np.zeros((metrics, most))
    for j in range(metrics):
        row, sort = ordered[j], order[j]
        levels = 1
        for i in range(1, tasks):
            if row[i] > row[i - 1]:
                levels += 1
        bin_ = -1
        before = -1
        start = 0
        while start < tasks:
            end = start + 1
            while end < tasks and row[end] == row[start]:
                end += 1
            this = (end * most + tasks - 1) // tasks if levels > most else end
            if this != before:
                bin_ += 1
                before = this
            for i in range(start, end):
                codes[j, sort[i]] = bin_
            upto[j, bin_] = end / tasks
            inside[j, bin_] += (end - start) / tasks
            start = end
        counts[j] = bin_ + 1
    return codes, counts, upto, inside


@njit(cache=True, nogil=True)
def two_means_cuts(ordered: Any, least_side: Any) -> Any:
    """Largest value of the lower of two clusters of every metric, with the least spread inside.

    Shape (metrics,) cuts.

    ordered: (metrics, tasks) rising.
    least_side: smallest share of the tasks in either cluster, where there is such a cut.
    """
    metrics, tasks = ordered.shape
    cuts = np.empty(metrics)
    sums = np.empty(tasks)
    for j in range(metrics):
        row = ordered[j]
        size = max(abs(row[0]), abs(row[tasks - 1]))
        if size == 0.0:
            size = 1.0
        running = 0.0
        for i in range(tasks):
            running += row[i] / size
            sums[i] = running
        cuts[j] = row[tasks - 1]
        best, balanced = -1.0, 0.0
        at, at_balanced = 0, -1
        for i in range(tasks - 1):
            lower = i + 1.0
            upper = tasks - lower
            between = -1.0
            if row[i + 1] / size > row[i] / size:
                gap = sums[i] / lower - (running - sums[i]) / upper
                between = gap * gap * lower * upper
            if between > best:
                best, at = between, i
            if between > balanced and min(lower, upper) >= least_side * tasks:
                balanced, at_balanced = between, i
        if tasks > 1:
            cuts[j] = row[at_balanced if at_balanced >= 0 else at]
    return cuts


@njit(cache=True, nogil=True)
def medians(ordered: Any) -> Any:
    """Median of every metric, (metrics,); `ordered` (metrics, tasks) rising."""
    half = ordered.shape[1] // 2
    low = half if ordered.shape[1] % 2 else half - 1
    return ordered[:, low] / 2.0 + ordered[:, half] / 2.0


@njit(cache=True, nogil=True)
def sides(values: Any, cuts: Any, at_median: Any) -> Any:
    """Which values are high, (metrics, tasks) of −1 and 1.

    values: (metrics, tasks).
    cuts: (metrics,) a value above is high.
    at_median: whether a value at the cut is high, too, where none is above it.
    """
    metrics, tasks = values.shape
    high = np.empty((metrics, tasks))
    for j in range(metrics):
        row, cut = values[j], cuts[j]
        above = 0
        for i in range(tasks):
            above += row[i] > cut
        for i in range(tasks):
            up = row[i] >= cut if at_median and above == 0 else row[i] > cut
            high[j, i] = 1.0 if up else -1.0
    return high


@njit(cache=True, nogil=True)
def standard_rows(values: Any, ordered: Any, outermost: Any, few_levels: Any) -> Any:
    """Metrics with mean 0 and standard deviation 1, the outermost readings cut off.

    Shape (metrics, tasks) zeros for a metric of one value.

    values, ordered: (metrics, tasks) as of `Ranks`.
    outermost: share of the readings at either end, at least one, that count as the next one inside;
        0 leaves them as they are.
    few_levels: metrics of fewer values are left as they are.
    """
    metrics, tasks = values.shape
    found = np.zeros((metrics, tasks))
    cut = max(int(np.ceil(outermost * tasks)), 1)
    for j in range(metrics):
        row, rising, into = values[j], ordered[j], found[j]
        low, high = rising[0], rising[tasks - 1]
        if outermost > 0 and tasks > 2 * cut:
            levels = 1
            for i in range(1, tasks):
                levels += rising[i] > rising[i - 1]
            if levels >= few_levels:
                low, high = rising[cut], rising[tasks - 1 - cut]
        size = max(abs(low), abs(high))
        if size == 0.0:
            continue
        total = 0.0
        for i in range(tasks):
            value = row[i] if row[i] > low else low
            into[i] = (value if value < high else high) / size
            total += into[i]
        mean = total / tasks
        square = 0.0
        for i in range(tasks):
            into[i] -= mean
            square += into[i] * into[i]
        spread = np.sqrt(square / tasks)
        # What rounding leaves of a constant is no spread.
        scale = 1.0 / spread if spread > 1e-12 else 0.0
        for i in range(tasks):
            into[i] *= scale
    return found
