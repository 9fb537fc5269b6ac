"""The part of tables after a time: what began before it begins then.

A task that began before keeps the share of its times, bytes and counts that fell after: by its
recorded profile, else in proportion of time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from iqcar.tables import NONE, Tables
from iqcar.tables.arrays import Floats, share_of, sum_by

_TIMES = {
    "applications": ("start_ms", "end_ms"),
    "executors": ("added_ms", "removed_ms"),
    "sql_executions": ("start_ms", "end_ms"),
    "jobs": ("submission_ms", "completion_ms"),
    "queries": ("start_ms", "end_ms"),
    "stages": ("submission_ms", "first_launch_ms", "completion_ms"),
    "tasks": ("launch_ms", "finish_ms"),
    "pools": ("time_ms",),
    "executor_targets": ("time_ms",),
}
"""Columns of times since the epoch."""
_LEVELS = ("peak_memory_bytes", "peak_held_bytes", "mean_held_bytes", "held_bytes")
"""Columns that are no sums over time."""
_NO_SUMS = (*_LEVELS, "launch_ms", "finish_ms", "start_ms", "end_ms")


def cut_before(tables: Tables, time_ms: float) -> Tables:
    """Return what happened after a time.

    Parameters
    ----------
    tables : Tables
        Queries must be identified. What ended before the time may be left out already, as far as
        nothing that is left belongs to it.
    time_ms : float
        Since the epoch.

    Returns
    -------
    Tables
        Rows stay the same. Times before ``time_ms`` become it. Where nothing began before it, the
        tables are those given.
    """
    started = tables.stages["submission_ms"].to_numpy(np.float64) < time_ms
    tasks = tables.tasks
    launch, finish = (tasks[name].to_numpy(np.float64) for name in ("launch_ms", "finish_ms"))
    span = finish - launch
    kept = np.where(launch < time_ms, share_of(np.maximum(finish - time_ms, 0.0), span), 1.0)
    frames: dict[str, Any] = {}
    for name, columns in _TIMES.items():
        frame = getattr(tables, name)
        later = {one: np.fmax(frame[one].to_numpy(np.float64), time_ms) for one in columns}
        known = {one: frame[one].notna().to_numpy() for one in columns}
        frames[name] = frame.assign(
            **{one: np.where(known[one], later[one], np.nan) for one in columns}
        )
    queries = frames["queries"]
    frames["queries"] = queries.assign(duration_ms=queries["end_ms"] - queries["start_ms"])
    # Tasks of these stages ended before: how many it has says nothing about lost events.
    declared = frames["stages"]["declared_tasks"].to_numpy()
    frames["stages"] = frames["stages"].assign(
        declared_tasks=np.where(started, NONE, declared).astype(declared.dtype)
    )
    if (kept < 1.0).any():
        frames["tasks"] = _scaled(frames["tasks"], kept)
        frames["intervals"], shares = _cut_intervals(tables, time_ms, kept)
        records = tables.task_records
        of_task = kept[records["task"].to_numpy(np.int64)]
        frames["task_records"] = _scaled(records, of_task, shares)
        begin = np.where(of_task < 1.0, np.fmax(records["start_ms"], time_ms), records["start_ms"])
        frames["task_records"] = frames["task_records"].assign(start_ms=begin)
    frames["samples"] = tables.samples[tables.samples["time_ms"] >= time_ms].reset_index(drop=True)
    return tables.with_(**frames)


def _scaled(
    frame: pd.DataFrame, kept: Floats, shares: dict[str, Floats] | None = None
) -> pd.DataFrame:
    """Multiply columns of amounts by the share of each row that is kept."""
    amounts = [
        name
        for name in frame
        if name.endswith(("_ms", "_bytes", "_records", "_blocks")) and name not in _NO_SUMS
    ]
    return frame.assign(
        **{name: frame[name].to_numpy(np.float64) * (shares or {}).get(name, kept)
           for name in amounts}
    )  # fmt: skip


def _cut_intervals(
    tables: Tables, time_ms: float, kept: Floats
) -> tuple[pd.DataFrame, dict[str, Floats]]:
    """Return intervals after a time, and the share that each record keeps of the same columns."""
    intervals, records = tables.intervals, tables.task_records
    task = intervals["task"].to_numpy(np.int64)
    start, end = (intervals[name].to_numpy(np.float64) for name in ("start_ms", "end_ms"))
    cut = kept[task] < 1.0
    share = np.where(
        cut & (start < time_ms), share_of(np.maximum(end - time_ms, 0.0), end - start), 1.0
    )
    scaled = _scaled(intervals, share).assign(
        start_ms=np.where(cut, np.fmax(start, time_ms), start)
    )
    n = len(tables.tasks)
    of_record = records["task"].to_numpy(np.int64)
    shares: dict[str, Floats] = {}
    for name in scaled:
        if name in records and name.endswith("_ms") and name not in _NO_SUMS:
            before, after = (
                sum_by(task, np.nan_to_num(one[name].to_numpy(np.float64)), n)
                for one in (intervals, scaled)
            )
            by_profile = np.where(before > 0, share_of(after, before), kept)
            shares[str(name)] = by_profile[of_record]
    left = scaled[(scaled["end_ms"] > scaled["start_ms"]).to_numpy() & (share > 0)]
    return left.reset_index(drop=True), shares
