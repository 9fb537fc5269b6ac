"""Find the queries whose stage graph changed: most runs of a side have it, few of the other."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iqcar.comparison.match import Matched
    from iqcar.comparison.measured_side import Side


def changed_graphs(sides: tuple[Side, Side], matched: Matched) -> dict[int, tuple[str, str]]:
    """Return the stage graphs before and after of the queries that have others.

    A graph counts as a side's own if more than half of the query's runs there have it, and at most
    half of the other side's do.

    Returns
    -------
    dict of query category to (str, str)
        Labels by line, as :data:`~iqcar.comparison.measured_side.QUERY_GRAPHS`.
    """
    counts: tuple[dict[int, Counter[str]], dict[int, Counter[str]]] = ({}, {})
    for side, of, found in zip(sides, matched.category_of, counts, strict=True):
        nodes = of[side.graphs["node"].to_numpy()].tolist()
        for category, graph in zip(nodes, side.graphs["graph"].tolist(), strict=True):
            found.setdefault(category, Counter())[graph] += 1
    changed = {}
    for category in counts[0].keys() & counts[1].keys():
        own = [_majority(found[category]) for found in counts]
        if None in own or own[0] == own[1]:
            continue
        changed[category] = (str(own[0]), str(own[1]))
    return dict(sorted(changed.items()))


def _majority(graphs: Counter[str]) -> str | None:
    graph, count = graphs.most_common(1)[0]
    return graph if 2 * count > graphs.total() else None
