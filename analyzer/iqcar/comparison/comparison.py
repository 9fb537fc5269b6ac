"""Compares two sets of runs, step by step, and holds what was found; all that show it read it.

sides → matched categories → measures per run → effects → changes → causes → Comparison
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.base.units import duration, percent, read_share, read_time, short
from iqcar.comparison.blame_change import (
    BLAME_CHANGES,
    blame_change,
    per_byte,
    shared_cause,
)
from iqcar.comparison.causes import (
    LEAST_SHARE,
    CauseInputs,
    driver_causes,
    explain_changes,
    keep_changes,
    without_chance,
)
from iqcar.comparison.comparison_tables import CHANGE_CAUSES
from iqcar.comparison.effects import TESTED, effects, no_verdict, rank_changes
from iqcar.comparison.match import (
    Matched,
    SideMeans,
    category_runs,
    changed_graphs,
    compared_rows,
    fold_parts,
    match_sides,
    side_means,
    unlike_doubt,
    unlike_parts,
    without_other_counts,
)
from iqcar.comparison.rule_verdict import loads_differ
from iqcar.comparison.sides import Side, SideFacts, is_baseline, load_baseline, measure_side
from iqcar.comparison.stage_cause import (
    LEAST_PARTITIONS_RATIO,
    PART_RESOURCE,
    Differences,
    StageCause,
    find_differences,
    own_differences,
)
from iqcar.enums import ChangeKind, ChangeVerdict, MatchBy, RunBy
from iqcar.errors import IqcarError, UsageError
from iqcar.model.waits.stage_parts import PART_NAMES
from iqcar.pipeline import read
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Flags, Ints, share_of


@dataclass(frozen=True)
class Comparison:
    """What changed between two sets of runs, and why; integers name rows of ``categories``."""

    sides: tuple[Side, Side]
    """What was measured before and after."""
    categories: pd.DataFrame
    """Queries, and their stages and drivers, matched (``CATEGORIES``)."""
    category_runs: pd.DataFrame
    """Measures of every category in every run (``CATEGORY_RUNS``)."""
    effects: pd.DataFrame
    """Means, intervals, verdicts and parts of the change of every category (``EFFECTS``)."""
    changes: pd.DataFrame
    """What changed, by contribution; a query is followed by its stages (``CHANGES``)."""
    causes: pd.DataFrame
    """Why (``CHANGE_CAUSES``)."""
    blame: pd.DataFrame | None
    """Lost time by query, resource and source (``BLAME_CHANGES``); None where no change
    needed it: :meth:`blame_change` then computes it."""
    category_of: tuple[Ints, Ints]
    """Category of each node of either side."""
    unlike: Flags
    """Parts of each category's task time that the sides did not record alike, and that are counted
    as rest: (n_categories, n_parts)."""
    structures: pd.DataFrame
    """Queries whose stage graph changed, with precursor and mutation (``STRUCTURES``)."""
    different: Differences
    """Settings, hosts and versions that differ."""
    doubts: tuple[str, ...]
    """What makes the result doubtful."""
    margin: float = 0.05
    """Relative change of time that is none."""
    alpha: float = 0.05
    """Level of the tests."""
    shown: frozenset[int] | None = None
    """Query categories that reports show besides the changes; all where it is None."""

    @property
    def before(self) -> SideFacts:
        """Logs, runs, versions, hosts and settings before."""
        return self.sides[0].facts

    @property
    def after(self) -> SideFacts:
        """The same after."""
        return self.sides[1].facts

    @cached_property
    def queries(self) -> Ints:
        """Categories that are queries: ndarray of shape (n_queries,)."""
        return np.flatnonzero(np.array(texts(self.categories, "kind"), object) == "query")

    @cached_property
    def common(self) -> Ints:
        """Categories that are queries of both sides."""
        runs = self.effects[["runs_before", "runs_after"]].to_numpy()[self.queries]
        common: Ints = self.queries[(runs > 0).all(axis=1)]
        return common

    @property
    def total_ms(self) -> tuple[float, float]:
        """Time of the queries of both sides in a run before and after, run equally often."""
        common = self.effects.iloc[self.common]
        before = float((common["before_ms"] * common["instances"]).sum())
        after = float((common["after_ms"] * common["instances"]).sum())
        return before, after

    @cached_property
    def new_graphs(self) -> dict[int, tuple[str, str]]:
        """Stage graphs before and after of the queries where they differ, by category."""
        graphs = zip(texts(self.structures, "before"), texts(self.structures, "after"), strict=True)
        return dict(zip(self.structures["query_category"].tolist(), graphs, strict=True))

    def name(self, category: int) -> str:
        """Return what a category is called: a query's name after, else before; a stage's label."""
        row = self.categories.iloc[category]
        if row["kind"] == "driver":
            return "driver"
        if row["kind"] == "stage":
            again = f" ({row['ordinal'] + 1})" if row["ordinal"] > 0 else ""
            return f"{row['label']}{again}"
        return str(row["name_after"] or row["name_before"])

    def verdict_of(self, verdict: ChangeVerdict) -> list[int]:
        """Queries of both sides with one verdict, which are not listed as changed."""
        listed = set(self.changes["category"].tolist())
        verdicts = texts(self.effects, "verdict")
        return [
            row
            for row in self.common.tolist()
            if verdicts[row] == verdict
            and row not in listed
            and (self.shown is None or row in self.shown)
        ]

    def parts(self, query: str | int) -> pd.DataFrame:
        """Return the stages and the driver of a query; their contributions sum to its own.

        ``query``: name or fingerprint of a query, or its category.
        """
        rows = np.flatnonzero(self.categories["parent"].to_numpy() == self.find(query))
        names = [self.name(row) for row in rows.tolist()]
        named: pd.DataFrame = self.effects.iloc[rows].assign(name=names)
        return named

    @cached_property
    def _blame(self) -> pd.DataFrame:
        if self.blame is not None:
            return self.blame
        before, after = (
            compared_rows(side, category, self.unlike)
            for side, category in zip(self.sides, self.category_of, strict=True)
        )
        if before is None or after is None:
            return BLAME_CHANGES.empty()
        return blame_change(before, after)

    def blame_change(self, query: str | int) -> pd.DataFrame:
        """Return to whom a query lost more or less time; the rows sum to the change of its loss.

        ``query``: as in :meth:`parts`. Returns ``BLAME_CHANGES`` with the name of each source; no
        rows where a side is a baseline, which has no tasks.
        """
        rows = self._blame[self._blame["category"] == self.find(query)].reset_index(drop=True)
        names = [self.name(row) if row >= 0 else "" for row in rows["source"].tolist()]
        named: pd.DataFrame = rows.assign(source_name=names)
        return named

    def find(self, query: str | int) -> int:
        """Return the category of a query, by name or fingerprint.

        Raises UsageError if no query is called so; names the nearest.
        """
        if not isinstance(query, str):
            return int(query)
        rows: list[int] = self.queries.tolist()
        for column in ("name_after", "name_before", "fingerprint"):
            values = texts(self.categories, column)
            for row in rows:
                if values[row] == query:
                    return row
        names = [self.name(row) for row in rows]
        near = get_close_matches(query, names, n=3, cutoff=0.4)
        advice = f"did you mean {' or '.join(near)}" if near else "see `iqcar queries`"
        raise UsageError(f"no query is called {query!r}", "--query", advice)

    def __repr__(self) -> str:
        """Name the totals and the largest change."""
        before, after = self.total_ms
        total = f"{duration(before)} → {duration(after)} a run"
        if self.changes.empty:
            return f"<Comparison: nothing changed; {total}>"
        first = int(self.changes["category"].iloc[0])
        count = int(self.changes["rank"].max())
        return f"<Comparison: {count} changed, most {self.name(first)}; {total}>"


def relative(before: float, after: float) -> str:
    """Format a relative change: ``+20 %``; empty where there was nothing before."""
    if not before > 0:
        return ""
    share = after / before - 1
    return f"{'+' if share >= 0 else '−'}{percent(abs(share))}"


STRUCTURAL = (ChangeKind.STRUCTURE, ChangeKind.ADDED, ChangeKind.REMOVED)
"""Kinds that times play no part in."""


def only_queries(comparison: Comparison, wanted: Sequence[str]) -> Comparison:
    """Return a comparison in which only some queries are shown; tested were all.

    Raises UsageError if no query is called so.
    """
    chosen = {comparison.find(name) for name in wanted}
    root = comparison.categories["query_category"].to_numpy()
    changed = np.isin(root[comparison.changes["category"].to_numpy(np.int64)], sorted(chosen))
    kept = _with_changes(comparison, changed)
    return replace(kept, shown=frozenset(chosen))


def only_structure(comparison: Comparison) -> Comparison:
    """Return a comparison in which only changes of structure are shown."""
    kinds = comparison.changes["kind"].isin([str(kind) for kind in STRUCTURAL]).to_numpy()
    rank = comparison.changes["rank"].to_numpy()
    query = comparison.changes["parent"].to_numpy() < 0
    structural = np.isin(rank, rank[kinds & query])
    return replace(_with_changes(comparison, structural & (kinds | query)), shown=frozenset())


def _with_changes(comparison: Comparison, kept: Flags) -> Comparison:
    changes, causes = keep_changes(comparison.changes, comparison.causes, kept)
    return replace(comparison, changes=changes, causes=causes)


class Limit(NamedTuple):
    """How much slower a query may be; one of the two is set."""

    query: str
    """The query that it is for; empty for all others."""
    share: float
    """Relative change, such as 0.1; NaN if `ms` is set."""
    ms: float
    """Change of a run of the query; NaN if `share` is set."""

    def __str__(self) -> str:
        return duration(self.ms) if math.isnan(self.share) else f"{self.share * 100:g} %"


class Gate(NamedTuple):
    """Whether the comparison passed, and why not: a line for each query that failed."""

    passed: bool
    failures: tuple[str, ...]

    def __bool__(self) -> bool:
        return self.passed


def parse_limit(text: str | float) -> Limit:
    """Read a limit: 0.1, ``10%``, ``500ms``, ``2s`` or ``query=20%``.

    Raises UsageError if it is none of them.
    """
    if not isinstance(text, str):
        return Limit("", _amount(text, str(text)), math.nan)
    query, _, amount = text.rpartition("=")
    if amount.strip().endswith("%"):
        return Limit(query, _amount(read_share(amount), text), math.nan)
    if amount.strip()[-1:].isdigit():
        raise _wrong(text)
    return Limit(query, math.nan, _amount(read_time(amount), text))


def _amount(value: float | None, text: str) -> float:
    if value is None or not (math.isfinite(value) and value >= 0):
        raise _wrong(text)
    return value


def _wrong(text: str) -> UsageError:
    return UsageError(f"is no limit: {text!r}", "--fail-on", "give 10%, 500ms or QUERY=20%")


def check_gate(
    comparison: Comparison, limits: Sequence[str | float], *, new_plan: bool, strict: bool
) -> Gate:
    """Check every query on both sides, the largest change first.

    A query fails a limit if it changed, is slower by more than the limit, and the interval of its
    change lies above the comparison's margin as a whole.
    """
    parsed = [parse_limit(limit) for limit in limits]
    for limit in parsed:
        if limit.query:
            comparison.find(limit.query)  # a limit for a misspelt query would never fail
    effects = comparison.effects
    verdict = texts(effects, "verdict")
    failures = []
    order = effects["contribution_ms"].abs().to_numpy()[comparison.common].argsort(kind="stable")
    for row in comparison.common[order].tolist():
        name = comparison.name(row)
        before, after = (float(effects[key].iloc[row]) for key in ("before_ms", "after_ms"))
        times = f"{duration(before)} → {duration(after)}"
        own = [limit for limit in parsed if limit.query and comparison.find(limit.query) == row]
        for limit in own or [limit for limit in parsed if not limit.query]:
            over = after - before > limit.ms or after / before - 1 > limit.share
            sure = effects["log_low"].iloc[row] > math.log1p(comparison.margin)
            if verdict[row] == ChangeVerdict.CHANGED and over and sure:
                failures.append(f"{name}: {times}, slower than allowed ({limit})")
            elif strict and verdict[row] == ChangeVerdict.CANNOT_TELL:
                needed = int(effects["runs_needed"].iloc[row])
                failures.append(
                    f"{name}: {times}, cannot tell whether it changed (needs {needed} runs a side)"
                )
        if new_plan and row in comparison.new_graphs:
            failures.append(f"{name}: its stages are others than before")
    return Gate(not failures, tuple(failures))


Given = Tables | Side | str | Path | Sequence[str | Path]
MARGIN = 0.05
"""Relative change of time that is none: equal runs differ by it often."""
ALPHA = 0.05
"""Level of the tests, and rate of false findings among all."""


def compare(
    before: Given,
    after: Given,
    *,
    margin: float = MARGIN,
    alpha: float = ALPHA,
    pairs: Sequence[tuple[str, str]] = (),
    match_by: MatchBy | str = MatchBy.AUTO,
    run_by: RunBy | str = RunBy.HOUR,
) -> Comparison:
    """Find what changed between two sets of runs.

    Raises IqcarError if a side has no query that ended well, or no query is on both sides. Raises
    UsageError if margin or alpha are out of range, or a pair names no query.

    before, after: From :func:`iqcar.read`, or what it takes; before may be a file of ``iqcar
        compare --save-baseline``.
    margin: Relative change of time that is none; > 0.
    alpha: Level of the tests; between 0 and 0.5.
    pairs: Queries before and after that are one, by name or fingerprint.
    match_by: How other queries are matched.
    run_by: What one run is.
    """
    check_levels(margin, alpha)
    sides = (_side(before, RunBy(run_by)), _side(after, RunBy(run_by)))
    return compare_sides(sides, margin=margin, alpha=alpha, pairs=pairs, match_by=MatchBy(match_by))


def check_levels(margin: float, alpha: float) -> None:
    """Raise UsageError if a margin or a level is out of range."""
    if not 0 < margin < 10:
        raise UsageError(f"is out of range: {margin:g}", "--margin", "give 5% or the like")
    if not 0 < alpha < 0.5:
        raise UsageError(f"is out of range: {alpha:g}", "--alpha", "give 0.05 or the like")


def _side(given: Given, run_by: RunBy) -> Side:
    if isinstance(given, Side):
        return given
    if isinstance(given, Tables):
        return measure_side(given, run_by)
    if isinstance(given, (str, Path)) and is_baseline(given):
        return load_baseline(given)
    return measure_side(read(given), run_by)


def split_sides(tables: Tables, moment_ms: float, run_by: RunBy) -> tuple[Side, Side]:
    """Cut one set of logs in time: queries that started before a moment, and the others.

    ``moment_ms``: milliseconds since the epoch.
    """
    start = tables.queries["start_ms"].to_numpy(np.float64)
    return (
        measure_side(tables, run_by, start < moment_ms),
        measure_side(tables, run_by, start >= moment_ms),
    )


def compare_sides(
    sides: tuple[Side, Side],
    *,
    margin: float = MARGIN,
    alpha: float = ALPHA,
    pairs: Sequence[tuple[str, str]] = (),
    match_by: MatchBy = MatchBy.AUTO,
    in_common: bool = True,
) -> Comparison:
    """Compare two measured sides (:func:`compare` measures them).

    ``in_common`` tells whether sides without a query in common are an error.
    """
    for side, word in zip(sides, ("before", "after"), strict=True):
        if in_common and side.nodes.empty:
            raise IqcarError(
                f"there is nothing to compare {word}: no query ended well",
                "",
                "; ".join(side.doubts) or "see `iqcar queries`",
            )
    matched = match_sides(*sides, match_by=match_by, pairs=pairs)
    categories = matched.categories
    different = find_differences(sides[0].facts, sides[1].facts)
    unlike = unlike_parts(sides, matched)
    runs = fold_parts(category_runs(sides, matched), categories, unlike)
    if different.versions is not None:
        runs = without_other_counts(runs, len(categories))
    effect = effects(runs, categories, margin=margin, alpha=alpha)
    means = (side_means(runs, categories, 0), side_means(runs, categories, 1))
    if in_common and not ((effect["runs_before"] > 0) & (effect["runs_after"] > 0)).any():
        raise _nothing_in_common(sides)
    graphs = changed_graphs(sides, matched)
    listed = rank_changes(categories, effect, dict.fromkeys(graphs["query_category"]))
    changes, causes, by_chance, blame = explain_sides(
        sides, matched, means, changes=listed, unlike=unlike, different=different
    )
    return Comparison(
        sides=sides, categories=categories, category_runs=runs,
        effects=no_verdict(effect, by_chance), changes=changes, causes=causes, blame=blame,
        category_of=matched.category_of, unlike=unlike, structures=graphs, different=different,
        doubts=find_comparison_doubts(sides, runs, categories, unlike), margin=margin, alpha=alpha,
    )  # fmt: skip


def _nothing_in_common(sides: tuple[Side, Side]) -> IqcarError:
    names = []
    for side in sides:
        queries = sorted(set(texts(side.nodes[side.nodes["kind"] == "query"], "name")))
        more = f" and {len(queries) - 2} more" if len(queries) > 2 else ""
        names.append(", ".join(short(name, 40) for name in queries[:2]) + more)
    return IqcarError(
        f"no query is on both sides: {names[0]} before, {names[1]} after",
        "",
        "pair those that are one with --pair OLD=NEW",
    )


SHORT_RUN = 0.5
"""Share of the queries of the fullest run below which a run is called short."""


def find_comparison_doubts(
    sides: tuple[Side, Side], runs: pd.DataFrame, categories: pd.DataFrame, unlike: Flags
) -> tuple[str, ...]:
    """Return one sentence for each doubt, without a full stop.

    ``unlike``, (n_categories, n_parts): parts that are not compared.
    """
    doubts = [
        f"{word}, {doubt}"
        for word, side in zip(("Before", "After"), sides, strict=True)
        for doubt in side.doubts
    ]
    before, after = (side.facts for side in sides)
    if min(before.runs, after.runs) == 1:
        spreads = ", ".join(
            f"{percent(measure.one_run.variance**0.5)} of {word}"
            for measure, word in zip(TESTED, ("time", "CPU time", "data", "skew"), strict=True)
        )
        which = "either side" if before.runs == after.runs else "one side"
        often = ", in which queries ran several times" if (runs["instances"] > 1).any() else ""
        doubts.append(
            f"There is one run on {which}{often}: what it would be on other days is unknown; equal "
            f"runs are taken to differ as they usually do (by {spreads}), so trust CPU time, data "
            "and stage graphs before time"
        )
    same = [] if _is_split(sides) else sorted({*before.applications} & {*after.applications})
    if same and len(same) == len(before.applications) == len(after.applications):
        doubts.append("Both sides are the same applications: nothing can have changed")
    elif same:
        doubts.append(f"{len(same)} applications are on both sides, such as {same[0]}")
    if before.hosts and after.hosts and not set(before.hosts) & set(after.hosts):
        doubts.append(
            "No host is on both sides: other machines make other times, whatever the queries do; "
            "a host can be told to be slow beside the others of its side, not to have become so"
        )
    if loads_differ(before.outside_load, after.outside_load):
        loads = [percent(side.outside_load or 0.0) for side in (before, after)]
        doubts.append(
            f"Processes other than the executors used {loads[0]} of the hosts' processors before "
            f"and {loads[1]} after: no effect can be told apart from that; repeat both on quiet "
            "hosts"
        )
    if unlike.any():
        doubts.append(unlike_doubt(sides, unlike, categories))
    is_query = categories["kind"].to_numpy() == "query"
    queries = runs[is_query[runs["category"].to_numpy()]].groupby(["side", "run"]).size()
    short = int((queries < SHORT_RUN * queries.max()).sum())
    if short:
        doubts.append(
            f"{short} of {len(queries)} runs hold less than half of the queries of the fullest "
            "one: each query is compared over the runs that hold it"
        )
    return tuple(doubts)


def _is_split(sides: tuple[Side, Side]) -> bool:
    """Tell whether both sides are queries of one set of logs, each query on one side."""
    rows = [side.rows for side in sides]
    if rows[0] is None or rows[1] is None or sides[0].tables is not sides[1].tables:
        return False
    return not ((rows[0].query_run >= 0) & (rows[1].query_run >= 0)).any()


def explain_sides(
    sides: tuple[Side, Side],
    matched: Matched,
    means: tuple[SideMeans, SideMeans],
    changes: pd.DataFrame,
    unlike: Flags,
    different: Differences,
) -> tuple[pd.DataFrame, pd.DataFrame, list[int], pd.DataFrame | None]:
    """Tell the causes of all changes, and leave out those that are chance.

    ``unlike``, (n_categories, n_parts): parts that are not compared. Returns changes,
    causes, categories left out, and the blame of all queries: None where it was not computed, or
    where a side is a baseline, which keeps no tasks.
    """
    if changes.empty:
        return changes, CHANGE_CAUSES.empty(), [], None
    before, after = (
        compared_rows(side, category, unlike)
        for side, category in zip(sides, matched.category_of, strict=True)
    )
    whole = shared = None
    driver: dict[int, StageCause] = {}
    if before is not None and after is not None:
        whole = blame_change(before, after) if _waits_changed(changes, means) else None
        usable = _same_work(matched.categories, means)
        shared = shared_cause(per_byte(before), per_byte(after), usable, whole)
        driver = driver_causes(before, after)
    given = CauseInputs(
        categories=matched.categories,
        sides=means,
        operators=_operators(sides, matched),
        different=different,
        own_settings=own_differences(sides, matched, different.settings),
        shared=shared,
        blame=whole,
        driver=driver,
    )
    return *without_chance(changes, explain_changes(changes, given)), whole


def _waits_changed(changes: pd.DataFrame, means: tuple[SideMeans, SideMeans]) -> bool:
    """Tell whether waits are a part of a change: else nobody can be blamed, at some cost."""
    rows = changes["category"].to_numpy(np.int64)
    both = (means[0].measure["tasks"][rows] > 0) & (means[1].measure["tasks"][rows] > 0)
    before, after = (
        np.column_stack([side.measure[part][rows[both]] for part in PART_NAMES]) for side in means
    )
    change = np.abs(after - before)
    waits = change[:, [part in PART_RESOURCE for part in PART_NAMES]].sum(axis=1)
    return bool((waits > LEAST_SHARE * change.sum(axis=1)).any())


def _same_work(categories: pd.DataFrame, means: tuple[SideMeans, SideMeans]) -> Ints:
    """Return the stages of equal labels and numbers of partitions on both sides."""
    before, after = (side.measure["partitions"] for side in means)
    ratio = share_of(after, before)
    like = (ratio < LEAST_PARTITIONS_RATIO) & (ratio > 1 / LEAST_PARTITIONS_RATIO)
    # Bytes that versions count differently are no measure of work.
    like &= np.isfinite(means[0].measure["bytes"] + means[1].measure["bytes"])
    is_stage = categories["kind"].to_numpy(object) == "stage"
    by_label = categories["matched_by"].to_numpy(object) == "label"
    return np.flatnonzero(like & is_stage & by_label)


def _operators(sides: tuple[Side, Side], matched: Matched) -> list[tuple[str, str]]:
    """Return the operators, else the label, of each category on each side."""
    found = [["", ""] for _ in range(len(matched.categories))]
    for place, (side, categories) in enumerate(zip(sides, matched.category_of, strict=True)):
        operators, labels = texts(side.nodes, "operators"), texts(side.nodes, "label")
        for node, category in enumerate(categories.tolist()):
            if category >= 0:
                found[category][place] = operators[node] or labels[node]
    return [(before, after) for before, after in found]
