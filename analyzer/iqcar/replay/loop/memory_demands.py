"""Estimates how much execution memory each task wants, and how much each application has on a host.

A task wants what it held at most (measured by the plugin, else Spark's peak) and what it spilled.
An executor has what Spark's settings leave: a fraction of the heap less a reserve (Spark's
UnifiedMemoryManager), or its memory off the heap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from iqcar.enums import Request
from iqcar.model.waits.columns import MISSING, evidence_column, wait_column
from iqcar.model.waits.executor_memory import memory_of_executor
from iqcar.tables import Tables
from iqcar.tables.arrays import Floats, known_or_zero, most_at_once, positive_or_zero

LEAST_SHARE = 0.01
"""Share of all tasks' time that tasks waited for memory, from which it is worth a model."""


@dataclass(frozen=True)
class MemoryDemands:
    """Execution memory; rows of tasks and applications as in the tables.

    wanted: (n_tasks,), bytes.
    waited: (n_tasks,), ms; waits for it.
    capacity: (n_applications, n_hosts), bytes.
    """

    wanted: Floats
    waited: Floats
    capacity: Floats


def memory_demands(tables: Tables, waits: pd.DataFrame) -> MemoryDemands | None:
    """Estimate the demands; None where no waits for memory are known that are worth a model.

    waits: From :func:`iqcar.model.waits.measure.measure_waits`.
    """
    request = Request.EXECUTION_MEMORY
    known = waits[evidence_column(request)].to_numpy() != MISSING
    waited = positive_or_zero(waits[wait_column(request)].to_numpy(np.float64)) * known
    lasted = positive_or_zero(waits["duration_ms"].to_numpy(np.float64)).sum()
    if not waited.sum() > LEAST_SHARE * lasted:
        return None
    tasks = tables.tasks
    held = known_or_zero(tasks["peak_memory_bytes"].to_numpy(np.float64)).copy()
    records = tables.task_records
    task, peak = records["task"].to_numpy(np.int64), records["peak_held_bytes"].to_numpy(np.float64)
    seen = (task >= 0) & np.isfinite(peak)
    held[task[seen]] = peak[seen]
    wanted = held + known_or_zero(tasks["memory_spilled_bytes"].to_numpy(np.float64))
    executors = tables.executors
    n_hosts, n_apps = len(tables.hosts), len(tables.applications)
    app, host = (executors[name].to_numpy(np.int64) for name in ("app", "host"))
    known = (app >= 0) & (host >= 0)
    added = np.nan_to_num(executors["added_ms"].to_numpy(np.float64), nan=-np.inf)
    removed = np.nan_to_num(executors["removed_ms"].to_numpy(np.float64), nan=np.inf)
    at_once = most_at_once(
        (app * n_hosts + host)[known], added[known], removed[known], np.ones(int(known.sum())),
        n_apps * n_hosts,
    ).reshape(n_apps, n_hosts)  # fmt: skip
    each = np.array([memory_of_executor(tables, row) for row in range(n_apps)])
    # None held more than there is, whatever the settings seem to say.
    most = np.zeros(n_apps)
    np.maximum.at(most, tasks["app"].to_numpy(np.int64), held)
    return MemoryDemands(wanted, waited, at_once * np.maximum(each, most)[:, None])
