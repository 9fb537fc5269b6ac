"""Finds queries whose stage graph changed, its precursor, and how much the two differ.

Structural mutations of Spectroscope (CMU-PDL-10-107, section 5.2), with shares of runs instead of
counts of requests: the sides of a comparison rarely have equally many runs, and few of them.

Paper: Spectroscope | §5.2 | leaves it: shares of runs | tests/comparison/test_structures.py
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from iqcar.comparison.match.match import Matched
from iqcar.comparison.sides.side import Side
from iqcar.tables import TableSpec, texts
from iqcar.tables.arrays import Floats, Ints, sum_by
from iqcar.tables.declarations import declare

MAJORITY = 0.5
"""Share of a side's runs above which a graph is that side's own."""
LEAST_FALL = 0.5
"""A side's own graph is at most this part as frequent on the other side, else nothing changed."""

STRUCTURES = TableSpec(
    "structures",
    "One row per query whose stage graph changed.",
    declare(
        ("query_category", "int32", "row", "The query."),
        ("before", "str", "", "The graph of most runs before: the precursor."),
        ("after", "str", "", "The graph of most runs after: the mutation."),
        ("before_share_before", "float64", "", "Share of the runs before with the precursor."),
        ("before_share_after", "float64", "", "Share of the runs after with the precursor."),
        ("after_share_before", "float64", "", "Share of the runs before with the mutation."),
        ("after_share_after", "float64", "", "Share of the runs after with the mutation."),
        ("distance", "float64", "", "Labels to edit, over those of the larger graph: up to 1."),
    ),
)


def changed_graphs(sides: tuple[Side, Side], matched: Matched) -> pd.DataFrame:
    """Return the queries whose stage graph changed, with both graphs (``STRUCTURES``)."""
    category, number, run = [], [], []
    graph: list[str] = []
    for place, (side, categories) in enumerate(zip(sides, matched.category_of, strict=True)):
        category.append(categories[side.graphs["node"].to_numpy(np.int64)])
        number.append(np.full(len(side.graphs), place))
        run.append(side.graphs["run"].to_numpy(np.int64))
        graph += texts(side.graphs, "graph")
    return structures(np.concatenate(category), np.concatenate(number), np.concatenate(run), graph)


def structures(
    query_category: Ints, side: Ints, run: Ints, graph_key: Sequence[str]
) -> pd.DataFrame:
    """Compare the stage graphs of each query's runs before with those after.

    ``query_category``, ``side`` (0 before, 1 after), ``run`` and ``graph_key``: those of each time
    that a query ran, (n_instances,). Shares count runs: the instances inside one run count together
    as much as the only one of another. The graph has a line per stage in depth-first order.

    Returns ``STRUCTURES``, sorted by query. A query is left out where a side has no graph of its
    own (more than :data:`MAJORITY` of its runs), where both sides have the same, or where one
    side's is still more than :data:`LEAST_FALL` as frequent on the other.
    """
    graph, texts = pd.factorize(np.asarray(graph_key, object), sort=True)
    cells, share = _shares(query_category, side, run, graph)
    own = np.flatnonzero(share.max(axis=1, initial=0) > MAJORITY)
    of_side = [own[share[own, number] > MAJORITY] for number in (0, 1)]  # one per query at most
    query, before, after = np.intersect1d(
        *(cells[rows, 0] for rows in of_side), return_indices=True
    )
    before, after = of_side[0][before], of_side[1][after]
    falls = (share[before, 1] <= LEAST_FALL * share[before, 0]) & (
        share[after, 0] <= LEAST_FALL * share[after, 1]
    )
    changed = (before != after) & falls
    query, before, after = query[changed], before[changed], after[changed]
    named = [texts[cells[rows, 1]].tolist() for rows in (before, after)]
    return STRUCTURES.frame(
        {
            "query_category": query,
            "before": named[0],
            "after": named[1],
            "before_share_before": share[before, 0],
            "before_share_after": share[before, 1],
            "after_share_before": share[after, 0],
            "after_share_after": share[after, 1],
            "distance": [
                distance(one.split("\n"), other.split("\n"))
                for one, other in zip(*named, strict=True)
            ],
        }
    )


def _shares(query: Ints, side: Ints, run: Ints, graph: Ints) -> tuple[Ints, Floats]:
    """Pairs of query and graph, (n, 2), and their share of the query's runs per side, (n, 2)."""
    if not len(query):
        return np.zeros((0, 2), np.int64), np.zeros((0, 2))
    runs, of_run, instances = np.unique(
        np.column_stack([query, side, run]), axis=0, return_inverse=True, return_counts=True
    )
    of_run = of_run.ravel()
    _, of_side, runs_of_side = np.unique(
        runs[:, :2], axis=0, return_inverse=True, return_counts=True
    )
    weight = 1 / instances[of_run] / runs_of_side[of_side.ravel()[of_run]]
    cells, place = np.unique(np.column_stack([query, graph]), axis=0, return_inverse=True)
    share = sum_by(place.ravel() * 2 + side, weight, 2 * len(cells)).reshape(-1, 2)
    return cells, np.round(share, 12)  # sums of thirds and the like: exact halves stay halves


def distance(one: Sequence[str], other: Sequence[str]) -> float:
    """Return how many labels have to be edited to make one list the other, normalised.

    The report (section 5.2) names a "normalized string-edit distance" without a formula: here it is
    the least number of insertions, deletions and replacements, divided by the longer length.

    Returns float, from 0 (equal) to 1 (no label in common); similarity is 1 less that.
    """
    shortest, longest = sorted((len(one), len(other)))
    start = 0
    while start < shortest and one[start] == other[start]:
        start += 1
    end = 0
    while end < shortest - start and one[-1 - end] == other[-1 - end]:
        end += 1
    codes, _ = pd.factorize(np.array([*one, *other], object)) if longest else (np.zeros(0), None)
    short, long = codes[start : len(one) - end], codes[len(one) + start : len(codes) - end]
    column = np.arange(len(long) + 1)
    edits = column.copy()  # to make each beginning of the second list from nothing
    for row, label in enumerate(short.tolist(), 1):
        replaced = np.minimum(edits[:-1] + (long != label), edits[1:] + 1)
        # An insertion costs 1 more than its left neighbour: a running minimum less the position.
        edits = np.minimum.accumulate(np.concatenate([[row], replaced]) - column) + column
    return float(edits[-1]) / max(longest, 1)
