"""Find out how many processors each host has."""

from __future__ import annotations

import numpy as np

from iqcar.tables import Tables
from iqcar.tables.arrays import Flags, Floats, most_at_once


def cores_of_hosts(tables: Tables) -> tuple[Floats, Flags]:
    """Return the processors of each host, and whether they were measured.

    Returns
    -------
    cores : ndarray of shape (n_hosts,), float64
        From samples of the host; else as many as tasks that ran there at once, at least one: Spark
        is mostly told to run one task per processor.
    measured : ndarray of shape (n_hosts,), bool
    """
    n = len(tables.hosts)
    samples = tables.samples
    host = samples["host"].to_numpy(np.int64)
    seen = samples["cores"].to_numpy(np.float64)
    limit = samples["cgroup_cpus"].to_numpy(np.float64)
    seen = np.fmin(seen, np.where(limit > 0, limit, np.nan))
    known = (host >= 0) & (seen > 0)
    cores = np.zeros(n)
    np.maximum.at(cores, host[known], seen[known])
    measured = cores > 0
    tasks = tables.tasks
    launch, finish = (tasks[c].to_numpy(np.float64) for c in ("launch_ms", "finish_ms"))
    at = tasks["host"].to_numpy(np.int64)
    ran = np.isfinite(launch + finish) & (at >= 0)
    most = most_at_once(at[ran], launch[ran], finish[ran], np.ones(int(ran.sum())), n)
    return np.where(measured, cores, np.maximum(most, 1.0)), measured
