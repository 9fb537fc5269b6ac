"""Builds the iQC-Graph of a run, answers questions about it, and exports it.

The JSON has only vertices of DOR > 0. A graph can have millions of blame explanations; beyond
:data:`MAX_BLAME_NODES` the smallest of each demand are folded into one node per demand, with an
edge from one "other stages" node per source query. Sums are preserved: DOR at every level, DOR of
every source query, and ``DOR_u = Σ IF_uv · DOR_v`` at every node, except that the folded part of a
source stage counts at its query's "other stages".

Paper: iQCAR | §5, eq. 13, DOR | exact graph; vertices weigh lost time |
  tests/causes/graph/test_paths.py
Paper: iQCAR | §6.2, algorithm 3 | exact | tests/causes/graph/test_paths.py
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from iqcar.causes.blame.attribute import Blame
from iqcar.causes.blame.demand_weights import OWN, QUERY
from iqcar.causes.graph import views
from iqcar.causes.graph.contents import (
    PREFIXES,
    Contents,
    Flow,
    Names,
    Structure,
    all_contributions,
    by_source,
    chosen_targets,
    edge_frame,
    lay_out,
    objects,
    pass_up,
    vertex_frame,
    vertex_ids,
)
from iqcar.enums import LEVELS
from iqcar.tables import Tables
from iqcar.tables.arrays import Flags, Floats, Ints, share_of, sum_by

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


_LAST = 4
"""Beyond level 4 a path is unique: an explanation has one source stage, and that one query."""


@dataclass(frozen=True)
class Path:
    """One path: its weight Π IF, and the positions of its vertices at levels 0 to 6."""

    weight: float
    positions: tuple[int, ...]


class PathSearch:
    """Best-first search over one graph, with the weights of its levels computed once.

    Paths of equal weight are ordered by the positions of their vertices; paths of weight 0 are
    left out.
    """

    def __init__(self, structure: Structure, dor: Flow) -> None:
        self._structure = structure
        # DOR is 1 at the targets and every vertex below level 5 has one edge towards them, so a
        # blame explanation's DOR is the weight of the one path through it.
        best = [dor.amount[_LAST]]
        for level in range(_LAST, 0, -1):
            through = np.zeros(len(structure.target[level - 1]))
            np.maximum.at(through, structure.towards[level], best[0])
            best.insert(0, through)
        self._best: list[Floats] = best
        self._order: list[Ints] = [np.zeros(0, np.int64)]
        self._start: list[Ints] = [np.zeros(0, np.int64)]
        for level in range(1, _LAST + 1):
            towards = structure.towards[level]
            self._order.append(np.argsort(towards, kind="stable"))
            counts = np.bincount(towards, minlength=len(structure.target[level - 1]))
            self._start.append(np.concatenate([[0], np.cumsum(counts)]))

    def heaviest(self, k: int, targets: Sequence[int]) -> list[Path]:
        """Return at most ``k`` paths to these targets (positions), the heaviest first."""
        s = self._structure
        heap: list[tuple[float, tuple[int, ...], Ints, int]] = []
        roots = np.array(sorted(targets), np.int64)
        self._push(heap, 0, (), self._by_best(0, roots), 0)
        found: list[Path] = []
        while heap and len(found) < k:
            weight, positions, siblings, rank = heappop(heap)
            level = len(positions) - 1
            self._push(heap, level, positions[:-1], siblings, rank + 1)
            vertex = positions[-1]
            if level == _LAST:
                source = int(s.source[vertex])
                above = (source, int(s.query_of_source[source]))
                found.append(Path(-weight, positions + above))
                continue
            first, last = self._start[level + 1][vertex : vertex + 2]
            inward = self._order[level + 1][first:last]
            self._push(heap, level + 1, positions, self._by_best(level + 1, inward), 0)
        return found

    def _by_best(self, level: int, vertices: Ints) -> Ints:
        return vertices[np.argsort(-self._best[level][vertices], kind="stable")]

    def _push(
        self,
        heap: list[tuple[float, tuple[int, ...], Ints, int]],
        level: int,
        prefix: tuple[int, ...],
        siblings: Ints,
        rank: int,
    ) -> None:
        """Queue the next-best sibling; a heap entry's position tuple is unique and decides ties."""
        if rank >= len(siblings):
            return
        vertex = int(siblings[rank])
        weight = float(self._best[level][vertex])
        if weight > 0:
            heappush(heap, (-weight, (*prefix, vertex), siblings, rank))


def build_graph(
    tables: Tables,
    blame: Blame,
    *,
    targets: Sequence[int] | None = None,
    critical_path: bool = False,
) -> IQCGraph:
    """Build iQC-Graph with impact factors and degrees of responsibility.

    Raises ValueError if a target is no row of ``tables.queries``, or ``blame`` breaks its contract.

    tables: ``queries``, ``stages`` and ``hosts`` are used.
    blame: demands, their sources, and the losses of stages.
    targets: query rows; queries to explain; all by default.
    critical_path: whether only stages on their query's critical path are target stages.
    """
    rows = chosen_targets(targets, len(tables.queries))
    structure = lay_out(tables, blame, rows, critical_path)
    by_time = all_contributions(
        structure, *(frame["lost_ms"] for frame in (blame.stages, blame.demands, blame.sources))
    )
    target_lost = sum_by(structure.towards[1], by_time[1], len(rows))
    lost = pass_up(structure, by_time, target_lost)
    dor = pass_up(structure, by_time, np.ones(len(rows)))
    by_stage, by_query = by_source(structure, dor, lost)
    names = Names(tables.queries, tables.stages, tables.hosts)
    idle, of_all = (blame.sources[name].to_numpy(np.float64) for name in ("idle_ms", "lost_ms"))
    idle = share_of(idle, of_all)
    return IQCGraph(
        structure=structure, dor=dor, lost=lost, by_stage=by_stage, by_query=by_query,
        names=names, folded=blame.folded, idle_share=idle,
        critical_path=critical_path,
    )  # fmt: skip


@dataclass(frozen=True, repr=False)
class IQCGraph(Contents):
    """The multi-level graph that explains the time that target queries lost to source queries.

    Rows of queries, stages and hosts are row numbers of the tables it was built from. ``lost_ms``
    is elapsed time lost to contention in ms.
    """

    critical_path: bool

    vertices = vertex_frame
    edges = edge_frame
    dor_by_target = views.dor_by_target
    aggressive_queries = views.aggressive_queries
    hot_resources = views.hot_resources
    slow_nodes = views.slow_nodes
    who_hurts_whom = views.who_hurts_whom
    matrix = views.matrix
    blame_of = views.blame_of
    blame_rows = views.blame_rows
    export = export_graph
    to_networkx = to_networkx

    @property
    def targets(self) -> Ints:
        """Query rows of the targets."""
        return self.structure.targets

    def sizes(self) -> tuple[int, ...]:
        """Count the vertices of each level."""
        return self.structure.sizes()

    def lost_ms(self, target: int) -> float:
        """Return the elapsed time that a target lost, in ms."""
        return float(self.lost.amount[0][self.position_of(target)])

    def query_losses(self) -> Floats:
        """Return the elapsed time that each query row lost, in ms; 0 if no target. Read-only."""
        return self._losses[0]

    def lost_to_others_ms(self) -> Floats:
        """Return the elapsed time that each query row lost to other queries, in ms. Read-only."""
        return self._losses[1]

    @cached_property
    def _losses(self) -> tuple[Floats, Floats]:
        losses = views.lost(self), views.lost_to_others(self)
        for lost in losses:
            lost.flags.writeable = False
        return losses

    def top(self, level: int, k: int, target: int | None = None) -> pd.DataFrame:
        """Return the ``k`` vertices of a level with the highest DOR (iQCAR §6.2.1).

        Columns of :meth:`vertices`; highest DOR first, ties by position. Vertices of DOR 0 are left
        out.

        level: 0 to 6.
        k: maximum number of vertices.
        target: query row of the only target to consider; at levels 5 and 6, DOR is then that for
            this target instead of the sum over all targets.
        """
        if not 0 <= level < len(LEVELS):
            raise ValueError(f"iQC-Graph has levels 0 to {len(LEVELS) - 1}, not {level}")
        position = None if target is None else self.position_of(target)
        if level <= 4:
            dor, lost = self.dor.amount[level], self.lost.amount[level]
            at = np.arange(len(dor), dtype=np.int64)
            if position is not None:
                at = at[self.structure.target[level] == position]
                dor, lost = dor[at], lost[at]
        else:
            pairs = self.by_stage if level == 5 else self.by_query
            size = self.sizes()[level]
            chosen = slice(None) if position is None else pairs.target == position
            at = np.arange(size, dtype=np.int64)
            dor = sum_by(pairs.source[chosen], pairs.dor[chosen], size)
            lost = sum_by(pairs.source[chosen], pairs.lost_ms[chosen], size)
        order = _largest(dor, k)
        frame = vertex_frame(self, level, at[order])
        frame["dor"], frame["lost_ms"] = dor[order], lost[order]
        return frame

    def paths(self, k: int, target: int | Sequence[int] | None = None) -> pd.DataFrame:
        """Return the ``k`` heaviest impact paths (iQCAR appendix B.3), found best first.

        weight (Π IF), lost_ms, target_query_id, target_name, source_query_id (None for known and
        unattributed causes), source_name, kind, stage, resource, request, host, source_stage
        (labels), nodes (ids from the source query to the target), positions (of the vertices at
        levels 0 to 6). Equal weights are ordered by positions.

        k: maximum number of paths.
        target: query rows of the targets; all by default.
        """
        found = self._search.heaviest(k, [int(p) for p in self.positions_of(target)])
        along = [np.array([p.positions[level] for p in found], np.int64) for level in range(7)]
        ids = [vertex_ids(self, level, along[level]) for level in range(6, -1, -1)]
        last = vertex_frame(self, 4, along[4])
        top = vertex_frame(self, 6, along[6])
        names = self.names
        query_ids = [names.query_ids[row] if row >= 0 else None for row in top["source_query"]]
        target_rows = self.structure.targets[along[0]]
        return pd.DataFrame(
            {
                "weight": np.array([p.weight for p in found], np.float64),
                "lost_ms": last["lost_ms"],
                "target_query_id": objects([names.query_ids[row] for row in target_rows]),
                "target_name": objects([names.query_names[row] for row in target_rows]),
                "source_query_id": objects(query_ids),
                "source_name": top["label"],
                "kind": last["kind"],
                "stage": objects([names.stage_label(row) for row in last["stage"]]),
                "resource": last["resource"],
                "request": last["request"],
                "host": objects([names.host(row) for row in last["host"]]),
                "source_stage": vertex_frame(self, 5, along[5])["label"],
                "nodes": objects([list(path) for path in zip(*ids, strict=True)]),
                "positions": objects([p.positions for p in found]),
            }
        )

    @cached_property
    def _search(self) -> PathSearch:
        return PathSearch(self.structure, self.dor)

    def __repr__(self) -> str:
        """Count vertices and targets."""
        return f"<IQCGraph of {len(self.targets)} targets, {sum(self.sizes())} vertices>"


def _largest(values: Floats, k: int) -> Ints:
    """Return positions of the ``k`` largest positive values, largest first, ties in order."""
    at = np.flatnonzero(values > 0)
    if k <= 0:
        return at[:0]
    if k < len(at):
        least = np.partition(values[at], len(at) - k)[len(at) - k]
        at = at[values[at] >= least]
    return at[np.argsort(-values[at], kind="stable")][:k]
