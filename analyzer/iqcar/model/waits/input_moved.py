"""Computes the input that tasks moved, where Spark did not count it.

Input of an object store passes no disk of the host: it moves nothing there.

Spark counts what Hadoop's file systems report. Readers that ask a local file for several parts at
once get around that, in threads of their own: a task that read 6 MB of columns reports 2 KB.
"""

from __future__ import annotations

import numpy as np

from iqcar.tables import Tables
from iqcar.tables.arrays import Flags, Floats, known_or_zero, sum_by

ROW_BYTES = 16.0
"""Bytes of a row where they were not counted: some numbers of each row."""
LEAST_BYTES = 0.5
"""Bytes a row of a stage below which they were not counted."""


def uncounted(tables: Tables) -> Flags:
    """Mark tasks of stages that read rows of hardly any bytes; shape (n_tasks,)."""
    tasks, stages = tables.tasks, len(tables.stages)
    stage = tasks["stage"].to_numpy(np.int64)
    stage = np.where((stage >= 0) & (stage < stages), stage, stages)
    size, rows = (
        sum_by(stage, known_or_zero(tasks[name].to_numpy(np.float64)), stages + 1)
        for name in ("input_bytes", "input_records")
    )
    return np.take(size < LEAST_BYTES * rows, stage)


def input_moved(tables: Tables) -> Floats:
    """Return the input bytes of each task, shape (n_tasks,); of rows, where not counted."""
    size, rows = (
        tables.tasks[name].to_numpy(np.float64) for name in ("input_bytes", "input_records")
    )
    moved: Floats = np.where(uncounted(tables), np.fmax(size, rows * ROW_BYTES), size)
    return np.where(from_stores(tables), np.where(moved > 0, 0.0, moved), moved)


def from_stores(tables: Tables) -> Flags:
    """Mark tasks of stages that waited for an object store, more than for files; (n_tasks,)."""
    stages, records = len(tables.stages), tables.task_records
    stage = tables.tasks["stage"].to_numpy(np.int64)
    stage = np.where((stage >= 0) & (stage < stages), stage, stages)
    task = records["task"].to_numpy(np.int64)
    known = (task >= 0) & (task < len(stage))
    store, files = (
        sum_by(stage[task[known]], known_or_zero(waited[known]), stages + 1)
        for waited in (
            records[f"{of}_ms"].to_numpy(np.float64) for of in ("object_store", "io_read")
        )
    )
    return np.take(store > files, stage)
