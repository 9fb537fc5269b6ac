"""Divide each query's duration among the stages that held it up, and its driver.

From the end of a query backwards: the stage that completed last before this instant held the query
up from its submission on; what lies between is the driver's. The segments sum to the duration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from iqcar.tables import Tables
    from iqcar.tables.arrays import Flags, Floats

SLACK_MS = 5.0
"""Time by which a completion may be recorded after what it made possible began: events carry whole
milliseconds of two threads."""


class QueryPaths(NamedTuple):
    """Time on the chains that held the queries up.

    Attributes
    ----------
    stage_ms : ndarray of shape (n_stages,), ms
        Time of each stage on its query's chain; 0 off it.
    driver_ms : ndarray of shape (n_queries,), ms
        Time in which no stage on the chain ran.
    """

    stage_ms: Floats
    driver_ms: Floats


def query_paths(tables: Tables, kept: Flags) -> QueryPaths:
    """Walk back through the stages of each query.

    Parameters
    ----------
    tables : Tables
        Their queries must be identified.
    kept : ndarray of shape (n_queries,), bool
        The queries to divide; others get 0.
    """
    stages, queries = tables.stages, tables.queries
    began, ended = stage_times(tables)
    first, last = (queries[name].to_numpy(np.float64) for name in ("start_ms", "end_ms"))
    query = stages["query"].to_numpy(np.int64)
    known = (query >= 0) & np.isfinite(began) & np.isfinite(ended)
    known[known] &= kept[query[known]]
    rows = np.flatnonzero(known)
    # Latest completion first; of equal ones, the one that began last.
    rows = rows[np.lexsort((-rows, -began[rows], -ended[rows], query[rows]))]
    stage_ms = np.zeros(len(stages))
    driver_ms = np.where(kept, last - first, 0.0)
    now = last.copy()
    for row, of, begin, end in zip(
        rows.tolist(), query[rows].tolist(), began[rows].tolist(), ended[rows].tolist(), strict=True
    ):
        begin = max(begin, first[of])
        if end > now[of] + SLACK_MS or begin >= now[of]:
            continue
        time = min(end, now[of]) - begin
        if time <= 0:
            continue
        stage_ms[row] = time
        driver_ms[of] -= time
        now[of] = begin
    return QueryPaths(stage_ms, np.maximum(driver_ms, 0.0))


def stage_times(tables: Tables) -> tuple[Floats, Floats]:
    """Return submission and completion of each stage, in ms; NaN where nothing tells.

    A stage without a recorded submission began with its first task.
    """
    began, launched, ended = (
        tables.stages[name].to_numpy(np.float64)
        for name in ("submission_ms", "first_launch_ms", "completion_ms")
    )
    began = np.where(np.isnan(began), launched, began)
    return began, np.where(np.isnan(ended), np.nan, np.fmax(ended, began))
