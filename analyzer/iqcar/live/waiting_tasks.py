"""Tasks that wait to be launched now: those of submitted stages that no event names yet.

An event log tells of a task when it is launched. Those of a stage that was submitted and has more
tasks than were launched are in the scheduler's queue meanwhile; without them the longest waits of
a running application would be missing until they are over.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from iqcar import tables as tb
from iqcar.tables.arrays import Flags, Ints

MOST_WAITING = 20_000
"""Waiting tasks that get a row; of more, each stage gets its share."""


def waiting_by_stage(tables: tb.Tables, succeeded: Mapping[tuple[int, int], int]) -> Ints:
    """Count the tasks of each stage that wait to be launched.

    Parameters
    ----------
    tables : Tables
        Of one running application.
    succeeded : mapping of (stage id, attempt) to int
        Tasks that succeeded, of stages that have not completed.

    Returns
    -------
    ndarray of shape (n_stages,)
    """
    stages, tasks = tables.stages, tables.tasks
    declared = stages["declared_tasks"].to_numpy(np.int64)
    keys = zip(stages["stage_id"].tolist(), stages["attempt"].tolist(), strict=True)
    done = np.array([succeeded.get(key, 0) for key in keys], np.int64)
    stage = tasks["stage"].to_numpy(np.int64)
    runs = (tasks["status"] == "running").to_numpy(bool) & (stage >= 0)
    runs &= ~tasks["speculative"].to_numpy(bool)
    running = np.bincount(stage[runs], minlength=len(stages))
    waiting: Ints = np.where(_open(tables), np.maximum(declared - done - running, 0), 0)
    return waiting


def _open(tables: tb.Tables) -> Flags:
    """Return which stages were submitted and have not completed."""
    stages, jobs = tables.stages, tables.jobs
    open_: Flags = ~stages["completed"].to_numpy(bool) & stages["submission_ms"].notna().to_numpy()
    if len(jobs):
        job = stages["job"].to_numpy(np.int64)
        ended = jobs["completion_ms"].notna().to_numpy(bool)
        open_ &= ~((job >= 0) & ended[np.maximum(job, 0)])
    return open_


def until_now(tables: tb.Tables, waiting: Ints, now_ms: float) -> tb.Tables:
    """Let open stages last until now, and their waiting tasks be tasks.

    Parameters
    ----------
    tables : Tables
    waiting : ndarray of shape (n_stages,)
        From :func:`waiting_by_stage`.
    now_ms : float

    Returns
    -------
    Tables
        With a row of ``tasks`` of the status ``waiting`` for each waiting task. Its launch and
        finish are now: its wait so far is counted, and no run.
    """
    ends = np.where(_open(tables), now_ms, tables.stages["completion_ms"].to_numpy(np.float64))
    tables = tables.with_(stages=tables.stages.assign(completion_ms=ends))
    total = int(waiting.sum())
    if total == 0:
        return tables
    if total > MOST_WAITING:
        waiting = np.ceil(waiting * (MOST_WAITING / total)).astype(np.int64)
    stage = np.repeat(np.arange(len(waiting)), waiting)
    n = len(stage)
    fixed = {
        "app": np.zeros(n),
        "stage": stage,
        "status": _one_category("waiting", n),
        "locality": _one_category("", n),
        "attempt": np.zeros(n),
        "speculative": np.zeros(n, bool),
        "launch_ms": np.full(n, now_ms),
        "finish_ms": np.full(n, now_ms),
    }
    rows = tb.TASKS.frame(
        {
            column.name: fixed.get(
                column.name, np.full(n, np.nan if column.dtype == "float64" else tb.NONE)
            )
            for column in tb.TASKS.columns
        }
    )
    joined = {
        column.name: _joined(tables.tasks[column.name], rows[column.name])
        for column in tb.TASKS.columns
    }
    return tables.with_(tasks=tb.TASKS.frame(joined))


def _one_category(name: str, n: int) -> pd.Categorical:
    return pd.Categorical.from_codes(np.zeros(n, np.int8), pd.Index([name], dtype=object))


def _joined(first: pd.Series, second: pd.Series) -> object:
    if isinstance(first.dtype, pd.CategoricalDtype):
        return pd.api.types.union_categoricals([first, second])
    return np.concatenate([first.to_numpy(), second.to_numpy()])
