"""Predicts the effect of rules: a replay under their pools against one under the recorded pools.

Both are replays, so that what a replay leaves out is left out of both; its error on the recorded
run is given with every prediction. Where the model with devices reproduces the run, it predicts,
and also what pools do against waits for a disk, a network or processors; else slots alone are
shared, and tasks last as long as they did.

A pool's weight moves nobody off a slot: a source with long tasks takes every slot that is free
while nobody else wants one, and keeps it. A cap leaves some free. And fewer tasks at once leave
more of a disk, a network or processors to others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from iqcar.enums import Resource
from iqcar.replay.loop.run import record
from iqcar.replay.rule_effect.expected import Expected
from iqcar.replay.rule_effect.plan_evaluator import Forecaster
from iqcar.rules.rule import (
    SLOWER_SHARE,
    Outlook,
    QueryType,
    RejectedRule,
    Rule,
    RuleType,
    scheduler_rules,
)
from iqcar.tables import Tables

if TYPE_CHECKING:
    from iqcar.causes.graph.iqc_graph import IQCGraph
    from iqcar.replay.loop.run import Recording
    from iqcar.replay.rule_effect.expected import Expected
    from iqcar.replay.rule_effect.plan_evaluator import Forecaster, Replays
    from iqcar.rules.rule import PoolPlan

SHARES = (0.9, 0.75, 0.5, 0.25)
"""Shares of the slots that are tried, the mildest first."""
AS_GOOD = 0.8
"""A milder cap is taken if its victims gain this part of what the best cap gains them."""
MOST_CAPPED = 2
"""Sources for which caps are tried, the worst first: each costs up to five replays."""
WITH_DEVICES = (Resource.CPU.value, Resource.IO.value, Resource.NETWORK.value)
"""Resources, besides slots, that a replay knows to be shared."""


def propose_caps(forecast: Forecaster, weights: Sequence[Rule]) -> list[Rule]:
    """Propose a cap for each source that needs one, with its expected effect.

    Returns: Those that are predicted to harm are among them where their victims would gain.

    weights: Rules that change weights, with their expected effects.
    """
    acting = [rule for rule in weights if rule.helps_pools and not rule.harms]
    found: list[Rule] = []
    sources = {rule.fingerprint: rule for rule in weights if _holds(rule)}
    for source in [*sources.values()][:MOST_CAPPED]:
        by_weight = forecast.on_victims_of(source, acting)
        if by_weight is not None and by_weight.outlook == Outlook.HELPS.value:
            continue
        capped = _best(forecast, source, len(found) + 1)
        if capped is not None:
            found.append(capped)
    return found


def _holds(rule: Rule) -> bool:
    """Whether a rule is for a source that a cap could hold back."""
    if rule.query_type is not QueryType.SOURCE:
        return False
    if rule.resource == Resource.SLOTS.value:
        return bool(rule.advice)  # its tasks are long
    return rule.resource in WITH_DEVICES and rule.expected is not None


def _best(forecast: Forecaster, source: Rule, order: int) -> Rule | None:
    """Return the mildest cap that helps nearly as much as the best; None where none helps."""
    tried = [_cap(source, order, share) for share in _shares(forecast.scheduler.slots)]
    known = [one for one in _known(forecast, tried) if forecast.worth(*one)]
    helping = [one for one in known if one[1].outlook == Outlook.HELPS.value]
    if not helping:
        gaining = [one for one in known if one[1].victims_change_percent <= -100 * SLOWER_SHARE]
        least = min(gaining, key=lambda one: one[1].change_percent, default=None)
        return None if least is None else _expecting(*least)
    best = min(expected.victims_change_percent for _, expected in helping)
    chosen = next(one for one in helping if one[1].victims_change_percent <= AS_GOOD * best)
    # Where others always want the slots, none has to stand idle.
    lending = list(_known(forecast, [replace(chosen[0], strict=False)]))
    lending = [one for one in lending if forecast.worth(*one)]
    as_good = AS_GOOD * chosen[1].victims_change_percent
    if lending and lending[0][1].outlook == Outlook.HELPS.value:
        chosen = lending[0] if lending[0][1].victims_change_percent <= as_good else chosen
    return _expecting(*chosen)


def _known(forecast: Forecaster, rules: Sequence[Rule]) -> Iterator[tuple[Rule, Expected]]:
    for rule, expected in zip(rules, forecast.tried(rules), strict=True):
        if expected is not None:
            yield rule, expected


def _expecting(rule: Rule, expected: Expected) -> Rule:
    return replace(rule, expected=expected.to_dict())


def _shares(slots: int | None) -> list[float]:
    """Return the shares that come to different numbers of tasks, below all slots."""
    if slots is None:
        return list(SHARES)
    by_tasks = {max(int(share * slots), 1): share for share in reversed(SHARES)}
    return [share for tasks, share in reversed(by_tasks.items()) if tasks < slots]


def _cap(source: Rule, order: int, share: float) -> Rule:
    return replace(
        source,
        id=f"{RuleType.CAP}-{order}",
        rule_type=RuleType.CAP,
        rule_value=share,
        rule_order=order,
        reason=f"{source.reason.removesuffix('.')}; other weights alone do not help.",
        helps_pools=True,
        expected=None,
        strict=True,
    )


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
    devices: Replays[PoolPlan] | None = None,
    beside: Sequence[Rule] = (),
    all_rules: bool = False,
) -> Prediction:
    """Replay the recorded run under the pools of each rule alone, and of all together.

    A rule that harms alone is rejected. Where the others harm together, they are added one by one
    in their order, and each that makes them harm is rejected.

    Returns: ``expected`` is None where pools do not act or the application cannot be replayed;
    ``doubts`` say which. Caps are added where weights do not help and they do
    (:mod:`iqcar.replay.rule_effect.effect`).

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
    done = [
        _with(forecast, rule, expected)
        for rule, expected in zip(acting, forecast.each(), strict=True)
    ]
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


def _with(forecast: Forecaster, rule: Rule, expected: Expected | None) -> Rule:
    """Add the expected effect; pools are for what is no slot only where they surely help."""
    if expected is None:
        return rule
    surely = (
        expected.outlook == Outlook.HELPS.value
        and expected.victims_change_percent <= -100 * SLOWER_SHARE
        and forecast.worth(rule, expected)
    )
    return replace(rule, expected=expected.to_dict(), helps_pools=rule.helps_pools or surely)
