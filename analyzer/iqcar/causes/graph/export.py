"""Exports iQC-Graph as nodes and edges, for the result's JSON and for networkx.

The JSON has only vertices of DOR > 0. A graph can have millions of blame explanations; beyond
:data:`MAX_BLAME_NODES` the smallest of each demand are folded into one node per demand, with an
edge from one "other stages" node per source query. Sums are preserved: DOR at every level, DOR of
every source query, and ``DOR_u = Σ IF_uv · DOR_v`` at every node, except that the folded part of a
source stage counts at its query's "other stages".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from iqcar.causes.blame.blame_tables import OWN, QUERY
from iqcar.causes.graph.contents import PREFIXES, Contents, vertex_frame, vertex_ids
from iqcar.tables.arrays import Flags, Floats, Ints, sum_by

if TYPE_CHECKING:
    import networkx as nx


MAX_BLAME_NODES = 2000
"""Blame explanations (level 4) exported individually, over all exported targets. With their edges
they take about 400 bytes of JSON each: 1 MB, which browsers can draw."""

FOLDED = "folded"
"""Kind of the nodes that sum several small ones."""


@dataclass(frozen=True)
class GraphExport:
    """Nodes and edges as plain dicts, ready for JSON.

    nodes: keys: id, level, kind, label, contribution, dor, lost_ms; at levels 5 and 6 also
        dor_by_target (query id → DOR), whose sum dor is.
    edges: keys: from, to, impact_factor.
    folded: number of blame explanations folded into others.
    """

    nodes: list[dict[str, Any]]
    edges: list[dict[str, Any]]
    folded: int


def export_graph(
    contents: Contents, targets: Sequence[int] | None = None, max_blame_nodes: int = MAX_BLAME_NODES
) -> GraphExport:
    """Export the part of the graph that explains some targets (query rows; all by default)."""
    kept = _of_targets(contents, targets)
    kept[1:] = [here & (contents.dor.amount[level] > 0) for level, here in enumerate(kept) if level]
    return _write(contents, kept, _to_fold(contents, kept[4], max_blame_nodes))


def to_networkx(contents: Contents, targets: Sequence[int] | None = None) -> nx.DiGraph:
    """Return the graph as a ``networkx.DiGraph`` with all vertices, none folded.

    Nodes are keyed by id and have the keys of :class:`GraphExport` as attributes; edges have
    impact_factor and lead from level l + 1 to level l.
    """
    import networkx as nx

    kept = _of_targets(contents, targets)
    exported = _write(contents, kept, np.zeros(len(kept[4]), bool))
    graph = nx.DiGraph(impact="time-lost")
    graph.add_nodes_from((node["id"], node) for node in exported.nodes)
    graph.add_edges_from(
        (edge["from"], edge["to"], {"impact_factor": edge["impact_factor"]})
        for edge in exported.edges
    )
    return graph


def _of_targets(contents: Contents, targets: Sequence[int] | None) -> list[Flags]:
    """Mark the vertices of levels 0 to 4 that belong to some targets (query rows)."""
    s = contents.structure
    chosen = np.zeros(len(s.targets), bool)
    chosen[contents.positions_of(None if targets is None else list(targets))] = True
    return [chosen[target] for target in s.target]


def _write(contents: Contents, kept: list[Flags], folded: Flags) -> GraphExport:
    writer = _GraphWriter(contents)
    for level in range(4):
        writer.add_level(level, np.flatnonzero(kept[level]))
    whole = np.flatnonzero(kept[4] & ~folded)
    writer.add_level(4, whole)
    writer.add_folded(np.flatnonzero(folded))
    writer.add_sources(whole)
    return GraphExport(writer.nodes, writer.edges, int(folded.sum()))


def _to_fold(contents: Contents, kept: Flags, limit: int) -> Flags:
    """Mark the smallest explanations beyond the limit, where a demand has several such.

    Known and unattributed causes and the rest of a target are never folded.
    """
    s = contents.structure
    small = kept.copy()
    at = np.flatnonzero(kept)
    if len(at) <= limit:
        return np.zeros(len(kept), bool)
    largest = at[np.argsort(-contents.dor.amount[4][at], kind="stable")[:limit]]
    small[largest] = False
    small &= (s.kind == QUERY) | (s.kind == OWN)
    in_demand = np.bincount(s.towards[4][small], minlength=len(s.demand))
    folded: Flags = small & (in_demand[s.towards[4]] > 1)
    return folded


class _GraphWriter:
    """Collects nodes and edges, and sums DOR and lost time of levels 5 and 6 by target."""

    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        self.nodes: list[dict[str, Any]] = []
        self.edges: list[dict[str, Any]] = []
        self._others: dict[int, dict[int, tuple[float, float]]] = {}

    def add_level(self, level: int, at: Ints) -> None:
        """Add vertices of levels 0 to 4 and their edges towards level 0."""
        self._add_vertices(vertex_frame(self.contents, level, at))
        if level == 0:
            return
        ids = [node["id"] for node in self.nodes[len(self.nodes) - len(at) :]]
        ends = vertex_ids(self.contents, level - 1, self.contents.structure.towards[level][at])
        self._add_edges(ids, ends, self.contents.dor.impact_factor[level][at])

    def add_folded(self, at: Ints) -> None:
        """Add a node per demand for its folded explanations, with edges from "other stages"."""
        if len(at) == 0:
            return
        contents, s = self.contents, self.contents.structure
        demand = s.towards[4][at]
        query = contents.query_of_explanation[at]
        target = s.target[4][at]
        columns = (
            contents.dor.contribution[4],
            contents.dor.impact_factor[4],
            contents.dor.amount[4],
            contents.lost.amount[4],
        )
        parts = [column[at] for column in columns]
        demands, member = np.unique(demand, return_inverse=True)
        contribution, factor, dor, lost = (sum_by(member, part, len(demands)) for part in parts)
        counts = np.bincount(member)
        ends = vertex_ids(contents, 3, demands)
        ids = [f"{PREFIXES[4]}:{end.partition(':')[2]}<-{FOLDED}" for end in ends]
        for position, node in enumerate(ids):
            self.nodes.append(
                {
                    "id": node,
                    "level": 4,
                    "kind": FOLDED,
                    "label": f"{counts[position]} other sources",
                    "contribution": float(contribution[position]),
                    "dor": float(dor[position]),
                    "lost_ms": float(lost[position]),
                }
            )
        self._add_edges(ids, ends, factor)
        width = len(s.source_query)
        pairs, pair = np.unique(member * width + query, return_inverse=True)
        into = pairs // width
        starts = [_other_stages(id_) for id_ in vertex_ids(contents, 6, pairs % width)]
        self._add_edges(
            starts,
            [ids[position] for position in into],
            sum_by(pair, parts[2], len(pairs)) / dor[into],
        )
        for q, t, d, ms in zip(
            query.tolist(), target.tolist(), parts[2].tolist(), parts[3].tolist(), strict=True
        ):
            sums = self._others.setdefault(q, {})
            before = sums.get(t, (0.0, 0.0))
            sums[t] = (before[0] + d, before[1] + ms)

    def add_sources(self, at: Ints) -> None:
        """Add levels 5 and 6 for the explanations at these positions and the folded ones."""
        contents, s = self.contents, self.contents.structure
        columns = (contents.dor.amount[4][at].tolist(), contents.lost.amount[4][at].tolist())
        stages: dict[int, dict[int, tuple[float, float]]] = {}
        for source, target, dor, lost in zip(
            s.source[at].tolist(), s.target[4][at].tolist(), *columns, strict=True
        ):
            sums = stages.setdefault(source, {})
            before = sums.get(target, (0.0, 0.0))
            sums[target] = (before[0] + dor, before[1] + lost)
        ids = vertex_ids(contents, 4, at)
        self._add_edges(vertex_ids(contents, 5, s.source[at]), ids, np.ones(len(at)))

        stage_at = np.array(sorted(stages), np.int64)
        query_of = s.query_of_source[stage_at].tolist()
        self._add_shared(vertex_frame(contents, 5, stage_at), [stages[int(p)] for p in stage_at])
        queries: dict[int, dict[int, tuple[float, float]]] = {}
        for position, query in zip(stage_at.tolist(), query_of, strict=True):
            _add_into(queries.setdefault(query, {}), stages[position])
        for query, sums in self._others.items():
            _add_into(queries.setdefault(query, {}), sums)
        query_at = np.array(sorted(queries), np.int64)
        frame = vertex_frame(contents, 6, query_at)
        self._add_shared(frame, [queries[int(p)] for p in query_at])
        self._add_edges(
            vertex_ids(contents, 6, np.array(query_of, np.int64)),
            vertex_ids(contents, 5, stage_at),
            np.ones(len(stage_at)),
        )
        self._add_other_stages(frame.set_index(query_at))

    def _add_other_stages(self, queries: pd.DataFrame) -> None:
        for query in sorted(self._others):
            row = queries.loc[query]
            self._append_shared(
                {
                    "id": _other_stages(row["id"]),
                    "level": 5,
                    "kind": FOLDED,
                    "label": f"other stages of {row['label']}",
                    "contribution": 1.0,
                },
                self._others[query],
            )
            self._add_edges([row["id"]], [_other_stages(row["id"])], np.ones(1))

    def _add_vertices(self, frame: pd.DataFrame) -> None:
        columns = ["id", "level", "kind", "label", "contribution", "dor", "lost_ms"]
        self.nodes.extend(frame[columns].to_dict(orient="records"))

    def _add_shared(
        self, frame: pd.DataFrame, sums: Iterable[dict[int, tuple[float, float]]]
    ) -> None:
        columns = ["id", "level", "kind", "label", "contribution"]
        for node, by_target in zip(frame[columns].to_dict(orient="records"), sums, strict=True):
            self._append_shared(node, by_target)

    def _append_shared(
        self, node: dict[str, Any], by_target: dict[int, tuple[float, float]]
    ) -> None:
        s, ids = self.contents.structure, self.contents.names.query_ids
        node["dor"] = sum(dor for dor, _ in by_target.values())
        node["lost_ms"] = sum(lost for _, lost in by_target.values())
        node["dor_by_target"] = {
            ids[int(s.targets[target])]: by_target[target][0] for target in sorted(by_target)
        }
        self.nodes.append(node)

    def _add_edges(self, froms: list[str], tos: list[str], factors: Floats) -> None:
        self.edges.extend(
            {"from": start, "to": end, "impact_factor": factor}
            for start, end, factor in zip(froms, tos, factors.tolist(), strict=True)
        )


def _other_stages(query_vertex: str) -> str:
    return f"{PREFIXES[5]}:{query_vertex.partition(':')[2]}/{FOLDED}"


def _add_into(sums: dict[int, tuple[float, float]], more: dict[int, tuple[float, float]]) -> None:
    for target, (dor, lost) in more.items():
        before = sums.get(target, (0.0, 0.0))
        sums[target] = (before[0] + dor, before[1] + lost)
