"""Tells the kind and the causes of each change: rules per stage, summed per query, handed over.

A query's causes are those of its stages, weighted by their parts of its change. A source that waits
longer itself holds what others wait for longer, too: it passes its part on to its own sources, a
slow host or the environment, and keeps what changed in itself; parts that go in circles end where
something changed by itself (an absorbing chain).
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.base.units import duration
from iqcar.comparison.blame_change import SharedCause
from iqcar.comparison.comparison_tables import CHANGE_CAUSES
from iqcar.comparison.effects import FEW_RUNS
from iqcar.comparison.match import ComparedRows, SideMeans
from iqcar.comparison.stage_cause import (
    Differences,
    SettingDifference,
    StageCause,
    Symptom,
    seen,
    stage_causes,
)
from iqcar.enums import ChangeKind
from iqcar.model.waits.driver_time import DriverPart, DriverWork, driver_time
from iqcar.tables import NONE, texts
from iqcar.tables.arrays import Flags

STEPS = 20
"""Hand-overs followed; what is left then is with whom it is."""
LEAST_PART = 0.02
"""Part of a wait below which it is not followed."""
SHARED = (ChangeKind.HOST, ChangeKind.ENVIRONMENT)


class Root(NamedTuple):
    """Where a chain ends: a query, and the cause beyond it if it is none of its own."""

    query: int
    shared: StageCause | None


class ContentionChains:
    """Chains of waits; ``reasons`` tells why a query changed, with shares."""

    def __init__(self, reasons: Callable[[int], list[tuple[StageCause, float]]]) -> None:
        self._reasons = reasons
        self._known: dict[int, tuple[dict[Root, float], dict[int, float]]] = {}

    def roots_of(
        self, sources: Sequence[tuple[int, float]], query: int
    ) -> list[tuple[Root, float]]:
        """Return where the parts of a query's sources end, the largest first.

        ``sources``: source categories and their parts. ``query``: the query that waits: what comes
        back to it stays with who handed it over.
        """
        ended: dict[Root, float] = defaultdict(float)
        moving = dict(sources)
        for step in range(STEPS):
            further: dict[int, float] = defaultdict(float)
            for source, part in moving.items():
                own, passed = self._outcome(source, query)
                if not passed or step == STEPS - 1 or part < LEAST_PART:
                    own, passed = own or {Root(source, None): 1.0}, {}
                    whole = sum(own.values())
                    own = {root: share / whole for root, share in own.items()}
                for root, share in own.items():
                    ended[root] += part * share
                for one, share in passed.items():
                    further[one] += part * share
            moving = further
        return sorted(ended.items(), key=lambda item: -item[1])

    def path(self, sources: Sequence[tuple[int, float]], root: Root, query: int) -> list[int]:
        """Return the shortest chain of queries from one of the sources to a root."""
        waiting = deque([source] for source, _ in sources)
        seen = {query}
        while waiting:
            path = waiting.popleft()
            if path[-1] == root.query:
                return path
            if path[-1] not in seen:
                seen.add(path[-1])
                _, passed = self._outcome(path[-1], query)
                waiting.extend([*path, one] for one in sorted(passed, key=lambda o: -passed[o]))
        return [root.query]

    def _outcome(self, source: int, query: int) -> tuple[dict[Root, float], dict[int, float]]:
        """Shares of a source's change that end with it, and that it hands over to others."""
        if source not in self._known:
            own: dict[Root, float] = defaultdict(float)
            passed: dict[int, float] = defaultdict(float)
            for cause, share in self._reasons(source):
                if cause.kind is ChangeKind.CONTENTION:
                    for other, part in cause.sources:
                        if other != source:
                            passed[other] += share * part
                else:
                    own[Root(source, cause if cause.kind in SHARED else None)] += share
            self._known[source] = own, passed
        own, passed = self._known[source]
        passed = {other: part for other, part in passed.items() if other != query}
        whole = sum(own.values()) + sum(passed.values())
        if whole <= 0:
            return {Root(source, None): 1.0}, {}
        return (
            {root: part / whole for root, part in own.items()},
            {other: part / whole for other, part in passed.items()},
        )


DRIVER = StageCause(
    ChangeKind.RATE, "metric:driver_ms", "the driver took another time between stages"
)


class _What(NamedTuple):
    category: int
    part: str
    work: str


def driver_causes(before: ComparedRows, after: ComparedRows) -> dict[int, StageCause]:
    """Return :data:`DRIVER` in words of what changed most, by the category of the query.

    Queries whose time in the driver is not recorded on both sides are left out.
    """
    (was, old), (now, new) = (_means(side) for side in (before, after))
    changes: dict[int, dict[_What, float]] = {}
    for one in was.keys() | now.keys():
        if one.category in old & new:
            change = now.get(one, 0.0) - was.get(one, 0.0)
            changes.setdefault(one.category, {})[one] = change
    return {
        category: DRIVER._replace(sentence=sentence)
        for category, by_what in changes.items()
        if (sentence := _sentence(by_what))
    }


def _sentence(changes: Mapping[_What, float]) -> str:
    whole = sum(changes.values())
    most = max(sorted(changes), key=lambda one: changes[one] * np.sign(whole))
    change = changes[most]
    if abs(change) < 1.0:
        return ""
    did = "" if most.work == DriverWork.OTHER else f" ({DriverWork(most.work).words})"
    longer = "longer" if change > 0 else "less long"
    where = DriverPart(most.part).words
    return f"the driver took {duration(abs(change))} {longer} {where}{did}"


def _means(side: ComparedRows) -> tuple[dict[_What, float], set[int]]:
    """Mean times by category, part and work, and the categories of which all are known."""
    found, weights = driver_time(side.tables), side.weights()
    here = side.category >= 0
    unknown = set(side.category[here & np.isnan(found.total)].tolist())
    means: dict[_What, float] = {}
    work = found.work
    query = work["query"].to_numpy(np.int64)
    for category, part, what, time in zip(
        side.category[query].tolist(),
        texts(work, "part"),
        texts(work, "work"),
        (weights[query] * work["time_ms"].to_numpy(np.float64)).tolist(),
        strict=True,
    ):
        key = _What(category, part, what)
        means[key] = means.get(key, 0.0) + time
    return means, set(side.category[here].tolist()) - unknown


LEAST_SHARE = 0.1
"""Part of a query's change below which a cause is not listed."""
MOST_CAUSES = 4
"""Causes listed per change."""
SURE_RATIO = 2.0
"""Ratio of times from which a longer wait is no chance, whoever explains it."""
ONE_SIDED = (str(ChangeKind.ADDED), str(ChangeKind.REMOVED))
WORK = ("metric:cpu_ms", "metric:gc_ms", DRIVER.cause)
"""Causes of the kind rate that are no waits."""
WORK_TESTS = {"cpu", "bytes", "skew"}
"""Evidence that does not vary with what else runs."""
LEAST_HANDED_OVER = 0.05
"""Relative change of a source's time from which what changed it is looked for."""


class CauseInputs(NamedTuple):
    """What causes are told from."""

    categories: pd.DataFrame
    sides: tuple[SideMeans, SideMeans]
    operators: Sequence[tuple[str, str]]
    """Plan operators, or labels, of each category before and after."""
    different: Differences = Differences()
    own_settings: Mapping[int, tuple[SettingDifference, ...]] = MappingProxyType({})
    """Settings that differ for queries whose sessions changed some, instead of those of all."""
    shared: SharedCause | None = None
    blame: pd.DataFrame | None = None
    """None where a side is a baseline."""
    driver: Mapping[int, StageCause] = MappingProxyType({})
    """Of queries, what changed in the driver, where it is known."""


class Explained(NamedTuple):
    """Kinds and causes of changes."""

    kind: list[str]
    """Per row of ``CHANGES``."""
    causes: pd.DataFrame
    by_chance: Flags
    """(n_changes,): whether only a wait grew, nobody's work explains it, and the runs are few."""


class _Cause(NamedTuple):
    kind: ChangeKind
    cause: str
    share: float
    sentence: str
    symptom: Symptom | None = None
    root: int = -1


def explain_changes(changes: pd.DataFrame, given: CauseInputs) -> Explained:
    """Return kind and causes of each change.

    ``changes``: queries and their stages; `kind` is read where a query ran on one side only.
    """
    category, parent = changes["category"].tolist(), changes["parent"].tolist()
    kind, evidence = texts(changes, "kind"), texts(changes, "evidence")
    told = _Causes(given, category, parent, kind, evidence)
    few = changes[["runs_before", "runs_after"]].min(axis=1).to_numpy() < FEW_RUNS
    before, after = (changes[name].to_numpy(np.float64) for name in ("before_ms", "after_ms"))
    with np.errstate(divide="ignore", invalid="ignore"):
        small = np.abs(np.log(after / before)) < np.log(SURE_RATIO)
    by_chance = np.zeros(len(changes), bool)
    found: list[tuple[int, str, float, str]] = []
    for row, number in enumerate(category):
        if kind[row] in ONE_SIDED:
            continue
        causes = told.of_stage(number) if parent[row] >= 0 else told.of_query(number)
        if kind[row]:
            causes.sort(key=lambda one: str(one.kind) != kind[row])
        else:
            only_time = evidence[row] in ("time", "")
            by_chance[row] = (
                few[row] and small[row] and only_time and all(map(told.may_be_chance, causes))
            )
            alone = told.one_sided(number) if parent[row] >= 0 else ""
            kind[row] = alone or str(causes[0].kind if causes else ChangeKind.RATE)
        found += [(row, *one[1:4]) for one in causes[:MOST_CAUSES]]
    columns = zip(*found, strict=True) if found else ([],) * 4
    named = dict(zip(CHANGE_CAUSES.column_names(), columns, strict=True))
    return Explained(kind, CHANGE_CAUSES.frame(named), by_chance)


def is_wait(cause: StageCause | _Cause) -> bool:
    """Tell whether a cause is a wait that nobody's work explains."""
    return cause.kind is ChangeKind.RATE and cause.cause not in WORK


class _Causes:
    """Causes of stages and queries, each told once."""

    def __init__(
        self,
        given: CauseInputs,
        category: Sequence[int],
        parent: Sequence[int],
        kind: Sequence[str],
        evidence: Sequence[str],
    ) -> None:
        self.given = given
        self.evidence = dict(zip(category, evidence, strict=True))
        self.inside: dict[int, list[int]] = {}
        for number, above in zip(category, parent, strict=True):
            if above >= 0:
                self.inside.setdefault(category[above], []).append(number)
        categories = given.categories
        names = texts(categories, "name_after"), texts(categories, "name_before")
        self.names = [after or before for after, before in zip(*names, strict=True)]
        self.query = categories["query_category"].tolist()
        self.matched_by, self.kind = texts(categories, "matched_by"), texts(categories, "kind")
        self.stages: dict[int, list[int]] = {}
        for number, (what, query) in enumerate(zip(self.kind, self.query, strict=True)):
            if what != "query":
                self.stages.setdefault(query, []).append(number)
        self.other_work = {
            self.query[number]
            for number, what, by in zip(category, kind, evidence, strict=True)
            if what or WORK_TESTS & set(by.split(", "))
        }
        self.blame: dict[int, pd.DataFrame] = {}
        if (blame := given.blame) is not None:
            # Another plan holds the same slots at other times: others can wait longer for it.
            moved = (blame["change_ms"] != 0) & blame["source"].isin(self.other_work)
            self.blame = dict(list(blame.assign(named=blame["named"] | moved).groupby("category")))
        self._stage: dict[int, list[tuple[StageCause, float]]] = {}
        self.chains = ContentionChains(self._reasons)

    def may_be_chance(self, cause: _Cause) -> bool:
        """Tell whether a cause is a wait for nobody, or for a query that does what it did before.

        Equal runs meet differently: some query then waits longer for another one that is the same.
        """
        return is_wait(cause) or 0 <= cause.root not in self.other_work

    def one_sided(self, stage: int) -> str:
        """Return the kind of a stage that its query has on one side only; else nothing."""
        before, after = (side.measure["tasks"][stage] > 0 for side in self.given.sides)
        if before == after:
            return ""
        return str(ChangeKind.REMOVED if before else ChangeKind.ADDED)

    def of_stage(self, category: int) -> list[_Cause]:
        """Return the causes of a stage, the largest first."""
        before, after = (float(side.measure["time_ms"][category]) for side in self.given.sides)
        change = (after - before) if after != before else 1.0
        causes = [
            (one, one.claim(part * change) / change) for one, part in self._of_stage(category)
        ]
        return self._summed(causes, self.query[category])

    def of_query(self, category: int) -> list[_Cause]:
        """Return the causes of a query, the largest first."""
        return self._summed(self._main(category), category)

    def _summed(self, causes: list[tuple[StageCause, float]], query: int) -> list[_Cause]:
        """Name the causes, add up equal ones, and leave out small ones."""
        merged: dict[str, _Cause] = {}
        for cause, share in causes:
            for one in self._named(cause, share, query):
                known = merged.get(one.cause)
                merged[one.cause] = known._replace(share=one.share + known.share) if known else one
        # A wait that nothing explains is named after what is explained.
        found = sorted(
            merged.values(), key=lambda one: (is_wait(one) or one.share < LEAST_SHARE, -one.share)
        )
        listed = [one for one in found if one.share >= LEAST_SHARE]
        return self._with_settings(listed or found[:1], query)

    def _of_stage(self, category: int) -> list[tuple[StageCause, float]]:
        if category not in self._stage:
            if self.kind[category] == "driver":
                return [(self.given.driver.get(self.query[category], DRIVER), 1.0)]
            c = self.given
            relabelled = self.matched_by[category] == "likeness"
            evidence = self.evidence.get(category, "")
            stage = seen(category, c.sides, c.operators[category], relabelled, evidence)
            blame = self.blame.get(self.query[category])
            self._stage[category] = stage_causes(stage, c.shared, blame)
        return self._stage[category]

    def _reasons(self, query: int) -> list[tuple[StageCause, float]]:
        """Return why a query of both sides changed; nothing where it did not, by much."""
        before, after = (side.measure["time_ms"][query] for side in self.given.sides)
        if not (before > 0 and after > 0) or abs(after / before - 1) < LEAST_HANDED_OVER:
            return []
        return [(cause, share) for cause, share in self._main(query) if not is_wait(cause)]

    def _main(self, query: int) -> list[tuple[StageCause, float]]:
        """Return causes of a query's stages with their shares of its change, the largest first."""
        before, after = (side.measure["time_ms"] for side in self.given.sides)
        stages = self.stages.get(query, [])
        if query in self.inside and "time" not in self.evidence.get(query, ""):
            stages = self.inside[query]  # the query's own time varies too much to tell
            # Work is trusted before time; beside the chain a stage has no time of its own.
            by_work = [number for number in stages if self._other_work(number)]
            change = {
                number: abs(float(after[number] - before[number])) or 1.0
                for number in by_work or stages
            }
            whole = sum(change.values())
        else:
            change = {number: float(after[number] - before[number]) for number in stages}
            whole = float(after[query] - before[query])
        whole = whole or sum(change.values()) or 1.0
        shares: dict[tuple[ChangeKind, str, tuple[int, ...]], float] = defaultdict(float)
        largest: dict[tuple[ChangeKind, str, tuple[int, ...]], tuple[float, StageCause]] = {}
        for stage, ms in change.items():
            for cause, part in self._of_stage(stage):
                # Stages that came and those that went are one change of plan.
                plan = cause.kind is ChangeKind.STRUCTURE and cause.cause != "partitions"
                sources = tuple(source for source, _ in cause.sources)
                key = (cause.kind, "" if plan else cause.cause, sources)
                share = cause.claim(part * ms) / whole
                shares[key] += share
                if abs(share) > largest.get(key, (-1.0,))[0]:
                    largest[key] = (abs(share), cause)
        order = sorted(shares, key=lambda key: -shares[key])
        # Where some stages got faster and others slower, no side explains more than all.
        more = max(sum(share for share in shares.values() if share > 0), 1.0)
        found = [(largest[key][1], shares[key] / more) for key in order if shares[key] > 0]
        number = self.stages.get(query, ())
        return [(self._whole_plan(cause, number), share) for cause, share in found]

    def _other_work(self, stage: int) -> bool:
        """Tell whether a stage does other work, or is another: not only its time differs."""
        by_work = WORK_TESTS & set(self.evidence[stage].split(", "))
        return bool(by_work) or self._of_stage(stage)[0][0].kind is ChangeKind.STRUCTURE

    def _whole_plan(self, cause: StageCause, stages: Iterable[int]) -> StageCause:
        """Name the operators of which a query's stages had more before, and more after.

        Where joins are among both, these alone: exchanges and sorts come and go with them.
        """
        if not cause.cause.startswith("plan:"):
            return cause
        old, new = (
            Counter(
                word
                for stage in stages
                for word in self.given.operators[stage][side].split("; ")
                if word
            )
            for side in (0, 1)
        )
        words = [list(old - new), list(new - old)]
        joins = [[word for word in side if word.endswith("Join")] for side in words]
        gone, come = ("; ".join(side) for side in (joins if all(joins) else words))
        if not gone and not come:
            return cause
        text = f"{gone or 'nothing'} → {come or 'nothing'}"
        return cause._replace(cause=f"plan:{gone}->{come}", sentence=text)

    def _named(self, cause: StageCause, share: float, query: int) -> list[_Cause]:
        """Replace the sources of contention by what changed them, with the chain of waits."""
        if cause.kind is not ChangeKind.CONTENTION:
            return [_Cause(cause.kind, cause.cause, share, cause.sentence, cause.symptom)]
        found = []
        for root, part in self.chains.roots_of(cause.sources, query):
            path = self.chains.path(cause.sources, root, query)
            names = [self.names[stage] for stage in path]
            text = f"{cause.sentence}: waits for {', which waits for '.join(names)}"
            if (shared := root.shared) is None:
                named = f"query:{names[-1]}"
                found.append(
                    _Cause(
                        kind=cause.kind,
                        cause=named,
                        share=share * part,
                        sentence=text,
                        symptom=None,
                        root=root.query,
                    )
                )
            else:
                text += f" ({shared.sentence})"
                found.append(_Cause(shared.kind, shared.cause, share * part, text, shared.symptom))
        return found

    def _with_settings(self, causes: list[_Cause], query: int) -> list[_Cause]:
        """Add the settings of a query, and versions, that fit the first cause."""
        if not causes:
            return causes
        first, different = causes[0], self.given.different
        own = self.given.own_settings.get(query, different.settings)
        fitting = different._replace(settings=own).fitting(first.kind, first.symptom)
        added = [_Cause(first.kind, cause, np.nan, sentence) for cause, sentence in fitting]
        return [first, *added, *causes[1:]]


def without_chance(
    changes: pd.DataFrame, explained: Explained
) -> tuple[pd.DataFrame, pd.DataFrame, list[int]]:
    """Set the kinds of changes, and leave out those that nothing but chance explains.

    A query stays where a stage of it does. Returns changes, causes, and the categories left out.
    """
    parent = changes["parent"].to_numpy(np.int64)
    keep = ~explained.by_chance
    keep[parent[keep & (parent >= 0)]] = True
    keep[parent >= 0] &= keep[parent[parent >= 0]]
    kept, causes = keep_changes(changes.assign(kind=explained.kind), explained.causes, keep)
    _, rank = np.unique(kept["rank"].to_numpy(np.int64), return_inverse=True)
    dropped = changes["category"].to_numpy(np.int64)[~keep].tolist()
    return kept.assign(rank=(rank + 1).astype(np.int32)), causes, dropped


def keep_changes(
    changes: pd.DataFrame, causes: pd.DataFrame, keep: Flags
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Keep some rows of the changes, with their causes, and number them anew."""
    place = np.append(np.where(keep, np.cumsum(keep) - 1, NONE), NONE)
    changes = changes[keep].reset_index(drop=True)
    causes = causes[keep[causes["change"].to_numpy(np.int64)]].reset_index(drop=True)
    return (
        changes.assign(parent=place[changes["parent"].to_numpy()].astype(np.int32)),
        causes.assign(change=place[causes["change"].to_numpy(np.int64)].astype(np.int32)),
    )
