"""Compares replays under new shares with one under the recorded shares."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

import msgspec
import numpy as np

from iqcar.enums import BlameKind, Resource
from iqcar.replay.rule_effect.expected import (
    MAX_FINGERPRINTS,
    OF_ALL,
    OF_SOURCE,
    OF_TARGET,
    Expected,
    sentence_of,
)
from iqcar.rules.compile_pools import compile_rules
from iqcar.rules.propose_rules import MIN_LOST_MS
from iqcar.rules.recorded_setup import recorded_scheduler
from iqcar.rules.rule import (
    LEAST_GAIN_SHARE,
    SLOWER_SHARE,
    PoolPlan,
    QueryType,
    Rule,
    RuleType,
    outlook_of,
)
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Flags, Floats, Ints

if TYPE_CHECKING:
    from iqcar.causes.graph.iqc_graph import IQCGraph
    from iqcar.replay.loop.run import Recording, Replayed

THREADS = 4
"""Replays at once: each needs some 100 bytes per task, 300 where devices are shared."""

LEAST_OF_MANY = 0.1
"""Queries that lost little each gain this part of their durations at least: where a replay says
less, the luck of who meets whom on a host decides in the next run."""


class Forecaster:
    """Replays of a recorded run under the pools of rules that act in it."""

    def __init__(
        self,
        tables: Tables,
        graph: IQCGraph,
        rules: Sequence[Rule],
        acting: Sequence[Rule],
        recording: Recording,
        devices: Replays[PoolPlan] | None,
        beside: Sequence[Rule],
    ) -> None:
        self.recording, self.beside = recording, beside
        self.evaluators = [PlanEvaluator(one) for one in (devices, recording) if one is not None]
        self.scheduler = recorded_scheduler(tables, rules)
        self.acting = acting
        self.fingerprints = np.array(texts(tables.queries, "fingerprint"), object)
        found = _victims(tables, graph, acting)
        self._victims: dict[str, dict[QueryType, _Victims]] = {r.fingerprint: {} for r in acting}
        for rule, of_rule in zip(acting, found, strict=True):
            self._victims[rule.fingerprint][rule.query_type] = of_rule

    def each(self) -> list[Expected | None]:
        """Predict the effect of each rule alone."""
        self._replay_at_once([[rule] for rule in self.acting])
        return [self.alone(rule) for rule in self.acting]

    def tried(self, rules: Sequence[Rule]) -> list[Expected | None]:
        """Predict the effect of rules for sources or victims that act, each alone."""
        self._replay_at_once([[rule] for rule in rules])
        return [self.alone(rule) for rule in rules]

    def alone(self, rule: Rule) -> Expected | None:
        """Predict the effect of one rule."""
        called = OF_TARGET if rule.query_type is QueryType.TARGET else OF_SOURCE
        return self._judged([rule], self.victims(rule), called)

    def together(self, rules: Sequence[Rule]) -> Expected | None:
        """Predict the effect of several rules together; None where there are none."""
        if not rules:
            return None
        everybody = np.unique(np.concatenate([self.victims(rule) for rule in rules]))
        return self._judged(rules, everybody, OF_ALL)

    def victims(self, rule: Rule) -> Ints:
        """Runs that a rule is to help."""
        return self._victims[rule.fingerprint][rule.query_type].runs

    def worth(self, rule: Rule, expected: Expected) -> bool:
        """Whether a gain is worth its price: of many who lost little each, if all together gain."""
        if not self._victims[rule.fingerprint][rule.query_type].little:
            return True
        sure = max(100 * LEAST_GAIN_SHARE, expected.replay_error_percent or 0.0)
        clear = expected.victims_change_percent <= -100 * LEAST_OF_MANY
        return clear and expected.change_percent < -sure

    def on_victims_of(self, rule: Rule, rules: Sequence[Rule]) -> Expected | None:
        """Predict what rules together do for the victims of one."""
        return self._judged(rules, self.victims(rule), OF_SOURCE) if rules else None

    def _judged(
        self, rules: Sequence[Rule], victims: Ints, called: tuple[str, str]
    ) -> Expected | None:
        plan = self._plan(rules)
        evaluator = self._evaluator_of(rules, plan, victims)
        if evaluator is None:
            return None
        held = [rule.fingerprint for rule in rules if rule.rule_type is RuleType.CAP]
        capped = np.flatnonzero(np.isin(self.fingerprints, held)) if held else None
        return evaluator.expected(plan, victims, called, capped)

    def _evaluator_of(
        self, rules: Sequence[Rule], plan: PoolPlan, victims: Ints
    ) -> PlanEvaluator[PoolPlan] | None:
        """Replays with devices where they reproduce the run; slots alone tell of slots only."""
        for evaluator in self.evaluators[:-1]:
            if evaluator.reproduces(plan, victims):
                return evaluator
        of_slots = any(rule.resource == Resource.SLOTS.value for rule in rules)
        return self.evaluators[-1] if of_slots else None

    def _replay_at_once(self, sets: Sequence[Sequence[Rule]]) -> None:
        """Replay several sets of rules side by side; judges keep what became of them."""
        work = []
        for rules in sets:
            plan = self._plan(rules)
            evaluator = self._evaluator_of(rules, plan, self.victims(rules[0]))
            if evaluator is not None:
                evaluator.before  # noqa: B018 - before threads would compute it several times
                work.append((evaluator, plan))
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda one: one[0].after(one[1]), work))

    def _plan(self, rules: Sequence[Rule]) -> PoolPlan:
        known = self.scheduler
        acting = [
            *self.beside,
            *(msgspec.structs.replace(rule, helps_pools=True) for rule in rules),
        ]
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


class _Victims(NamedTuple):
    """Runs that a rule is to help, and whether most of what they lost nobody notices by itself."""

    runs: Ints
    little: bool


def _victims(tables: Tables, graph: IQCGraph, rules: Sequence[Rule]) -> list[_Victims]:
    """Runs that each rule is to help: its own, or those that lost time to the source it is for.

    Those that lost what counts; where topics tell that many lost little each, all of them.
    """
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
            found.append(_Victims(np.flatnonzero(own), False))
            continue
        to_it = own[source] & ~own[target]
        lost = np.bincount(target[to_it], lost_ms[to_it], minlength=len(own))
        noticed = np.flatnonzero(lost >= MIN_LOST_MS)
        little = bool(rule.topics) and lost[noticed].sum() < lost.sum() / 2
        everyone = little or not len(noticed)
        found.append(_Victims(np.flatnonzero(lost > 0) if everyone else noticed, little))
    return found


Plan = TypeVar("Plan", contravariant=True)


class Replays(Protocol[Plan]):
    """Replays of one recorded run under plans of one kind, by one model."""

    tables: Tables

    @property
    def model(self) -> str:
        """What is shared in the replays; stands in JSON."""

    @property
    def assumptions(self) -> str:
        """What the replays rest on, in a sentence."""

    @property
    def most_error(self) -> float:
        """Error, as a share of a query's duration, from which a prediction counts for nothing."""

    @property
    def slot_count(self) -> int:
        """Slots at most, of all applications."""

    def reach(self, plan: Plan) -> set[int]:
        """Applications whose queries a plan can move."""

    def replay(self, plan: Plan | None = None) -> Replayed:
        """Replay under the recorded shares, or under a plan."""

    def errors(self) -> Floats:
        """Error of a replay of the run as it was, as a share of each query's duration."""


Of = TypeVar("Of", bound=Hashable)
"""Kind of the plans that are judged."""


class PlanEvaluator(Generic[Of]):
    """Judges plans by replays of one model."""

    def __init__(self, replays: Replays[Of]) -> None:
        self.replays = replays
        queries = replays.tables.queries
        self.app = queries["app"].to_numpy(np.int64)
        self.ended = queries["ended"].to_numpy(bool)
        self.ids = texts(queries, "query_id")
        self.names = texts(queries, "name")
        self.fingerprints = texts(queries, "fingerprint")
        self._after: dict[Of, Replayed] = {}

    @cached_property
    def before(self) -> Replayed:
        """The run as it was."""
        return self.replays.replay()

    @cached_property
    def errors(self) -> Floats:
        """How far replays of the run as it was are off."""
        return self.replays.errors()

    def after(self, plan: Of) -> Replayed:
        """The run under a plan."""
        if plan not in self._after:
            self._after[plan] = self.replays.replay(plan)
        return self._after[plan]

    def reproduces(self, plan: Of, victims: Ints) -> bool:
        """Whether the replay of the run as it was is near the record where the plan acts."""
        off = np.abs(self.errors)
        known = self.ended & np.isfinite(off)
        counted = np.flatnonzero(known & self._touched(plan))
        judged = np.intersect1d(victims, counted)
        limit = self.replays.most_error
        return len(judged) > 0 and bool(
            np.median(off[counted]) <= limit and np.median(off[judged]) <= limit
        )

    def _touched(self, plan: Of) -> Flags:
        touched: Flags = np.isin(self.app, sorted(self.replays.reach(plan)))
        return touched

    def expected(
        self,
        plan: Of,
        victims: Ints,
        called: tuple[str, str],
        capped: Ints | None = None,
    ) -> Expected | None:
        """PlanEvaluator one plan; None where none of its victims could be replayed to its end.

        victims: Rows of the queries that are to gain.
        called: What one victim is called in the sentence, and what several are.
        capped: Rows of the queries that a cap holds back.
        """
        before, after = self.before, self.after(plan)
        old, new = before.duration_ms, after.duration_ms
        known = self._touched(plan) & self.ended & np.isfinite(old + new)
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
            assumptions=self.replays.assumptions,
            model=self.replays.model,
        )
        if capped is not None:
            expected = self._with_price(expected, before, after, capped[known[capped]])
        return replace(expected, sentence=sentence_of(expected, outlook, called))

    def _with_price(
        self, expected: Expected, before: Replayed, after: Replayed, capped: Ints
    ) -> Expected:
        """Add what a cap costs."""
        old, new = (float(one.duration_ms[capped].sum()) for one in (before, after))
        idle = max(after.idle_slot_ms - before.idle_slot_ms, 0.0)
        lasted = float(np.nanmax(after.end_ms) - np.nanmin(after.start_ms))
        whole = lasted * self.replays.slot_count
        return replace(
            expected,
            source_before_ms=old,
            source_after_ms=new,
            source_change_percent=100 * _change(old, new),
            idle_slot_ms=idle,
            idle_slots_percent=100 * idle / whole if whole > 0 else None,
        )

    def _fingerprints(self, queries: Ints) -> list[str]:
        found = dict.fromkeys(self.fingerprints[query] for query in queries.tolist())
        return [fingerprint for fingerprint in found if fingerprint][:MAX_FINGERPRINTS]


def _change(before: float, after: float) -> float:
    return after / before - 1.0 if before > 0 else 0.0
