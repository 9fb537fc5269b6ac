"""What the plugin recorded: one record per task, with its profile, and the scheduler's pools."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Struct, field

from iqcar import tables as tb
from iqcar.columns import as_dtype
from iqcar.eventlog.record_columns import Chunk, pick, spread
from iqcar.eventlog.record_fields import (
    COUNT,
    FIELDS,
    NS_PER_MS,
    START,
    TEXTS,
    VALUES,
    WAITS,
    WALL,
    WIDTH,
)
from iqcar.eventlog.redact import redact_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd
    from numpy.typing import NDArray

    from iqcar.eventlog.collect import Collector
    from iqcar.eventlog.record_columns import RecordColumns

MAX_NAME = 500
"""Characters kept of a pool's name."""
SCHEDULER_EVENT = "org.iqcar.spark.IqcarEventScheduler"

_INTERVALS_AT_ONCE = 1 << 15
"""Intervals unpacked together: their numbers stay in the processor's cache."""


class _Pool(Struct):
    name: str = ""
    mode: str = ""
    weight: float = nan
    min_share: float = field(default=nan, name="minShare")


class _Scheduler(Struct):
    event: str = field(name="Event")
    time: float = field(default=nan, name="timeMs")
    pools: list[_Pool] = field(default_factory=list)


_decode_scheduler = msgspec.json.Decoder(_Scheduler).decode


@dataclass
class Records:
    """The records of one log's tasks.

    Attributes
    ----------
    records : DataFrame of :data:`iqcar.tables.TASK_RECORDS`
    intervals : DataFrame of :data:`iqcar.tables.INTERVALS`
    damaged : int
        Records that could not be read, or belong to no task: missing, not zero.
    """

    records: pd.DataFrame
    intervals: pd.DataFrame
    damaged: int


def read_tables(columns: RecordColumns, task_id: pd.Series[int]) -> Records:
    """Make tables of the records of tasks.

    Parameters
    ----------
    columns : RecordColumns
        As collected from the log, and used up; of several for one task the first that can be read
        counts.
    task_id : Series of int64
        Column of the ``tasks`` table; unique where ≥ 0.

    Returns
    -------
    Records
        In the order of tasks.
    """
    texts = list(columns.texts)
    task_ids, found = columns.columns()
    row_of = {number: row for row, number in enumerate(task_id.tolist()) if number >= 0}
    rows = np.array([row_of.get(number, tb.NONE) for number in task_ids.tolist()], np.int64)
    good = np.flatnonzero((rows >= 0) & ~np.isnan(found.numbers[:, WALL]))
    tasks, first = np.unique(rows[good], return_index=True)
    chosen = good[first]
    read_at = np.full(len(task_id) + 1, len(rows))  # the last one is that of records of no task
    read_at[tasks] = chosen
    damaged = int((np.arange(len(rows)) < read_at[rows]).sum())
    if not np.array_equal(chosen, np.arange(len(rows))):
        found = pick(found, chosen)
    return Records(_record_table(tasks, found, texts), _interval_table(tasks, found), damaged)


def _record_table(
    tasks: NDArray[np.int64], found: Chunk, texts: list[tuple[str, ...]]
) -> pd.DataFrame:
    columns: dict[str, Any] = {"task": tasks}
    for number, one in enumerate((*FIELDS, *WAITS)):
        values = found.numbers[:, number] / one.per_unit
        values[~(np.isfinite(values) & (values >= 0))] = one.missing
        columns[one.column] = values
    rest = columns["wall_ms"] - columns["cpu_ms"] - np.nan_to_num(columns["run_queue_ms"])
    off = columns["off_cpu_ms"]
    np.copyto(off, np.maximum(rest, 0.0), where=np.isnan(off))
    for column in tb.TASK_RECORDS.columns:
        if column.dtype == "int64":
            columns[column.name] = np.minimum(columns[column.name], 2.0**53)
    shown = [[redact_text(text, MAX_NAME) for text in one] for one in texts]
    codes = found.texts.tolist()
    for place, name in enumerate(TEXTS):
        of_code = [one[place] for one in shown]
        columns[name] = [of_code[code] for code in codes]
    return tb.TASK_RECORDS.frame(columns)


def _interval_table(tasks: NDArray[np.int64], found: Chunk) -> pd.DataFrame:
    """One row per interval that begins before its task's end."""
    counts = np.nan_to_num(found.numbers[:, COUNT]).astype(np.int64)
    run_ends, ends = np.cumsum(found.run_counts), np.cumsum(counts)
    cuts = np.flatnonzero(np.diff(ends // _INTERVALS_AT_ONCE)) + 1
    parts = []
    for first, last in zip([0, *cuts], [*cuts, len(tasks)], strict=True):
        rows = slice(first, last)
        run_rows = slice(run_ends[first - 1] if first else 0, run_ends[last - 1] if last else 0)
        part = Chunk(
            found.numbers[rows], found.texts[rows], found.run_counts[rows],
            found.runs[run_rows], found.values[run_rows],
        )  # fmt: skip
        parts.append(_intervals(tasks[rows], part, counts[rows]))
    columns = [[part.pop() for part in parts] for _ in range(3 + len(VALUES))]
    names = ("task", "start_ms", "end_ms", *VALUES)
    return tb.INTERVALS.frame({name: np.concatenate(columns.pop()) for name in names})


def _intervals(
    tasks: NDArray[np.int64], part: Chunk, counts: NDArray[np.int64]
) -> list[NDArray[Any]]:
    """Columns of the intervals of some records."""
    total, before = int(counts.sum()), np.cumsum(counts) - counts
    column, first, times = part.runs.astype(np.int64).T
    at = column * total + np.repeat(before, part.run_counts) + first
    spent = np.bincount(
        spread(at, times), np.repeat(part.values, times), len(VALUES) * total
    ).reshape(len(VALUES), -1)
    number = spread(np.zeros_like(counts), counts)
    step, start, wall = (
        np.repeat(part.numbers[:, column] / unit, counts)
        for column, unit in ((WIDTH, 1.0), (START, 1.0), (WALL, NS_PER_MS))
    )
    since, until = number * step, np.minimum((number + 1) * step, wall)
    keep = until > since
    found = [np.repeat(tasks, counts), start + since, start + until, *spent]
    return found if keep.all() else [values[keep] for values in found]


def decode_pools(lines: Iterable[bytes]) -> pd.DataFrame:
    """Read the scheduler's pools from the plugin's raw events; others are passed over.

    Returns
    -------
    DataFrame of :data:`iqcar.tables.POOLS`, for application row 0; pools without a name or with a
    weight that is no number above 0 are left out.
    """
    found: list[tuple[float, _Pool]] = []
    for line in lines:
        try:
            event = _decode_scheduler(line)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            continue
        if event.event == SCHEDULER_EVENT:
            found += [(event.time, pool) for pool in event.pools if pool.name and pool.weight > 0]
    return tb.POOLS.frame(
        {
            "app": np.zeros(len(found)),
            "time_ms": [time for time, _ in found],
            "name": [redact_text(pool.name, MAX_NAME) for _, pool in found],
            "mode": [redact_text(pool.mode, MAX_NAME).upper() for _, pool in found],
            "weight": [pool.weight for _, pool in found],
            "min_share": [pool.min_share for _, pool in found],
        }
    )


def add_records(log: Collector, frames: dict[str, pd.DataFrame]) -> int:
    """Add ``task_records``, ``intervals`` and ``pools`` to the frames of one log.

    A pool that a task's record names fills the pool of its stage and job where the log has none.

    Returns
    -------
    int
        Records that were damaged.
    """
    tasks, stages, jobs = frames["tasks"], frames["stages"], frames["jobs"]
    read = read_tables(log.task_records, tasks["task_id"])
    frames["task_records"], frames["intervals"] = read.records, read.intervals
    frames["pools"] = decode_pools(log.plugin_events)
    pools = tb.texts(read.records, "pool")
    if any(pools):
        of_stage, of_job = tb.texts(stages, "pool"), tb.texts(jobs, "pool")
        stage_of, job_of = tasks["stage"].tolist(), stages["job"].tolist()
        for row, pool in zip(read.records["task"].tolist(), pools, strict=True):
            stage = stage_of[row]
            if pool and stage >= 0:
                of_stage[stage] = of_stage[stage] or pool
                if job_of[stage] >= 0:
                    of_job[job_of[stage]] = of_job[job_of[stage]] or pool
        frames["stages"] = stages.assign(pool=as_dtype(of_stage, "str"))
        frames["jobs"] = jobs.assign(pool=as_dtype(of_job, "str"))
    return read.damaged
