"""Compute each stage's share of its query's elapsed time, and how much of that was lost.

The lost part is the contribution of level 1 of iQC-Graph.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from iqcar.model.waits import LAUNCH_REQUESTS, wait_column
from iqcar.tables import Column, Tables, TableSpec
from iqcar.tables.arrays import Floats, by_group_and_time, running_total, share_of, sum_by

STAGE_LOSSES = TableSpec(
    "stage_losses",
    "One row per row of `stages`: its share of its query's time, and the lost part of it.",
    (
        Column(
            "life_ms",
            "float64",
            "ms",
            "Task time: Σ over its tasks of the wait to launch + duration.",
        ),
        Column("lost_task_ms", "float64", "ms", "Task time lost, over all requests."),
        Column("elapsed_ms", "float64", "ms", "Its share of its query's elapsed time."),
        Column("lost_ms", "float64", "ms", "Elapsed time lost: elapsed · lost task / life."),
        Column("cpu_ms", "float64", "ms", "CPU time of its tasks; unknown counts as 0."),
    ),
)


def stage_losses(tables: Tables, waits: pd.DataFrame, lost_task_ms: Floats) -> pd.DataFrame:
    """Scale the time that tasks lost to the elapsed time of their query.

    Parameters
    ----------
    tables : Tables
        ``stages``, ``queries`` and ``tasks`` are used.
    waits : DataFrame
        From :func:`iqcar.model.waits.measure_waits`.
    lost_task_ms : ndarray of shape (n_stages,), ms
        Task time lost.

    Returns
    -------
    DataFrame of :data:`STAGE_LOSSES`
    """
    stage = tables.tasks["stage"].to_numpy(np.int64)
    here = np.flatnonzero((stage >= 0) & (stage < len(tables.stages)))
    parts = [waits[name].to_numpy(np.float64)[here] for name in _LIFE]
    life = sum((np.nan_to_num(part, posinf=0.0, neginf=0.0) for part in parts), np.zeros(len(here)))
    cpu = np.nan_to_num(waits["compute_ms"].to_numpy(np.float64)[here])
    n = len(tables.stages)
    life_ms = sum_by(stage[here], life, n)
    elapsed_ms = elapsed_shares(tables)
    share = share_of(lost_task_ms, life_ms)
    return STAGE_LOSSES.frame(
        {
            "life_ms": life_ms,
            "lost_task_ms": lost_task_ms,
            "elapsed_ms": elapsed_ms,
            "lost_ms": elapsed_ms * np.minimum(share, 1.0),
            "cpu_ms": sum_by(stage[here], cpu, n),
        }
    )


_LIFE = ("duration_ms", *(wait_column(r) for r in LAUNCH_REQUESTS))


def elapsed_shares(tables: Tables) -> Floats:
    """Divide the elapsed time of each query among its stages; concurrent stages share equally.

    Parameters
    ----------
    tables : Tables

    Returns
    -------
    ndarray of shape (n_stages,), ms
        Time without a running stage (planning, driver) is not divided, so the shares of a query's
        stages sum to at most its duration.
    """
    stages, queries = tables.stages, tables.queries
    shares = np.zeros(len(stages))
    query = stages["query"].to_numpy(np.int64)
    start = stages["submission_ms"].to_numpy(np.float64)
    start = np.where(np.isnan(start), stages["first_launch_ms"].to_numpy(np.float64), start)
    end = stages["completion_ms"].to_numpy(np.float64)
    if len(queries) == 0:
        return shares
    known = (query >= 0) & (query < len(queries))
    own = np.where(known, query, 0)
    for limit, bound in (("start_ms", np.fmax), ("end_ms", np.fmin)):
        limits = queries[limit].to_numpy(np.float64)[own]
        start, end = bound(start, limits), bound(end, limits)
    with np.errstate(invalid="ignore"):
        usable = known & np.isfinite(start) & np.isfinite(end) & (end > start)
    rows = np.flatnonzero(usable)
    if len(rows) == 0:
        return shares
    group = np.concatenate([query[rows], query[rows]])
    when = np.concatenate([start[rows], end[rows]])
    order = by_group_and_time(group, when)
    running = np.cumsum(np.repeat([1, -1], len(rows))[order])
    step = np.diff(when[order], append=0.0)
    step[(np.diff(group[order], append=-1) != 0) | (running == 0)] = 0.0
    clock = np.empty(len(order))
    clock[order] = running_total(step / np.maximum(running, 1))
    shares[rows] = np.maximum(clock[len(rows) :] - clock[: len(rows)], 0.0)
    return shares
