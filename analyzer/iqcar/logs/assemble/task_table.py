"""Makes the tables of tasks and of the plugin's records of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from iqcar import tables as tb
from iqcar.enums import Request
from iqcar.logs.collect import CLOCK_STEP_MS, Collector, settle_times
from iqcar.logs.events.lenient import fit, parse
from iqcar.logs.events.task_structs import NO_METRICS, NOT_FITTING, TaskEnd
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
from iqcar.logs.tasks.task_columns import TaskColumns
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
class TaskRecords:
    """The records of one log's tasks.

    records, intervals, owners: rows of :data:`iqcar.tables.TASK_RECORDS`, of
        :data:`iqcar.tables.INTERVALS` and of :data:`iqcar.tables.LOCK_OWNERS`.
    damaged: records that could not be read, or belong to no task: missing, not zero.
    """

    records: pd.DataFrame
    intervals: pd.DataFrame
    owners: pd.DataFrame
    damaged: int


def read_tables(columns: RecordColumns, task_id: pd.Series[int]) -> TaskRecords:
    """Make tables of the records of tasks.

    columns: as collected from the log, and used up; of several for one task the first that can be
        read counts.
    task_id: Series of int64; column of the ``tasks`` table; unique where ≥ 0.

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
    return TaskRecords(records, _interval_table(tasks, profiles), owners, damaged)


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


STATUSES = ("success", "failed", "killed", "running")
_SUCCESS, _FAILED, _KILLED, _RUNNING = range(len(STATUSES))
_RESUBMITTED = "Resubmitted"
"""Not the end of an attempt: its executor was lost after it, so its map output has to be redone."""

MAX_LOCALITY = 100
"""Characters kept of a locality; the longest of Spark's has 13."""

LONGEST_REST_MS = 3_600_000.0
"""Time of a task beyond what its executor measured (an hour): it takes seconds to send a task and
its result, so its end is damaged."""

_ATTEMPTS, _STAGES = 2**16, 2**31
"""Bounds of stage attempts and stage ids that one int64 can hold together."""


@dataclass
class Rows:
    """Row numbers given out so far; tasks may add stages, hosts and executors."""

    stages: dict[tuple[int, int], int]
    hosts: dict[str, int]
    executors: dict[str, int]


@dataclass
class TaskFacts:
    """What the tasks say about other tables."""

    first_launch: NDArray[np.float64]
    last_finish: NDArray[np.float64]
    first_time: float
    last_time: float
    host_of_executor: dict[str, str]
    hosts: int
    running: int
    bad_times: int
    bad_moments: int


def build_tasks(log: Collector, rows: Rows) -> tuple[pd.DataFrame, pd.DataFrame, TaskFacts]:
    """Build the tables of tasks and of their failures.

    log: a log read to its end; its task columns are used up.
    rows: row numbers of stages, hosts and executors; new ones are added.

    Returns the ``tasks`` table, in which times are finite and no task ends before it starts; the
    ``task_failures`` table; and times per stage and overall, with what was wrong.
    """
    ended = log.tasks.rows
    _add_running(log)
    column = log.tasks.columns(log.sql.declared_waits)
    codes = log.tasks.codes
    status = _status(column, list(codes["reason"]))
    status[ended:] = _RUNNING
    keep = _wanted(column, list(codes["reason"]), ended)
    task_id, reason = column["task_id"], column["reason"]
    if not keep.all():
        column = {name: values[keep] for name, values in column.items()}
        status = status[keep]
    stage = _number_stages(column, rows.stages)
    for name in ("scan_ms", "storage_read_ms", "gpu_wait_ms", "native_ms"):
        _fill_silent(column[name], stage)
    host = _renumber(column["host"], list(codes["host"]), rows.hosts)
    executor = _renumber(column["executor_id"], list(codes["executor_id"]), rows.executors)
    bad_moments = settle_times(log, column["launch_ms"], column["finish_ms"])
    begun, over = _stage_spans(log, rows)
    astray = _astray(column, stage, begun, over)
    until = np.maximum(over[stage], column["launch_ms"])
    launch, finish, bad_times, first, last = _settle_times(column, status, log, astray, until)
    started = column["getting_result_at"]
    getting = np.where(started > 0, finish - started, np.where(np.isnan(started), np.nan, 0.0))
    first_launch, last_finish = _stage_times(stage, launch, finish, status, len(rows.stages))
    n = len(stage)
    numbers = {
        name: column[name]
        for name in tb.TASKS.column_names()
        if name in column and name not in ("task_id", "index", "attempt", "host", "locality")
    }
    frame = tb.TASKS.frame(
        {
            **numbers,
            "app": np.zeros(n),
            "stage": stage,
            "query": np.full(n, tb.NONE),
            "host": host,
            "executor": executor,
            "task_id": _whole(column["task_id"], tb.NONE, np.int64),
            "index": _whole(column["index"], tb.NONE, np.int32),
            "attempt": _whole(column["attempt"], 0, np.int32),
            "status": pd.Categorical.from_codes(status, pd.Index(list(STATUSES), dtype=object)),
            "locality": _localities(column["locality"], list(codes["locality"])),
            "speculative": column["speculative"] == 1,
            "launch_ms": launch,
            "finish_ms": finish,
            "getting_result_ms": np.clip(getting, 0.0, finish - launch),
        }
    )
    failures = failure_table(
        log.tasks, task_id, keep, reason=reason, kinds=list(codes["reason"]),
        executors=rows.executors,
    )  # fmt: skip
    return (
        frame,
        failures,
        TaskFacts(
            first_launch=first_launch,
            last_finish=last_finish,
            first_time=first,
            last_time=last,
            host_of_executor=_hosts_of_executors(executor, host, rows),
            hosts=len(np.unique(host[host >= 0])),
            running=int((status == _RUNNING).sum()),
            bad_times=bad_times,
            bad_moments=bad_moments,
        ),
    )


def _add_running(log: Collector) -> None:
    """Append the tasks that started and never ended."""
    decode = msgspec.json.Decoder(TaskEnd).decode
    tasks = []
    for line in log.running.values():
        try:
            task = decode(line)
        except NOT_FITTING:
            task = fit(TaskEnd, parse(line), log.bad)
        task.metrics = NO_METRICS
        tasks.append(task)
    log.task_intake.add_unfinished(tasks)


def _status(column: dict[str, NDArray[Any]], reasons: list[str]) -> NDArray[np.int8]:
    """Success, failed or killed, from the reason, else from the flags.

    A speculative copy that lost was killed; one that finished too late to commit failed, as Spark
    has it.
    """
    of_reason = np.array(
        [
            _SUCCESS
            if reason in ("Success", _RESUBMITTED)
            else _KILLED
            if reason == "TaskKilled"
            else _FAILED
            for reason in reasons
        ]
        or [_FAILED],
        np.int8,
    )
    unknown = np.array([not reason for reason in reasons] or [True], bool)
    code = column["reason"]
    by_flags = np.where(
        column["killed"] == 1, _KILLED, np.where(column["failed"] == 1, _FAILED, _SUCCESS)
    )
    status = np.where(unknown[code], by_flags, of_reason[code])
    status[(column["killed"] == 1) & (status == _FAILED)] = _KILLED
    return status.astype(np.int8)


def _wanted(column: dict[str, NDArray[Any]], reasons: list[str], ended: int) -> NDArray[np.bool_]:
    """Leave out repeats: a resubmission of a task that has ended, a start after its own end."""
    task_id = column["task_id"]
    keep = np.ones(len(task_id), bool)
    doubtful = np.zeros(len(task_id), bool)
    doubtful[ended:] = True
    if _RESUBMITTED in reasons:
        doubtful |= column["reason"] == reasons.index(_RESUBMITTED)
    if doubtful.any():
        keep[doubtful] = ~np.isin(task_id[doubtful], task_id[~doubtful])
    return keep


def _number_stages(
    column: dict[str, NDArray[Any]], rows: dict[tuple[int, int], int]
) -> NDArray[np.int32]:
    """Return each task's stage row, −1 where the stage id is damaged; new stages get a row."""
    stage_id = _whole(column["stage_id"], tb.NONE, np.int64)
    attempt = np.clip(_whole(column["stage_attempt"], 0, np.int32), 0, _ATTEMPTS - 1)
    good = (stage_id >= 0) & (stage_id < _STAGES)
    stage = np.full(len(stage_id), tb.NONE, np.int32)
    if good.any():
        found, inverse = np.unique(stage_id[good] * _ATTEMPTS + attempt[good], return_inverse=True)
        numbers = [rows.setdefault(divmod(both, _ATTEMPTS), len(rows)) for both in found.tolist()]
        stage[good] = np.array(numbers, np.int32)[inverse]
    return stage


def _localities(code: NDArray[np.int32], names: list[str]) -> pd.Categorical:
    """Localities as they are shown; Spark has five, a log may hold any text."""
    shown = [redact_text(name, MAX_LOCALITY) for name in names]
    row = {name: number for number, name in enumerate(dict.fromkeys(shown))}
    rows = np.array([row[name] for name in shown], np.int32)
    return pd.Categorical.from_codes(rows[code], pd.Index(list(row), dtype=object))


def _renumber(code: NDArray[np.int32], names: list[str], rows: dict[str, int]) -> NDArray[np.int32]:
    """Turn codes of names into rows, −1 for a missing name; new names get a row."""
    used = np.zeros(len(names), bool)
    used[code] = True
    row = [
        rows.setdefault(name, len(rows)) if name and is_used else tb.NONE
        for name, is_used in zip(names, used.tolist(), strict=True)
    ]
    return np.array(row or [tb.NONE], np.int32)[code]


def _fill_silent(wait: NDArray[np.float64], stage: NDArray[np.int32]) -> None:
    """Set a wait of silent tasks to zero where others of their stage report one.

    Spark leaves out metrics that stayed zero.
    """
    reported = ~np.isnan(wait) & (stage >= 0)
    if reported.any():
        of_stage = np.zeros(int(stage.max()) + 1, bool)
        of_stage[stage[reported]] = True
        silent = np.isnan(wait) & (stage >= 0)
        silent[silent] = of_stage[stage[silent]]
        wait[silent] = 0.0


def _stage_spans(log: Collector, rows: Rows) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return when each stage was submitted and had ended, −inf and inf where nothing tells.

    A row more, the last, stands for no stage.
    """
    begun, over = np.full(len(rows.stages) + 1, -np.inf), np.full(len(rows.stages) + 1, np.inf)
    for key, row in rows.stages.items():
        if (known := log.stages.get(key)) is not None:
            begun[row] = np.nan_to_num(known.submission, nan=-np.inf)
            over[row] = np.nan_to_num(known.completion, nan=np.inf)
    return begun, over


def _astray(
    column: dict[str, NDArray[Any]],
    stage: NDArray[np.int32],
    begun: NDArray[np.float64],
    over: NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Tell which tasks were launched before their stage was submitted, or after it had ended.

    All three times are of the driver's clock.
    """
    sound = over >= begun  # else it is the stage whose times make no sense
    launch = column["launch_ms"]
    before, after = launch < begun[stage] - CLOCK_STEP_MS, launch > over[stage] + CLOCK_STEP_MS
    found: NDArray[np.bool_] = (before | after) & sound[stage]
    return found


def _settle_times(
    column: dict[str, NDArray[Any]],
    status: NDArray[np.int8],
    log: Collector,
    astray: NDArray[np.bool_],
    over: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], int, float, float]:
    """Make every launch and finish a finite time in order; count those that were not.

    A missing time is made from the other one and the run time; a finish before the launch becomes
    the launch: such a task has no duration, and nobody is blamed for it. Both times of a task that
    is astray are as good as missing. A task whose end is not in the log ended with its stage
    (``over``) at the latest: else it would hold its slot to the end of the log.
    """
    launch, finish = column["launch_ms"], column["finish_ms"]
    running = status == _RUNNING
    launch[astray] = finish[astray] = np.nan
    ran = np.nan_to_num(column["run_ms"]) + np.nan_to_num(column["deserialize_ms"])
    finish[(ran > 0) & (finish - launch - ran > LONGEST_REST_MS)] = np.nan
    for times in (launch, finish):
        times[~((times > 0) & (times < tb.LAST_PLAUSIBLE_MS))] = np.nan
    times = np.concatenate([launch, finish, np.array([log.last_time, log.end])])
    times = times[(times > 0) & (times < tb.LAST_PLAUSIBLE_MS)]
    if not len(times) and log.application is not None:
        times = np.array([log.application.time])
    first, last = (float(times.min()), float(times.max())) if len(times) else (np.nan, np.nan)
    finish[running] = np.fmin(over[running], last)
    lost = np.isnan(launch) | np.isnan(finish)
    launch[:] = np.where(np.isnan(launch), np.maximum(finish - ran, 0.0), launch)
    until = np.minimum(launch + ran, tb.LAST_PLAUSIBLE_MS)
    finish[:] = np.where(np.isnan(finish), until, finish)
    nothing = np.isnan(launch)
    launch[nothing] = finish[nothing] = first if np.isfinite(first) else 0.0
    reversed_ = finish < launch
    finish[reversed_] = launch[reversed_]
    return launch, finish, int((lost | (reversed_ & ~running)).sum()), first, last


def _stage_times(
    stage: NDArray[np.int32],
    launch: NDArray[np.float64],
    finish: NDArray[np.float64],
    status: NDArray[np.int8],
    stages: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    first, last = np.full(stages, np.nan), np.full(stages, np.nan)
    has = stage >= 0
    np.fmin.at(first, stage[has], launch[has])
    has &= status != _RUNNING
    np.fmax.at(last, stage[has], finish[has])
    return first, last


def _hosts_of_executors(
    executor: NDArray[np.int32], host: NDArray[np.int32], rows: Rows
) -> dict[str, str]:
    if not len(executor):
        return {}
    host_names, executor_names = list(rows.hosts), list(rows.executors)
    good = (executor >= 0) & (host >= 0)
    both = np.unique(executor[good].astype(np.int64) * len(host_names) + host[good]).tolist()
    pairs = (divmod(one, len(host_names)) for one in both)
    return {executor_names[one]: host_names[on] for one, on in pairs}


def _whole(values: NDArray[Any], missing: int, dtype: Any) -> NDArray[Any]:
    limit = float(np.iinfo(dtype).max) / 2
    good = np.isfinite(values) & (np.abs(values) < limit)
    return np.where(good, values, missing).astype(dtype)


MAX_KIND = 100
"""Characters kept of the kind of a reason; the longest of Spark's has 19."""


def failure_table(
    tasks: TaskColumns,
    task_id: NDArray[np.float64],
    kept: NDArray[np.bool_],
    reason: NDArray[np.int32],
    kinds: Sequence[str],
    executors: Mapping[str, int],
) -> pd.DataFrame:
    """Build the table.

    tasks: what was collected of the tasks of one log.
    task_id: ndarray of shape (n_collected,); Spark's id of each collected task end.
    kept: ndarray of shape (n_collected,); whether it is a row of ``tasks``; one that is not
        repeats the end of another row.
    reason: ndarray of shape (n_collected,); position of its reason in ``kinds``.
    executors: row of each executor.
    """
    if not tasks.failures:
        return tb.TASK_FAILURES.empty()
    ends, whys = np.array(tasks.failures, np.int64).reshape(-1, 2).T
    row = np.where(kept[ends], np.cumsum(kept)[ends] - 1, tb.NONE)
    if (again := np.flatnonzero(row < 0)).size:
        first_of = {task_id[at]: at for at in np.flatnonzero(kept)[::-1].tolist()}
        places = [first_of.get(task_id[end], tb.NONE) for end in ends[again].tolist()]
        found = np.array(places, np.int64)
        row[again] = np.where(found >= 0, np.cumsum(kept)[found] - 1, tb.NONE)
    known = np.flatnonzero(row >= 0)
    rows, first = np.unique(row[known], return_index=True)
    chosen = known[first]
    texts = list(tasks.reasons)
    messages = np.array([why for why, _ in texts], object)
    sources = np.array([executors.get(source, tb.NONE) for _, source in texts], np.int32)
    named = pd.Categorical([redact_text(kind, MAX_KIND) for kind in kinds])
    return tb.TASK_FAILURES.frame(
        {
            "task": rows,
            "reason": named[reason[ends[chosen]]].remove_unused_categories(),
            "message": messages[whys[chosen]],
            "source": sources[whys[chosen]],
        }
    )
