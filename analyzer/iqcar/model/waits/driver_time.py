"""Finds how long each query waited for its driver: when, and for what as far as the log tells.

A stage, from its submission to its completion, runs tasks or has tasks that wait for slots. The
time of a SQL execution in which no stage of it was there is its driver's: before the first stage,
between two, and after the last one. What a driver did there is told by metrics that Spark sums up
without times: of a part they take at most its length, and the rest is not recorded.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.enums import DriverPart, DriverWork, Evidence
from iqcar.model.queries.sql_queries import execution_rows, query_of_executions
from iqcar.model.waits.stage_parts import stage_times
from iqcar.tables import Column, Tables, TableSpec
from iqcar.tables.arrays import Flags, Floats, Ints, sum_by

PARTS = tuple(DriverPart)
DRIVER_WORK = TableSpec(
    "driver_work",
    "One row per query, part of its time in the driver, and what the driver did there.",
    (
        Column("query", "int32", "row", "The query."),
        Column("part", "str", "", "before_first_job, between_jobs or after_last_task."),
        Column("work", "str", "", "What it did; other where that is not recorded."),
        Column("time_ms", "float64", "ms", "How long, at most the part's length."),
        Column("files", "float64", "count", "Files that it listed, or committed; else NaN."),
        Column("evidence", "str", "", "How that is known."),
    ),
)


class _Recorded(NamedTuple):
    """How metrics tell a kind of work."""

    work: DriverWork
    metrics: tuple[str, ...]
    files: str
    """The metric that counts its files."""
    parts: tuple[DriverPart, ...]
    """Where it is done, the likeliest first."""


_RECORDED = (
    _Recorded(
        DriverWork.LISTING,
        ("metadata time",),
        "number of files read",
        (DriverPart.BEFORE_FIRST_JOB, DriverPart.BETWEEN_JOBS),
    ),
    _Recorded(
        DriverWork.BROADCAST,
        ("time to build", "time to broadcast"),
        "",
        (DriverPart.BETWEEN_JOBS, DriverPart.BEFORE_FIRST_JOB),
    ),
    _Recorded(
        DriverWork.COMMIT,
        ("job commit time",),
        "number of written files",
        (DriverPart.AFTER_LAST_TASK, DriverPart.BETWEEN_JOBS),
    ),
)


class DriverTime(NamedTuple):
    """Time in which queries waited for their driver."""

    parts: Floats
    """(n_queries, 3), ms: columns as :class:`iqcar.enums.DriverPart`. NaN where nothing tells: of
    a query that is no SQL execution, whose start or end is not recorded, or without a stage."""
    work: pd.DataFrame
    """:data:`DRIVER_WORK`; the times of a query's part sum to it."""

    @property
    def total(self) -> Floats:
        """Their sum, (n_queries,), ms; NaN where a part is unknown."""
        total: Floats = self.parts.sum(axis=1)
        return total

    def of_queries(self) -> dict[str, Floats]:
        """Columns of a table of queries: ``driver_ms`` and its parts; NaN where unknown."""
        parts = zip(PARTS, self.parts.T, strict=True)
        return {"driver_ms": self.total, **{f"{part}_ms": column for part, column in parts}}


def driver_time(tables: Tables) -> DriverTime:
    """Find the time that queries spent in their driver; queries must be identified."""
    parts = _parts(tables)
    return DriverTime(parts, _work(tables, parts))


def _parts(tables: Tables) -> Floats:
    queries, n = tables.queries, len(tables.queries)
    first, last = (queries[name].to_numpy(np.float64) for name in ("start_ms", "end_ms"))
    query, begin, end = _stages(tables, first, last)
    until = pd.Series(end).groupby(query).cummax().to_numpy(np.float64)
    is_first = np.diff(query, prepend=-1) != 0
    before = np.where(is_first, first[query], np.roll(until, 1))
    idle = np.maximum(begin - before, 0.0)
    over = np.full(n, np.nan)
    np.fmax.at(over, query, end)
    parts = np.zeros((n, len(PARTS)))
    parts[:, 0] = sum_by(query[is_first], idle[is_first], n)
    parts[:, 1] = sum_by(query[~is_first], idle[~is_first], n)
    parts[:, 2] = last - over
    return np.where(_known(tables) & np.isfinite(over)[:, None], parts, np.nan)


def _stages(tables: Tables, first: Floats, last: Floats) -> tuple[Ints, Floats, Floats]:
    """Return query, begin and end of each stage, inside of its query, sorted by the first two."""
    began, ended = stage_times(tables)
    query = tables.stages["query"].to_numpy(np.int64)
    rows = np.flatnonzero((query >= 0) & np.isfinite(began) & np.isfinite(ended))
    rows = rows[np.lexsort((began[rows], query[rows]))]
    mine = query[rows]
    bounds = first[mine], last[mine]
    return mine, np.clip(began[rows], *bounds), np.clip(ended[rows], *bounds)


def _known(tables: Tables) -> Flags:
    """Tell which parts have both ends recorded: (n_queries, 3)."""
    rows = np.array(execution_rows(tables), np.int64)
    sql = tables.sql_executions
    start, end = (
        np.append(np.isfinite(sql[name].to_numpy(np.float64)), False)[rows]
        for name in ("start_ms", "end_ms")
    )
    return np.column_stack([start, rows >= 0, end])


def _work(tables: Tables, parts: Floats) -> pd.DataFrame:
    """Divide the parts by what metrics tell."""
    left = parts.copy()
    rows: list[pd.DataFrame] = []

    def add(part: DriverPart, work: DriverWork, time: Floats, files: Floats, known: str) -> None:
        found = np.flatnonzero(time > 0)
        rows.append(
            DRIVER_WORK.frame(
                {
                    "query": found,
                    "part": [str(part)] * len(found),
                    "work": [str(work)] * len(found),
                    "time_ms": time[found],
                    "files": files[found],
                    "evidence": [known] * len(found),
                }
            )
        )

    for one in _RECORDED:
        amount = np.nan_to_num(_metric(tables, one.metrics))
        files = _metric(tables, (one.files,))
        for part in one.parts:
            column = PARTS.index(part)
            time = np.minimum(amount, np.nan_to_num(left[:, column]))
            add(part, one.work, time, files, str(Evidence.REPORTED))
            left[:, column] -= time
            amount = amount - time
    unknown = np.full(len(parts), np.nan)
    for column, part in enumerate(PARTS):
        add(part, DriverWork.OTHER, left[:, column], unknown, str(Evidence.ESTIMATED))
    found = pd.concat(rows)
    order = np.lexsort((-found["time_ms"], found["part"].map(PARTS.index), found["query"]))
    return found.iloc[order].reset_index(drop=True)


def _metric(tables: Tables, names: tuple[str, ...]) -> Floats:
    """Sum metrics by query: (n_queries,); NaN where none was recorded."""
    metrics = tables.sql_metrics
    total = metrics["total"].to_numpy(np.float64)
    mine = metrics["metric"].isin(names).to_numpy(bool) & np.isfinite(total)
    execution = metrics["sql_execution"].to_numpy(np.int64)
    query = np.append(query_of_executions(tables), -1)[execution]
    rows = np.flatnonzero(mine & (query >= 0))
    n = len(tables.queries)
    counts = np.bincount(query[rows], minlength=n)
    return np.where(counts > 0, sum_by(query[rows], total[rows], n), np.nan)
