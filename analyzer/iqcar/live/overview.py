"""What is shown of a window: who waits for whom, and what runs at its end.

The terminal, the lines of JSON and the page show the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from iqcar.base.limits import MOST_BLAMED
from iqcar.causes.stragglers.straggler_settings import StragglerSettings
from iqcar.live.window import Window
from iqcar.say.blamed import Blamed, find_blamed, fold_blamed
from iqcar.say.query_names import QueryNames
from iqcar.tables import texts
from iqcar.tables.arrays import Flags, Floats, Ints, sum_by

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

    Attributes
    ----------
    query_id, name, number, fingerprint : str
    running : bool
        Whether it runs at the end of the window.
    elapsed_ms : float
        Since its start, before the window too.
    lost_ms, lost_to_others_ms : float
        Elapsed time that it lost in the window, and the part that other queries cost it.
    waiting : int
        Its tasks that wait to be launched.
    blamed : tuple of Blamed
        Whom the loss is attributed to, the largest first.
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

    Attributes
    ----------
    query_id, name, number, fingerprint : str
    running : bool
    lost_ms : float
        Elapsed time that others lost to it.
    victims : int
        How many others.
    resource : str
        For which most was lost.
    slots : float
        Slots that its tasks hold at the end of the window.
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

    Attributes
    ----------
    query_id, name, number : str
        Its query.
    stage_id, attempt, index, task_id : int
    host, executor : str
    running_ms, median_ms : float
        How long it runs, and the median of those of its stage that succeeded in the window.
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

    Attributes
    ----------
    name : str
        Of the resource or host.
    lost_ms, share : float
        Elapsed time, and its share of all that was lost in the window.
    """

    name: str
    lost_ms: float
    share: float


@dataclass(frozen=True)
class Overview:
    """A window as it is shown.

    Attributes
    ----------
    application_id, application : str
        Id and name.
    slots : float
        Slots at the end of the window; NaN where the log does not tell.
    slots_used : float
    executors : int
    tasks_running, tasks_waiting, stages_running, queries_running : int
        At the end of the window.
    lost_ms, lost_to_others_ms : float
        Elapsed time that all queries lost in the window.
    resources, hosts : tuple of Lost
        The largest loss first.
    victims : tuple of Victim
        Those that lost most to others first, ``settings.top`` of them.
    aggressors : tuple of Aggressor
        Those that cost others most first.
    slow_tasks : tuple of SlowTask
        Those that run longest beyond the median first.
    """

    application_id: str
    application: str
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
    ids, fingerprints = (texts(tables.queries, name) for name in ("query_id", "fingerprint"))
    elapsed = tables.queries["duration_ms"].to_numpy(np.float64)
    n = len(ids)
    runs, held = _running(window)
    task_query = tables.tasks["query"].to_numpy(np.int64)
    held_by = _by_query(task_query[runs], held[runs], n)
    stage_query = tables.stages["query"].to_numpy(np.int64)
    waiting = np.zeros(len(stage_query))
    waiting[: len(window.waiting)] = window.waiting
    waits = _by_query(stage_query, waiting, n)
    lost, to_others = diagnosis.lost_ms(), diagnosis.lost_to_others_ms()
    worst = np.lexsort((-lost, -to_others))[:top]
    stages_running = ~tables.stages["completed"].to_numpy(bool) & (
        np.bincount(tables.tasks["stage"].to_numpy(np.int64)[runs], minlength=len(stage_query)) > 0
    )
    present = tables.executors["removed_ms"].isna().to_numpy()
    slots = float(tables.executors["cores"].to_numpy(np.float64)[present].sum())
    hosts, hot = graph.slow_nodes(), graph.hot_resources()
    application = tables.applications
    return Overview(
        application_id=texts(application, "application_id")[0],
        application=texts(application, "name")[0],
        slots=slots,
        # Spark can write that a task starts before it writes that the one before it has ended.
        slots_used=min(float(held[runs].sum()), slots if slots > 0 else np.inf),
        executors=int(present.sum()),
        tasks_running=int(runs.sum()),
        tasks_waiting=int(window.waiting.sum()),
        stages_running=int(stages_running.sum()),
        queries_running=int(running.sum()),
        lost_ms=float(lost.sum()),
        lost_to_others_ms=float(to_others.sum()),
        resources=_lost(hot["resource"].tolist(), hot["lost_ms"].tolist()),
        hosts=_lost([_place(name) for name in hosts["host"].tolist()], hosts["lost_ms"].tolist())[
            :top
        ],
        victims=tuple(
            Victim(
                query_id=ids[row],
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
                    for one in fold_blamed(find_blamed(graph, row, names), MOST_BLAMED)
                ),
            )
            for row in worst.tolist()
            if lost[row] > 0
        ),
        aggressors=tuple(
            Aggressor(
                query_id=ids[one.query],
                name=names.name(one.query),
                number=names.number(one.query),
                fingerprint=fingerprints[one.query],
                running=bool(running[one.query]),
                lost_ms=float(one.lost_ms),
                victims=int(one.victims),
                resource=one.resource,
                slots=float(held_by[one.query]),
            )
            for one in graph.aggressive_queries(top).itertuples()
            if one.lost_ms > 0
        ),
        slow_tasks=_slow_tasks(window, names, top),
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
