"""Changed stage graphs and edit distances straight from their definitions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache

Instance = tuple[int, int, int, str]
"""Query, side, run, graph."""


def share_of(instances: list[Instance], query: int, side: int, graph: str) -> Fraction:
    """Mean over the side's runs of the share of a graph among the query's instances in a run."""
    runs = {r for q, s, r, _ in instances if (q, s) == (query, side)}
    total = Fraction(0)
    for run in runs:
        graphs = [g for q, s, r, g in instances if (q, s, r) == (query, side, run)]
        total += Fraction(graphs.count(graph), len(graphs))
    return total / len(runs) if runs else Fraction(0)


def changed(instances: list[Instance]) -> dict[int, tuple[str, str]]:
    """Precursor and mutation of each query whose structure changed."""
    found = {}
    for query in {q for q, *_ in instances}:
        own = []
        for side in (0, 1):
            graphs = {g for q, *_, g in instances if q == query}
            own += [
                [
                    g
                    for g in graphs
                    if share_of(instances, query, side, g) > Fraction(1, 2)
                    and 2 * share_of(instances, query, 1 - side, g)
                    <= share_of(instances, query, side, g)
                ]
            ]
        if own[0] and own[1]:
            found[query] = (own[0][0], own[1][0])
    return found


def edits(one: Sequence[str], other: Sequence[str]) -> int:
    """Least insertions, deletions and replacements, by the recursive definition."""

    @cache
    def left(i: int, j: int) -> int:
        if i == len(one) or j == len(other):
            return len(one) - i + len(other) - j
        return min(
            left(i + 1, j + 1) + (one[i] != other[j]), left(i + 1, j) + 1, left(i, j + 1) + 1
        )

    return left(0, 0)
