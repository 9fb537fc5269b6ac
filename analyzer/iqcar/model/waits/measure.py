"""Computes every task's waits and account: measured by the plugin, else from Spark's metrics."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from iqcar.enums import Request
from iqcar.model.waits.account import Codes
from iqcar.model.waits.columns import ESTIMATED, MEASURED, MISSING, REPORTED
from iqcar.model.waits.executor_shortage import Shortage, find_shortages
from iqcar.model.waits.measured import from_records
from iqcar.model.waits.reported import NEEDED, from_metrics
from iqcar.tables import Tables
from iqcar.tables.arrays import Flags, Floats, known_or_zero, share_of, sum_by


def slot_wait(tables: Tables, column: dict[str, Floats]) -> tuple[Floats, Codes]:
    """Return launch less stage submission; for a retry, less the end of the previous attempt.

    The wait of a speculative copy is missing, because no event records when it was requested.

    What is returned:
    wait: (n_tasks,), ms; NaN where it is missing.
    evidence: (n_tasks,) codes of the evidence; estimated where a stage's submission is its first
        launch, and for a task that was not launched yet.
    """
    tasks, stages = tables.tasks, tables.stages
    stage = tasks["stage"].to_numpy()
    launch = column["launch_ms"]
    if len(stages) == 0:
        return np.full(len(tasks), np.nan), np.zeros(len(tasks), np.int8)
    row = np.maximum(stage, 0)
    submitted = stages["submission_ms"].to_numpy(np.float64)[row]
    first_launch = stages["first_launch_ms"].to_numpy(np.float64)[row]
    asked = np.where(np.isnan(submitted), first_launch, submitted)
    asked = np.where(stage >= 0, asked, np.nan)
    still_waits = (tasks["status"] == "waiting").to_numpy(bool)
    evidence = np.where(np.isnan(submitted) | still_waits, ESTIMATED, REPORTED)

    # In this order the attempts of one partition are adjacent, first attempt first.
    order = np.lexsort((tasks["attempt"].to_numpy(), tasks["index"].to_numpy(), stage))
    same = (np.diff(stage[order]) == 0) & (np.diff(tasks["index"].to_numpy()[order]) == 0)
    before = np.full(len(tasks), -1)
    before[order[1:][same]] = order[:-1][same]
    retry = (before >= 0) & (tasks["attempt"].to_numpy() > 0)
    predecessor_end = column["finish_ms"][np.maximum(before, 0)]
    asked = np.where(retry, np.maximum(predecessor_end, asked), asked)

    wait = launch - asked
    unknown = tasks["speculative"].to_numpy(bool) | ~np.isfinite(wait)
    wait = np.where(unknown, np.nan, np.maximum(wait, 0.0))
    return wait, np.where(unknown, MISSING, evidence).astype(np.int8)


def executor_wait(
    tables: Tables, wait: Floats, launch: Floats, finish: Floats
) -> tuple[Floats, Codes]:
    """Return the part of each task's wait for its launch that missing executors explain.

    wait: (n_tasks,), ms; from the submission of the stage, or the end of the attempt before, to the
        launch; NaN where it is not known.
    launch, finish: (n_tasks,), ms.

    What is returned:
    lost: (n_tasks,), ms; from 0 to the wait; NaN where that is not known.
    evidence: (n_tasks,) codes of the evidence: measured where the plugin recorded how many
        executors the application asked for, else estimated.
    """
    lost = np.where(np.isfinite(wait), 0.0, np.nan)
    evidence = np.where(np.isfinite(wait), ESTIMATED, MISSING).astype(np.int8)
    asked = launch - wait
    shortages = find_shortages(tables, asked, launch, finish)
    if not shortages:
        return lost, evidence
    app, stage = (tables.tasks[name].to_numpy(np.int64) for name in ("app", "stage"))
    typical = _typical_duration(stage, finish - launch)
    for victim, shortage in shortages.items():
        rows = np.flatnonzero((app == victim) & (wait > 0) & np.isfinite(finish))
        lost[rows] = _lost(shortage, asked[rows], launch[rows], typical[rows])
        if shortage.measured:
            evidence[rows] = MEASURED
    return lost, evidence


def _lost(shortage: Shortage, asked: Floats, launch: Floats, typical: Floats) -> Floats:
    """Return the wait less the one with the missing slots, at most the time they were missing."""
    served = shortage.during(shortage.own, asked, launch)
    at = np.searchsorted(shortage.when, asked, side="right") - 1
    ahead = np.maximum(served - shortage.missing[np.maximum(at, 0)] * typical, 0.0)
    every = shortage.total(shortage.own + shortage.missing)
    start = np.interp(asked, shortage.when, every)
    without = np.interp(start + ahead, every, shortage.when) - asked
    without = np.where(ahead > 0, np.maximum(without, 0.0), 0.0)
    exposed = shortage.during(shortage.short, asked, launch)
    return np.clip(launch - asked - without, 0.0, exposed)


def _typical_duration(stage: NDArray[np.int64], duration: Floats) -> Floats:
    """Return the mean duration of the tasks of each task's stage, in ms."""
    known = np.isfinite(duration) & (stage >= 0)
    size = int(stage.max(initial=-1)) + 1
    total = sum_by(stage[known], duration[known], size)
    mean = share_of(total, np.bincount(stage[known], minlength=size).astype(np.float64))
    return np.where(stage >= 0, mean[np.maximum(stage, 0)] if size else 0.0, 0.0)


def measure_waits(tables: Tables) -> pd.DataFrame:
    """Derive every task's waits and account.

    Frame of `WAITS`, one row per row of ``tables.tasks``.

    tables: ``tasks``, ``stages`` and ``task_records`` are used.
    """
    tasks = tables.tasks
    column = {name: tasks[name].to_numpy(np.float64) for name in NEEDED}
    duration = np.maximum(known_or_zero(column["finish_ms"] - column["launch_ms"]), 0.0)
    account = from_metrics(column, duration, _feeds_python(tables))
    records = tables.task_records
    if len(records):
        rows = records["task"].to_numpy(np.int64)
        here = {name: values[rows] for name, values in column.items()}
        account.replace(rows, from_records(records, here, duration[rows]))
    wait, evidence = slot_wait(tables, column)
    lost, of_lost = executor_wait(tables, wait, column["launch_ms"], column["finish_ms"])
    account.waits[Request.SLOT_WAIT], account.evidence[Request.SLOT_WAIT] = wait - lost, evidence
    account.waits[Request.EXECUTOR_WAIT], account.evidence[Request.EXECUTOR_WAIT] = lost, of_lost
    return account.frame()


def _feeds_python(tables: Tables) -> Flags:
    stage = tables.tasks["stage"].to_numpy()
    python = tables.stages["python"].to_numpy(bool)
    if len(python) == 0:
        return np.zeros(len(stage), bool)
    return np.where(stage >= 0, python[np.maximum(stage, 0)], False)
