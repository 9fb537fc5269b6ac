"""Learns from one job all that topics need of its tasks.

A pure function of one job; jobs can be looked at in any order, anywhere, by any number of workers.
Two profiles say what a metric tells of the latency: its effect in a regression on all metrics, and
how far the stragglers are off from the other tasks.

Paper: Hound | §3.1, §5.2 | leaves it: regression and deviations for three base learners; MQD in
  interquartile ranges | tests/causes/topics/test_job_analysis.py
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from iqcar.causes.topics.jobs import TopicJob
from iqcar.tables.arrays import Flags, Floats, Ints, share_of

LEAST_KNOWN = 0.5
"""A metric that fewer of a job's tasks have is taken as unknown for the whole job."""
CLEAR = 2.0
"""Standard errors from which on a sign of a metric is one: by chance one in twenty is as large."""
PENALTIES = np.geomspace(1e-3, 10.0, 20)
"""Penalties of a regression that are tried, for metrics and latency of standard deviation 1."""
LEAST_FREE = 0.05
"""A regression is never taken to leave a smaller part of the tasks free: jobs can be small."""
OUTERMOST = 0.005
"""A wrong reading is off by orders of magnitude and rules a mean; stragglers are more than this."""
FEW_LEVELS = 16
"""Metrics of fewer values are counts: the rare large ones are what they tell."""
FARTHEST = 4.0
"""Standard deviations at which a deviation is cut off: one wrong reading is no more than this."""
NORMAL_QUARTILES = 1.3489795
"""Interquartile range of a normal distribution in its standard deviations."""
NOTHING = 1e-12
"""What rounding leaves of a constant, relative to its size."""


class Deviations(NamedTuple):
    """How far one job's stragglers are from its normal tasks, in every metric."""

    stragglers: NDArray[np.float32]
    """(stragglers, metrics) in robust standard deviations of the normal tasks, cut off."""
    normal: NDArray[np.float32]
    """(metrics, metrics) mean products of the normal tasks' deviations; about 1 with itself."""


@dataclass(frozen=True)
class JobAnalysis:
    """What was seen in one job.

    stage, app, query: rows; as of the job.
    tasks, stragglers: how many.
    delay_ms: what the stragglers took over the median, in all.
    profiles: (2, metrics) by regression and by deviations: how much each tells, below 0 where
        stragglers have less of it; the sizes of one sum to 1, or are all 0.
    p_value: (metrics,) of the rank-sum test of stragglers and others.
    quartile_difference: (metrics,) mean difference of their quartiles, in interquartile ranges.
    deviations: of the stragglers.
    """

    stage: int
    app: int
    query: int
    tasks: int
    stragglers: int
    delay_ms: float
    profiles: Floats
    p_value: Floats
    quartile_difference: Floats
    deviations: Deviations


def analyse_job(job: TopicJob, most_tasks: int | None = None) -> JobAnalysis:
    """Learn from one job what topics need of it.

    most_tasks: tasks to learn from at most, evenly chosen by latency; all by default.
    """
    chosen = np.arange(len(job.latency_ms))
    if most_tasks is not None and len(chosen) > most_tasks:
        chosen = np.linspace(0, len(chosen) - 1, most_tasks).astype(np.int64)
    slow = job.slow[chosen]
    metrics = known_values(job.metrics[chosen])
    ranked = Ranked.of(metrics, slow)
    p_value, difference = ranked.differences()
    deviations = ranked.deviations()
    off = deviations.stragglers.astype(np.float64).mean(axis=0)
    off_error = np.sqrt(np.diag(deviations.normal) / len(deviations.stragglers))
    effect, error = regression(ranked.standard(), np.log(job.latency_ms[chosen]))
    signs, errors = np.stack([effect, off]), np.stack([error, off_error])
    signs[np.abs(signs) <= CLEAR * errors] = 0.0
    return JobAnalysis(
        stage=job.stage,
        app=job.app,
        query=job.query,
        tasks=len(job.latency_ms),
        stragglers=int(job.slow.sum()),
        delay_ms=float((job.latency_ms - job.median_ms)[job.slow].sum()),
        profiles=share_of(signs, np.abs(signs).sum(axis=1, keepdims=True).repeat(len(metrics), 1)),
        p_value=p_value,
        quartile_difference=difference,
        deviations=deviations,
    )


def known_values(metrics: Floats) -> Floats:
    """Metrics of a job by rows, (metrics, tasks), with what is unknown filled in.

    metrics: (tasks, metrics); NaN where unknown. What is unknown takes the median of the job; a
        metric that most tasks lack is 0 for all: it cannot be a cause.
    """
    values = np.array(metrics.T, np.float64, order="C")
    unknown = np.isnan(values)
    values[unknown.sum(axis=1) > values.shape[1] * (1.0 - LEAST_KNOWN)] = 0.0
    for row in np.flatnonzero(np.isnan(values).any(axis=1)):
        known = np.sort(values[row, ~unknown[row]])
        low, high = known[(len(known) - 1) // 2], known[len(known) // 2]
        values[row, unknown[row]] = low / 2.0 + high / 2.0  # their sum could overflow
    return values


class Ranked(NamedTuple):
    """Rows of numbers of the same tasks, sorted once."""

    values: Floats
    """(rows, tasks) finite."""
    slow: Flags
    """(tasks,) the stragglers: some, but not all."""
    rising: Floats
    """(rows, tasks) values of each row, the smallest first."""
    high: Flags
    """(rows, tasks) which of those are of stragglers."""
    rank: Floats
    """(rows, tasks) from 1 on; equals have their mean."""
    ties: Floats
    """(rows,) Σ t³ − t over numbers of t equals."""

    @classmethod
    def of(cls, values: Floats, slow: Flags) -> Ranked:
        """Sort the rows."""
        order = np.argsort(values, axis=1, kind="stable")
        rising = np.take_along_axis(values, order, axis=1)
        tasks = np.arange(1, values.shape[1] + 1)
        last = np.ones(values.shape, bool)
        np.greater(rising[:, 1:], rising[:, :-1], out=last[:, :-1])
        ends = np.where(last, tasks, len(tasks))
        ends = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
        begins = np.zeros_like(ends)
        begins[:, 1:] = np.maximum.accumulate(np.where(last, tasks, 0), axis=1)[:, :-1]
        rank = np.empty(values.shape)
        np.put_along_axis(rank, order, (begins + ends + 1) / 2.0, axis=1)
        ties = ((ends - begins).astype(np.float64) ** 2 - 1.0).sum(axis=1)
        return cls(values, slow, rising, high=slow[order], rank=rank, ties=ties)

    def differences(self) -> tuple[Floats, Floats]:
        """How stragglers differ from other tasks in every row (§5.2).

        (rows,) two-sided p-values of Wilcoxon's rank-sum test, by the normal law, ties corrected.
        (rows,) MQD, the mean over the quartiles of the stragglers' less the others', in
        interquartile ranges of all tasks; in standard deviations where these are 0, in the row's
        unit where all values are the same.
        """
        n, k = len(self.slow), int(self.slow.sum())
        spread = k * (n - k) / 12.0 * (n + 1.0 - self.ties / (n * (n - 1.0)))
        beyond = np.abs(self.rank[:, self.slow].sum(axis=1) - k * (n + 1) / 2.0)
        z = share_of(beyond, np.sqrt(np.maximum(spread, 0.0)))
        p_value = np.array([math.erfc(one) for one in (z / math.sqrt(2.0)).tolist()])
        rows = len(self.values)
        slow = self.rising[self.high].reshape(rows, k)
        other = self.rising[~self.high].reshape(rows, n - k)
        whole = quartiles(self.rising)
        size = whole[2] - whole[0]
        largest = np.maximum(np.abs(self.rising[:, [0, -1]]).max(axis=1), NOTHING)
        deviation = (self.values / largest[:, None]).std(axis=1) * largest  # no square overflows
        size = np.where(size == 0, deviation, size)
        apart = (quartiles(slow) - quartiles(other)).mean(axis=0)
        return p_value, apart / np.where(size == 0, 1.0, size)

    def standard(self) -> Floats:
        """Rows with mean 0 and standard deviation 1, the outermost readings cut off.

        Shape (rows, tasks); zeros for a row of one value.
        """
        rising, tasks = self.rising, len(self.slow)
        low, high = rising[:, :1], rising[:, -1:]
        cut = max(math.ceil(OUTERMOST * tasks), 1)
        if tasks > 2 * cut:
            levels = (rising[:, 1:] > rising[:, :-1]).sum(axis=1, keepdims=True) + 1
            low = np.where(levels >= FEW_LEVELS, rising[:, [cut]], low)
            high = np.where(levels >= FEW_LEVELS, rising[:, [-1 - cut]], high)
        size = np.maximum(np.abs(low), np.abs(high))
        scaled = np.clip(self.values, low, high) / np.where(size > 0, size, 1.0)
        centred = scaled - scaled.mean(axis=1, keepdims=True)
        spread = centred.std(axis=1, keepdims=True)
        return np.where(spread > NOTHING, centred / np.maximum(spread, NOTHING), 0.0)

    def deviations(self) -> Deviations:
        """How far stragglers are from the normal tasks' medians.

        In robust standard deviations; plain ones where most are the same. Logarithms are compared
        where all numbers are positive.
        """
        rows = len(self.values), int((~self.slow).sum())
        first, last = self.rising[:, :1], self.rising[:, -1:]
        largest, positive = np.maximum(np.abs(first), np.abs(last)), first > 0

        def scaled(values: Floats) -> Floats:
            plain = values / np.where(largest > 0, largest, 1.0)  # so that nothing overflows
            found: Floats = np.where(positive, np.log(np.where(positive, values, 1.0)), plain)
            return found

        normal = scaled(self.rising[~self.high].reshape(rows))
        low, middle, high = quartiles(normal)[..., None]
        nothing = NOTHING * np.abs(normal[:, [0, -1]]).max(axis=1, keepdims=True)
        width = (high - low) / NORMAL_QUARTILES
        width = np.where(high - low > nothing, width, normal.std(axis=1, keepdims=True))
        off, spreads = scaled(self.values) - middle, width * NORMAL_QUARTILES > nothing
        alike = np.where(np.abs(off) > nothing, np.sign(off) * FARTHEST, 0.0)
        off = np.where(spreads, off / np.where(spreads, width, 1.0), alike)
        off = np.clip(off, -FARTHEST, FARTHEST)
        rest = off[:, ~self.slow]
        products = rest @ rest.T / rest.shape[1]
        return Deviations(off[:, self.slow].T.astype(np.float32), products.astype(np.float32))


def quartiles(rising: Floats) -> Floats:
    """Lower quartile, median and upper quartile of each row: (3, rows), between nearest values."""
    last = rising.shape[1] - 1
    place = last * np.array([0.25, 0.5, 0.75])
    below = place.astype(np.int64)
    above: Ints = np.minimum(below + 1, last)
    low, high = rising[:, below], rising[:, above]
    found: Floats = (low + (high - low) * (place - below)).T
    return found


def regression(metrics: Floats, latency: Floats) -> tuple[Floats, Floats]:
    """Effect of every metric on the latency, the others held, and its standard error: (metrics,).

    A ridge regression, so that metrics that are nearly the same share what they tell; its penalty
    is the best by generalised cross-validation.

    metrics: (metrics, tasks) of mean 0 and standard deviation 1, or all 0.
    latency: (tasks,).
    """
    tasks = len(latency)
    response = (latency - latency.mean()) / max(float(latency.std()), NOTHING)
    spread, axes = np.linalg.eigh(metrics @ metrics.T / tasks)
    spread = np.maximum(spread, 0.0)
    along = axes.T @ (metrics @ response) / tasks
    shrunk = spread + PENALTIES[:, None]
    told = (along**2 * (2.0 * shrunk - spread) / shrunk**2).sum(axis=1)
    free = (spread / shrunk).sum(axis=1) / tasks
    best = int(np.argmin((1.0 - told) / np.maximum(1.0 - free - 1.0 / tasks, NOTHING) ** 2))
    noise = (1.0 - told[best]) / max(1.0 - float(free[best]), LEAST_FREE) / tasks
    error = np.sqrt(np.maximum(noise, 0.0) * (axes**2 @ (spread / shrunk[best] ** 2)))
    return np.where(metrics.any(axis=1), axes @ (along / shrunk[best]), 0.0), error
