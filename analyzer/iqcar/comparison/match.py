"""Matches what is measured on both sides, puts it together, and finds changed stage graphs.

Queries: pairs that the user gives, then equal fingerprints, then equal names without dates and
counters, then plans that scan like tables with like operators. Stages: equal labels in order, then
the most alike labels of those left over.

Plain logs and those of the plugin know different waits, and the same one from different sources. A
wait that was not recorded is unknown, not zero: its difference would be taken for a change. Parts
of task time that the sides did not record alike are counted as rest on both.

Structural mutations are those of Spectroscope (CMU-PDL-10-107, section 5.2), with shares of runs
instead of counts of requests: the sides rarely have equally many runs, and few of them.

Paper: Spectroscope | §5.2 | leaves it: shares of runs | tests/comparison/test_structures.py
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from iqcar.comparison.comparison_tables import CATEGORIES, CATEGORY_RUNS, MEASURES
from iqcar.comparison.sides import Side
from iqcar.enums import MatchBy
from iqcar.errors import UsageError
from iqcar.model.waits.columns import IN_TASK_REQUESTS, MEASURED, MISSING, evidence_column
from iqcar.model.waits.stage_parts import TASK_PARTS, mean_known
from iqcar.tables import NONE, Tables, TableSpec, texts
from iqcar.tables.arrays import Flags, Floats, Ints, positive_or_zero, share_of, sum_by
from iqcar.tables.declarations import declare

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


ALIKE = 0.1
"""Share of a stage's task time that may have other evidence on one side than on the other: failed
attempts, which have no metrics, take as much."""


def unlike_parts(sides: tuple[Side, Side], matched: Matched) -> Flags:
    """Tell which parts of the stages of both sides' queries are known from other evidence.

    Returns (n_categories, n_parts): a stage on one side only is held against the whole query on the
    other. False of a query and of its driver.
    """
    categories = matched.categories
    root = categories["query_category"].to_numpy(np.int64)
    known = [
        _by_category(side.evidence, category, root)
        for side, category in zip(sides, matched.category_of, strict=True)
    ]
    told = np.logical_and(*(shares.sum(axis=2) > 0 for shares in known))
    differs = np.abs(known[0] - known[1]).sum(axis=2) / 2 > ALIKE
    is_stage = categories["kind"].to_numpy(object) == "stage"
    unlike: Flags = told & differs & is_stage[:, None]
    return unlike


def _by_category(evidence: Floats, category_of: Ints, root: Ints) -> Floats:
    """Shares by category: mean over its nodes; those of its query where it has no tasks."""
    total = np.zeros((len(root), *evidence.shape[1:]))
    here = category_of >= 0
    np.add.at(total, category_of[here], evidence[here])
    empty = total.sum(axis=(1, 2)) == 0
    total[empty] = total[root[empty]]
    return share_of(total, total.sum(axis=2, keepdims=True))


def fold_parts(runs: pd.DataFrame, categories: pd.DataFrame, unlike: Flags) -> pd.DataFrame:
    """Return ``CATEGORY_RUNS`` in which some parts of stages, and of their queries, are rest.

    What Python workers computed is 0 where computing is such a part.

    ``unlike``, (n_categories, n_parts): from :func:`unlike_parts`.
    """
    if not unlike.any():
        return runs
    names = [*TASK_PARTS, "python_cpu_ms"]
    unlike = np.column_stack([unlike, unlike[:, 0]])
    category, side, run = (runs[name].to_numpy(np.int64) for name in ("category", "side", "run"))
    parts = runs[names].to_numpy(np.float64)
    folded = np.where(unlike[category], parts, 0.0)
    width = int(run.max(initial=0)) + 1
    cell = (category * 2 + side) * width + run  # sorted, as runs are
    root = categories["query_category"].to_numpy(np.int64)[category]
    query_row = np.searchsorted(cell, (root * 2 + side) * width + run)
    stages = np.flatnonzero(query_row != np.arange(len(runs)))
    np.add.at(folded, query_row[stages], folded[stages])
    left = np.maximum(parts - folded, 0.0)
    rest = runs["rest_ms"].to_numpy(np.float64) + (parts - left)[:, :-1].sum(axis=1)
    columns = {name: left[:, place] for place, name in enumerate(names)}
    return runs.assign(**columns, rest_ms=rest)


def without_unlike(
    waits: pd.DataFrame, stage_category: Ints, stage: Ints, unlike: Flags
) -> pd.DataFrame:
    """Return waits in which the parts that are rest are not known.

    ``stage_category``: (n_stages,). ``stage``, (n_tasks,): stage of each task; −1 if unknown.
    ``unlike``: (n_categories, n_parts).
    """
    if not unlike.any():
        return waits
    category = np.append(stage_category, -1)[stage]
    hidden = np.vstack([unlike, np.zeros(unlike.shape[1], bool)])[category]
    columns: dict[str, NDArray[np.generic]] = {
        name: np.where(hidden[:, place], np.nan, waits[name].to_numpy())
        for place, name in enumerate(TASK_PARTS)
    }
    lost = sum(
        positive_or_zero(waits[name].to_numpy()) * hidden[:, place]
        for place, name in enumerate(TASK_PARTS)
    )
    columns["unattributed_ms"] = waits["unattributed_ms"].to_numpy() + lost
    for place, request in enumerate(IN_TASK_REQUESTS, len(TASK_PARTS) - len(IN_TASK_REQUESTS)):
        name = evidence_column(request)
        columns[name] = np.where(hidden[:, place], MISSING, waits[name].to_numpy()).astype(np.int8)
    return waits.assign(**columns)


def unlike_doubt(sides: tuple[Side, Side], unlike: Flags, categories: pd.DataFrame) -> str:
    """Say which parts are not compared, and why; empty if all are."""
    names = [
        name.removesuffix("_ms").replace("_", " ")
        for place, name in enumerate(TASK_PARTS)
        if unlike[:, place].any()
    ]
    if not names:
        return ""
    measured = [bool(side.evidence[:, :, MEASURED].any()) for side in sides]
    why = "The logs of both sides do not record the same waits"
    if measured[0] != measured[1]:
        why = f"Only the tasks {'before' if measured[0] else 'after'} were measured by the plugin"
    count = int(unlike.any(axis=1).sum())
    stages = int((categories["kind"] == "stage").sum())
    return (
        f"{why}: in {count} of {stages} stages {', '.join(names)} cannot be compared; what was not "
        "recorded is unknown, not zero, so they are counted as rest on both sides, and nobody is "
        "blamed for them"
    )


class ComparedRows(NamedTuple):
    """Rows of one side's tables, and where they stand in the comparison."""

    tables: Tables
    waits: pd.DataFrame
    """As :func:`~iqcar.model.waits.measure.measure_waits` says, without what the sides did not
    record alike."""
    run: Ints
    """(n_queries,): run of each query."""
    category: Ints
    """(n_queries,): its row in ``CATEGORIES``; −1 for a query that is not compared."""
    stage_category: Ints
    """(n_stages,): the same of each stage."""

    def weights(self) -> Floats:
        """Weight of each query in the mean of its category: instances of a run, then runs.

        Returns (n_queries,): the weights of a category sum to 1; 0 for a query that is not
        compared.
        """
        here = np.flatnonzero(self.category >= 0)
        key = np.stack([self.category[here], self.run[here]])
        cells, cell, count = np.unique(key, axis=1, return_inverse=True, return_counts=True)
        _, member, runs = np.unique(cells[0], return_inverse=True, return_counts=True)
        weights = np.zeros(len(self.category))
        weights[here] = 1.0 / (count * runs[member])[cell.reshape(-1)]
        return weights


def compared_rows(side: Side, category_of: Ints, unlike: Flags) -> ComparedRows | None:
    """Return the rows of a side with their categories; None for a baseline, which has no tables.

    ``category_of``, (n_nodes,): category of each node of the side. ``unlike``, (n_categories,
    n_parts): from :func:`unlike_parts`.
    """
    if side.tables is None or side.rows is None or side.waits is None:
        return None
    padded = np.append(category_of, -1)
    stage_category = padded[side.rows.stage_node]
    stage = side.tables.tasks["stage"].to_numpy(np.int64)
    return ComparedRows(
        side.tables,
        without_unlike(side.waits, stage_category, stage, unlike),
        side.rows.query_run,
        padded[side.rows.query_node],
        stage_category,
    )


LEAST_DATA_RATIO = 1.1
"""Ratio of bytes read from which a stage that changed the same way has other data."""


def category_runs(sides: tuple[Side, Side], matched: Matched) -> pd.DataFrame:
    """Average the nodes of each category in each run, by how often their queries ran.

    Returns ``CATEGORY_RUNS``: sorted by category, side and run. A stage has a row only for runs
    that needed it; its measures count the runs of its query that did not need it as 0.
    """
    root = matched.categories["query_category"].to_numpy(np.int64)
    parts = [
        _side_runs(side.node_runs, category, root)
        for side, category in zip(sides, matched.category_of, strict=True)
    ]
    together = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    number = np.repeat([0, 1], [len(part["run"]) for part in parts])
    order = np.lexsort((together["run"], number, together["category"]))
    rows = {name: values[order] for name, values in together.items()}
    return CATEGORY_RUNS.frame({**rows, "side": number[order]})


def _side_runs(nodes: pd.DataFrame, category_of: Ints, root: Ints) -> dict[str, Floats | Ints]:
    """Columns of one side; ``nodes``: ``NODE_RUNS``, ``root``: the query of each category."""
    category, run = category_of[nodes["node"].to_numpy()], nodes["run"].to_numpy(np.int64)
    weight = nodes["instances"].to_numpy(np.float64)
    runs = max(int(run.max(initial=-1)) + 1, 1)
    of_query = root[category] == category
    cell = category * runs + run
    ran = sum_by(cell[of_query], weight[of_query], len(root) * runs)
    present, place = np.unique(cell, return_inverse=True)
    instances = ran[root[present // runs] * runs + present % runs]
    n, skew = len(present), nodes["bytes_max_over_mean"].to_numpy(np.float64)
    return {
        "category": present // runs,
        "run": present % runs,
        "instances": instances.astype(np.int64),
        **{
            name: sum_by(place, nodes[name].to_numpy(np.float64) * weight, n)
            / np.maximum(instances, 1)
            for name, *_ in MEASURES
        },
        "bytes_max_over_mean": mean_known(place, skew, weight, n),
    }


def without_other_counts(runs: pd.DataFrame, n: int) -> pd.DataFrame:
    """Forget the bytes of categories that read the same records, but other bytes.

    Versions of Spark, and of the file systems that come with them, count bytes differently: one
    counts what it reads in threads of its own, another does not.

    ``runs``: of sides with different versions. ``n``: categories.
    """
    cell = runs["category"].to_numpy(np.int64) * 2 + runs["side"].to_numpy(np.int64)
    count = np.bincount(cell, minlength=2 * n).astype(np.float64)
    growth = []
    for name in ("bytes", "records"):
        mean = share_of(sum_by(cell, runs[name].to_numpy(np.float64), 2 * n), count)
        before, after = mean[0::2], mean[1::2]
        known = (before > 0) & (after > 0)
        growth.append(np.log(np.where(known, after, 1.0) / np.where(known, before, 1.0)))
    least = np.log(LEAST_DATA_RATIO)
    otherwise = (np.abs(growth[0]) >= least) & (np.abs(growth[1]) < least)
    rows = otherwise[runs["category"].to_numpy(np.int64)]
    unknown = {
        name: np.where(rows, np.nan, runs[name].to_numpy(np.float64))
        for name in ("bytes", "bytes_max_over_mean")
    }
    return runs.assign(**unknown)


class SideMeans(NamedTuple):
    """Means over runs, per category; a stage counts 0 in runs that did not need it."""

    runs: Ints
    """(n_categories,): runs in which the category's query ran."""
    instances: Floats
    """(n_categories,): how often its query ran in one of them."""
    measure: dict[str, Floats]
    """(n_categories,): by the names of ``MEASURES`` and ``bytes_max_over_mean``."""


def side_means(runs: pd.DataFrame, categories: pd.DataFrame, side: int) -> SideMeans:
    """Average the rows of one side of ``CATEGORY_RUNS``."""
    n = len(categories)
    here = runs[runs["side"].to_numpy() == side]
    category = here["category"].to_numpy(np.int64)
    root = categories["query_category"].to_numpy(np.int64)
    count = np.bincount(category, minlength=n)[root].astype(np.float64)
    ran = sum_by(category, here["instances"].to_numpy(np.float64), n)[root]
    means = {
        name: share_of(sum_by(category, here[name].to_numpy(np.float64), n), count)
        for name, *_ in MEASURES
    }
    skew = here["bytes_max_over_mean"].to_numpy(np.float64)
    means["bytes_max_over_mean"] = mean_known(category, skew, np.ones(len(skew)), n)
    return SideMeans(count.astype(np.int64), share_of(ran, count), means)


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
