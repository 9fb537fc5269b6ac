"""Collects what causes are told from: blame of both sides, task time per byte, settings, plans."""

from __future__ import annotations

import numpy as np
import pandas as pd

from iqcar.comparison.causes.blame_change import NeededBlame
from iqcar.comparison.causes.differences import Differences, own_differences
from iqcar.comparison.causes.query_causes import (
    LEAST_HANDED_OVER,
    LEAST_SHARE,
    CauseInputs,
    explain_changes,
    without_chance,
)
from iqcar.comparison.causes.shared_cause import per_byte, shared_cause
from iqcar.comparison.causes.stage_cause import LEAST_PARTITIONS_RATIO, PART_RESOURCE
from iqcar.comparison.match.category_runs import SideMeans
from iqcar.comparison.match.compared_rows import compared_rows
from iqcar.comparison.match.match import Matched
from iqcar.comparison.sides.comparison_tables import CHANGE_CAUSES
from iqcar.comparison.sides.side import Side
from iqcar.model.waits.stage_parts import PART_NAMES
from iqcar.tables import texts
from iqcar.tables.arrays import Flags, Ints, share_of


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
        compared_rows(side, of, unlike) for side, of in zip(sides, matched.category_of, strict=True)
    )
    whole = own = shared = None
    if before is not None and after is not None:
        blamed = NeededBlame(before, after, _waits_changed(changes, means))
        usable = _same_work(matched.categories, means)
        shared = shared_cause(per_byte(before), per_byte(after), usable, blamed.whole)
        changed = matched.categories["query_category"].to_numpy(np.int64)[changes["category"]]
        own = blamed.of(np.unique(changed), _queries_moved(matched.categories, means))
        whole = blamed.known
    given = CauseInputs(
        categories=matched.categories,
        sides=means,
        operators=_operators(sides, matched),
        different=different,
        own_settings=own_differences(sides, matched, different.settings),
        shared=shared,
        blame=own,
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
    for place, (side, of) in enumerate(zip(sides, matched.category_of, strict=True)):
        operators, labels = texts(side.nodes, "operators"), texts(side.nodes, "label")
        for node, category in enumerate(of.tolist()):
            if category >= 0:
                found[category][place] = operators[node] or labels[node]
    return [(before, after) for before, after in found]
