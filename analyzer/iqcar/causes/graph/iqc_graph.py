"""Builds iQC-Graph, and ranks its vertices, paths and blame (iQCAR §5 and §6).

Paper: iQCAR | §5, eq. 13, DOR | exact graph; vertices weigh lost time |
  tests/causes/graph/test_paths.py
Paper: iQCAR | §6.2, algorithm 3 | exact | tests/causes/graph/test_paths.py
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush

import numpy as np
import pandas as pd

from iqcar.causes.blame.attribute import Blame
from iqcar.causes.graph import views
from iqcar.causes.graph.contents import (
    Contents,
    Names,
    edge_frame,
    objects,
    vertex_frame,
    vertex_ids,
)
from iqcar.causes.graph.export import export_graph, to_networkx
from iqcar.causes.graph.structure import (
    Flow,
    Structure,
    all_contributions,
    by_source,
    chosen_targets,
    lay_out,
    pass_up,
)
from iqcar.enums import LEVELS
from iqcar.tables import Tables
from iqcar.tables.arrays import Floats, Ints, share_of, sum_by

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
