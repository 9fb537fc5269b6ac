"""Finds the heaviest impact paths by best-first search (iQCAR appendix B.3).

The paper's algorithm 3 enumerates and sorts all paths from source queries to targets. Here the
weight of the heaviest path through each vertex is computed first, so the search expands only
vertices on paths that it returns, and their next-best siblings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from iqcar.causes.graph.impact import Flow
from iqcar.causes.graph.structure import Structure
from iqcar.tables.arrays import Floats, Ints

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
