"""Finds how long each query waited for its driver: when, and for what as far as the log tells.

A stage, from its submission to the end of its last task, runs tasks or has tasks that wait for
slots. The time of a SQL execution in which no stage of it was there is its driver's: before the
first stage, between two, and after the last one. Within a job that is the scheduler's event loop,
one thread that submits the stages and handles the ends of tasks of all queries. The plugin tells
when the driver planned. How long it compiled generated code, and what metrics tell of other work,
has no times: of what is left of a part each takes at most its length, and the rest is not recorded.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.enums import Evidence, Kind
from iqcar.model.queries.identify import execution_rows, query_of_executions
from iqcar.model.waits.stage_parts import stage_times
from iqcar.tables import Column, Tables, TableSpec, texts
from iqcar.tables.arrays import Flags, Floats, Ints, sum_by


class DriverPart(Kind):
    """When a query waited for its driver: no stage of it ran, and no task waited for a slot."""

    BEFORE_FIRST_JOB = "before_first_job", "From its start to its first stage."
    BETWEEN_JOBS = "between_jobs", "Between two of its stages."
    AFTER_LAST_TASK = "after_last_task", "From the end of its last task to its end."

    @property
    def words(self) -> str:
        """What it is called in reports."""
        return _DRIVER_WORDS[self]


class DriverWork(Kind):
    """What a driver did while a query waited for it."""

    ANALYSIS = "analysis", "Parsing, and resolving names in the catalog, which may list files."
    OPTIMIZATION = "optimization", "Rewriting the plan."
    PLANNING = "planning", "Choosing the physical plan, and preparing it."
    SCHEDULING = (
        "scheduling",
        "Within its jobs: submitting stages and handling ends of tasks, of all queries in turn.",
    )
    COMPILING = "compiling", "Compiling generated code, of all queries at that time."
    LISTING = "listing", "Finding the files to read, and asking for their sizes."
    BROADCAST = "broadcast", "Building the small side of a join, and sending it out."
    COMMIT = "commit", "Moving what was written to its place."
    OTHER = (
        "other",
        "Not recorded: adaptive planning; without the plugin all planning and compiling.",
    )

    @property
    def words(self) -> str:
        """What it is called in reports."""
        return _DRIVER_WORDS[self]


_DRIVER_WORDS: dict[DriverPart | DriverWork, str] = {
    DriverPart.BEFORE_FIRST_JOB: "before its first stage",
    DriverPart.BETWEEN_JOBS: "between stages",
    DriverPart.AFTER_LAST_TASK: "after its last task",
    DriverWork.ANALYSIS: "analysing",
    DriverWork.OPTIMIZATION: "optimising",
    DriverWork.PLANNING: "planning",
    DriverWork.SCHEDULING: "scheduling stages",
    DriverWork.COMPILING: "compiling generated code",
    DriverWork.LISTING: "listing files",
    DriverWork.BROADCAST: "broadcasting",
    DriverWork.COMMIT: "committing output",
    DriverWork.OTHER: "not recorded",
}


PARTS = tuple(DriverPart)
WORKS = tuple(DriverWork)
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

_PHASES = {
    "parsing": DriverWork.ANALYSIS,
    "analysis": DriverWork.ANALYSIS,
    "optimization": DriverWork.OPTIMIZATION,
    "planning": DriverWork.PLANNING,
}
"""What the driver does in the phases that the plugin records."""
_SCHEDULED = {DriverWork.SCHEDULING: Evidence.REPORTED}


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
    """(n_queries, 3), ms: columns as :class:`iqcar.model.waits.driver_time.DriverPart`. NaN where
    nothing tells: of a query that is no SQL execution, whose start or end is not recorded, or
    without a stage."""
    work: pd.DataFrame
    """:data:`DRIVER_WORK`; the times of a query's part sum to it."""
    early: Floats
    """(n_queries,), ms: planning before the start that Spark logs, no part of the query's duration;
    NaN where the plugin does not tell."""

    @property
    def total(self) -> Floats:
        """Their sum, (n_queries,), ms; NaN where a part is unknown."""
        total: Floats = self.parts.sum(axis=1)
        return total

    def of_queries(self) -> dict[str, Floats]:
        """Columns of a table of queries: ``driver_ms``, its parts, and planning before."""
        parts = zip(PARTS, self.parts.T, strict=True)
        return {
            "driver_ms": self.total,
            **{f"{part}_ms": column for part, column in parts},
            "planned_before_ms": self.early,
        }


class _Idle(NamedTuple):
    """Times without a stage, of known ends, by query and start."""

    query: Ints
    part: Ints
    start: Floats
    end: Floats


def driver_time(tables: Tables) -> DriverTime:
    """Find the time that queries spent in their driver; queries must be identified."""
    n = len(tables.queries)
    idle, seen = _idle(tables)
    cell = idle.query * len(PARTS) + idle.part
    parts = sum_by(cell, idle.end - idle.start, n * len(PARTS)).reshape(n, len(PARTS))
    parts = np.where(seen, parts, np.nan)
    planned, early = _planned(tables, idle)
    planned[:, :, WORKS.index(DriverWork.SCHEDULING)] = _scheduled(tables, idle)
    return DriverTime(parts, _work(tables, parts, planned), early)


def _idle(tables: Tables) -> tuple[_Idle, Flags]:
    """Return the times without a stage, and which parts are known: (n_queries, 3)."""
    queries, n = tables.queries, len(tables.queries)
    first, last = (queries[name].to_numpy(np.float64) for name in ("start_ms", "end_ms"))
    query, begin, end = _stages(tables, first, last)
    until = pd.Series(end).groupby(query).cummax().to_numpy(np.float64)
    is_first = np.diff(query, prepend=-1) != 0
    over = np.full(n, np.nan)
    np.fmax.at(over, query, end)
    seen = _known(tables) & np.isfinite(over)[:, None]
    rows = np.arange(n)
    owner = np.concatenate([query, rows])
    part = np.concatenate([np.where(is_first, 0, 1), np.full(n, 2)])
    start = np.concatenate([np.where(is_first, first[query], np.roll(until, 1)), over])
    stop = np.concatenate([begin, last])
    kept = np.flatnonzero(seen[owner, part] & (stop > start))
    kept = kept[np.lexsort((start[kept], owner[kept]))]
    return _Idle(owner[kept], part[kept], start[kept], stop[kept]), seen


def _stages(tables: Tables, first: Floats, last: Floats) -> tuple[Ints, Floats, Floats]:
    """Return query, begin and end of each stage, inside of its query, sorted by the first two."""
    began, ended = stage_times(tables)
    ended = np.fmax(began, np.fmin(ended, _last_task(tables)))
    query = tables.stages["query"].to_numpy(np.int64)
    rows = np.flatnonzero((query >= 0) & np.isfinite(began) & np.isfinite(ended))
    rows = rows[np.lexsort((began[rows], query[rows]))]
    mine = query[rows]
    bounds = first[mine], last[mine]
    return mine, np.clip(began[rows], *bounds), np.clip(ended[rows], *bounds)


def _last_task(tables: Tables) -> Floats:
    """Return when the last task of each stage ended: (n_stages,), ms.

    NaN where a stage failed, and where the log may lack a task: its completion tells then.
    """
    tasks, stages, n = tables.tasks, tables.stages, len(tables.stages)
    stage = tasks["stage"].to_numpy(np.int64)
    well = np.flatnonzero((stage >= 0) & (tasks["status"] == "success").to_numpy(bool))
    last = np.full(n, np.nan)
    np.fmax.at(last, stage[well], tasks["finish_ms"].to_numpy(np.float64)[well])
    planned = stages["declared_tasks"].to_numpy(np.int64)
    whole = (planned > 0) & (np.bincount(stage[well], minlength=n) >= planned)
    whole &= (stages["failure_reason"] == "").to_numpy(bool)
    return np.where(whole, last, np.nan)


def _known(tables: Tables) -> Flags:
    """Tell which parts have both ends recorded: (n_queries, 3)."""
    rows = np.array(execution_rows(tables), np.int64)
    sql = tables.sql_executions
    start, end = (
        np.append(np.isfinite(sql[name].to_numpy(np.float64)), False)[rows]
        for name in ("start_ms", "end_ms")
    )
    return np.column_stack([start, rows >= 0, end])


def _planned(tables: Tables, idle: _Idle) -> tuple[Floats, Floats]:
    """Return the time of phases without a stage, and before queries, where the plugin saw phases.

    Returns (n_queries, n_parts, n_works) and (n_queries,), ms. A moment of two phases is the
    earlier one's.
    """
    phases, n = tables.driver_phases, len(tables.queries)
    names = texts(phases, "phase")
    work = np.array([WORKS.index(_PHASES[one]) if one in _PHASES else -1 for one in names])
    query = np.append(query_of_executions(tables), -1)[phases["sql_execution"].to_numpy(np.int64)]
    begin, end = (phases[name].to_numpy(np.float64) for name in ("start_ms", "end_ms"))
    known = (query >= 0) & (work >= 0) & (end >= begin)
    early = np.where(np.bincount(query[known], minlength=n) > 0, 0.0, np.nan)
    # A plan that runs again tells again when it was made.
    again = phases.duplicated(["app", "phase", "start_ms", "end_ms"]).to_numpy(bool)
    rows = np.flatnonzero(known & ~again)
    rows = rows[np.lexsort((end[rows], begin[rows], query[rows]))]
    query, work, begin, end = query[rows], work[rows], begin[rows], end[rows]
    before = pd.Series(end).groupby(query).cummax().groupby(query).shift().to_numpy(np.float64)
    begin = np.fmax(begin, before)
    started = tables.queries["start_ms"].to_numpy(np.float64)[query]
    early += sum_by(query, np.maximum(np.fmin(end, started) - begin, 0.0), n)
    spent = np.zeros((n, len(PARTS), len(WORKS)))
    first, last = (np.searchsorted(idle.query, query, side=side) for side in ("left", "right"))
    for at in np.flatnonzero((last > first) & (end > begin)).tolist():
        mine = slice(first[at], last[at])
        shared = np.minimum(idle.end[mine], end[at]) - np.maximum(idle.start[mine], begin[at])
        np.add.at(spent[query[at], :, work[at]], idle.part[mine], np.maximum(shared, 0.0))
    return spent, early


def _scheduled(tables: Tables, idle: _Idle) -> Floats:
    """Return the time without a stage in which a job of the query was there: (n_queries, n_parts).

    All queries stand one behind the other on a line of time, so that one search serves all.
    """
    queries, jobs, n = tables.queries, tables.jobs, len(tables.queries)
    first, last = (queries[name].to_numpy(np.float64) for name in ("start_ms", "end_ms"))
    ran = np.nan_to_num(np.maximum(last - first, 0.0))
    offset = np.cumsum(ran) - ran

    def on_line(query: Ints, time: Floats) -> Floats:
        at: Floats = offset[query] + np.clip(time - first[query], 0.0, ran[query])
        return at

    query = jobs["query"].to_numpy(np.int64)
    begin, end = (jobs[name].to_numpy(np.float64) for name in ("submission_ms", "completion_ms"))
    rows = np.flatnonzero((query >= 0) & (end > begin))
    begin, end = (on_line(query[rows], time[rows]) for time in (begin, end))
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], np.maximum.accumulate(end[order])
    begin = np.maximum(begin, np.concatenate([[-np.inf], end])[:-1])
    before = np.concatenate([[0.0], np.cumsum(end - begin)])

    def covered(time: Floats) -> Floats:
        at = np.searchsorted(begin, time, side="right")
        reached = np.append(end, 0.0)[at - 1]
        found: Floats = before[at] - np.where(at > 0, np.maximum(reached - time, 0.0), 0.0)
        return found

    shared = covered(on_line(idle.query, idle.end)) - covered(on_line(idle.query, idle.start))
    cell = idle.query * len(PARTS) + idle.part
    return sum_by(cell, shared, n * len(PARTS)).reshape(n, len(PARTS))


def _work(tables: Tables, parts: Floats, planned: Floats) -> pd.DataFrame:
    """Divide the parts by phases and by what metrics tell."""
    left = np.nan_to_num(parts)
    unknown = np.full(len(parts), np.nan)
    rows: list[pd.DataFrame] = []

    def add(column: int, work: DriverWork, most: Floats, files: Floats, known: Evidence) -> Floats:
        time = np.minimum(most, left[:, column])
        left[:, column] -= time
        found = np.flatnonzero(time > 0)
        rows.append(
            DRIVER_WORK.frame(
                {
                    "query": found,
                    "part": [str(PARTS[column])] * len(found),
                    "work": [str(work)] * len(found),
                    "time_ms": time[found],
                    "files": files[found],
                    "evidence": [str(known)] * len(found),
                }
            )
        )
        return time

    known = {**dict.fromkeys(_PHASES.values(), Evidence.MEASURED), **_SCHEDULED}
    for work, evidence in known.items():
        for column in range(len(PARTS)):
            add(column, work, planned[:, column, WORKS.index(work)], unknown, evidence)
    compiled = _compiled(tables)
    for column in range(PARTS.index(DriverPart.AFTER_LAST_TASK)):
        compiled -= add(column, DriverWork.COMPILING, compiled, unknown, Evidence.ESTIMATED)
    for one in _RECORDED:
        amount = np.nan_to_num(_metric(tables, one.metrics))
        files = _metric(tables, (one.files,))
        for part in one.parts:
            column = PARTS.index(part)
            amount = amount - add(column, one.work, amount, files, Evidence.REPORTED)
    for column in range(len(PARTS)):
        add(column, DriverWork.OTHER, left[:, column].copy(), unknown, Evidence.ESTIMATED)
    found = pd.concat(rows)
    order = np.lexsort((-found["time_ms"], found["part"].map(PARTS.index), found["query"]))
    return found.iloc[order].reset_index(drop=True)


def _compiled(tables: Tables) -> Floats:
    """Return how long code was compiled while each query ran: (n_queries,), ms; 0 if unknown.

    What an execution compiled is in what the one compiled that it is part of.
    """
    phases = tables.driver_phases[(tables.driver_phases["phase"] == "compiling").to_numpy(bool)]
    query = np.append(query_of_executions(tables), -1)[phases["sql_execution"].to_numpy(np.int64)]
    time = np.nan_to_num((phases["end_ms"] - phases["start_ms"]).to_numpy(np.float64))
    compiled = np.zeros(len(tables.queries))
    np.maximum.at(compiled, query[query >= 0], time[query >= 0])
    return compiled


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


def listeners_late(tables: Tables) -> float:
    """Return how late listeners were told of a query's end, at most, in ms; NaN if not recorded."""
    phases = tables.driver_phases
    late = phases["end_ms"] - phases["start_ms"]
    return float(late[(phases["phase"] == "listeners").to_numpy(bool)].max())
