"""Predict the effect of rules: a replay under their pools against one under the recorded pools.

Both are replays, so that what a replay leaves out is left out of both; its error on the recorded
run is given with every prediction.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from iqcar.enums import BlameKind
from iqcar.replay.expected import (
    ASSUMPTIONS,
    ITS,
    MAX_FINGERPRINTS,
    OWN,
    THE,
    Expected,
    sentence_of,
)
from iqcar.replay.run import record, replay_errors
from iqcar.replay.scheduling import chosen_pools
from iqcar.rules import QueryType, compile_rules, recorded_scheduler, scheduler_rules
from iqcar.rules.outlook import SLOWER_SHARE, outlook_of
from iqcar.rules.propose_rules import MIN_LOST_MS
from iqcar.rules.rule import RejectedRule
from iqcar.tables import texts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iqcar.graph import IQCGraph
    from iqcar.replay.run import Recording, Replayed
    from iqcar.rules import PoolPlan, Rule
    from iqcar.tables import Tables
    from iqcar.tables.arrays import Ints

THREADS = 4
"""Replays at once: each needs up to 100 bytes per task."""


@dataclass(frozen=True)
class Prediction:
    """Rules with their expected effect, and that of all of them together."""

    rules: tuple[Rule, ...]
    together: Expected | None
    doubts: tuple[str, ...]
    rejected: tuple[RejectedRule, ...] = ()
    """Rules that were left out because they are predicted to harm."""


def predict(
    tables: Tables,
    graph: IQCGraph,
    rules: Sequence[Rule],
    *,
    beside: Sequence[Rule] = (),
    all_rules: bool = False,
) -> Prediction:
    """Replay the recorded run under the pools of each rule alone, and of all together.

    Parameters
    ----------
    tables : Tables
    graph : IQCGraph
        Tells who lost time to whom: the victims of a source are the queries it cost most.
    rules : sequence of Rule
    beside : sequence of Rule
        Rules that the run was recorded with, and that go on acting beside these.
    all_rules : bool
        Whether to keep rules that are predicted to harm.

    Returns
    -------
    Prediction
        ``expected`` is None where pools do not act or the application cannot be replayed;
        ``doubts`` say which.

    Notes
    -----
    A rule that harms alone is rejected. Where the others harm together, they are added one by one
    in their order, and each that makes them harm is rejected.
    """
    # Nobody can replay what people will make of advice: its effect stays None.
    acting = [rule for rule in scheduler_rules(rules) if rule.helps_pools]
    if not acting:
        return Prediction(tuple(rules), None, ())
    forecast = _Forecast(tables, graph, rules, acting, beside)
    done = [_with(rule, expected) for rule, expected in zip(acting, forecast.each(), strict=True)]
    rejected = {} if all_rules else {rule.id: _why(rule) for rule in done if rule.harms}
    together = forecast.together(_without(done, rejected))
    if together is not None and together.harms and not all_rules:
        rejected |= _harming_together(forecast, _without(done, rejected))
        together = forecast.together(_without(done, rejected))
    found = {rule.id: rule for rule in done}
    return Prediction(
        tuple(found.get(rule.id, rule) for rule in _without(rules, rejected)),
        together,
        forecast.doubts([rule.id for rule in done if rule.expected is None]),
        tuple(RejectedRule(rule, rejected[rule.id]) for rule in done if rule.id in rejected),
    )


def _without(rules: Sequence[Rule], rejected: Mapping[str, str]) -> list[Rule]:
    return [rule for rule in rules if rule.id not in rejected]


def _harming_together(forecast: _Forecast, rules: Sequence[Rule]) -> dict[str, str]:
    """Add rules one by one; return why each was rejected that made those before it harm."""
    kept: list[Rule] = []
    rejected = {}
    for rule in rules:
        expected = forecast.together([*kept, rule])
        if expected is not None and expected.harms:
            others = ", ".join(one.id for one in kept)
            rejected[rule.id] = f"together with {others} {expected.sentence}"
        else:
            kept.append(rule)
    return rejected


def _why(rule: Rule) -> str:
    return str((rule.expected or {})["sentence"])


class _Forecast:
    """Replays of a recorded run under the pools of rules that act in it."""

    def __init__(
        self,
        tables: Tables,
        graph: IQCGraph,
        rules: Sequence[Rule],
        acting: Sequence[Rule],
        beside: Sequence[Rule],
    ) -> None:
        self.beside = beside
        self.recording = record(tables)
        self.judge = _Judge(tables, self.recording)
        self.scheduler = recorded_scheduler(tables, rules)
        self.acting = acting
        found = _victims(tables, graph, acting)
        self.victims = {rule.id: of_rule for rule, of_rule in zip(acting, found, strict=True)}

    def each(self) -> list[Expected | None]:
        """Predict the effect of each rule alone."""
        plans = [self._plan([rule]) for rule in self.acting]
        with ThreadPoolExecutor(THREADS) as pool:
            replays = list(pool.map(self.recording.replay, plans))
        called = [OWN if rule.query_type is QueryType.TARGET else ITS for rule in self.acting]
        victims = [self.victims[rule.id] for rule in self.acting]
        return list(map(self.judge.expected, plans, replays, victims, called))

    def together(self, rules: Sequence[Rule]) -> Expected | None:
        """Predict the effect of several rules together; None where there are none."""
        if not rules:
            return None
        plan = self._plan(rules)
        everybody = np.unique(np.concatenate([self.victims[rule.id] for rule in rules]))
        return self.judge.expected(plan, self.recording.replay(plan), everybody, THE)

    def _plan(self, rules: Sequence[Rule]) -> PoolPlan:
        known = self.scheduler
        acting = [*self.beside, *rules]
        return compile_rules(acting, known.slots, known.running, known.pools, all_rules=True)

    def doubts(self, blind: Sequence[str]) -> tuple[str, ...]:
        """Say what could not be predicted; ``blind`` are the rules without an expected effect."""
        doubts = self.recording.doubts
        if not blind or not self.recording.workloads:
            return doubts
        return (
            *doubts,
            f"the effect of {', '.join(blind)} cannot be predicted: none of the victims ended "
            "while the log was written",
        )


def _with(rule: Rule, expected: Expected | None) -> Rule:
    return rule if expected is None else replace(rule, expected=expected.to_dict())


def _victims(tables: Tables, graph: IQCGraph, rules: Sequence[Rule]) -> list[Ints]:
    """Runs that each rule is to help: its own, or those that lost time to the source it is for."""
    hurts = graph.who_hurts_whom()
    hurts = hurts[(hurts["kind"] == BlameKind.QUERY.value) & (hurts["source_query"] >= 0)]
    source = hurts["source_query"].to_numpy(np.int64)
    target = hurts["target_query"].to_numpy(np.int64)
    lost_ms = hurts["lost_ms"].to_numpy(np.float64)
    fingerprint = tables.queries["fingerprint"].to_numpy(object)
    found = []
    for rule in rules:
        own = fingerprint == rule.fingerprint
        if rule.query_type is QueryType.TARGET:
            found.append(np.flatnonzero(own))
            continue
        to_it = own[source] & ~own[target]
        lost = np.bincount(target[to_it], lost_ms[to_it], minlength=len(own))
        noticed = np.flatnonzero(lost >= MIN_LOST_MS)
        found.append(noticed if len(noticed) else np.flatnonzero(lost > 0))
    return found


class _Judge:
    """Holds replays under new shares against the one under the recorded shares."""

    def __init__(self, tables: Tables, recording: Recording) -> None:
        self.tables = tables
        self.before = recording.replay()
        self.errors = replay_errors(tables, self.before)
        self.app = tables.queries["app"].to_numpy(np.int64)
        self.ended = tables.queries["ended"].to_numpy(bool)
        self.ids = texts(tables.queries, "query_id")
        self.names = texts(tables.queries, "name")
        self.fingerprints = texts(tables.queries, "fingerprint")

    def expected(
        self, plan: PoolPlan, after: Replayed, victims: Ints, called: tuple[str, str]
    ) -> Expected | None:
        """Judge one plan; None where none of its victims could be replayed to its end."""
        chosen = chosen_pools(self.tables, plan)
        touched = np.isin(self.app, sorted({int(self.app[query]) for query in chosen}))
        old, new = self.before.duration_ms, after.duration_ms
        known = touched & self.ended & np.isfinite(old + new)
        judged = victims[known[victims]]
        if len(judged) == 0:
            return None
        counted = np.flatnonzero(known)
        change = np.where(old > 0, new / np.where(old > 0, old, 1.0) - 1.0, 0.0)
        slower = counted[change[counted] > SLOWER_SHARE]
        worst = int(slower[np.argmax(change[slower])]) if len(slower) else None
        off = np.abs(self.errors[counted])
        off = off[np.isfinite(off)]
        error = float(np.median(off)) if len(off) else None
        before_ms, after_ms = float(old[judged].sum()), float(new[judged].sum())
        all_before, all_after = float(old[counted].sum()), float(new[counted].sum())
        gain, cost = _change(before_ms, after_ms), _change(all_before, all_after)
        noticed = counted[new[counted] - old[counted] >= MIN_LOST_MS]
        outlook = outlook_of(gain, cost, error, float(change[noticed].max(initial=0.0)))
        expected = Expected(
            outlook=outlook.value,
            sentence="",
            victims=len(judged),
            victim_fingerprints=self._fingerprints(judged),
            victims_before_ms=before_ms,
            victims_after_ms=after_ms,
            victims_change_percent=100 * gain,
            queries=len(counted),
            before_ms=all_before,
            after_ms=all_after,
            change_percent=100 * cost,
            slower=len(slower),
            slowest=None
            if worst is None
            else {
                "query_id": self.ids[worst],
                "name": self.names[worst],
                "before_ms": float(old[worst]),
                "after_ms": float(new[worst]),
                "change_percent": float(100 * change[worst]),
            },
            replay_error_percent=None if error is None else 100 * error,
            replay_worst_error_percent=float(100 * off.max()) if len(off) else None,
            assumptions=ASSUMPTIONS,
        )
        return replace(expected, sentence=sentence_of(expected, outlook, called))

    def _fingerprints(self, queries: Ints) -> list[str]:
        found = dict.fromkeys(self.fingerprints[query] for query in queries.tolist())
        return [fingerprint for fingerprint in found if fingerprint][:MAX_FINGERPRINTS]


def _change(before: float, after: float) -> float:
    return after / before - 1.0 if before > 0 else 0.0
