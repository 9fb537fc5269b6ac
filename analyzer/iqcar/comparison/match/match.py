"""Matches recurring queries of two sides, and stages inside matched queries.

Queries: pairs that the user gives, then equal fingerprints, then equal names without dates and
counters, then plans that scan like tables with like operators. Stages: equal labels in order, then
the most alike labels of those left over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.comparison.sides.comparison_tables import CATEGORIES
from iqcar.comparison.sides.side import Side
from iqcar.enums import MatchBy
from iqcar.errors import UsageError
from iqcar.tables import NONE, texts
from iqcar.tables.arrays import Ints

LEAST_LIKENESS = 0.6
"""Likeness of two plans from which they are one query: half tables, half operators in common; of
plans that read no table, operators alone."""
LEAST_LABEL_LIKENESS = 0.6
"""Likeness of two labels from which they are one stage of a query, by their common words."""
MOST_PAIRS = 1_000_000
"""Pairs of plans compared at most: beyond, only those that read the same tables are, and of more of
those the first with the first."""
MOST_LABEL_PAIRS = 10_000
"""Pairs of labels of one query compared at most; beyond, labels have to be equal."""


class Matched(NamedTuple):
    """Categories of two sides, and where each node went."""

    categories: pd.DataFrame
    category_of: tuple[Ints, Ints]
    """Category of each side's nodes, (n_nodes,)."""


class _Group(NamedTuple):
    """Nodes of one query: those of each side, and how they were matched."""

    nodes: tuple[list[int], list[int]]
    matched_by: str


def match_sides(
    before: Side,
    after: Side,
    *,
    match_by: MatchBy = MatchBy.AUTO,
    pairs: Sequence[tuple[str, str]] = (),
) -> Matched:
    """Match queries and stages.

    ``match_by``: how queries are matched. ``pairs``: names or fingerprints of a query before and
    the same one after; they come first. Raises UsageError if a pair names no query.
    """
    sides = (_Queries(before), _Queries(after))
    groups = _match_queries(sides, match_by, pairs)
    return _with_stages(groups, sides)


class _Queries:
    """Recurring queries of one side, and the stages of each in order."""

    def __init__(self, side: Side) -> None:
        nodes = side.nodes
        kind = texts(nodes, "kind")
        self.rows = [row for row, what in enumerate(kind) if what == "query"]
        self.name, self.family = texts(nodes, "name"), texts(nodes, "family")
        self.fingerprint, self.label = texts(nodes, "fingerprint"), texts(nodes, "label")
        self.scans, self.operators = texts(nodes, "scans"), texts(nodes, "operators")
        self.ordinal, self.order = nodes["ordinal"].tolist(), nodes["order"].tolist()
        self.size = len(nodes)
        self.runs: dict[int, set[int]] = side.node_runs.groupby("node")["run"].agg(set).to_dict()
        self.driver: dict[int, int] = {}
        self.stages: dict[int, list[int]] = {row: [] for row in self.rows}
        for node, (what, query) in enumerate(zip(kind, nodes["query"].tolist(), strict=True)):
            if what == "driver":
                self.driver[query] = node
            elif what == "stage":
                self.stages[query].append(node)

    def recur(self, rows: list[int]) -> bool:
        """Tell whether no run has two of some queries: they may be one that recurs."""
        runs = [self.runs[row] for row in rows]
        return len(set().union(*runs)) == sum(map(len, runs))

    def find(self, wanted: str) -> list[int]:
        """Nodes of the queries with this name, family or fingerprint."""
        for values in (self.name, self.family, self.fingerprint):
            if found := [row for row in self.rows if values[row] == wanted]:
                return found
        known = ", ".join(sorted({self.name[row] for row in self.rows})[:3])
        raise UsageError(f"no query is called {wanted!r}", "--pair", f"there are {known}, …")


def _match_queries(
    sides: tuple[_Queries, _Queries], match_by: MatchBy, pairs: Sequence[tuple[str, str]]
) -> list[_Group]:
    left = (dict.fromkeys(sides[0].rows), dict.fromkeys(sides[1].rows))
    groups: list[_Group] = []

    def take(before: list[int], after: list[int], how: str) -> None:
        groups.append(_Group((before, after), how))
        for rows, rest in zip((before, after), left, strict=True):
            for row in rows:
                rest.pop(row, None)

    for pair in pairs:
        chosen = [
            [row for row in side.find(wanted) if row in rest]
            for side, wanted, rest in zip(sides, pair, left, strict=True)
        ]
        if all(chosen):
            take(chosen[0], chosen[1], "pair")

    def take_equal(key: str, how: str, only_recurring: bool = False) -> None:
        values = [_by_value(getattr(s, key), rest) for s, rest in zip(sides, left, strict=True)]
        for value, before in values[0].items():
            after = values[1].get(value, [])
            recur = not only_recurring or (sides[0].recur(before) and sides[1].recur(after))
            if after and recur:
                take(before, after, how)

    if match_by is not MatchBy.PLAN:
        take_equal("fingerprint", "fingerprint")
        take_equal("family", "name", only_recurring=True)
    if match_by is not MatchBy.NAME:
        for row, other in _alike_plans(sides, [list(rest) for rest in left]):
            take([row], [other], "plan")
    if match_by is not MatchBy.PLAN:
        take_equal("family", "name")
    for side, rest in enumerate(left):
        by_family = _by_value(sides[side].family, rest)
        alone = [*by_family.values(), *([row] for row in rest if not sides[side].family[row])]
        groups += [_Group((rows, []) if side == 0 else ([], rows), "") for rows in alone]
    return groups


def _by_value(values: list[str], rows: dict[int, None]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row in rows:
        if values[row]:
            found.setdefault(values[row], []).append(row)
    return found


def _alike_plans(sides: tuple[_Queries, _Queries], rows: list[list[int]]) -> list[tuple[int, int]]:
    """Pair the most alike plans first, each query once."""
    groups = [_by_scans(side, side_rows) for side, side_rows in zip(sides, rows, strict=True)]
    counts = [sum(map(len, group.values())) for group in groups]
    only_equal = counts[0] * counts[1] > MOST_PAIRS
    found = []
    for scans, before in groups[0].items():
        for other_scans, after in (
            groups[1].items() if not only_equal else [(scans, groups[1].get(scans, {}))]
        ):
            # Where neither reads a table, only operators tell.
            of_scans = 0.5 if scans or other_scans else 0.0
            same_scans = of_scans * _common(scans, other_scans)
            if same_scans + 1 - of_scans < LEAST_LIKENESS:
                continue
            for (row, operators), (other, others) in _pairs(before, after):
                likeness = same_scans + (1 - of_scans) * _common(operators, others)
                if likeness >= LEAST_LIKENESS:
                    # Equal ones by what they do, so that either side may come first.
                    content = sorted([sides[0].operators[row], sides[1].operators[other]])
                    found.append((-likeness, content, row, other))
    return _each_once((row, other) for _, _, row, other in sorted(found))


def _each_once(pairs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Take pairs in their order, of which no part was taken before."""
    before, after = dict[int, int](), dict[int, int]()
    for one, other in pairs:
        if one not in before and other not in after:
            before[one], after[other] = other, one
    return list(before.items())


def _by_scans(side: _Queries, rows: list[int]) -> dict[frozenset[str], dict[int, frozenset[str]]]:
    """Group queries by the tables that they read; operators of each."""
    found: dict[frozenset[str], dict[int, frozenset[str]]] = {}
    for row in rows:
        if side.operators[row]:
            scans = frozenset(_words(side.scans[row]))
            found.setdefault(scans, {})[row] = frozenset(_words(side.operators[row]))
    return found


def _pairs(
    before: dict[int, frozenset[str]], after: dict[int, frozenset[str]]
) -> Iterator[tuple[tuple[int, frozenset[str]], tuple[int, frozenset[str]]]]:
    """Yield what to compare: all pairs, or of too many those at equal places."""
    if len(before) * len(after) <= MOST_PAIRS:
        return product(before.items(), after.items())
    return zip(before.items(), after.items(), strict=False)


def _words(text: str) -> list[str]:
    return [word for word in text.split("; ") if word]


def _common(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the share of what either has that both have; 1 where neither has anything."""
    either = len(one | other)
    return len(one & other) / either if either else 1.0


def _with_stages(groups: list[_Group], sides: tuple[_Queries, _Queries]) -> Matched:
    """Make a category for each group, each driver and each matched stage."""
    category_of = tuple(np.full(side.size, NONE, np.int64) for side in sides)
    found: list[tuple[object, ...]] = []

    def add(kind: str, query: int, how: str, nodes: tuple[list[int], list[int]]) -> int:
        number = len(found)
        for category, rows in zip(category_of, nodes, strict=True):
            category[rows] = number
        last = 1 if nodes[1] else 0
        shown, row = sides[last], nodes[last][0]
        names = (
            side.name[rows[0]] if rows and kind == "query" else ""
            for side, rows in zip(sides, nodes, strict=True)
        )
        of_query = number if query == NONE else query
        text = shown.label[row], shown.ordinal[row], shown.operators[row]
        found.append((kind, of_query, *names, shown.fingerprint[row], how, *text, query))
        return number

    for group in groups:
        query = add("query", NONE, group.matched_by, group.nodes)
        before, after = (
            [side.driver[row] for row in rows]
            for side, rows in zip(sides, group.nodes, strict=True)
        )
        add("driver", query, group.matched_by, (before, after))
        for how, nodes in _match_stages(group, sides):
            add("stage", query, how, nodes)
    names = CATEGORIES.column_names()
    columns = list(zip(*found, strict=True)) or [()] * len(names)
    categories = CATEGORIES.frame(dict(zip(names, columns, strict=True)))
    return Matched(categories, (category_of[0], category_of[1]))


def _match_stages(
    group: _Group, sides: tuple[_Queries, _Queries]
) -> list[tuple[str, tuple[list[int], list[int]]]]:
    """Match the stages of one query: by label and number, the rest by likeness of labels."""
    stages: list[dict[tuple[str, int], list[int]]] = []
    for side, rows in zip(sides, group.nodes, strict=True):
        found: dict[tuple[str, int], list[int]] = {}
        nodes = [node for row in rows for node in side.stages[row]]
        for node in sorted(nodes, key=side.order.__getitem__):
            found.setdefault((side.label[node], side.ordinal[node]), []).append(node)
        stages.append(found)
    before, after = stages
    matched = [("label", (before[key], after[key])) for key in before if key in after]
    rest = (
        [key for key in before if key not in after],
        [key for key in after if key not in before],
    )
    few = len(rest[0]) * len(rest[1]) <= MOST_LABEL_PAIRS
    pairs = product(enumerate(rest[0]), enumerate(rest[1])) if few else ()
    likeness = sorted(
        (-_alike(one[0], other[0]), abs(i - j), sorted([one, other]), i, j)
        for (i, one), (j, other) in pairs
    )
    alike = _each_once((i, j) for minus, *_, i, j in likeness if -minus >= LEAST_LABEL_LIKENESS)
    matched += [("likeness", (before[rest[0][i]], after[rest[1][j]])) for i, j in alike]
    paired = {rest[0][i] for i, _ in alike}, {rest[1][j] for _, j in alike}
    matched += [("", (before[key], [])) for key in rest[0] if key not in paired[0]]
    matched += [("", ([], after[key])) for key in rest[1] if key not in paired[1]]
    return matched


def _alike(one: str, other: str) -> float:
    """Return the likeness of two labels by their words in order, 0 to 1."""
    first, second = sorted([one, other])  # the ratio depends on which comes first
    return SequenceMatcher(None, first.split(), second.split(), autojunk=False).ratio()
