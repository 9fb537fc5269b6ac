"""Tell the kind and the causes of each change: rules per stage, summed per query, handed over.

A query's causes are those of its stages, weighted by their parts of its change. A source of
contention that was itself changed by another query, a slow host or the environment hands the cause
over to that one. Of the settings that differ, only those whose symptom fits are blamed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iqcar.comparison.comparison_tables import CHANGE_CAUSES
from iqcar.comparison.stage_cause import StageCause, seen, stage_cause
from iqcar.enums import ChangeKind
from iqcar.tables import texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from iqcar.comparison.settings_difference import SettingDifference
    from iqcar.comparison.shared_cause import SharedCause
    from iqcar.comparison.side_means import SideMeans
    from iqcar.tables.arrays import Flags

LEAST_SHARE = 0.1
"""Part of a query's change below which a cause is not listed."""
MOST_CAUSES = 4
"""Causes listed per change."""
FEW_RUNS = 5
"""Runs a side below which a longer wait that nobody's work explains is chance (FACTS D 4)."""
ONE_SIDED = (str(ChangeKind.ADDED), str(ChangeKind.REMOVED))
WAITS = (ChangeKind.RATE, ChangeKind.CONTENTION)


class Compared(NamedTuple):
    """What causes are told from.

    Attributes
    ----------
    categories : DataFrame of CATEGORIES
    sides : SideMeans of before and after
    operators : sequence of (str, str)
        Plan operators, or labels, of each category before and after.
    differences : sequence of SettingDifference
    shared : SharedCause, optional
    blame : DataFrame of BLAME_CHANGES, optional
        None where a side is a baseline.
    """

    categories: pd.DataFrame
    sides: tuple[SideMeans, SideMeans]
    operators: Sequence[tuple[str, str]]
    differences: Sequence[SettingDifference] = ()
    shared: SharedCause | None = None
    blame: pd.DataFrame | None = None


class Explained(NamedTuple):
    """Kinds and causes of changes.

    Attributes
    ----------
    kind : list of str
        Per row of ``CHANGES``.
    causes : DataFrame of CHANGE_CAUSES
    by_chance : ndarray of shape (n_changes,), bool
        Whether only a wait grew, nobody's work explains it, and the runs are few.
    """

    kind: list[str]
    causes: pd.DataFrame
    by_chance: Flags


class _Cause(NamedTuple):
    kind: ChangeKind
    cause: str
    share: float
    sentence: str


def explain_changes(changes: pd.DataFrame, compared: Compared) -> Explained:
    """Return kind and causes of each change.

    Parameters
    ----------
    changes : DataFrame of CHANGES
        Queries and their stages; `kind` is read where a query ran on one side only.
    compared : Compared
    """
    told = _Told(changes, compared)
    kinds, by_chance = [], np.zeros(len(changes), bool)
    columns: dict[str, list[object]] = {name: [] for name in CHANGE_CAUSES.column_names()}
    rows = zip(
        changes["category"].tolist(), texts(changes, "kind"), changes["parent"].tolist(),
        texts(changes, "evidence"), changes["runs_before"].tolist(),
        changes["runs_after"].tolist(), strict=True,
    )  # fmt: skip
    for row, (category, kind, parent, evidence, before, after) in enumerate(rows):
        if kind in ONE_SIDED and parent < 0:
            kinds.append(kind)
            continue
        causes = told.of_stage(category) if parent >= 0 else told.of_query(category)
        kinds.append(str(causes[0].kind) if causes else str(ChangeKind.RATE))
        unexplained = all(told.is_wait(cause) for cause in causes)
        only_time = evidence in ("time", "")
        by_chance[row] = only_time and unexplained and min(before, after) < FEW_RUNS
        for cause in causes[:MOST_CAUSES]:
            columns["change"].append(row)
            columns["cause"].append(cause.cause)
            columns["share_of_change"].append(cause.share)
            columns["sentence"].append(cause.sentence)
    return Explained(kinds, CHANGE_CAUSES.frame(columns), by_chance)


class _Told:
    """Causes of stages and queries, each told once."""

    def __init__(self, changes: pd.DataFrame, compared: Compared) -> None:
        self.compared = compared
        categories = compared.categories
        names = texts(categories, "name_after"), texts(categories, "name_before")
        self.names = [after or before for after, before in zip(*names, strict=True)]
        self.query = categories["query_category"].tolist()
        self.matched_by = texts(categories, "matched_by")
        self.stages: dict[int, list[int]] = {}
        kind = texts(categories, "kind")
        for category, (what, query) in enumerate(zip(kind, self.query, strict=True)):
            if what == "stage":
                self.stages.setdefault(query, []).append(category)
        self.changed = set(changes["category"].tolist())
        self.blame: dict[int, pd.DataFrame] = {}
        if compared.blame is not None:
            self.blame = dict(list(compared.blame.groupby("category")))
        self._stage: dict[int, StageCause] = {}
        self._query: dict[int, list[_Cause]] = {}

    def is_wait(self, cause: _Cause) -> bool:
        """Tell whether a cause is a wait that nobody's work explains."""
        work = ("metric:cpu_ms", "metric:gc_ms")
        return cause.kind is ChangeKind.RATE and cause.cause not in work

    def of_stage(self, category: int) -> list[_Cause]:
        """Return the causes of a stage, the largest first."""
        return self._with_settings(self._named(self._stage_cause(category), 1.0, (category,)))

    def of_query(self, category: int) -> list[_Cause]:
        """Return the causes of a query, the largest first."""
        main = self._main(category)
        named = [
            one for cause, share in main for one in self._named(cause, share, (category,))
        ]
        merged: dict[str, _Cause] = {}
        for one in named:
            known = merged.get(one.cause)
            merged[one.cause] = one._replace(share=one.share + known.share) if known else one
        found = sorted(merged.values(), key=lambda one: -one.share)
        listed = [one for one in found if one.share >= LEAST_SHARE]
        return self._with_settings(listed or found[:1])

    def _stage_cause(self, category: int) -> StageCause:
        if category not in self._stage:
            c = self.compared
            relabelled = self.matched_by[category] == "likeness"
            stage = seen(category, c.sides, c.operators[category], relabelled)
            blame = self.blame.get(self.query[category])
            self._stage[category] = stage_cause(stage, c.shared, blame)
        return self._stage[category]

    def _main(self, query: int) -> list[tuple[StageCause, float]]:
        """Return causes of a query's stages with their shares of its change, the largest first."""
        before, after = (side.measure["time_ms"] for side in self.compared.sides)
        stages = self.stages.get(query, [])
        change = {stage: float(after[stage] - before[stage]) for stage in stages}
        whole = float(after[query] - before[query]) or sum(change.values()) or 1.0
        shares: dict[tuple[ChangeKind, str], float] = {}
        first: dict[tuple[ChangeKind, str], tuple[float, StageCause]] = {}
        for stage, ms in change.items():
            cause = self._stage_cause(stage)
            key = (cause.kind, cause.cause if cause.kind is not ChangeKind.STRUCTURE else "")
            if cause.cause == "partitions":
                key = (cause.kind, cause.cause)
            shares[key] = shares.get(key, 0.0) + ms / whole
            size = abs(ms / whole)
            if key not in first or size > first[key][0]:
                first[key] = (size, cause)
        order = sorted(shares, key=lambda key: -shares[key])
        return [(first[key][1], shares[key]) for key in order if shares[key] > 0]

    def _named(self, cause: StageCause, share: float, chain: tuple[int, ...]) -> list[_Cause]:
        """Replace the sources of contention by names, handing over what others did to them."""
        if cause.kind is not ChangeKind.CONTENTION:
            return [_Cause(cause.kind, cause.cause, share, cause.sentence)]
        found = []
        start = self.query[chain[0]]
        for source, part in cause.sources:
            path, end = self._handed_over(source, (start,))
            names = [self.names[query] for query in path]
            text = f"{cause.sentence}: waits for {', which waits for '.join(names)}"
            if end is None:
                root = _Cause(cause.kind, f"query:{names[-1]}", share * part, text)
            else:
                text += f" ({end.sentence})"
                root = _Cause(end.kind, end.cause, share * part, text)
            found.append(root)
        return found

    def _handed_over(
        self, source: int, chain: tuple[int, ...]
    ) -> tuple[list[int], StageCause | None]:
        """Follow a source to the query, host or environment that changed it."""
        if source not in self.changed:
            return [source], None
        before, after = (side.runs[source] for side in self.compared.sides)
        main = self._main(source) if before and after else []
        if not main:
            return [source], None
        cause = main[0][0]
        if cause.kind in (ChangeKind.HOST, ChangeKind.ENVIRONMENT):
            return [source], cause
        if cause.kind is ChangeKind.CONTENTION:
            further = cause.sources[0][0]
            if further not in (*chain, source):
                path, end = self._handed_over(further, (*chain, source))
                return [source, *path], end
        return [source], None

    def _with_settings(self, causes: list[_Cause]) -> list[_Cause]:
        """Add the settings that fit the first cause."""
        if not causes:
            return causes
        symptom = self._symptom_of(causes[0])
        fitting = [
            _Cause(causes[0].kind, f"conf:{one.key}", np.nan, str(one))
            for one in self.compared.differences
            if symptom is not None and one.fits((symptom,))
        ]
        return [causes[0], *fitting, *causes[1:]]

    def _symptom_of(self, cause: _Cause):  # type: ignore[no-untyped-def]
        for known in self._stage.values():
            if known.kind is cause.kind and known.cause == cause.cause:
                return known.symptom
        return None


class Told(NamedTuple):
    """Changes with their causes, without what is chance.

    Attributes
    ----------
    changes : DataFrame of CHANGES
    causes : DataFrame of CHANGE_CAUSES
    by_chance : list of int
        Categories that were left out.
    """

    changes: pd.DataFrame
    causes: pd.DataFrame
    by_chance: list[int]


def without_chance(changes: pd.DataFrame, explained: Explained) -> Told:
    """Set the kinds of changes, and leave out those that nothing but chance explains.

    A query stays where a stage of it does.
    """
    parent = changes["parent"].to_numpy(np.int64)
    keep = ~explained.by_chance
    keep[parent[keep & (parent >= 0)]] = True
    keep[parent >= 0] &= keep[parent[parent >= 0]]
    rows = np.flatnonzero(keep)
    new_row = np.append(np.cumsum(keep) - 1, -1)
    kept = changes.assign(kind=explained.kind).iloc[rows]
    _, rank = np.unique(kept["rank"].to_numpy(np.int64), return_inverse=True)
    kept = kept.assign(
        rank=(rank + 1).astype(np.int32), parent=new_row[parent[rows]].astype(np.int32)
    ).reset_index(drop=True)
    change = explained.causes["change"].to_numpy(np.int64)
    here = keep[change] if len(change) else np.zeros(0, bool)
    causes = explained.causes[here].assign(change=new_row[change[here]].astype(np.int32))
    dropped = changes["category"].to_numpy(np.int64)[~keep].tolist()
    return Told(kept, causes.reset_index(drop=True), dropped)
