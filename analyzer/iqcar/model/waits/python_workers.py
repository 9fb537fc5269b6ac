"""Gives tasks the processor time of Python workers that only samples of executors tell.

The plugin's record of a task has its worker's times, unless it did not know the worker's process.
Then the task looks as if it waited for nothing known, and whoever waits for a processor beside it
seems to wait for nobody. The samples tell how long all Python workers of an executor computed.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from iqcar.enums import Request
from iqcar.model.waits.columns import (
    ESTIMATED,
    IN_TASK_REQUESTS,
    evidence_column,
    wait_column,
)
from iqcar.tables import Tables
from iqcar.tables.arrays import Flags, Floats, grown, positive_or_zero, share_of

_OF_WORKERS = ("python_cpu_ms", "python_run_queue_ms", "python_io_ms", "python_other_ms")
"""What a record tells of a worker that the plugin knew; one that slept computed nothing."""


def with_python_waits(tables: Tables, waits: pd.DataFrame) -> pd.DataFrame:
    """Divide an executor's Python time among its tasks that feed workers nobody measured.

    Each gets it by its time that nothing explains; what is left of that is an estimated wait for
    the processor, as in other tasks.

    waits: frame of WAITS, of these tasks. Tasks whose workers were measured stay as they are.
    """
    rest = _unexplained(waits)
    fed = _unseen_workers(tables) & (rest > 0)
    cpu = _python_cpu(tables, np.where(fed, rest, 0.0))
    told = cpu > 0
    if not told.any():
        return waits
    queue, evidence = wait_column(Request.RUN_QUEUE), evidence_column(Request.RUN_QUEUE)
    waited = positive_or_zero(waits[queue].to_numpy(np.float64)) + rest - cpu
    codes = waits[evidence].to_numpy()
    computed = waits["compute_ms"].to_numpy(np.float64)
    return waits.assign(
        **{
            "compute_ms": np.where(told, positive_or_zero(computed) + cpu, computed),
            queue: np.where(told, waited, waits[queue].to_numpy(np.float64)),
            evidence: np.where(told, ESTIMATED, codes).astype(codes.dtype),
        }
    )


def _unexplained(waits: pd.DataFrame) -> Floats:
    """Time of each task that is neither a wait nor computing, in ms."""
    names = ["compute_ms", "gc_ms", *(wait_column(request) for request in IN_TASK_REQUESTS)]
    known = sum((positive_or_zero(waits[name].to_numpy(np.float64)) for name in names), 0.0)
    return np.maximum(positive_or_zero(waits["duration_ms"].to_numpy(np.float64)) - known, 0.0)


def _unseen_workers(tables: Tables) -> Flags:
    """Mark tasks that feed a Python worker whose processor time no record tells."""
    stage, python = tables.tasks["stage"].to_numpy(np.int64), tables.stages["python"].to_numpy(bool)
    feeds = np.append(python, False)[np.where(stage >= 0, stage, len(python))]
    records = tables.task_records
    seen = (records[list(_OF_WORKERS)].to_numpy(np.float64) > 0).any(axis=1)
    feeds[records["task"].to_numpy(np.int64)[seen]] = False
    return feeds


def _python_cpu(tables: Tables, rest: Floats) -> Floats:
    """Return the processor time of each task's Python worker, in ms; at most ``rest``."""
    tasks, samples, found = tables.tasks, tables.samples, np.zeros(len(rest))
    executor = tasks["executor"].to_numpy(np.int64)
    begin, end = (tasks[name].to_numpy(np.float64) for name in ("launch_ms", "finish_ms"))
    feeds = (rest > 0) & (executor >= 0) & (end > begin)
    of_samples = samples["executor"].to_numpy(np.int64)
    until, lasted = (samples[name].to_numpy(np.float64) for name in ("time_ms", "duration_ms"))
    cpu = positive_or_zero(samples["python_cpu_ms"].to_numpy(np.float64))
    usable = np.isfinite(until) & (lasted > 0) & (cpu > 0)
    for one in np.unique(executor[feeds]):
        mine, rows = np.flatnonzero(feeds & (executor == one)), usable & (of_samples == one)
        if not rows.any():
            continue
        since, to = until[rows] - lasted[rows], until[rows]
        needed = grown(begin[mine], end[mine], rest[mine])
        part = np.minimum(share_of(cpu[rows], needed(to) - needed(since)), 1.0)
        computing = grown(since, to, part * (to - since))
        life = end[mine] - begin[mine]
        during = np.minimum(computing(end[mine]) - computing(begin[mine]), life)
        found[mine] = rest[mine] * during / life
    return found
