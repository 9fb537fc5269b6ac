"""Queries and a target's stages over time, with how many of its tasks waited meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from iqcar.formatting import RESOURCE_NAMES, duration, short
from iqcar.plots.host_series import span_of
from iqcar.plots.labels import distinct, hover, label, safe
from iqcar.plots.palette import RESOURCE_COLOURS, mix, query_colours, rgba
from iqcar.plots.theme import FRAME_PX, ROW_PX, figure, nothing, theme
from iqcar.plots.waiting import query_waiting
from iqcar.plots.waits import CRITICAL, RESOURCES
from iqcar.tables import texts

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go
    from numpy.typing import NDArray

    from iqcar.graph import IQCGraph
    from iqcar.tables import Tables

    Floats = NDArray[np.float64]

MOST_QUERIES = 20
"""Queries with a row: the target, those it lost most to, and those that lost most."""
MOST_STAGES = 16
"""Stages of the target with a row: those that ran longest."""
WAIT_BINS = 200
WAITS_PX = 170


def timeline(
    graph: IQCGraph,
    tables: Tables,
    task_waits: pd.DataFrame,
    target: int | None = None,
    *,
    dark: bool = False,
) -> go.Figure:
    """Draw queries over time; for a target its stages too, and its tasks that waited.

    A stage's pale part is the time until its first task was launched. When in its life a task
    waited is known for slots alone; its other waits are spread evenly over its life.

    Parameters
    ----------
    target : int, optional
        Row of a query.
    """
    if span_of(tables) is None or not len(tables.queries):
        return nothing("No query ran in this input.", dark=dark)
    rows = _shown(graph, tables, target)
    bars, ticks = _query_bars(graph, tables, rows, target, dark)
    if target is not None:
        more, names = _stage_bars(tables, target, len(ticks))
        bars += more
        ticks += names
    waiting = None
    if target is not None:
        waiting = next(query_waiting(tables, task_waits, [target], WAIT_BINS), None)
    from plotly.subplots import make_subplots

    height = ROW_PX * max(len(ticks), 3)
    panels = 2 if waiting else 1
    made = make_subplots(
        rows=panels,
        cols=1,
        shared_xaxes=True,
        row_heights=[height, WAITS_PX] if waiting else [height],
        vertical_spacing=min(0.2, 36 / (height + WAITS_PX)),
    )
    for bar in bars:
        made.add_trace(bar, row=1, col=1)
    if waiting:
        at = waiting.start_ms + waiting.width_ms * np.arange(float(WAIT_BINS))
        for area in _areas(at, waiting.waiting):
            made.add_trace(area, row=2, col=1)
        unknown = f" ({', '.join(waiting.missing)} not recorded)" if waiting.missing else ""
        made.update_yaxes(title={"text": "tasks waiting"}, rangemode="tozero", row=2, col=1)
        made.add_annotation(
            text=f"tasks of {ticks[0]} that waited{unknown}",
            x=0, xref="paper", xanchor="left", y=1, yref="y2 domain", yanchor="bottom",
            showarrow=False, font={"color": theme(dark).faint, "size": 12},
        )  # fmt: skip
    look = figure(
        [],
        _title(tables, target),
        dark=dark,
        height=FRAME_PX + height + (WAITS_PX if waiting else 0),
        barmode="overlay",
        bargap=0.25,
        hovermode="closest",
        legend={"orientation": "h", "y": -0.06, "yanchor": "top", "traceorder": "normal"},
    )
    made.update_layout(look.layout)
    made.update_xaxes(type="date", showgrid=True)
    made.update_xaxes(title={"text": "UTC, by the driver's clock"}, row=panels, col=1)
    made.update_yaxes(
        tickmode="array",
        tickvals=list(range(len(ticks))),
        ticktext=ticks,
        range=[len(ticks) - 0.5, -0.5],
        showgrid=False,
        zeroline=False,
        row=1,
        col=1,
    )
    return made


def _shown(graph: IQCGraph, tables: Tables, target: int | None) -> list[int]:
    """Target first, then by start: whom it lost most to, and who lost most."""
    hurts = graph.who_hurts_whom()
    lost = np.bincount(
        hurts["target_query"].to_numpy(np.int64),
        hurts["lost_ms"].to_numpy(np.float64),
        minlength=len(tables.queries),
    )
    start = tables.queries["start_ms"].to_numpy(np.float64)
    first = [] if target is None else [target]
    if target is not None:
        mine = hurts[(hurts["target_query"] == target) & (hurts["source_query"] >= 0)]
        first += [int(q) for q in mine["source_query"] if q != target]
    every = dict.fromkeys([*first, *np.argsort(-lost, kind="stable").tolist()])
    rows = [row for row in every if np.isfinite(start[row])][:MOST_QUERIES]
    return sorted(rows, key=lambda row: (row != target, start[row], row))


def _query_bars(
    graph: IQCGraph, tables: Tables, rows: list[int], target: int | None, dark: bool
) -> tuple[list[Any], list[str]]:
    import plotly.graph_objects as go

    queries = tables.queries
    names, ids = texts(queries, "name"), texts(queries, "query_id")
    colours = query_colours(queries)
    start = queries["start_ms"].to_numpy(np.float64)
    ran = np.nan_to_num(queries["end_ms"].to_numpy(np.float64) - start)
    facts = []
    for row in rows:
        lines = [safe(ids[row]), f"ran {duration(float(ran[row]))}"]
        if row in graph.targets:
            lines.append(f"lost {duration(graph.lost_ms(row))} of it")
        facts.append(hover(names[row], lines))
    outline = [theme(dark).ink if row == target else "rgba(0,0,0,0)" for row in rows]
    bar = go.Bar(
        orientation="h",
        y=list(range(len(rows))),
        base=start[rows].tolist(),
        x=ran[rows].tolist(),
        marker={
            "color": [colours[row] for row in rows],
            "line": {"color": outline, "width": 2},
        },
        hovertext=facts,
        hoverinfo="text",
        showlegend=False,
    )
    return [bar], distinct([names[row] for row in rows], [ids[row] for row in rows], 28)


def _stage_bars(tables: Tables, target: int, below: int) -> tuple[list[Any], list[str]]:
    import plotly.graph_objects as go

    stages = tables.stages
    mine = np.flatnonzero((stages["query"] == target).to_numpy(bool))
    launched = stages["first_launch_ms"].to_numpy(np.float64)[mine]
    start = stages["submission_ms"].to_numpy(np.float64)[mine]
    start = np.where(np.isfinite(start), start, launched)
    end = stages["completion_ms"].to_numpy(np.float64)[mine]
    timed = np.isfinite(start) & np.isfinite(end)
    mine, start, end, launched = (x[timed] for x in (mine, start, end, launched))
    if len(mine) == 0:
        return [], []
    longest = np.argsort(-(end - start), kind="stable")[:MOST_STAGES]
    order = longest[np.lexsort((mine[longest], start[longest]))]
    mine, start, end, launched = (x[order] for x in (mine, start, end, launched))
    # A stage none of whose tasks was launched waited until it ended.
    until = np.minimum(np.where(np.isfinite(launched), np.maximum(launched, start), end), end)
    names = texts(stages, "name")
    critical = stages["critical"].to_numpy(bool)[mine]
    numbers = [
        f"stage {stages['stage_id'].iloc[row]}.{stages['attempt'].iloc[row]}" for row in mine
    ]
    facts = [
        hover(
            f"{number} {names[row]}",
            [
                f"ran {duration(float(e - s))}",
                f"its first task was launched after {duration(float(u - s))}",
                *(["on the critical path"] if c else []),
            ],
        )
        for number, row, s, e, u, c in zip(numbers, mine, start, end, until, critical, strict=True)
    ]
    colour = query_colours(tables.queries)[target]
    slots = RESOURCE_COLOURS[RESOURCES[0]]
    y = [below + i for i in range(len(mine))]
    shared = {"orientation": "h", "y": y, "hovertext": facts, "hoverinfo": "text"}
    bars = [
        go.Bar(
            base=until.tolist(),
            x=(end - until).tolist(),
            marker={"color": [colour if c else mix(colour, 0.35) for c in critical]},
            showlegend=False,
            **shared,
        ),
        go.Bar(
            base=start.tolist(),
            x=(until - start).tolist(),
            marker={"color": rgba(slots, 0.3), "line": {"color": slots, "width": 1}},
            name="waiting for its first slot",
            **shared,
        ),
    ]
    mark = [f"{CRITICAL} " if c else "" for c in critical]
    return bars, [f"{m}{label(number)}" for m, number in zip(mark, numbers, strict=True)]


def _areas(at: Floats, waiting: Floats) -> list[Any]:
    import plotly.graph_objects as go

    return [
        go.Scatter(
            x=at.tolist(),
            y=waiting[r].tolist(),
            stackgroup="waiting",
            mode="lines",
            line={"width": 0, "shape": "hv", "color": RESOURCE_COLOURS[resource]},
            fillcolor=RESOURCE_COLOURS[resource],
            name=RESOURCE_NAMES[resource],
            hovertemplate=f"%{{y:.1f}} tasks waiting for {RESOURCE_NAMES[resource]}<extra></extra>",
        )
        for r, resource in enumerate(RESOURCES)
        if waiting[r].any()
    ]


def _title(tables: Tables, target: int | None) -> str:
    if target is None:
        return "Queries over time"
    name = safe(short(texts(tables.queries, "name")[target], 36)) or "(no name)"
    return f"{name} over time, and the queries that it lost most to  ({CRITICAL} critical path)"
