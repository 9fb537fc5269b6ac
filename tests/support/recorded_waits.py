"""Records of the plugin for tables of plain logs, in tests: time off the processor, divided."""

from __future__ import annotations

import numpy as np

from iqcar.enums import WaitClass
from iqcar.tables import TASK_RECORDS, Tables
from iqcar_lab.clusters.frames import frame

DIVIDED = {
    WaitClass.MONITOR_BLOCKED: 0.4,
    WaitClass.NOTIFICATION_WAIT: 0.3,
    WaitClass.IO_READ: 0.1,
    WaitClass.OTHER: 0.0,
}
"""Parts of the time off the processor; a fifth is the run queue."""


def with_records(tables: Tables) -> Tables:
    """The tables as if the plugin had measured every task with a known duration."""
    tasks = tables.tasks
    wall = (tasks["finish_ms"] - tasks["launch_ms"]).to_numpy(np.float64)
    rows = np.flatnonzero(wall >= 0)
    wall = wall[rows]
    cpu = np.minimum(np.nan_to_num(tasks["cpu_ms"].to_numpy(np.float64)[rows]), wall)
    off = wall - cpu
    classes = {f"{kind}_ms": off * DIVIDED.get(kind, 0.0) for kind in WaitClass}
    records = frame(
        TASK_RECORDS, len(rows), task=rows, wall_ms=wall, cpu_ms=cpu, run_queue_ms=0.2 * off,
        off_cpu_ms=0.8 * off, sampler=[""] * len(rows), **classes,
    )  # fmt: skip
    return tables.with_(task_records=records)
