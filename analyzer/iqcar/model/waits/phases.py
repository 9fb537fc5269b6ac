"""Divides recorded tasks into phases: runs of intervals in which the same thing dominates.

A phase is named by the resource that took most of its time: reading, computing, fetching, writing,
spilling, or waiting for anything else. Runs of like intervals of the plugin's profile are merged.
The paper proposes a hidden Markov model (Intervention, §4).
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from iqcar.enums import REQUESTS, Request
from iqcar.tables import Column, Tables, TableSpec
from iqcar.tables.arrays import Floats, Ints, positive_or_zero, share_of, sum_by

PHASE_NAMES = ("read", "compute", "fetch", "write", "spill", "wait")
READ, COMPUTE, FETCH, WRITE, SPILL, WAIT = range(len(PHASE_NAMES))
_PART_OF = {Request.IO_READ: READ, Request.SHUFFLE_FETCH: FETCH, Request.IO_WRITE: WRITE}

PHASES = TableSpec(
    "phases",
    "One row per phase of a task with a recorded profile, by task and start.",
    (
        Column("task", "int32", "row", "The task; its phases follow one another."),
        Column("start_ms", "float64", "ms", "Start, by the executor's clock."),
        Column("end_ms", "float64", "ms", "End."),
        Column("phase", "int8", "", "Position in `PHASE_NAMES`: what dominates."),
        Column("share", "float64", "", "Share of the phase that it takes, 0 to 1."),
    ),
)


def phases_of(tables: Tables) -> pd.DataFrame:
    """Find the phases of all tasks that have a profile.

    Frame of `PHASES`.

    tables: ``intervals`` and ``tasks`` are used.
    """
    intervals = tables.intervals
    task = intervals["task"].to_numpy(np.int64)
    start, end = (intervals[name].to_numpy(np.float64) for name in ("start_ms", "end_ms"))
    with np.errstate(invalid="ignore"):
        row = np.flatnonzero((task >= 0) & (task < len(tables.tasks)) & (end > start))
    if len(row) == 0:
        return PHASES.empty()
    row = row[np.lexsort((start[row], task[row]))]
    task, start, end = task[row], start[row], end[row]
    parts = _parts(tables, row, task, end - start)
    first = np.diff(task, prepend=-1) != 0
    kind = parts.argmax(axis=1)
    begins = first | (np.diff(kind, prepend=-1) != 0)
    group = np.cumsum(begins) - 1
    at = np.flatnonzero(begins)
    last = np.append(at[1:], len(task)) - 1
    size = len(at)
    taken = sum_by(group, parts[np.arange(len(kind)), kind], size)
    lasted = sum_by(group, parts.sum(axis=1), size)
    return PHASES.frame(
        {
            "task": task[at],
            "start_ms": start[at],
            "end_ms": end[last],
            "phase": kind[at],
            "share": share_of(taken, lasted),
        }
    )


def _parts(tables: Tables, row: Ints, task: Ints, lasted: Floats) -> Floats:
    """Time of each interval by phase: (intervals, 6) ms; a row sums to its length or more."""
    intervals = tables.intervals
    parts = np.zeros((len(row), len(PHASE_NAMES)))
    parts[:, COMPUTE] = positive_or_zero(intervals["cpu_ms"].to_numpy(np.float64)[row])
    for request in REQUESTS:
        if not request.before_launch:
            waited = positive_or_zero(intervals[f"{request}_ms"].to_numpy(np.float64)[row])
            parts[:, _PART_OF.get(request, WAIT)] += waited
    parts[:, WAIT] += np.maximum(lasted - parts.sum(axis=1), 0.0)
    # What a task that spilled wrote before its last computing was spilled.
    spilled = positive_or_zero(tables.tasks["disk_spilled_bytes"].to_numpy(np.float64))[task] > 0
    computes = np.where(parts[:, COMPUTE] >= parts[:, WRITE], np.arange(len(task)), -1)
    last = np.full(int(task.max()) + 1, -1)
    np.maximum.at(last, task, computes)
    early = spilled & (np.arange(len(task)) < last[task])
    parts[early, SPILL], parts[early, WRITE] = parts[early, WRITE], 0.0
    return parts
