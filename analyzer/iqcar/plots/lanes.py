"""Swim lanes: what ran on each executor or host, by query or by what was waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from iqcar.errors import UsageError
from iqcar.formatting import duration
from iqcar.plots.bins import Bins
from iqcar.plots.host_series import span_of
from iqcar.plots.labels import label
from iqcar.plots.lane_rows import lanes_of, rows_within
from iqcar.plots.main_wait import MAIN_WAITS, main_waits
from iqcar.plots.palette import OTHERS, query_colours
from iqcar.plots.theme import FRAME_PX, figure, legend_above, nothing, theme
from iqcar.tables import texts

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go
    from numpy.typing import NDArray

    from iqcar.plots.lane_rows import Lanes
    from iqcar.tables import Tables

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

MOST_LANES = 32
"""Lanes; where there are more executors, a host is a lane."""
MOST_TASKS = 2_500
"""Tasks drawn one by one: a browser still moves that many bars at once."""
BINS = 160
MOST_KINDS = 11
"""Colours; the queries that ran least share one more."""
LANE_PX = 30
COLOURS = ("query", "wait")


class _Kinds(NamedTuple):
    """What each task's colour says."""

    of_task: Ints
    names: list[str]
    colours: list[str]


def lanes(
    tables: Tables,
    task_waits: pd.DataFrame,
    colour: str = "query",
    *,
    by_host: bool = False,
    dark: bool = False,
) -> go.Figure:
    """Draw tasks in lanes.

    Up to :data:`MOST_TASKS` tasks each has a bar; of more, a lane is as high as its slots are in
    use in each bin of time, divided by colour.

    Parameters
    ----------
    colour : str
        ``query``, or ``wait`` for what each task waited for most.
    by_host : bool
        One lane per host even where there are few executors.

    Raises
    ------
    UsageError
        If ``colour`` is neither.
    """
    if colour not in COLOURS:
        raise UsageError(f"tasks have no colour by {colour!r}", "lanes", "take query or wait")
    span = span_of(tables)
    found = lanes_of(tables, most=MOST_LANES, by_host=by_host)
    if span is None or not found.names:
        return nothing("No task ran in this input.", dark=dark)
    if colour == "query":
        kinds = _by_query(tables)
    else:
        kinds = _Kinds(
            main_waits(task_waits).astype(np.int64),
            [wait.name for wait in MAIN_WAITS],
            [wait.colour for wait in MAIN_WAITS],
        )
    few = len(tables.tasks) <= MOST_TASKS
    traces = _tasks(tables, found, kinds) if few else _bins(tables, found, kinds, span)
    what = "query" if colour == "query" else "what they waited for most"
    drawn = "" if few else "; as high as slots are in use"
    count = len(found.names)
    made = figure(
        traces,
        f"{len(tables.tasks):,} tasks by {what}{drawn}",
        dark=dark,
        height=FRAME_PX + LANE_PX * max(count, 3),
        barmode="overlay",
        bargap=0,
        hovermode="closest",
        **legend_above([trace.name for trace in traces]),
    )
    made.update_xaxes(type="date", title={"text": "UTC, by the driver's clock"})
    made.update_yaxes(
        tickmode="array",
        tickvals=[lane + 0.45 for lane in range(count)],
        ticktext=_names(tables, found),
        range=[count, -0.1],
        showgrid=False,
        zeroline=False,
    )
    for lane in range(count):
        made.add_hline(y=lane + 0.95, line={"color": theme(dark).line, "width": 1})
    return made


def _names(tables: Tables, found: Lanes) -> list[str]:
    hosts = texts(tables.hosts, "host")
    return [
        f"{label(hosts[host], 22)} · {label(name, 16)}"
        if executor >= 0 and host >= 0
        else label(name)
        for name, host, executor in zip(
            found.names, found.hosts.tolist(), found.executors.tolist(), strict=True
        )
    ]


def _by_query(tables: Tables) -> _Kinds:
    """Queries of most task time; runs of one recurring query are one kind."""
    tasks = tables.tasks
    spent = np.nan_to_num((tasks["finish_ms"] - tasks["launch_ms"]).to_numpy(np.float64))
    query = tasks["query"].to_numpy(np.int64)
    colours, names = query_colours(tables.queries), texts(tables.queries, "name")
    keys = [f"{colour} {name}" for colour, name in zip(colours, names, strict=True)]
    number = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    kind = np.array([*(number[key] for key in keys), len(number)], np.int64)[query]
    total = np.bincount(kind, np.maximum(spent, 0), minlength=len(number) + 1)
    order = [k for k in np.argsort(-total[:-1], kind="stable").tolist() if total[k] > 0]
    kept = order[:MOST_KINDS]
    place = np.full(len(number) + 1, len(kept), np.int64)
    place[kept] = np.arange(len(kept))
    first = {number[key]: row for row, key in reversed(list(enumerate(keys)))}
    rest = len(order) - len(kept)
    return _Kinds(
        place[kind],
        [*(label(names[first[k]], 28) for k in kept), f"{rest} more" if rest else "no query"],
        [*(colours[first[k]] for k in kept), OTHERS],
    )


def _tasks(tables: Tables, found: Lanes, kinds: _Kinds) -> list[Any]:
    import plotly.graph_objects as go

    tasks = tables.tasks
    launch = tasks["launch_ms"].to_numpy(np.float64)
    finish = np.maximum(tasks["finish_ms"].to_numpy(np.float64), launch)
    row = rows_within(found.of_task, launch, finish)
    most = np.zeros(len(found.names))
    timed = found.of_task >= 0
    np.maximum.at(most, found.of_task[timed], row[timed] + 1.0)
    height = 0.9 / np.maximum(most, found.slots)[found.of_task]
    names = texts(tables.queries, "name")
    query = tasks["query"].tolist()
    ids = tasks["task_id"].tolist()
    traces = []
    for kind, (name, colour) in enumerate(zip(kinds.names, kinds.colours, strict=True)):
        at = np.flatnonzero((kinds.of_task == kind) & timed)
        if len(at) == 0:
            continue
        traces.append(
            go.Bar(
                orientation="h",
                y=(found.of_task[at] + (row[at] + 0.5) * height[at]).tolist(),
                width=(height[at] * 0.9).tolist(),
                base=launch[at].tolist(),
                x=(finish - launch)[at].tolist(),
                marker={"color": colour, "line": {"width": 0}},
                name=name,
                hovertext=[
                    f"task {ids[i]} of {label(names[query[i]]) if query[i] >= 0 else 'no query'}"
                    f"<br>ran {duration(float(finish[i] - launch[i]))}"
                    for i in at
                ],
                hoverinfo="text",
            )
        )
    return traces


def _bins(tables: Tables, found: Lanes, kinds: _Kinds, span: tuple[float, float]) -> list[Any]:
    import plotly.graph_objects as go

    tasks = tables.tasks
    bins = Bins.over(*span, BINS)
    lane_count, kind_count = len(found.names), len(kinds.names)
    group = np.where(found.of_task >= 0, found.of_task * kind_count + kinds.of_task, -1)
    amount = bins.amounts(
        group,
        lane_count * kind_count,
        tasks["launch_ms"].to_numpy(np.float64),
        tasks["finish_ms"].to_numpy(np.float64),
        np.ones(len(tasks)),
    ).reshape(lane_count, kind_count, bins.count)
    share = amount / bins.width_ms / found.slots[:, None, None]
    # Stacked upwards from the lane's lower edge; rounding may lift the sum over 1 by a hair.
    top = 0.9 * np.minimum(np.cumsum(share, axis=1), 1.0)
    middle = bins.edges()[:-1] + bins.width_ms / 2
    traces = []
    for kind, (name, colour) in enumerate(zip(kinds.names, kinds.colours, strict=True)):
        lane, at = np.nonzero(share[:, kind] > 0)
        if len(lane) == 0:
            continue
        upper = top[lane, kind, at]
        lower = top[lane, kind - 1, at] if kind else np.zeros(len(lane))
        traces.append(
            go.Bar(
                x=middle[at].tolist(),
                width=bins.width_ms,
                base=(lane + 0.92 - upper).tolist(),
                y=(upper - lower).tolist(),
                marker={"color": colour, "line": {"width": 0}},
                name=name,
                hovertext=[
                    f"{name}<br>{label(found.names[x])}: "
                    f"{share[x, kind, t] * found.slots[x]:.1f} of {found.slots[x]:.0f} slots"
                    for x, t in zip(lane, at, strict=True)
                ],
                hoverinfo="text",
            )
        )
    return traces
