"""Chooses what is shown of a window: who waits for whom, and what runs at its end.

The terminal, the lines of JSON and the page show the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from iqcar.base.limits import MOST_BLAMED
from iqcar.causes.stragglers.straggler_result import StragglerSettings
from iqcar.live.window import Window
from iqcar.say.blamed import Blamed, find_blamed, fold_blamed
from iqcar.say.finding import Finding
from iqcar.say.findings import find_findings
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
    running : whether it runs at the end of the window.
    elapsed_ms : since its start, before the window too.
    lost_ms, lost_to_others_ms : elapsed time that it lost in the window, and the part that other
        queries cost it.
    waiting : its tasks that wait to be launched.
    blamed : whom the loss is attributed to, the largest first.
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
    lost_ms : elapsed time that others lost to it.
    victims : how many others.
    resource : for which most was lost.
    slots : slots that its tasks hold at the end of the window.
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
    query_id, name, number : its query.
    running_ms, median_ms : how long it runs, and the median of those of its stage that succeeded in
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

    Attributes
    ----------
    name : of the resource or host.
    lost_ms, share : elapsed time, and its share of all that was lost in the window.
    """

    name: str
    lost_ms: float
    share: float


@dataclass(frozen=True)
class Overview:
    """A window as it is shown.

    Attributes
    ----------
    application_id, application : id and name.
    finding : what would save most of the window; None where nothing would.
    slots : slots at the end of the window; NaN where the log does not tell.
    tasks_running, tasks_waiting, stages_running, queries_running : at the end of the window.
    lost_ms, lost_to_others_ms : elapsed time that all queries lost in the window.
    resources, hosts : the largest loss first.
    victims : those that lost most to others first, ``settings.top`` of them.
    aggressors : those that cost others most first.
    slow_tasks : those that run longest beyond the median first.
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
