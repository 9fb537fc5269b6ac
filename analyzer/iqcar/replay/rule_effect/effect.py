"""Predict the effect of rules: a replay under their pools against one under the recorded pools.

Both are replays, so that what a replay leaves out is left out of both; its error on the recorded
run is given with every prediction. Where the model with devices reproduces the run, it predicts,
and also what pools do against waits for a disk, a network or processors; else slots alone are
shared, and tasks last as long as they did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from iqcar.enums import BlameKind, Resource
from iqcar.replay.loop.run import record
from iqcar.replay.rule_effect.cap_rules import propose_caps
from iqcar.replay.rule_effect.expected import OF_ALL, OF_SOURCE, OF_TARGET, Expected
from iqcar.replay.rule_effect.plan_evaluator import PlanEvaluator
from iqcar.rules.compile_pools import compile_rules
from iqcar.rules.outlook import SLOWER_SHARE, Outlook
from iqcar.rules.pool_plan import PoolPlan
from iqcar.rules.propose_rules import MIN_LOST_MS
from iqcar.rules.recorded_setup import recorded_scheduler
from iqcar.rules.rule import QueryType, RejectedRule, Rule, RuleType, scheduler_rules
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Ints

if TYPE_CHECKING:
    from iqcar.causes.graph.iqc_graph import IQCGraph
    from iqcar.replay.loop.run import Recording
    from iqcar.replay.rule_effect.plan_evaluator import Replays

THREADS = 4
"""Replays at once: each needs some 100 bytes per task, 300 where devices are shared."""


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
    recording: Recording | None = None,
    devices: Replays | None = None,
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
    recording : Recording, optional
        Of these tables; laid out by default.
    devices : Replays, optional
        Replays with shared devices. Without them rules against other waits than those for slots
        have no expected effect.
    beside : sequence of Rule
        Rules that the run was recorded with, and that go on acting beside these.
    all_rules : bool
        Whether to keep rules that are predicted to harm.

    Returns
    -------
    Prediction
        ``expected`` is None where pools do not act or the application cannot be replayed;
        ``doubts`` say which. Caps are added where weights do not help and they do
        (:mod:`iqcar.replay.rule_effect.cap_rules`).

    Notes
    -----
    A rule that harms alone is rejected. Where the others harm together, they are added one by one
    in their order, and each that makes them harm is rejected.
    """
    # Nobody can replay what people will make of advice: its effect stays None.
    acting = [rule for rule in scheduler_rules(rules) if rule.helps_pools or devices is not None]
    if not acting:
        return Prediction(tuple(rules), None, ())
    recording = recording or record(tables)
    forecast = Forecaster(tables, graph, rules, acting, recording, devices, beside)
    done = [_with(rule, expected) for rule, expected in zip(acting, forecast.each(), strict=True)]
    caps = propose_caps(forecast, done)
    found = {rule.id: rule for rule in done}
    every = [*(found.get(rule.id, rule) for rule in rules if not rule.is_advice), *caps]
    every += [rule for rule in rules if rule.is_advice]
    pooled = [rule for rule in scheduler_rules(every) if rule.helps_pools]
    rejected = {} if all_rules else {rule.id: _why(rule) for rule in pooled if rule.harms}
    together = forecast.together(_without(pooled, rejected))
    if together is not None and together.harms and not all_rules:
        rejected |= _harming_together(forecast, _without(pooled, rejected))
        together = forecast.together(_without(pooled, rejected))
    return Prediction(
        tuple(_without(every, rejected)),
        together,
        forecast.doubts([rule.id for rule in pooled if rule.expected is None]),
        tuple(RejectedRule(rule, rejected[rule.id]) for rule in pooled if rule.id in rejected),
    )


def _without(rules: Sequence[Rule], rejected: Mapping[str, str]) -> list[Rule]:
    return [rule for rule in rules if rule.id not in rejected]


def _harming_together(forecast: Forecaster, rules: Sequence[Rule]) -> dict[str, str]:
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


class Forecaster:
    """Replays of a recorded run under the pools of rules that act in it."""

    def __init__(
        self,
        tables: Tables,
        graph: IQCGraph,
        rules: Sequence[Rule],
        acting: Sequence[Rule],
        recording: Recording,
        devices: Replays | None,
        beside: Sequence[Rule],
    ) -> None:
        self.recording, self.beside = recording, beside
        self.evaluators = [PlanEvaluator(one) for one in (devices, recording) if one is not None]
        self.scheduler = recorded_scheduler(tables, rules)
        self.acting = acting
        self.fingerprints = np.array(texts(tables.queries, "fingerprint"), object)
        found = _victims(tables, graph, acting)
        self._victims: dict[str, dict[QueryType, Ints]] = {r.fingerprint: {} for r in acting}
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
        return self._victims[rule.fingerprint][rule.query_type]

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
    ) -> PlanEvaluator | None:
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
        acting = [*self.beside, *(replace(rule, helps_pools=True) for rule in rules)]
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
    """Add the expected effect; pools are for what is no slot only where they surely help."""
    if expected is None:
        return rule
    surely = (
        expected.outlook == Outlook.HELPS.value
        and expected.victims_change_percent <= -100 * SLOWER_SHARE
    )
    return replace(rule, expected=expected.to_dict(), helps_pools=rule.helps_pools or surely)


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
