"""iQC-Graph of one target as a Sankey diagram: who was in the way, of what, where."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from iqcar.base.limits import MOST_NODES, fold
from iqcar.base.units import REQUEST_NAMES, RESOURCE_NAMES, duration
from iqcar.causes.blame.demand_weights import RESOURCES
from iqcar.causes.graph.contents import pseudo_name
from iqcar.causes.graph.iqc_graph import IQCGraph
from iqcar.enums import REQUESTS, BlameKind
from iqcar.say.blamed import cause_name
from iqcar.show.pictures import theme as look
from iqcar.show.pictures.palette import (
    BLAME_COLOURS,
    OTHERS,
    RESOURCE_COLOURS,
    mix,
    query_colours,
    rgba,
)
from iqcar.tables import texts
from iqcar.tables.arrays import Floats, Ints, sum_by

NODE_PX = 44
"""Height per node of the fullest column."""
LINK_OPACITY = 0.38
TINT = 0.25
"""Part of white in the colour of a stage, and of a request, beside its query's or resource's."""


class _Node(NamedTuple):
    """A vertex of a column, or several that a reader would call the same."""

    name: str
    colour: str
    id: str = ""
    kept: bool = False
    """Whether it is never folded."""
    full: str = ""


class _Drawn(NamedTuple):
    """A node as it is drawn."""

    name: str
    label: str
    hover: str
    colour: str


class _Column(NamedTuple):
    """One column: the place of each path's node, and the nodes."""

    of: Ints
    nodes: list[_Drawn]


def sankey(
    graph: IQCGraph, target: int, *, most: int = MOST_NODES, dark: bool = False
) -> look.Figure:
    """Draw one target's iQC-Graph; a link is as wide as the share of DOR that flows through it.

    Vertices that a reader would call the same (CPU of two stages, say) share one node, so a link
    is the sum of IF · DOR over their edges. In each column the largest nodes are kept, and the
    rest is one node that says how many it stands for.

    target: row of the target query.
    most: nodes of a column at most; known and unattributed causes are never folded.
    The values of the links between two columns sum to 1.
    Raises ValueError if the graph was not built for that target.
    """
    position = graph.position_of(target)
    name = look.label(graph.names.query_names[target])
    lost = graph.lost_ms(target)
    at = np.flatnonzero((graph.structure.target[4] == position) & (graph.dor.amount[4] > 0))
    if lost <= 0 or len(at) == 0:
        return look.nothing(f"{name} lost no time that could be measured.", dark=dark)
    dor = graph.dor.amount[4][at]
    of_path = graph.lost.amount[4][at]
    columns = [
        _fold(plural, *keys_and_node(graph, target, at), dor, of_path, most)
        for _, plural, keys_and_node in COLUMNS
    ]
    nodes = [node for column in columns for node in column.nodes]
    links = _links(columns, dor, of_path)
    trace = {
        "type": "sankey",
        "node": {
            "label": [node.label for node in nodes],
            "color": [node.colour for node in nodes],
            "customdata": [node.hover for node in nodes],
        },
        "link": {
            "source": [link.source for link in links],
            "target": [link.target for link in links],
            "value": [link.dor for link in links],
            "color": [rgba(nodes[link.source].colour, LINK_OPACITY) for link in links],
            "customdata": [
                f"{nodes[link.source].name} → {nodes[link.target].name}<br>"
                f"{look.percent_text(link.dor)} of the lost time, {duration(link.lost_ms)}"
                for link in links
            ],
        },
    }
    ran = float(graph.duration_ms[position])
    of_run = f" of its {duration(ran)}" if np.isfinite(ran) else ""
    fullest = max(len(column.nodes) for column in columns)
    return look.figure(
        [trace],
        f"Where {name} lost {duration(lost)}{of_run}, and who was in the way",
        dark=dark,
        height=look.FRAME_PX + NODE_PX * max(fullest, 5),
        margin={"l": 12, "r": 12, "t": 84, "b": 24},
        annotations=headings(),
    )


def headings() -> list[dict[str, Any]]:
    """Write what each column is above it."""
    last = len(COLUMNS) - 1
    return [
        {
            "text": heading, "font": {"size": 12}, "opacity": 0.75, "showarrow": False,
            "x": number / last, "y": 1.0, "xref": "paper", "yref": "paper", "yshift": 14,
            "yanchor": "bottom",
            "xanchor": "left" if number == 0 else "right" if number == last else "center",
        }
        for number, (heading, _, _) in enumerate(COLUMNS)
    ]  # fmt: skip


class _Link(NamedTuple):
    """All paths between two nodes."""

    source: int
    target: int
    dor: float
    lost_ms: float


def _links(columns: list[_Column], dor: Floats, lost: Floats) -> list[_Link]:
    """Sum paths over the nodes they pass in two columns that stand side by side."""
    links: list[_Link] = []
    start = np.cumsum([0, *(len(column.nodes) for column in columns)]).tolist()
    for number, (one, other) in enumerate(pairwise(columns)):
        width = len(other.nodes)
        key = one.of * width + other.of
        size = len(one.nodes) * width
        share, ms = sum_by(key, dor, size), sum_by(key, lost, size)
        for pair in np.flatnonzero(share > 0).tolist():
            source, target = start[number] + pair // width, start[number + 1] + pair % width
            links.append(_Link(source, target, float(share[pair]), float(ms[pair])))
    return links


def _fold(
    plural: str,
    keys: tuple[Ints, ...],
    node_of: Callable[..., _Node],
    dor: Floats,
    lost: Floats,
    most: int,
) -> _Column:
    """Keep the largest nodes of a column and sum the others in one.

    plural: what several nodes are called.
    keys: (n_paths,), paths with equal keys pass one node.
    node_of: the node of one value of each key.
    """
    unique, of = np.unique(np.stack(keys), axis=1, return_inverse=True)
    of = of.reshape(-1)
    nodes = [node_of(*key) for key in unique.T.tolist()]
    share, ms = (sum_by(of, amount, len(nodes)) for amount in (dor, lost))
    free = np.array([at for at, node in enumerate(nodes) if not node.kept], np.int64)
    folded = free[fold(share[free], most)[1]]
    ranked = np.argsort(-share, kind="stable")
    shown = ranked[~np.isin(ranked, folded)].tolist()
    place = np.full(len(nodes), len(shown), np.int64)
    place[shown] = np.arange(len(shown))
    labels = look.distinct([nodes[at].name for at in shown], [nodes[at].id for at in shown])
    drawn = [
        _drawn(
            label,
            look.wrapped(nodes[at].full or nodes[at].name),
            nodes[at].colour,
            share[at],
            ms[at],
        )
        for at, label in zip(shown, labels, strict=True)
    ]
    if len(folded):
        words = f"{len(folded)} more {plural}"
        drawn.append(_drawn(words, words, OTHERS, share[folded].sum(), ms[folded].sum()))
    return _Column(place[of], drawn)


def _drawn(label: str, full: str, colour: str, share: float, ms: float) -> _Drawn:
    said = look.percent_text(share)
    hover = f"<b>{full}</b><br>{said} of the lost time, {duration(ms)}"
    return _Drawn(label, f"{label}  {said}", hover, colour)


KeysAndNode = tuple[tuple[Ints, ...], Callable[..., _Node]]


def _source_queries(graph: IQCGraph, target: int, at: Ints) -> KeysAndNode:
    names, colours = graph.names, query_colours(graph.names.queries)

    def node(position: int) -> _Node:
        row = int(graph.structure.source_query[position])
        if row < 0:
            return _cause(graph, 6, position)
        if row == target:
            own = BLAME_COLOURS[BlameKind.OWN]
            return _Node(f"{names.query_names[row]} itself", own, names.query_ids[row])
        return _Node(names.query_names[row], colours[row], names.query_ids[row])

    return (graph.query_of_explanation[at],), node


def _source_stages(graph: IQCGraph, target: int, at: Ints) -> KeysAndNode:
    names, colours = graph.names, query_colours(graph.names.queries)

    def node(position: int) -> _Node:
        row = int(graph.structure.source_stage[position])
        if row < 0:
            return _cause(graph, 5, position)
        query = int(names.stage_query[row])
        colour = mix(colours[query], TINT) if query >= 0 else OTHERS
        colour = BLAME_COLOURS[BlameKind.OWN] if query == target else colour
        return _Node(names.stage_label(row), colour, names.stage_key(row))

    return (graph.structure.source[at],), node


def _cause(graph: IQCGraph, level: int, position: int) -> _Node:
    """A source that is no query: one of the last vertices of levels 5 and 6."""
    structure = graph.structure
    kind = BlameKind(pseudo_name(structure, position, structure.sizes()[level]))
    return _Node(cause_name(kind), BLAME_COLOURS[kind], kept=True)


def _demands(graph: IQCGraph, target: int, at: Ints) -> KeysAndNode:
    s = graph.structure
    demand = s.towards[4][at]

    def node(code: int, host: int) -> _Node:
        request = REQUESTS[code]
        colour = mix(RESOURCE_COLOURS[request.resource], TINT)
        return _Node(f"{REQUEST_NAMES[request]} on {graph.names.host(host)}", colour)

    return (s.request[demand], s.host[demand]), node


def _resources(graph: IQCGraph, target: int, at: Ints) -> KeysAndNode:
    def node(code: int) -> _Node:
        resource = RESOURCES[code]
        return _Node(RESOURCE_NAMES[resource], RESOURCE_COLOURS[resource], kept=True)

    return (graph.resource_of_demand[graph.structure.towards[4][at]],), node


def _target_stages(graph: IQCGraph, target: int, at: Ints) -> KeysAndNode:
    s, names = graph.structure, graph.names
    full = texts(names.stages, "name")
    colour = mix(query_colours(names.queries)[target], TINT)

    def node(row: int) -> _Node:
        called = f"stage {names.stage_numbers[row]}"
        return _Node(called, colour, full=f"{called} {full[row]}")

    return (s.stage[s.towards[2][s.towards[3][s.towards[4][at]]]],), node


def _target(graph: IQCGraph, target: int, at: Ints) -> KeysAndNode:
    colour = query_colours(graph.names.queries)[target]
    node = _Node(graph.names.query_names[target], colour, kept=True)
    return (np.zeros(len(at), np.int64),), lambda _: node


COLUMNS: tuple[tuple[str, str, Callable[[IQCGraph, int, Ints], KeysAndNode]], ...] = (
    ("queries in the way", "queries", _source_queries),
    ("their stages", "stages", _source_stages),
    ("what for, and where", "places", _demands),
    ("resource", "resources", _resources),
    ("stages that waited", "stages", _target_stages),
    ("the target", "targets", _target),
)
"""Columns from left to right: heading, what several of its vertices are called, and the keys of
each path's node with how it looks. Blame explanations (level 4) are the links between stages in the
way and what was waited for."""
