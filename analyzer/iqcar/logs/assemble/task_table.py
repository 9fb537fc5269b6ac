"""The table of tasks of one log: those that ended, and those that were still running."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from iqcar import tables as tb
from iqcar.logs.collect import CLOCK_STEP_MS, Collector, settle_times
from iqcar.logs.events.lenient import fit, parse
from iqcar.logs.events.task_structs import NO_METRICS, NOT_FITTING, TaskEnd
from iqcar.logs.tasks.task_columns import TaskColumns
from iqcar.logs.tasks.task_lines import MOST_REASON_CHARACTERS
from iqcar.logs.text import redact_text

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

    Parameters
    ----------
    log : a log read to its end; its task columns are used up.
    rows : row numbers of stages, hosts and executors; new ones are added.

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
    astray = _astray(column, stage, log, rows)
    launch, finish, bad_times, first, last = _settle_times(column, status, log, astray)
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


def _astray(
    column: dict[str, NDArray[Any]], stage: NDArray[np.int32], log: Collector, rows: Rows
) -> NDArray[np.bool_]:
    """Tell which tasks were launched before their stage was submitted, or after it had ended.

    All three times are of the driver's clock.
    """
    begun, over = np.full(len(rows.stages) + 1, -np.inf), np.full(len(rows.stages) + 1, np.inf)
    for key, row in rows.stages.items():
        if (known := log.stages.get(key)) is not None:
            begun[row] = np.nan_to_num(known.submission, nan=-np.inf)
            over[row] = np.nan_to_num(known.completion, nan=np.inf)
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
) -> tuple[NDArray[np.float64], NDArray[np.float64], int, float, float]:
    """Make every launch and finish a finite time in order; count those that were not.

    A missing time is made from the other one and the run time; a finish before the launch becomes
    the launch: such a task has no duration, and nobody is blamed for it. Both times of a task that
    is astray are as good as missing.
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
    finish[running] = last
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

    Parameters
    ----------
    tasks : what was collected of the tasks of one log.
    task_id : ndarray of shape (n_collected,); Spark's id of each collected task end.
    kept : ndarray of shape (n_collected,); whether it is a row of ``tasks``; one that is not
        repeats the end of another row.
    reason : ndarray of shape (n_collected,); position of its reason in ``kinds``.
    executors : row of each executor.
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
    messages = np.array([redact_text(why, MOST_REASON_CHARACTERS) for why, _ in texts], object)
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
