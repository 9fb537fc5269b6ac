"""Score what a comparison says, and what the printed method says, against planted changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from iqcar.comparison.comparison import Comparison
from iqcar.comparison.comparison_tables import MEASURES
from iqcar.comparison.explore import best_split
from iqcar.tables import texts
from iqcar_lab.clusters.changes import EVERY_QUERY, QUIET, Pair, Plant
from iqcar_lab.printed.spectroscope import printed_findings

MARGIN = 0.05
"""The comparison's margin: smaller effects need not be found."""
NOTICEABLE = MARGIN / 2
"""Share of a query's duration from which an effect is one."""
TOP = 10
STRUCTURAL = {"structure", "added", "removed"}
"""Kinds of change to other stages; of the others only times are different."""


@dataclass(frozen=True)
class Found:
    """One query that a method says changed: its place, time, kind and first cause or causes."""

    query: str
    contribution_ms: float
    kind: str
    causes: tuple[str, ...]


@dataclass(frozen=True)
class Score:
    """Means over pairs; NaN where no pair of the group has anything to score."""

    pairs: int
    relevant: float
    false: float
    coverage: float
    plants: float
    rho: float
    kind: float
    cause: float
    alarms: float


def is_relevant(pair: Pair, query: str) -> bool:
    """Tell whether a change was planted in a query, or another one changed its time."""
    effect = abs(pair.effect_ms.get(query, 0.0))
    before = pair.before_ms.get(query, 0.0)
    return _planted(pair, query) is not None or effect >= NOTICEABLE * before > 0


def _planted(pair: Pair, query: str) -> Plant | None:
    return pair.plants.get(query) or pair.plants.get(EVERY_QUERY)


def right_kind(pair: Pair, found: Found) -> bool | None:
    """Tell whether a planted query's kind is right; None if nothing was planted in it.

    Where more than half of its effect comes from the other plants, contention is right, too. The
    printed method knows two kinds: other stages, or other times of the same.
    """
    plant = _planted(pair, found.query)
    if plant is None:
        return None
    if found.kind in ("response-time", "structural"):
        return (found.kind == "structural") == bool(plant.kinds & STRUCTURAL)
    return found.kind in plant.kinds or (found.kind == "contention" and _by_others(pair, found))


def _by_others(pair: Pair, found: Found) -> bool:
    """Tell whether most of a planted query's effect would stay without its own change."""
    own = pair.own_effect_ms.get(found.query)
    return own is not None and own < 0.5 * pair.effect_ms[found.query]


def right_cause(pair: Pair, found: Found) -> bool | None:
    """Tell whether the first cause is the planted one, or the planted query's for what follows.

    None for queries that only one side has, and for findings that are not relevant.
    """
    if found.query not in pair.before_ms or not is_relevant(pair, found.query):
        return None
    plant = _planted(pair, found.query)
    if plant is not None and not (found.kind == "contention" and _by_others(pair, found)):
        return bool(found.causes) and found.causes[0].startswith(plant.causes)
    sources = {f"query:{name}" for name in pair.plants}
    roots = {cause for one in pair.plants.values() for cause in one.causes if cause}
    return bool(found.causes) and (
        found.causes[0] in sources or found.causes[0].startswith(tuple(roots) or ("\0",))
    )


def score(results: Iterable[tuple[Pair, list[Found]]]) -> Score:
    """Score findings, ranked by contribution."""
    rows: dict[str, list[float]] = {name: [] for name in Score.__annotations__}
    count = 0
    for pair, found in results:
        count += 1
        quiet = pair.kind in QUIET
        if quiet:
            rows["alarms"].append(float(bool(found)))
        wrong = [not is_relevant(pair, one.query) for one in found]
        if found:
            rows["relevant"].append(1.0 - float(np.mean(wrong[:TOP])))
            rows["false"].append(float(np.mean(wrong)))
        if quiet:
            continue
        effects = {q: abs(e) for q, e in pair.effect_ms.items() if is_relevant(pair, q)}
        names = {one.query for one in found}
        whole = sum(effects.values())
        rows["coverage"].append(sum(e for q, e in effects.items() if q in names) / whole)
        plants = _plants(pair)
        if plants:
            rows["plants"].append(float(np.mean([bool(names & of) for of in plants])))
        kinds = [right for one in found if (right := right_kind(pair, one)) is not None]
        causes = [right for one in found if (right := right_cause(pair, one)) is not None]
        if kinds:
            rows["kind"].append(float(np.mean(kinds)))
        if causes:
            rows["cause"].append(float(np.mean(causes)))
        rows["rho"].append(_rank_correlation(pair, found))
    means = {
        name: float(np.nanmean(values)) if values and not np.isnan(values).all() else float("nan")
        for name, values in rows.items()
        if name != "pairs"
    }
    return Score(pairs=count, **means)


def _plants(pair: Pair) -> list[set[str]]:
    """Queries of each planted change whose effect is beyond the margin: it is found in one."""
    large = {q for q, e in pair.effect_ms.items() if abs(e) >= MARGIN * pair.before_ms.get(q, 0.0)}
    of: dict[Plant, set[str]] = {}
    for query, plant in pair.plants.items():
        of.setdefault(plant, set()).update(large if query == EVERY_QUERY else {query} & large)
    return [queries for queries in of.values() if queries]


def _rank_correlation(pair: Pair, found: list[Found]) -> float:
    """Spearman's correlation of what is said with the effect over the queries of the pair."""
    said = {one.query: one.contribution_ms for one in found}
    queries = sorted(pair.effect_ms)
    truth = _ranks(np.array([pair.effect_ms[q] for q in queries]))
    guess = _ranks(np.array([said.get(q, 0.0) for q in queries]))
    if truth.std() == 0 or guess.std() == 0:
        return float("nan")
    return float(np.corrcoef(truth, guess)[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks with ties at their mean."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - (count - 1) / 2)[place]


def found_by(comparison: Comparison) -> list[Found]:
    """What a comparison says, one entry per query."""
    changes, causes = comparison.changes, comparison.causes
    found = []
    for row, change in enumerate(changes.itertuples()):
        if change.parent < 0:
            of = causes[causes["change"] == row]["cause"]
            name = comparison.name(change.category)
            found.append(Found(name, change.contribution_ms, change.kind, tuple(of)))
    return found


CAUSE_OF_PARAMETER = {
    "bytes": "data:bytes",
    "partitions": "partitions",
    "tasks": "partitions",
    "spill_bytes": "metric:spill_bytes",
    "bytes_max_over_mean": "skew:bytes",
    "hosts": "environment:hosts",
}
"""What a parameter at the tree's root says; any other is a metric."""


def found_as_printed(comparison: Comparison) -> list[Found]:
    """Categories of one query are one finding; the largest contribution decides its kind."""
    by_query = defaultdict(list)
    for row in printed_findings(comparison):
        by_query[comparison.name(row["category"])].append(row)
    said = []
    for name, rows in by_query.items():
        main = max(rows, key=lambda row: abs(row["contribution_ms"]))
        total = sum(row["contribution_ms"] for row in rows)
        said.append(Found(name, total, main["kind"], _explanation(comparison, name)))
    return sorted(said, key=lambda one: -abs(one.contribution_ms))


def _explanation(comparison: Comparison, name: str) -> tuple[str, ...]:
    """The parameter at the root of the tree that tells the runs before from those after."""
    categories = comparison.categories
    both = texts(categories, "name_before"), texts(categories, "name_after")
    rows = [row for row in comparison.common.tolist() if name in (both[0][row], both[1][row])]
    if not rows:
        return ()
    runs = comparison.category_runs
    runs = runs[runs["category"] == rows[0]]
    measures = [measure for measure, *_ in MEASURES if measure != "time_ms"]
    parameters = runs[[*measures, "bytes_max_over_mean"]].reset_index(drop=True)
    split = best_split(parameters, runs["side"].to_numpy(np.int64))
    if split is None:
        return ()
    return (CAUSE_OF_PARAMETER.get(split.parameter, f"metric:{split.parameter}"),)
