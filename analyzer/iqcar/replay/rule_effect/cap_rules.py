"""Propose caps for sources whose victims no weight helps, by replaying a few shares of the slots.

A pool's weight moves nobody off a slot: a source with long tasks takes every slot that is free
while nobody else wants one, and keeps it. A cap leaves some free. And fewer tasks at once leave
more of a disk, a network or processors to others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from iqcar.enums import Resource
from iqcar.rules.outlook import SLOWER_SHARE, Outlook
from iqcar.rules.rule import QueryType, Rule, RuleType

if TYPE_CHECKING:
    from iqcar.replay.rule_effect.expected import Expected
    from iqcar.replay.rule_effect.plan_evaluator import Forecaster

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
    known = list(_known(forecast, tried))
    helping = [one for one in known if one[1].outlook == Outlook.HELPS.value]
    if not helping:
        gaining = [one for one in known if one[1].victims_change_percent <= -100 * SLOWER_SHARE]
        least = min(gaining, key=lambda one: one[1].change_percent, default=None)
        return None if least is None else _expecting(*least)
    best = min(expected.victims_change_percent for _, expected in helping)
    chosen = next(one for one in helping if one[1].victims_change_percent <= AS_GOOD * best)
    # Where others always want the slots, none has to stand idle.
    lending = list(_known(forecast, [replace(chosen[0], strict=False)]))
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
