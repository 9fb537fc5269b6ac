"""What the timeline's program draws, packed small enough for a million tasks.

Columns travel as base64 of little-endian arrays. Up to :data:`MOST_TASKS` every task is there;
beyond, tasks are summed in bins of time per lane, at a few widths, and the program draws the
coarsest whose bins are no wider than it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from iqcar.base.units import RESOURCE_NAMES, short
from iqcar.causes.graph.iqc_graph import IQCGraph
from iqcar.model.queries.gaps import Gap, fold, folded_ends, gaps_of
from iqcar.model.waits.phases import PHASE_NAMES, phases_of
from iqcar.show.pictures.bins import Bins, Clock, packed, packed_shares
from iqcar.show.pictures.hosts import QUANTITIES, host_series, span_of
from iqcar.show.pictures.theme import (
    COMPUTING,
    OTHERS,
    PHASE_COLOURS,
    RESOURCE_COLOURS,
    query_colours,
)
from iqcar.show.pictures.timeline_lanes import (
    MAIN_WAITS,
    RESOURCES,
    Lanes,
    lanes_of,
    main_waits,
    query_waiting,
    resource_waits,
    rows_within,
    task_bins,
)
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Floats, Ints

VERSION = 1
"""Changes when the program would have to change."""
MOST_TASKS = 100_000
"""Tasks that travel one by one: 15 bytes each make 2 MB of text."""
MOST_WITH_SHARES = 50_000
"""Tasks that travel with their ids and what they waited for, 17 bytes more each."""
MOST_PHASES = 200_000
"""Phases of tasks that travel, 5 bytes each; tasks with more of them have none."""
MOST_LANES = 400
"""Lanes; where there are more executors, a host is a lane."""
MOST_QUERIES = 1_000
"""Queries with a bar: those that lost most and ran longest."""
MOST_STAGES = 4_000
"""Stages with a bar: those that ran longest."""
MOST_WAITING = 120
"""Queries whose waits are drawn over time: targets first, then those that lost most."""
WAIT_BINS = 160
"""Bins of a query's waits: one per 8 pixels of a laptop's screen."""
HOST_BINS = 400
"""Points of a host's samples: more could not be told apart on a screen."""
MOST_SAMPLED_HOSTS = 60
"""Hosts whose samples travel: 400 points of 5 series of one byte each make 160 KB of text."""
NAME = 120
"""Characters of a name."""


def timeline_payload(
    tables: Tables,
    task_waits: pd.DataFrame,
    graph: IQCGraph | None = None,
    targets: Sequence[int] = (),
    *,
    by_host: bool = False,
) -> dict[str, Any]:
    """Lay out what the timeline shows.

    task_waits: DataFrame of :data:`iqcar.model.waits.columns.WAITS`
    graph: what queries and stages lost; unknown without it. Where it holds only stages on the
    critical path, only those are shown.
    targets: rows of the queries under analysis: they are marked, and never left out.
    by_host: one lane per host even where there are few executors.
    Returns what JSON can hold. ``empty`` is a sentence where there is nothing to show. Times are in
    ticks of ``tick_ms`` after ``origin_ms`` (ms since the epoch); ``queries`` and ``stages`` are
    columns; ``tasks`` has a column per field, or ``bins`` a list of widths, the finest first.
    """
    gaps = gaps_of(tables)
    tables = fold(tables, gaps)
    span = span_of(tables)
    if span is None or not len(tables.queries):
        return {"version": VERSION, "empty": "No query ran in this input."}
    clock = Clock.of(*span)
    losses = _losses(tables, graph)
    queries = _chosen_queries(tables, losses, targets)
    lanes = lanes_of(tables, most=MOST_LANES, by_host=by_host)
    payload: dict[str, Any] = {
        "version": VERSION,
        "origin_ms": clock.origin_ms,
        "tick_ms": clock.tick_ms,
        "ticks": max(clock.one(span[1]), 1),
        "gaps": _gaps(gaps, clock),
        **_colours(),
        "queries": _queries(tables, losses, targets, queries, clock),
        "folded_queries": len(tables.queries) - len(queries),
        "stages": _stages(tables, losses, queries, clock),
        "critical_path": losses.critical_path,
        "lanes": _lanes(tables, lanes),
        "hosts": _hosts(tables, lanes, Bins.over(*span, HOST_BINS)),
        "recorded": len(tables.task_records) > 0,
        "waiting": _waiting(
            tables, task_waits, losses, targets=targets, queries=queries, clock=clock
        ),
    }
    number = np.full(len(tables.queries) + 1, len(queries), np.int64)
    number[queries] = np.arange(len(queries))
    query = number[tables.tasks["query"].to_numpy(np.int64)]
    if len(tables.tasks) <= MOST_TASKS:
        payload["tasks"] = _tasks(tables, task_waits, lanes, query, clock)
        if "phases" in payload["tasks"]:
            payload["phases"] = [
                {"name": name, "colour": PHASE_COLOURS[name]} for name in PHASE_NAMES
            ]
    else:
        code = main_waits(task_waits)
        payload["bins"] = [
            {
                "width": level.width_ms / clock.tick_ms,
                "count": level.bins,
                **{name: packed(column, kind) for name, kind, column in level.columns},
            }
            for level in task_bins(
                tables, lanes, query, len(queries) + 1, code=code, start_ms=span[0], end_ms=span[1]
            )
        ]
        payload["binned_tasks"] = len(tables.tasks)
    return payload


def _colours() -> dict[str, Any]:
    return {
        "others_colour": OTHERS,
        "resources": [
            {"name": RESOURCE_NAMES[r], "colour": RESOURCE_COLOURS[r]} for r in RESOURCES
        ],
        "main_waits": [{"name": w.name, "colour": w.colour} for w in MAIN_WAITS],
        "strip_colours": {
            "slots": COMPUTING,
            **{key: colour for key, (_, colour) in QUANTITIES.items()},
        },
    }


def _gaps(gaps: list[Gap], clock: Clock) -> list[dict[str, float]]:
    """Times that are left out: the tick of the picture after them, and how long they are."""
    ends = map(clock.one, folded_ends(gaps))
    return [{"at": at, "ms": gap.left_out_ms} for at, gap in zip(ends, gaps, strict=True)]


class _Losses(NamedTuple):
    """What each query and each stage lost, in ms; NaN where nobody knows.

    of_query, to_others: ndarray of shape (n_queries,)
    of_stage: ndarray of shape (n_stages,)
    critical_path: whether only stages on the critical path can have lost anything.
    """

    of_query: Floats
    to_others: Floats
    of_stage: Floats
    critical_path: bool


def _losses(tables: Tables, graph: IQCGraph | None) -> _Losses:
    if graph is None:
        unknown = np.full(len(tables.queries), np.nan)
        return _Losses(unknown, unknown, np.full(len(tables.stages), np.nan), False)
    of_stage = np.zeros(len(tables.stages))
    of_stage[graph.structure.stage] = graph.lost.amount[1]
    return _Losses(graph.query_losses(), graph.lost_to_others_ms(), of_stage, graph.critical_path)


def _chosen_queries(tables: Tables, losses: _Losses, targets: Sequence[int]) -> Ints:
    """Rows of the queries that get a bar, by start."""
    queries = tables.queries
    start = queries["start_ms"].to_numpy(np.float64)
    rows = np.flatnonzero(np.isfinite(start))
    if len(rows) > MOST_QUERIES:
        ran = np.nan_to_num(queries["duration_ms"].to_numpy(np.float64))
        ranked = [*targets, *np.lexsort((-ran, -np.nan_to_num(losses.of_query))).tolist()]
        kept = [row for row in dict.fromkeys(ranked) if np.isfinite(start[row])]
        rows = np.array(kept[:MOST_QUERIES], np.int64)
    ordered: Ints = rows[np.lexsort((rows, start[rows]))]
    return ordered


def _queries(
    tables: Tables, losses: _Losses, targets: Sequence[int], rows: Ints, clock: Clock
) -> dict[str, Any]:
    queries = tables.queries
    colours = query_colours(queries)
    ids, names = texts(queries, "query_id"), texts(queries, "name")
    apps = texts(tables.applications, "application_id")
    app = queries["app"].tolist()
    start = queries["start_ms"].to_numpy(np.float64)[rows]
    end = queries["end_ms"].to_numpy(np.float64)[rows]
    marked = set(targets)
    return {
        "id": [ids[r] for r in rows],
        "name": [short(names[r], NAME) or ids[r] for r in rows],
        "app": [apps[app[r]] if app[r] >= 0 else "" for r in rows],
        "colour": [colours[r] for r in rows],
        "target": [int(r in marked) for r in rows.tolist()],
        "ended": queries["ended"].to_numpy(bool)[rows].astype(int).tolist(),
        "failed": queries["failed"].to_numpy(bool)[rows].astype(int).tolist(),
        "start": clock.column(start),
        "end": clock.column(np.where(np.isfinite(end), np.maximum(end, start), start)),
        "lost_ms": packed(losses.of_query[rows], "f4"),
        "lost_to_others_ms": packed(losses.to_others[rows], "f4"),
    }


def _stages(tables: Tables, losses: _Losses, queries: Ints, clock: Clock) -> dict[str, Any]:
    """Stages of the queries that have a bar, by query and start."""
    stages = tables.stages
    number = np.full(len(tables.queries) + 1, -1, np.int64)
    number[queries] = np.arange(len(queries))
    query = number[stages["query"].to_numpy(np.int64)]
    submitted = stages["submission_ms"].to_numpy(np.float64)
    launched = stages["first_launch_ms"].to_numpy(np.float64)
    done = stages["completion_ms"].to_numpy(np.float64)
    start = np.where(np.isfinite(submitted), submitted, launched)
    critical = stages["critical"].to_numpy(bool)
    shown = (query >= 0) & np.isfinite(start) & np.isfinite(done) & (done >= start)
    rows = np.flatnonzero(shown & critical if losses.critical_path else shown)
    every = len(rows)
    if every > MOST_STAGES:
        rows = rows[np.argsort(-(done - start)[rows], kind="stable")[:MOST_STAGES]]
    rows = rows[np.lexsort((rows, start[rows], query[rows]))]
    ids, attempts = stages["stage_id"].tolist(), stages["attempt"].tolist()
    names = texts(stages, "name")
    return {
        "number": [f"{ids[r]}.{attempts[r]}" for r in rows],
        "name": [short(names[r], NAME // 2) for r in rows],
        "query": packed(query[rows], "u2"),
        "start": clock.column(start[rows]),
        "launch": clock.column(launched[rows]),
        "end": clock.column(done[rows]),
        "critical": packed(critical[rows], "u1"),
        "lost_ms": packed(losses.of_stage[rows], "f4"),
        "folded": every - len(rows),
    }


def _lanes(tables: Tables, lanes: Lanes) -> dict[str, Any]:
    apps = texts(tables.applications, "application_id")
    hosts = texts(tables.hosts, "host")
    return {
        "name": [short(name, NAME) for name in lanes.names],
        "host": [short(hosts[h], NAME) if h >= 0 else "" for h in lanes.hosts],
        "app": [apps[a] if a >= 0 else "" for a in lanes.apps],
        "slots": [int(s) for s in np.ceil(lanes.slots)],
        "by": "executor" if (lanes.executors >= 0).any() else "host",
    }


def _hosts(tables: Tables, lanes: Lanes, bins: Bins) -> list[dict[str, Any]]:
    """Samples and slots of the hosts that have a lane."""
    series = host_series(tables, bins)
    names = texts(tables.hosts, "host")
    rows = [int(h) for h in dict.fromkeys(lanes.hosts.tolist()) if h >= 0]
    told = [h for h in rows if series.sampled[h]]
    drawn = set((told or rows)[:MOST_SAMPLED_HOSTS])
    whole: list[dict[str, Any]] = []
    for host in rows:
        one: dict[str, Any] = {
            "name": short(names[host], NAME),
            "sampled": bool(series.sampled[host]),
        }
        if host in drawn:
            slots = np.nanmax([*series.running[host], *series.offered[host], 1.0])
            one["slots"] = packed_shares(series.running[host], float(slots))
            for name in QUANTITIES if series.sampled[host] else ():
                values = series.quantities[name][host]
                share = name in ("host_cpu", "host_disk")
                most = 1.0 if share else float(np.nanmax([*values, 0.0]))
                one[name] = packed_shares(values, most)
        whole.append(one)
    return whole


def _waiting(
    tables: Tables,
    task_waits: pd.DataFrame,
    losses: _Losses,
    targets: Sequence[int],
    queries: Ints,
    clock: Clock,
) -> dict[str, Any]:
    """Tasks of a query that wait at each moment of its run, by resource."""
    lost = np.nan_to_num(losses.of_query)
    rank = [r for r in np.argsort(-lost, kind="stable").tolist() if lost[r] > 0]
    chosen = list(dict.fromkeys([*targets, *rank]))[:MOST_WAITING]
    number = {int(row): at for at, row in enumerate(queries.tolist())}
    return {
        str(number[one.query]): {
            "start": clock.one(one.start_ms),
            "width": one.width_ms / clock.tick_ms,
            "most": one.most,
            "missing": one.missing,
            "series": [packed_shares(values, one.most)["v"] for values in one.waiting],
        }
        for one in query_waiting(tables, task_waits, chosen, WAIT_BINS)
        if one.query in number
    }


def _tasks(
    tables: Tables, task_waits: pd.DataFrame, lanes: Lanes, query: Ints, clock: Clock
) -> dict[str, Any]:
    """Every task with times, by lane, row and launch."""
    tasks = tables.tasks
    launch = tasks["launch_ms"].to_numpy(np.float64)
    finish = np.maximum(tasks["finish_ms"].to_numpy(np.float64), launch)
    row = rows_within(lanes.of_task, launch, finish)
    shown = np.flatnonzero(lanes.of_task >= 0)
    shown = shown[np.lexsort((shown, launch[shown], row[shown], lanes.of_task[shown]))]
    waited = resource_waits(task_waits)
    columns: dict[str, Any] = {
        "count": len(shown),
        "lane": packed(lanes.of_task[shown], "u2"),
        "row": packed(np.minimum(row[shown], np.iinfo(np.uint16).max), "u2"),
        "launch": clock.column(launch[shown]),
        "end": clock.column(finish[shown]),
        "query": packed(query[shown], "u2"),
        "wait": packed(main_waits(task_waits, waited)[shown], "u1"),
    }
    if len(shown) <= MOST_WITH_SHARES:
        slot_ms = np.nan_to_num(waited[:, 0])
        life = task_waits["duration_ms"].to_numpy(np.float64) + slot_ms
        share = waited / np.where(life > 0, life, np.nan)[:, None]
        stage = tasks["stage"].to_numpy(np.int64)[shown]
        columns["stage"] = packed(tables.stages["stage_id"].to_numpy()[stage], "u4")
        columns["id"] = packed(tasks["task_id"].to_numpy()[shown], "u4")
        columns["slot_ms"] = packed(slot_ms[shown], "f4")
        columns["shares"] = [
            packed_shares(share[shown, r], 1.0)["v"] for r in range(len(RESOURCES))
        ]
    columns.update(_phases(tables, shown, clock))
    return columns


def _phases(tables: Tables, shown: Ints, clock: Clock) -> dict[str, Any]:
    """Phases of the tasks that have a recorded profile: how many, when each begins, its kind.

    A profile is by the executor's clock: its first phase begins with the task.
    """
    phases = phases_of(tables)
    if not 0 < len(phases) <= MOST_PHASES:
        return {}
    task = phases["task"].to_numpy(np.int64)
    position = np.full(len(tables.tasks), -1, np.int64)
    position[shown] = np.arange(len(shown))
    kept = np.flatnonzero(position[task] >= 0)
    kept = kept[np.argsort(position[task[kept]], kind="stable")]
    task = task[kept]
    launch = tables.tasks["launch_ms"].to_numpy(np.float64)[task]
    start = phases["start_ms"].to_numpy(np.float64)[kept]
    is_first = np.diff(task, prepend=-1) != 0
    begin = start[is_first][np.cumsum(is_first) - 1]
    return {
        "phases": packed(np.bincount(position[task], minlength=len(shown)), "u2"),
        "phase_start": clock.column(launch + start - begin),
        "phase": packed(phases["phase"].to_numpy()[kept], "u1"),
    }
