"""iQC-Graph of one target as a Sankey diagram: who was in the way, of what, where."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iqcar.base.limits import MOST_NODES, fold
from iqcar.base.units import REQUEST_NAMES, RESOURCE_NAMES, duration
from iqcar.causes.blame.demand_weights import RESOURCES
from iqcar.causes.graph.contents import Contents, pseudo_name
from iqcar.causes.graph.iqc_graph import IQCGraph
from iqcar.enums import REQUESTS, BlameKind
from iqcar.say.blamed import cause_name
from iqcar.show.pictures.labels import distinct, label, percent_text, wrapped
from iqcar.show.pictures.palette import (
    BLAME_COLOURS,
    OTHERS,
    RESOURCE_COLOURS,
    mix,
    query_colours,
    rgba,
)
from iqcar.show.pictures.theme import FRAME_PX, figure, nothing, theme
from iqcar.tables import texts
from iqcar.tables.arrays import Floats, Ints, sum_by

if TYPE_CHECKING:
    import plotly.graph_objects as go

NODE_PX = 44
"""Height per node of the fullest column."""
LINK_OPACITY = 0.38

COLUMNS = (
    ("query", "queries in the way", "queries"),
    ("source", "their stages", "stages"),
    ("demand", "what for, and where", "places"),
    ("resource", "resource", "resources"),
    ("stage", "stages that waited", "stages"),
    ("target", "the target", "targets"),
)
"""Columns from left to right: key, heading, and what several of its vertices are called. Blame
explanations (level 4) are the links between stages in the way and what was waited for."""


class _Column(NamedTuple):
    """One column: the node of each path, and the nodes."""

    of: Ints
    names: list[str]
    labels: list[str]
    hovers: list[str]
    colours: list[str]


def sankey(
    graph: IQCGraph, target: int, *, most: int = MOST_NODES, dark: bool = False
) -> go.Figure:
    """Draw one target's iQC-Graph; a link is as wide as the share of DOR that flows through it.

    Vertices that a reader would call the same (CPU of two stages, say) share one node, so a link
    is the sum of IF · DOR over their edges. In each column the largest nodes are kept, and the
    rest is one node that says how many it stands for.

    Parameters
    ----------
    target : int
        Row of the target query.
    most : int
        Nodes of a column at most; known and unattributed causes are never folded.

    Returns
    -------
    plotly.graph_objects.Figure
        The values of the links between two columns sum to 1.

    Raises
    ------
    ValueError
        If the graph was not built for that target.
    """
    position = graph.position_of(target)
    name = label(graph.names.query_names[target])
    lost = graph.lost_ms(target)
    at = np.flatnonzero((graph.structure.target[4] == position) & (graph.dor.amount[4] > 0))
    if lost <= 0 or len(at) == 0:
        return nothing(f"{name} lost no time that could be measured.", dark=dark)
    dor = graph.dor.amount[4][at]
    of_path = graph.lost.amount[4][at]
    columns = [
        _fold(plural, _columns[key](graph, target, at), dor, of_path, most)
        for key, _, plural in COLUMNS
    ]
    start = np.cumsum([0, *(len(column.labels) for column in columns)])
    links = _links(columns, start, dor, of_path)
    labels = [text for column in columns for text in column.labels]
    names = [text for column in columns for text in column.names]
    colours = [colour for column in columns for colour in column.colours]
    import plotly.graph_objects as go

    trace = go.Sankey(
        arrangement="snap",
        valueformat=".0%",
        node={
            "label": labels,
            "color": colours,
            "customdata": [text for column in columns for text in column.hovers],
            "hovertemplate": "%{customdata}<extra></extra>",
            "pad": 16,
            "thickness": 16,
            "line": {"width": 0},
        },
        link={
            "source": links["from"],
            "target": links["to"],
            "value": links["dor"],
            "color": [rgba(colours[node], LINK_OPACITY) for node in links["from"]],
            "customdata": [
                f"{names[one]} → {names[other]}<br>{percent_text(share)} of the lost time"
                f"{'' if graph.impact.value == 'time-lost' else ' by impact'}, {duration(ms)}"
                for one, other, share, ms in zip(
                    links["from"], links["to"], links["dor"], links["lost"], strict=True
                )
            ],
            "hovertemplate": "%{customdata}<extra></extra>",
        },
    )
    ran = float(graph.duration_ms[position])
    of_run = f" of its {duration(ran)}" if np.isfinite(ran) else ""
    fullest = max(len(column.labels) for column in columns)
    made = figure(
        [trace],
        f"Where {name} lost {duration(lost)}{of_run}, and who was in the way",
        dark=dark,
        height=FRAME_PX + NODE_PX * max(fullest, 5),
        margin={"l": 12, "r": 12, "t": 84, "b": 24},
    )
    last = len(COLUMNS) - 1
    for number, (_, heading, _) in enumerate(COLUMNS):
        made.add_annotation(
            text=heading,
            x=number / last,
            y=1.0,
            xref="paper",
            yref="paper",
            yshift=14,
            yanchor="bottom",
            xanchor="left" if number == 0 else "right" if number == last else "center",
            showarrow=False,
            font={"color": theme(dark).faint, "size": 12},
        )
    return made


def _links(
    columns: list[_Column], start: NDArray[Any], dor: Floats, lost: Floats
) -> dict[str, list[Any]]:
    """Sum paths over the nodes they pass in two columns that stand side by side."""
    links: dict[str, list[Any]] = {"from": [], "to": [], "dor": [], "lost": []}
    for number, (one, other) in enumerate(pairwise(columns)):
        width = len(other.labels)
        key = one.of * width + other.of
        size = len(one.labels) * width
        share, ms = sum_by(key, dor, size), sum_by(key, lost, size)
        for pair in np.flatnonzero(share > 0).tolist():
            links["from"].append(int(start[number]) + pair // width)
            links["to"].append(int(start[number + 1]) + pair % width)
            links["dor"].append(float(share[pair]))
            links["lost"].append(float(ms[pair]))
    return links


class _Nodes(NamedTuple):
    """Vertices of a column before folding."""

    of: Ints
    names: list[str]
    ids: list[str]
    colours: list[str]
    kept: list[bool]
    full: list[str] | None = None


def _fold(plural: str, nodes: _Nodes, dor: Floats, lost: Floats, most: int) -> _Column:
    """Keep the largest nodes of a column and sum the others in one."""
    size = len(nodes.names)
    share, ms = sum_by(nodes.of, dor, size), sum_by(nodes.of, lost, size)
    free = np.flatnonzero(~np.array(nodes.kept, bool))
    folded = free[fold(share[free], most)[1]]
    ranked = np.argsort(-share, kind="stable")
    shown = ranked[~np.isin(ranked, folded)].tolist()
    place = np.full(size, len(shown), np.int64)
    place[shown] = np.arange(len(shown))
    labels = distinct([nodes.names[n] for n in shown], [nodes.ids[n] for n in shown])
    full = nodes.full or nodes.names
    parts = [(labels[i], wrapped(full[n]), nodes.colours[n]) for i, n in enumerate(shown)]
    shares = [float(share[n]) for n in shown]
    times = [float(ms[n]) for n in shown]
    if len(folded):
        words = f"{len(folded)} more {plural}"
        parts.append((words, words, OTHERS))
        shares.append(float(share[folded].sum()))
        times.append(float(ms[folded].sum()))
    return _Column(
        of=place[nodes.of],
        names=[text for text, _, _ in parts],
        labels=[
            f"{text}  {percent_text(part)}"
            for (text, _, _), part in zip(parts, shares, strict=True)
        ],
        hovers=[
            f"<b>{name}</b><br>{percent_text(part)} of the lost time, {duration(time)}"
            for (_, name, _), part, time in zip(parts, shares, times, strict=True)
        ],
        colours=[colour for _, _, colour in parts],
    )


def _source_queries(graph: IQCGraph, target: int, at: Ints) -> _Nodes:
    positions, of = np.unique(graph.query_of_explanation[at], return_inverse=True)
    rows = graph.structure.source_query[positions]
    names, colours = graph.names, query_colours(graph.names.queries)
    called, painted = [], []
    for row, place in zip(rows.tolist(), positions.tolist(), strict=True):
        if row < 0:
            pseudo = _pseudo(graph, 6, place)
            called.append(cause_name(pseudo))
            painted.append(BLAME_COLOURS[pseudo])
        elif row == target:
            called.append(f"{names.query_names[row]} itself")
            painted.append(BLAME_COLOURS[BlameKind.OWN])
        else:
            called.append(names.query_names[row])
            painted.append(colours[row])
    ids = [names.query_ids[row] if row >= 0 else "" for row in rows]
    return _Nodes(of, called, ids, painted, [bool(row < 0) for row in rows])


def _source_stages(graph: IQCGraph, target: int, at: Ints) -> _Nodes:
    positions, of = np.unique(graph.structure.source[at], return_inverse=True)
    rows = graph.structure.source_stage[positions]
    names, colours = graph.names, query_colours(graph.names.queries)
    called, painted = [], []
    for row, place in zip(rows.tolist(), positions.tolist(), strict=True):
        if row < 0:
            pseudo = _pseudo(graph, 5, place)
            called.append(cause_name(pseudo))
            painted.append(BLAME_COLOURS[pseudo])
            continue
        query = int(names.stage_query[row])
        called.append(names.stage_label(row))
        own = BLAME_COLOURS[BlameKind.OWN]
        painted.append(
            own if query == target else mix(colours[query], 0.25) if query >= 0 else OTHERS
        )
    ids = [names.stage_key(row) if row >= 0 else "" for row in rows]
    return _Nodes(of, called, ids, painted, [bool(row < 0) for row in rows])


def _demands(graph: IQCGraph, target: int, at: Ints) -> _Nodes:
    s = graph.structure
    demand = s.towards[4][at]
    pairs, of = np.unique(
        np.stack([s.request[demand], s.host[demand]]), axis=1, return_inverse=True
    )
    called = [f"{REQUEST_NAMES[REQUESTS[r]]} on {graph.names.host(h)}" for r, h in pairs.T]
    colours = [mix(RESOURCE_COLOURS[REQUESTS[r].resource], 0.25) for r, _ in pairs.T]
    return _Nodes(of.reshape(-1), called, [""] * len(called), colours, [False] * len(called))


def _resources(graph: IQCGraph, target: int, at: Ints) -> _Nodes:
    codes, of = np.unique(
        graph.resource_of_demand[graph.structure.towards[4][at]],
        return_inverse=True,
    )
    resources = [RESOURCES[code] for code in codes]
    called = [RESOURCE_NAMES[resource] for resource in resources]
    colours = [RESOURCE_COLOURS[resource] for resource in resources]
    return _Nodes(of, called, [""] * len(called), colours, [True] * len(called))


def _target_stages(graph: IQCGraph, target: int, at: Ints) -> _Nodes:
    s, names = graph.structure, graph.names
    resource = s.towards[3][s.towards[4][at]]
    rows, of = np.unique(s.stage[s.towards[2][resource]], return_inverse=True)
    called = [f"stage {names.stage_numbers[row]}" for row in rows]
    full = texts(names.stages, "name")
    colour = query_colours(names.queries)[target]
    size = len(rows)
    hovers = [f"{one} {full[row]}" for one, row in zip(called, rows, strict=True)]
    return _Nodes(of, called, [""] * size, [mix(colour, 0.25)] * size, [False] * size, hovers)


def _target(graph: IQCGraph, target: int, at: Ints) -> _Nodes:
    colour = query_colours(graph.names.queries)[target]
    name = graph.names.query_names[target]
    return _Nodes(np.zeros(len(at), np.int64), [name], [""], [colour], [True])


def _pseudo(contents: Contents, level: int, position: int) -> BlameKind:
    """Kind of a source that is no query: the last vertices of levels 5 and 6."""
    structure = contents.structure
    return BlameKind(pseudo_name(structure, position, structure.sizes()[level]))


_columns = {
    "query": _source_queries,
    "source": _source_stages,
    "demand": _demands,
    "resource": _resources,
    "stage": _target_stages,
    "target": _target,
}
