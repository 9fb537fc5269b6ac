"""Estimates what executors that came later, or were gone, would have saved."""

from __future__ import annotations

import numpy as np

from iqcar.model.waits.stage_parts import query_paths, stage_times
from iqcar.tables import Tables
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
    found = np.zeros((3, len(stages)))
    for one in np.unique(app[rows]).tolist():
        when, slots = _slots(tables, one)
        if slots.max(initial=0.0) > 0 and len(when) > 1:
            for row in rows[app[rows] == one].tolist():
                found[:, row] = _missing(when, slots, began[row], last[row], count[row])
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
    when: Floats, slots: Floats, began: float, last: float, tasks: float
) -> tuple[float, float, float]:
    """Return the time saved, the time in which slots were missing, and their integral."""
    could = min(float(slots.max()), tasks)
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
