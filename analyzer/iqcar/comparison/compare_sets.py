"""Compares two sets of runs, step by step.

sides → matched categories → measures per run → effects → changes → causes → Comparison
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from iqcar.base.units import percent, short
from iqcar.comparison.causes.blame_change import NeededBlame
from iqcar.comparison.causes.differences import Differences, find_differences, own_differences
from iqcar.comparison.causes.driver_cause import driver_causes
from iqcar.comparison.causes.query_causes import (
    LEAST_HANDED_OVER,
    LEAST_SHARE,
    CauseInputs,
    explain_changes,
    without_chance,
)
from iqcar.comparison.causes.shared_cause import per_byte, shared_cause
from iqcar.comparison.causes.stage_cause import LEAST_PARTITIONS_RATIO, PART_RESOURCE, StageCause
from iqcar.comparison.comparison import Comparison
from iqcar.comparison.effects.effects import TESTED, effects, no_verdict, rank_changes
from iqcar.comparison.match.compared_rows import (
    SideMeans,
    category_runs,
    compared_rows,
    fold_parts,
    side_means,
    unlike_doubt,
    unlike_parts,
    without_other_counts,
)
from iqcar.comparison.match.match import Matched, match_sides
from iqcar.comparison.match.structures import changed_graphs
from iqcar.comparison.rule_verdict import loads_differ
from iqcar.comparison.sides.comparison_tables import CHANGE_CAUSES
from iqcar.comparison.sides.measured_side import measure_side
from iqcar.comparison.sides.side import Side, is_baseline, load_baseline
from iqcar.enums import MatchBy, RunBy
from iqcar.errors import IqcarError, UsageError
from iqcar.model.waits.stage_parts import PART_NAMES
from iqcar.pipeline import read
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Flags, Ints, share_of

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
    whole = own = shared = None
    driver: dict[int, StageCause] = {}
    if before is not None and after is not None:
        blamed = NeededBlame(before, after, _waits_changed(changes, means))
        usable = _same_work(matched.categories, means)
        shared = shared_cause(per_byte(before), per_byte(after), usable, blamed.whole)
        changed = matched.categories["query_category"].to_numpy(np.int64)[changes["category"]]
        own = blamed.of(np.unique(changed), _queries_moved(matched.categories, means))
        whole = blamed.known
        driver = driver_causes(before, after)
    given = CauseInputs(
        categories=matched.categories,
        sides=means,
        operators=_operators(sides, matched),
        different=different,
        own_settings=own_differences(sides, matched, different.settings),
        shared=shared,
        blame=own,
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


def _queries_moved(categories: pd.DataFrame, means: tuple[SideMeans, SideMeans]) -> Ints:
    """Return the queries of both sides whose time differs so much that they may hand causes on."""
    before, after = (side.measure["time_ms"] for side in means)
    is_query = categories["kind"].to_numpy(object) == "query"
    both = is_query & (before > 0) & (after > 0)
    return np.flatnonzero(both & (np.abs(share_of(after, before) - 1) >= LEAST_HANDED_OVER))


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
