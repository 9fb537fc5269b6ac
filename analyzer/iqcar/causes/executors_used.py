"""Tells how applications used executors: late, unevenly, hardly, or fewer than they asked for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.enums import FindingKind
from iqcar.model.waits.stage_parts import query_paths, stage_times
from iqcar.tables import NONE, Tables, texts
from iqcar.tables.arrays import Floats, Ints, known_or_zero, positive_or_zero, sum_by


def start_up_time(tables: Tables) -> tuple[Floats, Floats, Floats]:
    """Return what each query would save if all slots had been there whenever it had tasks to run.

    While the stage that held it up waited to launch tasks, s slots were there of the S that it
    could have used, at most as many as it had tasks: 1 − s / S of that time is saved.

    Returns (n_queries,) each: ms saved, ms in which slots were missing, and slots missing then.
    """
    stages, n = tables.stages, len(tables.queries)
    held = query_paths(tables, np.ones(n, bool)).stage_ms
    began, _ = stage_times(tables)
    last, count = np.full(len(stages), -np.inf), np.zeros(len(stages))
    stage = tables.tasks["stage"].to_numpy(np.int64)
    launch = tables.tasks["launch_ms"].to_numpy(np.float64)
    known = (stage >= 0) & np.isfinite(launch)
    np.maximum.at(last, stage[known], launch[known])
    np.add.at(count, stage[known], 1)
    query, app = (stages[name].to_numpy(np.int64) for name in ("query", "app"))
    rows = np.flatnonzero((held > 0) & (query >= 0) & (last > began))
    found, ends = np.zeros((3, len(stages))), tables.queries["end_ms"].to_numpy(np.float64)
    most, asked = (_slots_of(tables, count) for count in (_set_executors(tables), _asked(tables)))
    for one in np.unique(app[rows]).tolist():
        when, slots = _slots(tables, one)
        # One executor that comes in place of another makes no more of them than were set.
        slots = np.fmin(slots, most[one])
        if slots.max(initial=0.0) > 0 and len(when) > 1:
            for row in rows[app[rows] == one].tolist():
                # Executors that came when its query had ended could not be missed, unless they
                # were asked for.
                came = slots[: np.searchsorted(when, ends[query[row]], side="right")]
                could = np.fmax(came.max(initial=0.0), asked[one])
                could = min(float(could), count[row])
                found[:, row] = _missing(when, slots, began[row], last[row], could)
    saved = np.minimum(found[0], held)
    saves, missed, area = (sum_by(query[rows], one[rows], n) for one in (saved, found[1], found[2]))
    return saves, missed, np.divide(area, missed, out=np.zeros(n), where=missed > 0)


def _slots(tables: Tables, app: int) -> tuple[Floats, Floats]:
    """From when on how many slots an application had."""
    executors = tables.executors
    mine = (executors["app"] == app).to_numpy(bool)
    start, end = (float(tables.applications[n].iloc[app]) for n in ("start_ms", "end_ms"))
    since, until = (executors[n].to_numpy(np.float64)[mine] for n in ("added_ms", "removed_ms"))
    each = float(positive_or_zero(tables.applications["task_cpus"].to_numpy(np.float64))[app])
    cores = known_or_zero(executors["cores"].to_numpy(np.float64)[mine]) / max(each, 1.0)
    since, until = np.fmax(since, start), np.fmin(until, end)
    since, until = np.nan_to_num(since, nan=-np.inf), np.nan_to_num(until, nan=np.inf)
    there = until > since
    when = np.concatenate([since[there], until[there]])
    order: Ints = np.argsort(when, kind="stable")
    return when[order], np.cumsum(np.concatenate([cores[there], -cores[there]])[order])


def _missing(
    when: Floats, slots: Floats, began: float, last: float, could: float
) -> tuple[float, float, float]:
    """Return the time saved, the time in which slots were missing, and their integral.

    could: slots that it could have used
    """
    if could <= 0:
        return 0.0, 0.0, 0.0
    first, end = np.searchsorted(when, [began, last], side="right")
    edges = np.concatenate([[began], when[first:end], [last]])
    there = np.append(0.0, slots)[first : end + 1]
    lacks = np.maximum(could - there, 0.0)
    spans = np.diff(edges)
    return (
        float(np.sum(lacks / could * spans)),
        float(spans[lacks > 0].sum()),
        float(np.sum(lacks * spans)),
    )


def _slots_of(tables: Tables, count: Floats) -> Floats:
    """Return the slots of so many executors of each application, as large as its largest."""
    executors, apps = tables.executors, tables.applications
    cores = known_or_zero(executors["cores"].to_numpy(np.float64))
    largest = np.zeros(len(apps))
    np.maximum.at(largest, executors["app"].to_numpy(np.int64), cores)
    per_task = np.maximum(positive_or_zero(apps["task_cpus"].to_numpy(np.float64)), 1.0)
    slots: Floats = count * largest / per_task
    return np.where(slots > 0, slots, np.nan)


WAITED_SHARE = 0.2
"""Share of a stage's time in which tasks waited beside free slots from which on it is looked at."""
LEAST_WAITED_MS = 100.0
"""... and the least such time."""
FULL, EMPTY = 0.7, 0.25
"""Use of their slots from which on executors are full, and below which they are empty."""
EMPTY_SHARE = 0.3
"""Part of the slots on empty executors from which on tasks are unevenly spread."""


def uneven_executors(facts: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """Return the facts of the stages whose tasks waited for full executors beside empty ones.

    A driver that cannot start tasks as fast as they end leaves no executor full.

    facts: by stage, of those that held a query up

    Returns them with their savings; ``busiest`` is the share of task time on the full executors,
    ``empty`` how many were empty.
    """
    waited = facts["slots_ms"].to_numpy(np.float64)
    wanted = (waited >= LEAST_WAITED_MS) & (waited >= WAITED_SHARE * facts["held_ms"].to_numpy())
    found = facts[wanted].reset_index(drop=True)
    tasks, executors = tables.tasks, tables.executors
    by_stage = _rows_by(tasks["stage"].to_numpy(np.int64), found["stage"].to_numpy(np.int64))
    launch, finish = (tasks[name].to_numpy(np.float64) for name in ("launch_ms", "finish_ms"))
    ran_on, task_app = (tasks[name].to_numpy(np.int64) for name in ("executor", "app"))
    app = executors["app"].to_numpy(np.int64)
    added = np.nan_to_num(executors["added_ms"].to_numpy(np.float64), nan=-np.inf)
    removed = np.nan_to_num(executors["removed_ms"].to_numpy(np.float64), nan=np.inf)
    each = np.maximum(positive_or_zero(tables.applications["task_cpus"].to_numpy(np.float64)), 1.0)
    cores = known_or_zero(executors["cores"].to_numpy(np.float64)) / each[app]
    known = np.flatnonzero((ran_on >= 0) & np.isfinite(launch) & np.isfinite(finish))
    order = known[np.argsort(launch[known], kind="stable")]
    begun, over = launch[order], np.maximum.accumulate(finish[order])
    owner = tables.stages["app"].to_numpy(np.int64)[found["stage"].to_numpy(np.int64)]
    saved, busiest, empty = np.zeros(len(found)), np.zeros(len(found)), np.zeros(len(found))
    for at, (rows, one) in enumerate(zip(by_stage, owner.tolist(), strict=True)):
        start, end = np.nanmin(launch[rows]), np.nanmax(launch[rows])
        here = np.flatnonzero((app == one) & (added <= start) & (removed >= end) & (cores > 0))
        span = end - start
        if len(here) < 2 or not span > 0:
            continue
        near = order[np.searchsorted(over, start, side="right") : np.searchsorted(begun, end)]
        near = near[(task_app[near] == one) & (finish[near] > start)]
        used = np.clip(finish[near], start, end) - np.clip(launch[near], start, end)
        busy = np.bincount(ran_on[near], used, len(executors))[here] / (cores[here] * span)
        full, idle = busy >= FULL, busy < EMPTY
        slots = cores[here]
        if not full.any() or slots[idle].sum() < EMPTY_SHARE * slots.sum():
            continue
        saved[at] = span * (1.0 - (busy * slots).sum() / slots.sum())
        busiest[at] = (busy * slots)[full].sum() / max((busy * slots).sum(), 1e-9)
        empty[at] = int(idle.sum())
    most = np.minimum(saved, found["held_ms"])
    return found.assign(
        kind=FindingKind.LOCALITY, low_ms=0.4 * most, high_ms=most, saves_ms=0.7 * most,
        busiest=busiest, empty=empty,
    )  # fmt: skip


def _rows_by(group: Ints, wanted: Ints) -> list[Ints]:
    """Rows of each of the wanted groups."""
    order = np.argsort(group, kind="stable")
    ends = [np.searchsorted(group[order], wanted, side) for side in ("left", "right")]
    return [order[a:b] for a, b in zip(*ends, strict=True)]


class ExecutorUse(NamedTuple):
    """What an application made of its executors, or of one local JVM."""

    app: int
    paid_ms: float
    """Slot time that was there."""
    used_ms: float
    """Slot time in which tasks ran."""
    span_ms: float
    """From the first executor to the end."""
    working_ms: float
    """Part of that in which a query ran, or a task."""
    most: int
    """Executors that were there at one time."""
    asked: float
    """Executors that it asked for, by its settings or by the plugin's record; NaN if unknown."""


def executor_use(tables: Tables) -> list[ExecutorUse]:
    """Return how each application used its executors, of those with executors recorded."""
    found = []
    executors, apps, queries = tables.executors, tables.applications, tables.queries
    launch, finish = (
        tables.tasks[name].to_numpy(np.float64) for name in ("launch_ms", "finish_ms")
    )
    task_app = tables.tasks["app"].to_numpy(np.int64)
    per_task = np.maximum(positive_or_zero(apps["task_cpus"].to_numpy(np.float64)), 1.0)
    asked = _asked(tables)
    for app in range(len(apps)):
        mine = executors[(executors["app"] == app).to_numpy(bool)]
        start, end = (float(apps[name].iloc[app]) for name in ("start_ms", "end_ms"))
        since = np.fmax(mine["added_ms"].to_numpy(np.float64), start)
        until = np.fmin(mine["removed_ms"].to_numpy(np.float64), end)
        slots = known_or_zero(mine["cores"].to_numpy(np.float64)) / per_task[app]
        there = np.isfinite(since) & (until > since) & (slots > 0)
        if not there.any():
            continue
        since, until, slots = since[there], until[there], slots[there]
        ran = (task_app == app) & (finish > launch)
        asked_for = (queries["app"] == app).to_numpy(bool)
        begun, over = (
            np.concatenate([queries[name].to_numpy(np.float64)[asked_for], times[ran]])
            for name, times in (("start_ms", launch), ("end_ms", finish))
        )
        edges = np.concatenate([since, until])
        order = np.argsort(edges, kind="stable")
        most = np.cumsum(np.repeat([1, -1], len(since))[order]).max()
        found.append(
            ExecutorUse(
                app=app,
                paid_ms=float(((until - since) * slots).sum()),
                used_ms=float((finish[ran] - launch[ran]).sum()),
                span_ms=end - float(since.min()),
                working_ms=_covered(begun.clip(min=since.min()), over.clip(max=end)),
                most=int(most),
                asked=float(asked[app]),
            )
        )  # fmt: skip
    return found


def _covered(start: Floats, end: Floats) -> float:
    """Length of the union of intervals."""
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    if len(start) == 0:
        return 0.0
    before = np.append(-np.inf, np.maximum.accumulate(end)[:-1])
    return float(np.maximum(end - np.maximum(start, before), 0.0).sum())


def _asked(tables: Tables) -> Floats:
    """Return the most executors that each application asked for; NaN where nothing tells."""
    asked = _set_executors(tables)
    targets = tables.executor_targets
    np.fmax.at(asked, targets["app"].to_numpy(np.int64), targets["executors"].to_numpy(np.float64))
    return asked


def _set_executors(tables: Tables) -> Floats:
    """Return the executors that each application's settings ask for; NaN if none, or dynamic."""
    found = np.full(len(tables.applications), np.nan)
    conf = tables.conf
    named = ["spark.executor.instances", "spark.dynamicAllocation.enabled"]
    rows = conf[(conf["key"].isin(named) & (conf["sql_execution"] == NONE)).to_numpy(bool)]
    dynamic = set()
    for app, value in zip(rows["app"].tolist(), texts(rows, "value"), strict=True):
        if value.strip().isdigit():
            found[app] = float(value.strip()[:9])
        elif value.strip().lower() == "true":
            dynamic.add(app)
    found[list(dynamic)] = np.nan
    return found
