"""Diagnoses the last minutes of a running application, and chooses what is shown of them.

A window holds what happened between two times: tables of the same kind as those of whole logs, made
by the same steps, and the ordinary diagnosis of them. Tasks that run are part of it, and so are
those that wait to be launched; both count until the end of the window.

A task that began before keeps the share of its times, bytes and counts that fell after: by its
recorded profile, else in proportion of time.

The terminal, the lines of JSON and the page show the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import numpy as np
import pandas as pd

from iqcar import tables as tb
from iqcar.base.limits import MOST_BLAMED
from iqcar.causes.stragglers.straggler_result import StragglerSettings
from iqcar.diagnosis import Diagnosis, Settings
from iqcar.enums import Request
from iqcar.live.growing_log import Forgotten, GrowingLog
from iqcar.logs.find.layouts import EventLog
from iqcar.logs.ingest import LineTally, tables_of
from iqcar.model.queries.critical_path import add_critical_path
from iqcar.model.queries.identify import identify
from iqcar.model.waits.columns import wait_column
from iqcar.pipeline import diagnose
from iqcar.say.blamed import Blamed, QueryNames, find_blamed, fold_blamed
from iqcar.say.finding import Finding
from iqcar.say.findings import find_findings
from iqcar.tables import NONE, TIMES, Tables, texts
from iqcar.tables.arrays import Flags, Floats, Ints, share_of, sum_by


@dataclass(frozen=True)
class Window:
    """What a running application did between two times.

    start_ms, end_ms: since the epoch, by the clocks that wrote the log.
    newest_ms: time of the newest event; before ``end_ms`` where the log has been quiet.
    ended: whether the application has ended.
    diagnosis: of the window alone.
    tables: what is known at the end, times and amounts not cut at the start: tasks that ended in
        the window, run or wait, and the stages, jobs and queries that these belong to.
    waiting: ndarray of shape (n_stages,), int64
        Tasks of each stage of ``tables`` that wait to be launched.
    events: events of the log so far.
    forgotten: what was over before the window.
    notes: what is doubtful about the window, in sentences.
    """

    start_ms: float
    end_ms: float
    newest_ms: float
    ended: bool
    diagnosis: Diagnosis
    tables: Tables
    waiting: Ints
    events: int
    forgotten: Forgotten
    notes: tuple[str, ...] = ()


def window_of(
    growing: GrowingLog,
    log: EventLog,
    tally: LineTally,
    settings: Settings,
    *,
    quiet_ms: float = 0.0,
    expected: bool = False,
    notes: tuple[str, ...] = (),
) -> Window | None:
    """Diagnose the last minutes of a log; what is over before them is dropped from it.

    growing: as long as its ``keep_ms`` is the window.
    log: where it is stored.
    tally: what was met while its lines were read.
    settings: as of ``iqcar analyze``.
    quiet_ms: how long the log has been quiet, by the clock of who follows it: the window ends so
        much after the newest event.
    expected: whether to predict what proposed rules would do.
    notes: sentences to pass on.

    Returns None as long as the log has no event with a time.
    """
    collected = growing.log
    if not isfinite(growing.newest_ms) or collected.events == 0:
        return None
    now = growing.newest_ms + (0.0 if collected.ended else quiet_ms)
    growing.forget(now)
    whole = tables_of(log, tally, growing.copy_until(now), growing.last_line)
    waiting = np.zeros(len(whole.stages), np.int64)
    if not collected.ended:
        waiting = waiting_by_stage(whole, growing.succeeded)
        whole = until_now(whole, waiting, now)
    grouped = add_critical_path(identify(whole, settings.query_by))
    began = grouped.applications["start_ms"].to_numpy(np.float64)[0]
    start = min(np.fmax(now - growing.keep_ms, began), now)
    tables = cut_before(grouped, start)
    total = int(waiting.sum())
    if total > MOST_WAITING:
        notes = (
            *notes,
            f"{total:,} tasks wait to be launched, of which {MOST_WAITING:,} are counted",
        )
    diagnosis = diagnose(
        tables,
        critical_path=settings.critical_path,
        top=settings.top,
        expected=expected,
        topics=False,  # a window is too short for a cause to recur in it
    )
    return Window(
        start_ms=float(start),
        end_ms=now,
        newest_ms=growing.newest_ms,
        ended=collected.ended,
        diagnosis=diagnosis,
        tables=grouped,
        waiting=waiting,
        events=collected.events,
        forgotten=Forgotten(**vars(growing.forgotten)),
        notes=notes,
    )


_LEVELS = ("peak_memory_bytes", "peak_held_bytes", "mean_held_bytes", "held_bytes")
"""Columns that are no sums over time."""
_NO_SUMS = (*_LEVELS, "launch_ms", "finish_ms", "start_ms", "end_ms")


def cut_before(tables: Tables, time_ms: float) -> Tables:
    """Return what happened after a time.

    tables: queries must be identified. What ended before the time may be left out already, as far
        as nothing that is left belongs to it.
    time_ms: since the epoch.

    Rows stay the same. Times before ``time_ms`` become it. Where nothing began before it,
    the tables are those given.
    """
    started = tables.stages["submission_ms"].to_numpy(np.float64) < time_ms
    tasks = tables.tasks
    launch, finish = (tasks[name].to_numpy(np.float64) for name in ("launch_ms", "finish_ms"))
    span = finish - launch
    kept = np.where(launch < time_ms, share_of(np.maximum(finish - time_ms, 0.0), span), 1.0)
    frames: dict[str, Any] = {}
    for name, columns in TIMES.items():
        frame = getattr(tables, name)
        later = {one: np.fmax(frame[one].to_numpy(np.float64), time_ms) for one in columns}
        known = {one: frame[one].notna().to_numpy() for one in columns}
        frames[name] = frame.assign(
            **{one: np.where(known[one], later[one], np.nan) for one in columns}
        )
    queries = frames["queries"]
    frames["queries"] = queries.assign(duration_ms=queries["end_ms"] - queries["start_ms"])
    # Tasks of these stages ended before: how many it has says nothing about lost events.
    declared = frames["stages"]["declared_tasks"].to_numpy()
    frames["stages"] = frames["stages"].assign(
        declared_tasks=np.where(started, NONE, declared).astype(declared.dtype)
    )
    if (kept < 1.0).any():
        frames["tasks"] = _scaled(frames["tasks"], kept)
        frames["intervals"], shares = _cut_intervals(tables, time_ms, kept)
        records = tables.task_records
        of_task = kept[records["task"].to_numpy(np.int64)]
        frames["task_records"] = _scaled(records, of_task, shares)
        begin = np.where(of_task < 1.0, np.fmax(records["start_ms"], time_ms), records["start_ms"])
        frames["task_records"] = frames["task_records"].assign(start_ms=begin)
        frames["lock_owners"] = _cut_owners(tables, kept, shares)
    frames["samples"] = tables.samples[tables.samples["time_ms"] >= time_ms].reset_index(drop=True)
    return tables.with_(**frames)


def _scaled(
    frame: pd.DataFrame, kept: Floats, shares: dict[str, Floats] | None = None
) -> pd.DataFrame:
    """Multiply columns of amounts by the share of each row that is kept."""
    amounts = [
        name
        for name in frame
        if name.endswith(("_ms", "_bytes", "_records", "_blocks")) and name not in _NO_SUMS
    ]
    return frame.assign(
        **{name: frame[name].to_numpy(np.float64) * (shares or {}).get(name, kept)
           for name in amounts}
    )  # fmt: skip


def _cut_intervals(
    tables: Tables, time_ms: float, kept: Floats
) -> tuple[pd.DataFrame, dict[str, Floats]]:
    """Return intervals after a time, and the share that each record keeps of the same columns."""
    intervals, records = tables.intervals, tables.task_records
    task = intervals["task"].to_numpy(np.int64)
    start, end = (intervals[name].to_numpy(np.float64) for name in ("start_ms", "end_ms"))
    cut = kept[task] < 1.0
    share = np.where(
        cut & (start < time_ms), share_of(np.maximum(end - time_ms, 0.0), end - start), 1.0
    )
    scaled = _scaled(intervals, share).assign(
        start_ms=np.where(cut, np.fmax(start, time_ms), start)
    )
    n = len(tables.tasks)
    of_record = records["task"].to_numpy(np.int64)
    shares: dict[str, Floats] = {}
    for name in scaled:
        if name in records and name.endswith("_ms") and name not in _NO_SUMS:
            before, after = (
                sum_by(task, np.nan_to_num(one[name].to_numpy(np.float64)), n)
                for one in (intervals, scaled)
            )
            by_profile = np.where(before > 0, share_of(after, before), kept)
            shares[str(name)] = by_profile[of_record]
    left = scaled[(scaled["end_ms"] > scaled["start_ms"]).to_numpy() & (share > 0)]
    return left.reset_index(drop=True), shares


def _cut_owners(tables: Tables, kept: Floats, shares: dict[str, Floats]) -> pd.DataFrame:
    """Return who held locks, as long as the share of the waits for locks that is kept."""
    locks = kept.copy()
    of_record = tables.task_records["task"].to_numpy(np.int64)
    locks[of_record] = shares.get(wait_column(Request.MONITOR_BLOCKED), kept[of_record])
    return _scaled(tables.lock_owners, locks[tables.lock_owners["task"].to_numpy(np.int64)])


MOST_WAITING = 20_000
"""Waiting tasks that get a row; of more, each stage gets its share."""


def waiting_by_stage(tables: tb.Tables, succeeded: Mapping[tuple[int, int], int]) -> Ints:
    """Count the tasks of each stage that wait to be launched: no event names them yet.

    A log tells of a task when it is launched. Without those that a submitted stage still has in the
    scheduler's queue, the longest waits would be missing until they are over.

    tables: of one running application.
    succeeded: tasks that succeeded, of stages that have not completed.

    Returns ndarray of shape (n_stages,).
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

    waiting: ndarray of shape (n_stages,); from :func:`waiting_by_stage`.

    The result is with a row of ``tasks`` of the status ``waiting`` for each waiting task. Its
    launch and finish are now: its wait so far is counted, and no run.
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


LEAST_ENDED = 3
"""Tasks of a stage that must have succeeded before one that runs is compared with their median."""
NO_HOST, NOT_LAUNCHED = "unknown host", "no host yet"
"""What the graph calls the place of tasks without a host; here they were not launched yet."""
LEAST_RUNNING_MS = 1000.0
"""A task that runs for less is no straggler: a view that is made every few seconds would show it
once."""


@dataclass(frozen=True)
class Victim:
    """A query that lost time in the window.

    running: whether it runs at the end of the window.
    elapsed_ms: since its start, before the window too.
    lost_ms, lost_to_others_ms: elapsed time that it lost in the window, and the part that other
        queries cost it.
    waiting: its tasks that wait to be launched.
    blamed: whom the loss is attributed to, the largest first.
    """

    query_id: str
    name: str
    number: str
    fingerprint: str
    running: bool
    elapsed_ms: float
    lost_ms: float
    lost_to_others_ms: float
    waiting: int
    blamed: tuple[Blamed, ...]


@dataclass(frozen=True)
class Aggressor:
    """A query that cost others time in the window.

    lost_ms: elapsed time that others lost to it.
    victims: how many others.
    resource: for which most was lost.
    slots: slots that its tasks hold at the end of the window.
    """

    query_id: str
    name: str
    number: str
    fingerprint: str
    running: bool
    lost_ms: float
    victims: int
    resource: str
    slots: float


@dataclass(frozen=True)
class SlowTask:
    """A task that runs for longer than others of its stage took.

    query_id, name, number: its query.
    running_ms, median_ms: how long it runs, and the median of those of its stage that succeeded in
        the window.
    """

    query_id: str
    name: str
    number: str
    stage_id: int
    attempt: int
    index: int
    task_id: int
    host: str
    executor: str
    running_ms: float
    median_ms: float


@dataclass(frozen=True)
class Lost:
    """Time lost to one resource, or on one host.

    name: of the resource or host.
    lost_ms, share: elapsed time, and its share of all that was lost in the window.
    """

    name: str
    lost_ms: float
    share: float


@dataclass(frozen=True)
class Overview:
    """A window as it is shown.

    application_id, application: id and name.
    finding: what would save most of the window; None where nothing would.
    slots: slots at the end of the window; NaN where the log does not tell.
    tasks_running, tasks_waiting, stages_running, queries_running: at the end of the window.
    lost_ms, lost_to_others_ms: elapsed time that all queries lost in the window.
    resources, hosts: the largest loss first.
    victims: those that lost most to others first, ``settings.top`` of them.
    aggressors: those that cost others most first.
    slow_tasks: those that run longest beyond the median first.
    """

    application_id: str
    application: str
    finding: Finding | None
    slots: float
    slots_used: float
    executors: int
    tasks_running: int
    tasks_waiting: int
    stages_running: int
    queries_running: int
    lost_ms: float
    lost_to_others_ms: float
    resources: tuple[Lost, ...]
    hosts: tuple[Lost, ...]
    victims: tuple[Victim, ...]
    aggressors: tuple[Aggressor, ...]
    slow_tasks: tuple[SlowTask, ...]


def overview_of(window: Window) -> Overview:
    """Choose what is shown of a window."""
    tables, diagnosis = window.tables, window.diagnosis
    graph, top = diagnosis.graph, diagnosis.settings.top
    names = QueryNames(diagnosis.tables.queries)
    running = ~tables.queries["ended"].to_numpy(bool) & (not window.ended)
    runs, held = _running(window)
    task_query, task_stage = (tables.tasks[of].to_numpy(np.int64) for of in ("query", "stage"))
    stage_query = tables.stages["query"].to_numpy(np.int64)
    waiting = np.zeros(len(stage_query))
    waiting[: len(window.waiting)] = window.waiting
    tasks_of_stage = np.bincount(task_stage[runs], minlength=len(stage_query))
    stages_running = ~tables.stages["completed"].to_numpy(bool) & (tasks_of_stage > 0)
    present = tables.executors["removed_ms"].isna().to_numpy()
    slots = float(tables.executors["cores"].to_numpy(np.float64)[present].sum())
    hosts, hot = graph.slow_nodes(), graph.hot_resources()
    n = len(running)
    return Overview(
        application_id=texts(tables.applications, "application_id")[0],
        application=texts(tables.applications, "name")[0],
        finding=next(iter(find_findings(diagnosis, replay=False)), None),
        slots=slots,
        # Spark can write that a task starts before it writes that the one before it has ended.
        slots_used=min(float(held[runs].sum()), slots if slots > 0 else np.inf),
        executors=int(present.sum()),
        tasks_running=int(runs.sum()),
        tasks_waiting=int(window.waiting.sum()),
        stages_running=int(stages_running.sum()),
        queries_running=int(running.sum()),
        lost_ms=float(diagnosis.lost_ms().sum()),
        lost_to_others_ms=float(diagnosis.lost_to_others_ms().sum()),
        resources=_lost(hot["resource"].tolist(), hot["lost_ms"].tolist()),
        hosts=_lost(list(map(_place, hosts["host"].tolist())), hosts["lost_ms"].tolist())[:top],
        victims=_victims(window, names, running, _by_query(stage_query, waiting, n)),
        aggressors=_aggressors(window, names, running, _by_query(task_query[runs], held[runs], n)),
        slow_tasks=_slow_tasks(window, names, top),
    )


def _victims(
    window: Window, names: QueryNames, running: Flags, waits: Floats
) -> tuple[Victim, ...]:
    """List queries that lost time, by what they lost to others; `waits`: their waiting tasks."""
    queries, diagnosis = window.tables.queries, window.diagnosis
    fingerprints = texts(queries, "fingerprint")
    elapsed = queries["duration_ms"].to_numpy(np.float64)
    lost, to_others = diagnosis.lost_ms(), diagnosis.lost_to_others_ms()
    worst = np.lexsort((-lost, -to_others))[: diagnosis.settings.top]
    return tuple(
        Victim(
            query_id=names.ids[row],
            name=names.name(row),
            number=names.number(row),
            fingerprint=fingerprints[row],
            running=bool(running[row]),
            elapsed_ms=float(elapsed[row]),
            lost_ms=float(lost[row]),
            lost_to_others_ms=float(to_others[row]),
            waiting=int(waits[row]),
            blamed=tuple(
                replace(one, by_host={_place(host): ms for host, ms in one.by_host.items()})
                for one in fold_blamed(find_blamed(diagnosis.graph, row, names), MOST_BLAMED)
            ),
        )
        for row in worst.tolist()
        if lost[row] > 0
    )


def _aggressors(
    window: Window, names: QueryNames, running: Flags, held: Floats
) -> tuple[Aggressor, ...]:
    """List queries that cost others time; `held`: slots that each holds at the end."""
    fingerprints = texts(window.tables.queries, "fingerprint")
    found = window.diagnosis.graph.aggressive_queries(window.diagnosis.settings.top)
    return tuple(
        Aggressor(
            query_id=names.ids[one.query],
            name=names.name(one.query),
            number=names.number(one.query),
            fingerprint=fingerprints[one.query],
            running=bool(running[one.query]),
            lost_ms=float(one.lost_ms),
            victims=int(one.victims),
            resource=one.resource,
            slots=float(held[one.query]),
        )
        for one in found.itertuples()
        if one.lost_ms > 0
    )


def _place(host: str) -> str:
    return NOT_LAUNCHED if host == NO_HOST else host


def _running(window: Window) -> tuple[Flags, Floats]:
    """Return which tasks run at the end, and the slots that each task holds."""
    tables = window.tables
    runs = (tables.tasks["status"] == "running").to_numpy(bool) & (not window.ended)
    cpus = tables.applications["task_cpus"].to_numpy(np.float64)[0]
    return runs, np.full(len(runs), cpus if cpus > 0 else 1.0)


def _by_query(query: Ints, values: Floats, n: int) -> Floats:
    known = query >= 0
    return sum_by(query[known], values[known], n)


def _lost(names: list[str], lost: list[float]) -> tuple[Lost, ...]:
    total = sum(lost)
    rows = [Lost(name, ms, ms / total) for name, ms in zip(names, lost, strict=True) if ms > 0]
    return tuple(sorted(rows, key=lambda one: -one.lost_ms))


def _slow_tasks(window: Window, names: QueryNames, most: int) -> tuple[SlowTask, ...]:
    tables = window.tables
    tasks, stages = tables.tasks, tables.stages
    runs, _ = _running(window)
    stage = tasks["stage"].to_numpy(np.int64)
    span = (tasks["finish_ms"] - tasks["launch_ms"]).to_numpy(np.float64)
    good = (tasks["status"] == "success").to_numpy(bool)
    found: list[tuple[float, int, float]] = []
    for number in np.unique(stage[runs & (stage >= 0)]).tolist():
        ended = span[good & (stage == number)]
        if len(ended) < LEAST_ENDED:
            continue
        median = float(np.median(ended))
        limit = max(StragglerSettings().straggler * median, LEAST_RUNNING_MS)
        slow = np.flatnonzero(runs & (stage == number) & (span > limit))
        found += [(float(span[row]) - median, row, median) for row in slow.tolist()]
    found.sort(key=lambda one: -one[0])
    hosts, executors = texts(tables.hosts, "host"), texts(tables.executors, "executor_id")
    rows = []
    for _, row, median in found[:most]:
        task = tasks.iloc[row]
        query = int(task["query"])
        rows.append(
            SlowTask(
                query_id=names.ids[query] if query >= 0 else "",
                name=names.name(query) if query >= 0 else "",
                number=names.number(query) if query >= 0 else "",
                stage_id=int(stages["stage_id"].iloc[int(task["stage"])]),
                attempt=int(stages["attempt"].iloc[int(task["stage"])]),
                index=int(task["index"]),
                task_id=int(task["task_id"]),
                host=hosts[int(task["host"])] if task["host"] >= 0 else "",
                executor=executors[int(task["executor"])] if task["executor"] >= 0 else "",
                running_ms=float(span[row]),
                median_ms=median,
            )
        )
    return tuple(rows)
