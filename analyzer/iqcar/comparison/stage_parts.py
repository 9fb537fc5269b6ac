"""Divide each stage's elapsed time into lack of slots, what its tasks did, and its tail.

With P the number of tasks of the stage that could run at once, the time from the first launch to
the last end is (task time) / P plus the integral of 1 − running / P: time with fewer tasks than
possible. Before the last launch that is a lack of slots, after it the tail.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from iqcar.comparison.comparison_tables import PART_NAMES
from iqcar.comparison.query_path import stage_times
from iqcar.comparison.recorded_parts import TASK_PARTS
from iqcar.enums import Request
from iqcar.model.waits.columns import wait_column
from iqcar.tables import Tables
from iqcar.tables.arrays import (
    Floats,
    Ints,
    known_or_zero,
    most_at_once,
    positive_or_zero,
    share_of,
    sum_by,
)


def stage_parts(tables: Tables, waits: pd.DataFrame) -> Floats:
    """Divide the elapsed time of every stage.

    Parameters
    ----------
    tables : Tables
    waits : DataFrame of WAITS
        One row per row of ``tables.tasks``.

    Returns
    -------
    ndarray of shape (n_stages, n_parts), ms
        Columns as :data:`~iqcar.comparison.comparison_tables.PARTS`; each row sums to completion
        less submission, 0 where one is unknown.
    """
    n = len(tables.stages)
    began, ended = stage_times(tables)
    known = np.isfinite(began) & np.isfinite(ended)
    began, ended = np.where(known, began, 0.0), np.where(known, ended, 0.0)
    stage = tables.tasks["stage"].to_numpy(np.int64)
    launch, finish = (
        tables.tasks[name].to_numpy(np.float64) for name in ("launch_ms", "finish_ms")
    )
    rows = np.flatnonzero((stage >= 0) & np.isfinite(launch) & np.isfinite(finish))
    rows = rows[known[stage[rows]]]
    of = stage[rows]
    start = np.clip(launch[rows], began[of], ended[of])
    end = np.clip(finish[rows], start, ended[of])
    count = np.bincount(of, minlength=n)

    first, last, over = np.full(n, np.inf), np.full(n, -np.inf), np.full(n, -np.inf)
    np.minimum.at(first, of, start)
    np.maximum.at(last, of, start)
    np.maximum.at(over, of, end)
    none = count == 0
    first, last, over = (np.where(none, ended, time) for time in (first, last, over))
    at_once = _could_run_at_once(tables, of, start, end, count)
    task_time = sum_by(of, end - start, n)
    while_launching = sum_by(of, np.minimum(end, last[of]) - start, n)
    lacking = (last - first) - while_launching / at_once
    tail = (over - last) - (task_time - while_launching) / at_once
    lacking, tail = np.maximum(lacking, 0.0), np.maximum(tail, 0.0)
    worked = task_time / at_once

    parts = dict.fromkeys(PART_NAMES, np.zeros(n))
    before = lacking + (first - began)
    waited = _sums(waits, (Request.SLOT_WAIT, Request.EXECUTOR_WAIT), rows, of, n)
    parts["executors_ms"] = before * share_of(waited[1], waited[0] + waited[1])
    parts["slots_ms"] = before - parts["executors_ms"]
    parts["tail_ms"] = tail
    sums = np.array(
        [sum_by(of, positive_or_zero(waits[name].to_numpy()[rows]), n) for name in TASK_PARTS]
    )
    shares = share_of(sums, np.maximum(task_time, sums.sum(axis=0)))
    for name, share in zip(TASK_PARTS, shares, strict=True):
        parts[name] = worked * share
    parts["rest_ms"] = (ended - began) - sum(parts[name] for name in PART_NAMES[:-1])
    return np.column_stack([np.where(known, parts[name], 0.0) for name in PART_NAMES])


def python_cpu(tables: Tables) -> Floats:
    """Sum the processor time of Python workers by stage, where the plugin measured it.

    Returns
    -------
    ndarray of shape (n_stages,), ms
    """
    task = tables.task_records["task"].to_numpy(np.int64)
    stage = tables.tasks["stage"].to_numpy(np.int64)[task]
    cpu = positive_or_zero(tables.task_records["python_cpu_ms"].to_numpy(np.float64))
    return sum_by(stage[stage >= 0], cpu[stage >= 0], len(tables.stages))


def _sums(
    waits: pd.DataFrame, requests: tuple[Request, ...], rows: Ints, of: Ints, n: int
) -> list[Floats]:
    columns = (waits[wait_column(request)].to_numpy() for request in requests)
    return [sum_by(of, known_or_zero(column[rows]), n) for column in columns]


def _could_run_at_once(tables: Tables, of: Ints, start: Floats, end: Floats, count: Ints) -> Floats:
    """Return how many tasks of each stage could run at once: as many as it had, and slots were.

    Slots are the most that the application had at one time, by its executors, or by its tasks
    where a stage ran more than that.
    """
    n = len(tables.stages)
    apps = len(tables.applications)
    app = tables.stages["app"].to_numpy(np.int64)
    ran = most_at_once(of, start, end, np.ones(len(of)), n)
    slots = np.zeros(apps)
    np.maximum.at(slots, app, ran)
    could = np.minimum(np.maximum(slots, _slots(tables))[app], count)
    at_once: Floats = np.maximum(np.maximum(ran, could), 1.0)
    return at_once


def _slots(tables: Tables) -> Floats:
    """Return the most slots that each application had at one time; 0 where it is unknown."""
    executors, apps = tables.executors, tables.applications
    n = len(apps)
    app = executors["app"].to_numpy(np.int64)
    start, end = (apps[name].to_numpy(np.float64)[app] for name in ("start_ms", "end_ms"))
    since, until = (executors[name].to_numpy(np.float64) for name in ("added_ms", "removed_ms"))
    since, until = np.fmax(since, start), np.fmin(until, end)
    cores = known_or_zero(executors["cores"].to_numpy(np.float64))
    usable = np.flatnonzero(until > since)
    most = most_at_once(app[usable], since[usable], until[usable], cores[usable], n)
    per_task = np.maximum(positive_or_zero(apps["task_cpus"].to_numpy(np.float64)), 1.0)
    return np.asarray(np.floor(most / per_task))
