"""Compare two recorded runs, before and after rules, with what was predicted.

Runs of one fingerprint are one recurring query, and its duration is the mean of its runs that
ended: the two sides need not hold equally many.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from iqcar.demand.outside_load import outside_load
from iqcar.enums import Kind
from iqcar.replay.run import record
from iqcar.replay.scheduling import is_fair, ran_in_pools
from iqcar.rules import QueryType, compile_rules, scheduler_rules
from iqcar.rules.outlook import LEAST_GAIN_SHARE
from iqcar.tables import texts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iqcar.rules import PoolPlan, Rule, RulesFile
    from iqcar.tables import Tables
    from iqcar.tables.arrays import Floats


class Applied(Kind):
    """Whether a rule acted in the second run: what the log says of the pools that tasks ran in."""

    YES = "yes", "Every run of its query ran in its pool, under FAIR."
    PARTLY = "partly", "Some runs of its query, or some of their stages, ran in its pool."
    NO = "no", "No run of its query ran in its pool, or the scheduler was FIFO."
    NO_POOL = "no-pool", "It was compiled to no pool."
    NOT_RUN = "not-run", "Its query did not run again."


OUTSIDE_DIFFERENCE = 0.1
"""Difference between the two runs in the share of the hosts' processors that processes other than
the executors used, from which the runs are not comparable. A tenth of two cores is as much as a
task that computes gets from a share of 1/5 less: durations change by more than rules do."""

CONTROLS_OFF_PERCENT = 10.0
"""Difference between predicted and actual change of the queries that no rule is about, in
percentage points, from which something else than the rules changed. Runs of one query on a quiet
machine differ by up to 7 %."""


class Verdict(Kind):
    """What became of a rule's victims."""

    HELPED = "helped", "They got faster by 1 % or more."
    NO_CHANGE = "no-change", "They changed by less than 1 %."
    SLOWER = "slower", "They got slower by 1 % or more."
    UNKNOWN = "unknown", "None of them ended in both runs."
    DISTURBED = "disturbed", "Other processes loaded the hosts more in one run than in the other."


@dataclass(frozen=True)
class QueryChange:
    """One recurring query in both runs; ``off_percent`` is predicted less actual change."""

    fingerprint: str
    name: str
    runs_before: int
    runs_after: int
    before_ms: float
    after_ms: float
    change_percent: float
    predicted_percent: float | None
    off_percent: float | None


@dataclass(frozen=True)
class Total:
    """All recurring queries of both runs, each as often as it ran before."""

    queries: int
    before_ms: float
    after_ms: float
    change_percent: float
    predicted_percent: float | None
    off_percent: float | None


@dataclass(frozen=True)
class RuleCheck:
    """One rule: whether it acted, and what became of its victims."""

    id: str
    query_name: str
    pool: str
    applied: str
    ran_in: dict[str, int]
    """Pools that the stages of its query ran in, and how many in each."""
    verdict: str
    victims: int
    """Recurring queries that it was to help and that ended in both runs."""
    change_percent: float | None
    predicted_percent: float | None
    off_percent: float | None
    sentence: str


@dataclass(frozen=True)
class Check:
    """What two runs say about rules.

    Attributes
    ----------
    queries : recurring queries that ended in both runs, the longest first.
    total : all of those; None if there are none.
    controls : those that no rule is about and that no rule is to help; None if there are none.
    rules : in the order of the file.
    only_before, only_after : names of queries that ended in one run only.
    doubts : what could not be found out.
    """

    queries: tuple[QueryChange, ...]
    total: Total | None
    controls: Total | None
    rules: tuple[RuleCheck, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    doubts: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as it stands in JSON."""
        return asdict(self)


def check_rules(file: RulesFile, before: Tables, after: Tables) -> Check:
    """Compare predicted with actual durations.

    Parameters
    ----------
    file : RulesFile
        The rules that the second run was made with, and the pools they were compiled to. ADVICE
        rules are skipped: nothing tells whether anybody followed them.
    before, after : Tables
        From :func:`iqcar.read`, queries identified alike.
    """
    known = file.recorded
    rules = scheduler_rules(file.rules)
    plan = file.plan or compile_rules(file.rules, known.slots, known.running, known.pools)
    recording = record(before)
    old, new = recording.replay(), recording.replay(plan)
    runs, again = _Runs(before), _Runs(after)
    were, would = runs.means(old.duration_ms), runs.means(new.duration_ms)
    changes = []
    for fingerprint in runs.mean_ms.keys() & again.mean_ms.keys():
        x, y = runs.mean_ms[fingerprint], again.mean_ms[fingerprint]
        actual = _percent(x, y)
        predicted = None
        if fingerprint in were and fingerprint in would:
            predicted = _percent(were[fingerprint], would[fingerprint])
        changes.append(
            QueryChange(
                fingerprint, runs.name[fingerprint], runs.count[fingerprint],
                again.count[fingerprint], x, y, actual, predicted, _less(predicted, actual),
            )
        )  # fmt: skip
    changes.sort(key=lambda c: (-c.before_ms * c.runs_before, c.fingerprint))
    by_fingerprint = {change.fingerprint: change for change in changes}
    weighed = _Weighed(by_fingerprint, were, would)
    doubts = list(recording.doubts)
    if not changes:
        doubts.append("no query ended in both runs under one fingerprint: nothing can be compared")
    disturbed = _disturbance(before, after)
    about = {f for rule in rules for f in (rule.fingerprint, *_victims_of(rule, rules))}
    alone = [fingerprint for fingerprint in by_fingerprint if fingerprint not in about]
    controls = _total(weighed, alone) if alone else None
    doubts += [doubt for doubt in (disturbed, _controls_doubt(controls)) if doubt]
    return Check(
        tuple(changes),
        _total(weighed, list(by_fingerprint)) if changes else None,
        controls,
        tuple(_check_rule(rule, rules, plan, after, weighed, bool(disturbed)) for rule in rules),
        tuple(sorted(runs.name[f] for f in runs.mean_ms.keys() - again.mean_ms.keys())),
        tuple(sorted(again.name[f] for f in again.mean_ms.keys() - runs.mean_ms.keys())),
        tuple(doubts),
    )


class _Runs:
    """Recurring queries of one side: mean duration, name and number of the runs that ended."""

    def __init__(self, tables: Tables) -> None:
        queries = tables.queries
        self.fingerprints = texts(queries, "fingerprint")
        self.ended = queries["ended"].to_numpy(bool) & ~queries["failed"].to_numpy(bool)
        self.mean_ms = self.means(queries["duration_ms"].to_numpy(np.float64))
        self.name = dict(zip(self.fingerprints, texts(queries, "name"), strict=True))
        self.count = Counter(
            f for f, ended in zip(self.fingerprints, self.ended.tolist(), strict=True) if ended
        )

    def means(self, duration_ms: Floats) -> dict[str, float]:
        """Mean duration of each recurring query; without those of which none is known."""
        known: dict[str, list[float]] = {}
        usable = (self.ended & np.isfinite(duration_ms)).tolist()
        for fingerprint, lasted, use in zip(
            self.fingerprints, duration_ms.tolist(), usable, strict=True
        ):
            if use and fingerprint:
                known.setdefault(fingerprint, []).append(lasted)
        return {fingerprint: float(np.mean(lasted)) for fingerprint, lasted in known.items()}


class _Weighed:
    """Sums over recurring queries, each counted as often as it ran before."""

    def __init__(
        self,
        changes: Mapping[str, QueryChange],
        were: Mapping[str, float],
        would: Mapping[str, float],
    ) -> None:
        self.changes, self.were, self.would = changes, were, would

    def actual(self, fingerprints: Sequence[str]) -> tuple[float, float]:
        rows = [self.changes[f] for f in fingerprints]
        return (
            sum(row.before_ms * row.runs_before for row in rows),
            sum(row.after_ms * row.runs_before for row in rows),
        )

    def predicted(self, fingerprints: Sequence[str]) -> float | None:
        """Predicted change in percent; None unless all of them were replayed."""
        if any(f not in self.were or f not in self.would for f in fingerprints):
            return None
        runs = [self.changes[f].runs_before for f in fingerprints]
        return _percent(
            sum(n * self.were[f] for n, f in zip(runs, fingerprints, strict=True)),
            sum(n * self.would[f] for n, f in zip(runs, fingerprints, strict=True)),
        )


def _total(weighed: _Weighed, fingerprints: Sequence[str]) -> Total:
    before, after = weighed.actual(fingerprints)
    actual, predicted = _percent(before, after), weighed.predicted(fingerprints)
    return Total(len(fingerprints), before, after, actual, predicted, _less(predicted, actual))


def _disturbance(before: Tables, after: Tables) -> str:
    """Say so if other processes loaded the hosts more in one run than in the other."""
    first, second = outside_load(before).share, outside_load(after).share
    if first is None or second is None or abs(first - second) < OUTSIDE_DIFFERENCE:
        return ""
    return (
        f"processes other than the executors used {first:.0%} of the hosts' processors in the "
        f"first run and {second:.0%} in the second: what the rules did cannot be told apart from "
        "that, so there is no verdict; repeat both runs on quiet hosts"
    )


def _controls_doubt(controls: Total | None) -> str:
    """Say so if queries that no rule is about changed in another way than was predicted."""
    if controls is None:
        return ""
    off = controls.off_percent if controls.off_percent is not None else -controls.change_percent
    if abs(off) < CONTROLS_OFF_PERCENT:
        return ""
    expected = (
        ""
        if controls.predicted_percent is None
        else (f" ({controls.predicted_percent:+.0f}% was predicted)")
    )
    which = f"{controls.queries} queries" if controls.queries > 1 else "one query"
    return (
        f"{which} that no rule is about took {controls.change_percent:+.0f}% time{expected}: "
        "more than the rules differed between the runs"
    )


def _check_rule(
    rule: Rule,
    rules: Sequence[Rule],
    plan: PoolPlan,
    after: Tables,
    weighed: _Weighed,
    disturbed: bool,
) -> RuleCheck:
    pool = next((a.pool for a in plan.assignments if a.rule_id == rule.id), "")
    applied, ran_in = _applied(rule, pool, after)
    victims = [f for f in _victims_of(rule, rules) if f in weighed.changes]
    change, predicted, verdict = None, None, Verdict.UNKNOWN
    if victims:
        change, predicted = _percent(*weighed.actual(victims)), weighed.predicted(victims)
        least = 100 * LEAST_GAIN_SHARE
        verdict = Verdict.SLOWER if change >= least else Verdict.NO_CHANGE
        verdict = Verdict.HELPED if change <= -least else verdict
        verdict = Verdict.DISTURBED if disturbed else verdict
    return RuleCheck(
        rule.id, rule.query_name, pool, applied.value, ran_in, verdict.value, len(victims),
        change, predicted, _less(predicted, change),
        _sentence(rule, pool, applied, ran_in, verdict, change, predicted),
    )  # fmt: skip


def _applied(rule: Rule, pool: str, after: Tables) -> tuple[Applied, dict[str, int]]:
    """Look at the pools that the query's stages really ran in."""
    runs = (after.queries["fingerprint"] == rule.fingerprint).to_numpy(bool)
    query = after.stages["query"].to_numpy(np.int64)
    of_query = (query >= 0) & np.append(runs, False)[query]
    stage = np.flatnonzero(of_query)
    if len(stage) == 0:
        return (Applied.NOT_RUN if pool else Applied.NO_POOL), {}
    app = after.stages["app"].to_numpy(np.int64)[stage]
    fair = np.array([is_fair(after, number) for number in range(len(after.applications))])[app]
    ran = ran_in_pools(after, stage)
    counts = dict(Counter(ran).most_common())
    if not pool:
        return Applied.NO_POOL, counts
    hits = np.array([name == pool for name in ran]) & fair
    if hits.all():
        return Applied.YES, counts
    return (Applied.PARTLY if hits.any() else Applied.NO), counts


def _victims_of(rule: Rule, rules: Sequence[Rule]) -> list[str]:
    """Fingerprints that a rule is to help; those of the file's victims where it does not say."""
    if rule.query_type is QueryType.TARGET:
        return [rule.fingerprint]
    listed = (rule.expected or {}).get("victim_fingerprints")
    if isinstance(listed, list) and listed:
        return list(dict.fromkeys(f for f in listed if isinstance(f, str)))
    return [other.fingerprint for other in rules if other.query_type is QueryType.TARGET]


def _sentence(
    rule: Rule,
    pool: str,
    applied: Applied,
    ran_in: Mapping[str, int],
    verdict: Verdict,
    change: float | None,
    predicted: float | None,
) -> str:
    elsewhere = ", ".join(list(ran_in)[:3])
    acted = {
        Applied.YES: f"was applied ({pool})",
        Applied.PARTLY: f"was applied to some stages only (they ran in {elsewhere})",
        Applied.NO: f"was not applied: its query ran in {elsewhere}, not in {pool} under FAIR",
        Applied.NO_POOL: "makes no pool",
        Applied.NOT_RUN: "could not act: its query did not run again",
    }[applied]
    if applied is Applied.NO_POOL:
        # What became of its victims is the doing of the other rules.
        return f"{rule.id} {acted}: it did nothing by itself"
    whom = "its query" if rule.query_type is QueryType.TARGET else "its victims"
    if verdict is Verdict.UNKNOWN or change is None:
        return f"{rule.id} {acted}; what became of {whom} is not known"
    got = {
        Verdict.HELPED: f"{whom} took {-change:.0f}% less time",
        Verdict.SLOWER: f"{whom} took {change:.0f}% more time",
        Verdict.NO_CHANGE: f"{whom} took as long as before",
        Verdict.DISTURBED: f"no verdict: {whom} took {change:+.0f}% time on hosts that other "
        "processes loaded differently",
    }[verdict]
    text = f"{rule.id} {acted}; {got}"
    return text if predicted is None else f"{text} ({predicted:+.0f}% was predicted)"


def _percent(before: float, after: float) -> float:
    return 100 * (after / before - 1.0) if before > 0 else 0.0


def _less(predicted: float | None, actual: float | None) -> float | None:
    return None if predicted is None or actual is None else predicted - actual
