"""Collect what causes are told from: blame of both sides, task time per byte, settings, plans."""

from __future__ import annotations

import numpy as np
import pandas as pd

from iqcar.comparison.blame_change import blame_change
from iqcar.comparison.causes import (
    LEAST_HANDED_OVER,
    LEAST_SHARE,
    Compared,
    Told,
    explain_changes,
    without_chance,
)
from iqcar.comparison.compared_rows import ComparedRows, compared_rows
from iqcar.comparison.comparison_tables import CHANGE_CAUSES, PART_NAMES
from iqcar.comparison.concurrent_rows import concurrent_rows
from iqcar.comparison.differences import Differences
from iqcar.comparison.match import Matched
from iqcar.comparison.measured_side import Side
from iqcar.comparison.query_settings import own_differences
from iqcar.comparison.shared_cause import per_byte, shared_cause
from iqcar.comparison.side_means import SideMeans
from iqcar.comparison.stage_cause import LEAST_PARTITIONS_RATIO, PART_RESOURCE
from iqcar.tables import texts
from iqcar.tables.arrays import Flags, Ints, share_of


def explain_sides(
    sides: tuple[Side, Side],
    matched: Matched,
    means: tuple[SideMeans, SideMeans],
    changes: pd.DataFrame,
    unlike: Flags,
    different: Differences,
) -> Told:
    """Tell the causes of all changes, and leave out those that are chance.

    Parameters
    ----------
    sides : Side of before and after
    matched : Matched
    means : SideMeans of before and after
    changes : DataFrame of CHANGES
    unlike : ndarray of shape (n_categories, n_parts), bool
        Parts that are not compared.
    different : Differences

    Returns
    -------
    Told
        Without blame where it was not computed of all queries, or where a side is a baseline, which
        keeps no tasks.
    """
    if changes.empty:
        return Told(changes, CHANGE_CAUSES.empty(), [], None)
    before, after = (
        compared_rows(side, of, unlike) for side, of in zip(sides, matched.category_of, strict=True)
    )
    whole = own = shared = None
    if before is not None and after is not None:
        blamed = _Blamed(before, after, _waits_changed(changes, means))
        usable = _same_work(matched.categories, means)
        shared = shared_cause(per_byte(before), per_byte(after), usable, blamed.whole)
        changed = matched.categories["query_category"].to_numpy(np.int64)[changes["category"]]
        own = blamed.of(np.unique(changed), _queries_moved(matched.categories, means))
        whole = blamed.known
    compared = Compared(
        categories=matched.categories,
        sides=means,
        operators=_operators(sides, matched),
        different=different,
        own_settings=own_differences(sides, matched, different.settings),
        shared=shared,
        blame=own,
    )
    return without_chance(changes, explain_changes(changes, compared), whole)


class _Blamed:
    """Blame of both sides, computed as far as causes need it: it takes most of the time."""

    def __init__(self, before: ComparedRows, after: ComparedRows, needed: bool) -> None:
        self._sides = before, after
        self._needed = needed
        self.known: pd.DataFrame | None = None
        """Blame of all queries, once it was computed."""

    def whole(self) -> pd.DataFrame | None:
        """Return the blame of all queries; None where no wait changed."""
        if self._needed and self.known is None:
            self.known = blame_change(*self._sides)
        return self.known

    def of(self, queries: Ints, moved: Ints) -> pd.DataFrame | None:
        """Return what causes of changes of some queries need of it.

        Parameters
        ----------
        queries : ndarray of int64
            Categories.
        moved : ndarray of int64
            Queries that, if they made one of these wait, hand the cause on.
        """
        if not self._needed or self.known is not None:
            return self.known
        found = concurrent_rows(self._sides, queries, moved)
        if found is None:
            return self.whole()
        *beside, complete = found
        blame = blame_change(*self._sides, of=(beside[0], beside[1]))
        return blame[np.isin(blame["category"].to_numpy(), complete)]


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
