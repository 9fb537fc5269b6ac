"""Show a part of a comparison: some queries, or only changes of structure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from iqcar.enums import ChangeKind
from iqcar.tables import NONE
from iqcar.tables.arrays import Flags

if TYPE_CHECKING:
    from iqcar.comparison.comparison import Comparison

STRUCTURAL = (ChangeKind.STRUCTURE, ChangeKind.ADDED, ChangeKind.REMOVED)
"""Kinds that times play no part in."""


def only_queries(comparison: Comparison, wanted: Sequence[str]) -> Comparison:
    """Return a comparison in which only some queries are shown; tested were all.

    Raises
    ------
    UsageError
        If no query is called so.
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
    """Keep some rows of the changes, with their causes, and number them anew."""
    rows = np.flatnonzero(kept)
    place = np.full(len(kept) + 1, NONE)
    place[rows] = np.arange(len(rows))
    changes = comparison.changes.iloc[rows].reset_index(drop=True)
    changes = changes.assign(parent=place[changes["parent"].to_numpy()].astype(np.int32))
    causes = comparison.causes
    causes = causes[kept[causes["change"].to_numpy()]].reset_index(drop=True)
    causes = causes.assign(change=place[causes["change"].to_numpy()].astype(np.int32))
    return replace(comparison, changes=changes, causes=causes)
