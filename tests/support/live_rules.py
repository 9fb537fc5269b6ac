"""Rules and windows made by hand for tests of the live loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from iqcar.live.rule_loop import LoopState, Proposal, WindowEvidence, step
from iqcar.rules.propose_rules import Need
from iqcar.rules.rule import QueryType, Rule, RuleType, key_of

WINDOW_MS = 10_000.0


def rule(
    name: str,
    rule_type: RuleType = RuleType.AGG,
    query_type: QueryType = QueryType.SOURCE,
    value: float = 0.25,
    victims: Iterable[str] = ("report",),
) -> Rule:
    """A rule for the recurring query of this name."""
    return Rule(
        id=f"{rule_type}-1",
        rule_type=rule_type,
        query_id=f"app-1/{name}",
        query_type=query_type,
        rule_value=value,
        rule_order=1,
        fingerprint=f"name:{name}",
        query_name=name,
        resource="slots",
        reason="it held slots.",
        helps_pools=True,
        advice="",
        expected={"victim_fingerprints": [f"name:{victim}" for victim in victims]},
    )


def raised(name: str, value: float = 3.0) -> Rule:
    """A rule that raises a victim."""
    return rule(name, RuleType.DYNP, QueryType.TARGET, value)


def window(
    number: int,
    proposals: Mapping[Rule, float] | Iterable[tuple[Rule, float]] = (),
    needed: Iterable[Rule] = (),
    harmed: Iterable[Rule] = (),
) -> WindowEvidence:
    """The n-th of windows that follow each other without overlap."""
    pairs = proposals.items() if isinstance(proposals, Mapping) else proposals
    needs = {key_of(one): Need(True, "it holds slots") for one in needed}
    for one in harmed:
        needs[key_of(one)] = replace(needs.get(key_of(one), Need(True, "")), harmed=True)
    return WindowEvidence(
        number * WINDOW_MS,
        (number + 1) * WINDOW_MS,
        tuple(Proposal(one, gain) for one, gain in pairs),
        needs,
    )


def run(windows, limits, state=None, start: int = 0):
    """Take windows in one after the other; the last state, and the changes of each window."""
    state, said = state or LoopState(), []
    for number, (proposals, needed) in enumerate(windows, start):
        evidence = window(number, proposals, needed)
        state, changes = step(state, evidence, evidence.end_ms, limits)
        said.append(changes)
    return state, said
