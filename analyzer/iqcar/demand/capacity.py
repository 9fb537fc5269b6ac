"""Compute the best speed seen in each domain, and the cores of each host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iqcar.tables.arrays import most_at_once

if TYPE_CHECKING:
    import pandas as pd

    from iqcar.tables.arrays import Floats, Ints


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
