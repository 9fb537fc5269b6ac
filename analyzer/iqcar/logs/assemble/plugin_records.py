"""Makes tables of what the plugin recorded: one record per task, with its profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from iqcar import tables as tb
from iqcar.enums import Request
from iqcar.logs.collect import Collector
from iqcar.logs.plugin.record_columns import (
    BYTES_PER_KIB,
    COUNT,
    FIELDS,
    HELD,
    LOOKED,
    NS_PER_MS,
    NUMBERS,
    START,
    TEXTS,
    VALUES,
    WAITS,
    WALL,
    WIDTH,
    Chunk,
    RecordColumns,
    pick,
    spread,
)
from iqcar.logs.text import redact_text
from iqcar.tables.arrays import share_of
from iqcar.tables.declarations import as_dtype

MAX_NAME = 500
"""Characters kept of a pool's name."""

_LARGEST = 2.0**53
"""Sizes and counts from here on are damage: 9 PB, the first that a float does not tell apart."""
_QUEUES = [NUMBERS.index(key) for key in ("run_queue_ns", "python_run_queue", "throttled_ns")]
_OF_PROFILES = [START, WALL, WIDTH, COUNT, LOOKED, *_QUEUES]
"""Numbers of a record that its intervals are made of."""
_INTERVALS_AT_ONCE = 1 << 14
"""Intervals unpacked together: their numbers stay in the processor's cache."""


@dataclass
class Records:
    """The records of one log's tasks.

    Attributes
    ----------
    records, intervals, owners : rows of :data:`iqcar.tables.TASK_RECORDS`, of
        :data:`iqcar.tables.INTERVALS` and of :data:`iqcar.tables.LOCK_OWNERS`.
    damaged : records that could not be read, or belong to no task: missing, not zero.
    """

    records: pd.DataFrame
    intervals: pd.DataFrame
    owners: pd.DataFrame
    damaged: int


def read_tables(columns: RecordColumns, task_id: pd.Series[int]) -> Records:
    """Make tables of the records of tasks.

    Parameters
    ----------
    columns : as collected from the log, and used up; of several for one task the first that can be
        read counts.
    task_id : Series of int64; column of the ``tasks`` table; unique where ≥ 0.

    The result is in the order of tasks.
    """
    texts = list(columns.texts)
    task_ids, found = columns.columns()
    ids = task_id.to_numpy(np.int64)
    rows = _rows_of(task_ids, ids)
    good = np.flatnonzero((rows >= 0) & ~np.isnan(found.numbers[:, WALL]))
    tasks, first = np.unique(rows[good], return_index=True)
    chosen = good[first]
    read_at = np.full(len(task_id) + 1, len(rows))  # the last one is that of records of no task
    read_at[tasks] = chosen
    damaged = int((np.arange(len(rows)) < read_at[rows]).sum())
    if not np.array_equal(chosen, np.arange(len(rows))):
        found = pick(found, chosen)
    records = _record_table(tasks, found, texts)
    owners = _owner_table(tasks, found, ids)
    profiles = found._replace(numbers=found.numbers[:, _OF_PROFILES])
    del found  # the table of intervals is the largest: the other numbers need not be beside it
    return Records(records, _interval_table(tasks, profiles), owners, damaged)


def _rows_of(wanted: NDArray[np.float64], task_ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows of tasks by their ids; −1 where there is no such task."""
    order = np.append(np.argsort(task_ids, kind="stable"), tb.NONE)
    place = np.searchsorted(task_ids, wanted, sorter=order[:-1])
    rows = order[place]
    known = (wanted >= 0) & (rows >= 0)
    known[known] = task_ids[rows[known]] == wanted[known]
    return np.where(known, rows, tb.NONE)


def _record_table(
    tasks: NDArray[np.int64], found: Chunk, texts: list[tuple[str, ...]]
) -> pd.DataFrame:
    fields = (*FIELDS, *WAITS)
    per_unit, missing = np.array([(one.per_unit, one.missing) for one in fields]).T[..., None]
    values = found.numbers[:, : len(fields)].T.copy()
    values /= per_unit
    limits = [tb.LAST_PLAUSIBLE_MS if one.column.endswith("_ms") else _LARGEST for one in fields]
    np.copyto(values, missing, where=~((values >= 0) & (values < np.array(limits)[:, None])))
    columns: dict[str, Any] = dict(zip((one.column for one in fields), values, strict=True))
    rest = columns["wall_ms"] - columns["cpu_ms"] - np.nan_to_num(columns["run_queue_ms"])
    off = columns["off_cpu_ms"]
    np.copyto(off, np.maximum(rest, 0.0), where=np.isnan(off))
    for place, name in enumerate(TEXTS):
        shown = [redact_text(one[place], MAX_NAME) for one in texts]
        columns[name] = np.array(shown, object)[found.texts]
    return tb.TASK_RECORDS.frame({"task": tasks, **columns})


def _owner_table(
    tasks: NDArray[np.int64], found: Chunk, task_ids: NDArray[np.int64]
) -> pd.DataFrame:
    """One row per record and other task that it names."""
    task = np.repeat(tasks, found.owner_counts)
    owner, wait = _rows_of(found.owners[:, 0], task_ids), found.owners[:, 1]
    named = np.flatnonzero((owner >= 0) & (owner != task) & (wait > 0))
    columns = {"task": task[named], "owner": owner[named], "wait_ms": wait[named]}
    return tb.LOCK_OWNERS.frame(columns)


def _interval_table(tasks: NDArray[np.int64], found: Chunk) -> pd.DataFrame:
    """One row per interval that begins before its task's end; numbers are :data:`_OF_PROFILES`."""
    begins, walls, widths, most, looked, *queues = found.numbers.T
    walls = walls / NS_PER_MS
    counts = _interval_counts(walls, widths, most)
    before = np.append(0, np.cumsum(counts))
    runs_before = np.append(0, np.cumsum(found.run_counts))
    total = int(before[-1])
    task, start, end = np.empty(total, np.int32), np.empty(total), np.empty(total)
    spent = np.zeros((len(VALUES), total))  # where nothing is written no memory is used
    cuts = (np.flatnonzero(np.diff(before[1:] // _INTERVALS_AT_ONCE)) + 1).tolist()
    for first, last in zip([0, *cuts], [*cuts, len(tasks)], strict=True):
        rows, at = slice(first, last), slice(before[first], before[last])
        first_ones, times = before[:-1][rows], counts[rows]
        step, begin, wall, row, base = (
            np.repeat(column, times)
            for column in (widths[rows], begins[rows], walls[rows], tasks[rows], first_ones)
        )
        number = np.arange(before[first], before[last]) - base
        task[at], start[at] = row, begin + number * step
        end[at] = begin + np.minimum((number + 1) * step, wall)
        runs = slice(runs_before[first], runs_before[last])
        column, interval, lengths = found.runs[runs].astype(np.int64).T
        of_record = found.run_counts[rows]
        lengths = np.clip(np.repeat(times, of_record) - interval, 0, lengths)
        place = column * len(number) + np.repeat(first_ones - before[first], of_record) + interval
        sums = np.bincount(
            spread(place, lengths), np.repeat(found.values[runs], lengths), spent[:, at].size
        )
        for values, of_column in zip(spent, sums.reshape(len(VALUES), -1), strict=True):
            if of_column.any():
                values[at] = of_column
    _divide_queue(spent, queues, counts)
    held = spent[VALUES.index(HELD)]
    held *= BYTES_PER_KIB
    held[np.repeat(~(looked >= 0), counts)] = np.nan
    names = ("task", "start_ms", "end_ms", *VALUES)
    columns = (task, start, end, *spent)
    return tb.INTERVALS.frame(dict(zip(names, columns, strict=True)))


def _divide_queue(
    spent: NDArray[np.float64], queues: list[NDArray[np.float64]], counts: NDArray[np.int64]
) -> None:
    """Take stops by a CPU limit out of the run queue's intervals; a profile has both in one."""
    queued, of_python, stopped = np.nan_to_num(np.clip(queues, 0.0, 1e300))
    part = np.minimum(share_of(stopped, queued + of_python), 1.0)
    if part.any():
        queue, of_limit = (VALUES.index(f"{r}_ms") for r in (Request.RUN_QUEUE, Request.THROTTLED))
        np.multiply(spent[queue], np.repeat(part, counts), out=spent[of_limit])
        spent[queue] -= spent[of_limit]


def _interval_counts(
    wall: NDArray[np.float64], step: NDArray[np.float64], most: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return how many intervals of each record begin before its task's end."""
    with np.errstate(over="ignore"):  # a width may be tiny
        begun = np.nan_to_num(np.ceil(wall / step))
    begun -= (begun - 1) * step >= wall  # the quotient is rounded, and may be one off
    begun += begun * step < wall
    counts: NDArray[np.int64] = np.clip(begun, 0, np.nan_to_num(most)).astype(np.int64)
    return counts


def add_records(log: Collector, frames: dict[str, pd.DataFrame]) -> int:
    """Add ``task_records``, ``intervals`` and ``lock_owners`` to the frames of one log.

    A pool that a task's record names fills the pool of its stage and job where the log has none.

    Returns records that were damaged.
    """
    tasks, stages, jobs = frames["tasks"], frames["stages"], frames["jobs"]
    read = read_tables(log.task_records, tasks["task_id"])
    frames["task_records"], frames["intervals"] = read.records, read.intervals
    frames["lock_owners"] = read.owners
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
