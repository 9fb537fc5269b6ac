"""Holds the comparison of two sets of runs; terminal, JSON, page and notebook read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property

import numpy as np
import pandas as pd

from iqcar.base.units import duration, percent
from iqcar.comparison.causes.blame_change import BLAME_CHANGES, blame_change
from iqcar.comparison.causes.differences import Differences
from iqcar.comparison.causes.query_causes import keep_changes
from iqcar.comparison.match.compared_rows import compared_rows
from iqcar.comparison.sides.side import Side, SideFacts
from iqcar.enums import ChangeKind, ChangeVerdict
from iqcar.errors import UsageError
from iqcar.tables import texts
from iqcar.tables.arrays import Flags, Ints


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
