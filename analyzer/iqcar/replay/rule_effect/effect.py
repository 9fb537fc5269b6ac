"""Predict the effect of rules: a replay under their pools against one under the recorded pools.

Both are replays, so that what a replay leaves out is left out of both; its error on the recorded
run is given with every prediction. Where the model with devices reproduces the run, it predicts,
and also what pools do against waits for a disk, a network or processors; else slots alone are
shared, and tasks last as long as they did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from iqcar.replay.loop.run import record
from iqcar.replay.rule_effect.cap_rules import propose_caps
from iqcar.replay.rule_effect.expected import Expected
from iqcar.replay.rule_effect.plan_evaluator import Forecaster
from iqcar.rules.outlook import SLOWER_SHARE, Outlook
from iqcar.rules.rule import RejectedRule, Rule, scheduler_rules
from iqcar.tables import Tables

if TYPE_CHECKING:
    from iqcar.causes.graph.iqc_graph import IQCGraph
    from iqcar.replay.loop.run import Recording
    from iqcar.replay.rule_effect.plan_evaluator import Replays


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

    A rule that harms alone is rejected. Where the others harm together, they are added one by one
    in their order, and each that makes them harm is rejected.

    Returns: ``expected`` is None where pools do not act or the application cannot be replayed;
    ``doubts`` say which. Caps are added where weights do not help and they do
    (:mod:`iqcar.replay.rule_effect.cap_rules`).

    graph: Tells who lost time to whom: the victims of a source are the queries it cost most.
    recording: Of these tables; laid out by default.
    devices: Replays with shared devices. Without them rules against other waits than those for
        slots have no expected effect.
    beside: Rules that the run was recorded with, and that go on acting beside these.
    all_rules: Whether to keep rules that are predicted to harm.
    """
    # Nobody can replay what people will make of advice: its effect stays None.
    acting = [rule for rule in scheduler_rules(rules) if rule.helps_pools or devices is not None]
    if not acting:
        return Prediction(tuple(rules), None, ())
    recording = recording or record(tables)
    forecast = Forecaster(
        tables=tables, graph=graph, rules=rules, acting=acting, recording=recording,
        devices=devices, beside=beside,
    )  # fmt: skip
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


def _with(rule: Rule, expected: Expected | None) -> Rule:
    """Add the expected effect; pools are for what is no slot only where they surely help."""
    if expected is None:
        return rule
    surely = (
        expected.outlook == Outlook.HELPS.value
        and expected.victims_change_percent <= -100 * SLOWER_SHARE
    )
    return replace(rule, expected=expected.to_dict(), helps_pools=rule.helps_pools or surely)
