"""The comparison of two sets of runs, frozen; terminal, JSON, page and notebook read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from iqcar.base.formatting import duration, percent
from iqcar.comparison.blame_change import BLAME_CHANGES, blame_change
from iqcar.comparison.browse import Density
from iqcar.comparison.compared_rows import compared_rows
from iqcar.comparison.gate import Gate, check_gate
from iqcar.comparison.run_parameters import Explanation
from iqcar.comparison.side_facts import SideFacts
from iqcar.enums import Verdict
from iqcar.errors import UsageError
from iqcar.tables import texts
from iqcar.tables.arrays import Flags, Ints

if TYPE_CHECKING:
    from iqcar.comparison.differences import Differences
    from iqcar.comparison.measured_side import Side


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
        of = self.effects.iloc[self.common]
        before = float((of["before_ms"] * of["instances"]).sum())
        after = float((of["after_ms"] * of["instances"]).sum())
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

    def verdict_of(self, verdict: Verdict) -> list[int]:
        """Queries of both sides with one verdict, which are not listed as changed."""
        listed = set(self.changes["category"].tolist())
        of = texts(self.effects, "verdict")
        return [
            row
            for row in self.common.tolist()
            if of[row] == verdict
            and row not in listed
            and (self.shown is None or row in self.shown)
        ]

    def parts(self, query: str | int) -> pd.DataFrame:
        """Return the stages and the driver of a query; their contributions sum to its own.

        Parameters
        ----------
        query : str or int
            Name or fingerprint of a query, or its category.
        """
        category = self.find(query)
        rows = np.flatnonzero(self.categories["parent"].to_numpy() == category)
        named = self.effects.iloc[rows]
        frame: pd.DataFrame = named.assign(name=[self.name(row) for row in rows.tolist()])
        return frame

    @cached_property
    def _blame(self) -> pd.DataFrame:
        if self.blame is not None:
            return self.blame
        before, after = (
            compared_rows(side, of, self.unlike)
            for side, of in zip(self.sides, self.category_of, strict=True)
        )
        if before is None or after is None:
            return BLAME_CHANGES.empty()
        return blame_change(before, after)

    def blame_change(self, query: str | int) -> pd.DataFrame:
        """Return to whom a query lost more or less time; the rows sum to the change of its loss.

        Parameters
        ----------
        query : str or int
            Name or fingerprint of a query, or its category.

        Returns
        -------
        DataFrame of :data:`~iqcar.comparison.blame_change.BLAME_CHANGES`
            With the name of each source; no rows where a side is a baseline, which has no tasks.
        """
        blame = self._blame
        rows = blame[blame["category"] == self.find(query)].reset_index(drop=True)
        names = [self.name(row) if row >= 0 else "" for row in rows["source"].tolist()]
        named: pd.DataFrame = rows.assign(source_name=names)
        return named

    def find(self, query: str | int) -> int:
        """Return the category of a query, by name or fingerprint.

        Raises
        ------
        UsageError
            If no query is called so; names the nearest.
        """
        if not isinstance(query, str):
            return int(query)
        columns = [
            texts(self.categories, name) for name in ("name_after", "name_before", "fingerprint")
        ]
        for column in columns:
            for row in self.queries.tolist():
                if column[row] == query:
                    return int(row)
        from difflib import get_close_matches

        names = [self.name(row) for row in self.queries.tolist()]
        near = get_close_matches(query, names, n=3, cutoff=0.4)
        advice = f"did you mean {' or '.join(near)}" if near else "see `iqcar queries`"
        raise UsageError(f"no query is called {query!r}", "--query", advice)

    def explain(self, change: str | int, without: Sequence[str] = ()) -> Explanation:
        """Find what tells the runs of a change after from those before, by a tree of parameters.

        Parameters
        ----------
        change : str or int
            Its rank; ``"1.2"`` for the second stage of the first; or the name of a query.
        without : sequence of str
            Parameters not to ask for, such as that of the answer before.

        Raises
        ------
        UsageError
            If there is no such change or parameter.
        """
        from iqcar.comparison.run_parameters import explain_category, find_change

        return explain_category(self, find_change(self, change), without)

    def variation(self) -> pd.DataFrame:
        """Return C² of each category over its runs and over its tasks (``VARIATION``)."""
        from iqcar.comparison.variation import find_variation

        return find_variation(self)

    def density(self, query: str | int, side: int) -> Density:
        """Return the density of the log durations of a query's runs, or of a stage's tasks.

        Parameters
        ----------
        query : str or int
            Name or fingerprint of a query, or a category.
        side : int
            0 before, 1 after.
        """
        from iqcar.comparison.variation import density_of

        return density_of(self, self.find(query), side)

    def gate(self, *limits: str | float, new_plan: bool = False, strict: bool = False) -> Gate:
        """Tell whether no query on both sides got slower than allowed.

        Parameters
        ----------
        *limits : str or float
            0.1, ``10%``, ``500ms`` or ``query=20%``.
        new_plan : bool
            Whether a query with another stage graph fails, too.
        strict : bool
            Whether a query of which nothing can be told fails, too.
        """
        return check_gate(self, limits, new_plan=new_plan, strict=strict)

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
