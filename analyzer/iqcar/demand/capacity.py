"""Estimate the capacity of each host for a request without contention (``C_h`` of iQCAR)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iqcar.tables.arrays import most_at_once, share_of, sum_by

if TYPE_CHECKING:
    import pandas as pd

    from iqcar.tables.arrays import Flags, Floats, Ints

CAPACITY_QUANTILE = 0.9
"""Quantile of the tasks' speeds, weighted by their time in the resource, that is the capacity.
Higher values follow contention-free tasks better but include page-cache reads: reads at memory
speed take so little time that they weigh 10 % only if they are most of all bytes.
"""
UNCROWDED_QUANTILE = 0.7
"""The quantile if crowding fully explains the speeds: their remaining variation is noise."""
LEAST_VARIATION = 1e-4
"""Variance of log(1 + crowd) from which on γ is fitted."""
ENOUGH_BYTES = 65536.0
"""Bytes below which latency dominates a speed (one small block)."""
ENOUGH_MS = 2.0
"""Waits below this are rounding: Spark reports whole milliseconds."""
ENOUGH_TASKS = 8
"""Tasks a host needs before its own speeds set its capacity; else all hosts together do."""


class Capacity(NamedTuple):
    """Capacity of each host for one request.

    Attributes
    ----------
    per_host : ndarray of shape (n_hosts,), data units per ms
        NaN where no task on any host moved data for this request.
    borrowed : ndarray of shape (n_hosts,), bool
        Whether the host had too few tasks, so that its capacity is that of all hosts together.
    tasks : int
        Number of tasks that the estimate is based on, over all hosts.
    """

    per_host: Floats
    borrowed: Flags
    tasks: int


def host_capacity(
    data: Floats, wait_ms: Floats, host: Ints, n_hosts: int, crowd: Floats | None = None
) -> Capacity:
    """Estimate each host's capacity from the speeds of its tasks (paper §4.1, ``1/RATP_h``).

    No task reaches the capacity of a device that is always contended. Where speeds fall as
    ``(1 + crowd)^−γ``, they are scaled to an uncontended device; where they do not (γ = 0: each
    task has its own limit, as with object stores), they are used unchanged.

    Parameters
    ----------
    data : ndarray of shape (n_tasks,), bytes
        Data each task moved; NaN if unknown.
    wait_ms : ndarray of shape (n_tasks,), ms
        Time each task spent in the resource; NaN if unknown.
    host : ndarray of shape (n_tasks,), int64
        Host row; −1 if unknown.
    n_hosts : int
        Number of hosts.
    crowd : ndarray of shape (n_tasks,), optional
        Mean number of other tasks in the resource during each task; by default unknown.

    Returns
    -------
    Capacity
        A time-weighted quantile of DP / WT over tasks with enough data.
    """
    moved = (data > 0) & (wait_ms > 0)
    enough = moved & (data >= ENOUGH_BYTES) & (wait_ms >= ENOUGH_MS)
    chosen = np.flatnonzero(enough if enough.any() else moved)
    per_host = np.full(n_hosts, np.nan)
    borrowed = np.ones(n_hosts, dtype=bool)
    if len(chosen) == 0:
        return Capacity(per_host, borrowed, 0)
    speed, weight, place = data[chosen] / wait_ms[chosen], wait_ms[chosen], host[chosen]
    others = np.zeros(len(chosen)) if crowd is None else np.log1p(crowd[chosen])
    gamma = _slowed_by_crowding(np.log(speed), others, weight, place)
    speed = speed * np.exp(gamma * others)
    quantile = CAPACITY_QUANTILE - gamma * (CAPACITY_QUANTILE - UNCROWDED_QUANTILE)
    order = np.argsort(speed, kind="stable")
    speed, weight, place = speed[order], weight[order], place[order]
    per_host[:] = weighted_quantile(speed, weight, quantile)
    by_host = np.argsort(place, kind="stable")
    bounds = np.searchsorted(place[by_host], np.arange(n_hosts + 1))
    for row, (first, after) in enumerate(itertools.pairwise(bounds)):
        if after - first >= ENOUGH_TASKS:
            here = by_host[first:after]
            per_host[row] = weighted_quantile(speed[here], weight[here], quantile)
            borrowed[row] = False
    return Capacity(per_host, borrowed, len(chosen))


def _slowed_by_crowding(log_speed: Floats, others: Floats, weight: Floats, host: Ints) -> float:
    """Fit γ of ``speed ~ (1 + crowd)^−γ`` within hosts; 0 (alone) to 1 (equal sharing)."""
    if len(host) < ENOUGH_TASKS:
        return 0.0
    place = host - host.min()
    n = int(place.max()) + 1
    mass = sum_by(place, weight, n)

    def around_host_mean(values: Floats) -> Floats:
        mean: Floats = share_of(sum_by(place, values * weight, n), mass)[place]
        return np.subtract(values, mean)

    x, y = around_host_mean(others), around_host_mean(log_speed)
    variance = float((weight * x * x).sum() / weight.sum())
    if variance < LEAST_VARIATION:
        return 0.0
    return float(np.clip(-(weight * x * y).sum() / (weight * x * x).sum(), 0.0, 1.0))


def weighted_quantile(ascending: Floats, weight: Floats, quantile: float) -> float:
    """Return the first of the ascending values where cumulative weight reaches this share."""
    reached = np.cumsum(weight)
    at = np.searchsorted(reached, quantile * reached[-1])
    return float(ascending[min(int(at), len(ascending) - 1)])


def best_seen(data: Floats, wait_ms: Floats, domain: Ints, n_domains: int) -> Floats:
    """Return the highest DP / WT in each domain, as eq. 3 is printed; NaN where there is none."""
    moved = np.flatnonzero((data > 0) & (wait_ms > 0) & (domain >= 0))
    best = np.full(n_domains, -np.inf)
    np.maximum.at(best, domain[moved], data[moved] / wait_ms[moved])
    return np.where(np.isfinite(best), best, np.nan)


def of_domain(per_domain: Floats, domain: Ints) -> Floats:
    """Return the value of each task's domain; NaN where it has none."""
    if len(per_domain) == 0:
        return np.full(len(domain), np.nan)
    return np.where(domain >= 0, per_domain[np.maximum(domain, 0)], np.nan)


def host_cores(executors: pd.DataFrame, hosts: int) -> Floats:
    """Return the cores of each host: the maximum that its executors offered at one time.

    NaN where a host has no executor, or one whose cores are not recorded. A host can have more or
    fewer cores than its executors offer: event logs do not record them.
    """
    host = executors["host"].to_numpy(np.int64)
    cores = executors["cores"].to_numpy(np.float64)
    added = executors["added_ms"].to_numpy(np.float64)
    removed = executors["removed_ms"].to_numpy(np.float64)
    there = (host >= 0) & (host < hosts)
    known = there & (cores > 0)
    since = np.where(np.isfinite(added), added, -np.inf)
    until = np.where(np.isfinite(removed), np.maximum(removed, since), np.inf)
    most = most_at_once(host[known], since[known], until[known], cores[known], hosts)
    unknown = np.bincount(host[there & ~known], minlength=hosts) > 0
    cores_of_host: Floats = np.where(unknown | (most <= 0), np.nan, most)
    return cores_of_host
