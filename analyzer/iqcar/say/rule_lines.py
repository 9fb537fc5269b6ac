"""Puts scheduler rules in words: what each does, why, what is expected of it, and when it acted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from math import inf

from iqcar.base.units import change_words, duration, percent, printable, resource_name, short
from iqcar.diagnosis import Diagnosis
from iqcar.enums import Resource
from iqcar.replay.rule_effect.expected import Expected
from iqcar.rules.rule import (
    Outlook,
    QueryType,
    RejectedRule,
    Rule,
    RuleType,
    called,
    scheduler_rules,
)
from iqcar.rules.vocabulary import advice_kinds
from iqcar.tables import Tables

ACCEPTED, PLACEMENT, POOL = "accepted", "placement", "pool"


@dataclass(frozen=True)
class ActingRule:
    """One setting of a pool, or one placement of queries, while it acted.

    app: row of the application.
    rule: ids of the rules; empty if the file names none.
    kind: ``pool`` or ``placement``.
    name: the pool, or what the query is recognised by.
    value: how the pool was, or the pool that the query went into.
    from_ms, until_ms: since 1970; ``until_ms`` is infinite where the log does not tell of an end.
    """

    app: int
    rule: str
    kind: str
    name: str
    value: str
    from_ms: float
    until_ms: float

    @property
    def sentence(self) -> str:
        """What it did, printable."""
        name = printable(short(self.name, 60))
        if self.kind == POOL:
            return f"pool {name}: {printable(self.value)}"
        return f"{name} goes into pool {printable(self.value)}"


def acting_rules(tables: Tables) -> list[ActingRule]:
    """Return what the plugin's rules did and when, by application, then by start."""
    begun: dict[tuple[int, str, str], Callable[[float], ActingRule]] = {}
    found: list[ActingRule] = []
    for row in tables.rule_changes.to_dict("records"):
        if row["kind"] not in (POOL, PLACEMENT):
            continue
        app, kind, name, time = row["app"], row["kind"], row["name"], row["time_ms"]
        key = (app, kind, name)
        if key in begun:
            found.append(begun.pop(key)(time))
        if row["after"]:
            begun[key] = partial(ActingRule, app, row["rule"], kind, name, row["after"], time)
    found += [until(inf) for until in begun.values()]
    return sorted(found, key=lambda one: (one.app, one.from_ms, one.kind, one.name))


def not_accepted(tables: Tables) -> list[tuple[int, float, str]]:
    """Return application, time in ms and a sentence for each file of rules that changed nothing."""
    return [
        (
            row["app"],
            row["time_ms"],
            f"rules file {row['outcome']}, the rules stayed as they were: "
            f"{printable(row['reason'])}",
        )
        for row in tables.rule_changes.to_dict("records")
        if row["outcome"] != ACCEPTED
    ]


def since_start(tables: Tables, app: int, time_ms: float) -> str:
    """Say how long after the application's start something was: ``+41.2 s``; ``end`` if never."""
    if time_ms == inf:
        return "end"
    start = float(tables.applications["start_ms"].iloc[app])
    return f"+{duration(max(0.0, time_ms - start))}"


NAME_WIDTH = 80

_NO_POOLS = "Scheduler pools will not help: they share"

_DOES = {
    ("AGG", "source"): "Give {name} a pool of its own, with {share} of the slots.",
    ("CAP", "source"): "Let tasks of {name} take at most {share} of the slots{idle}.",
    ("DYNP", "target"): "Raise the priority of {name} to {value:.3g} times that of other queries.",
    ("DYNP", "source"): "Lower the priority of {name} to {value:.3g} times that of other queries.",
}
_KINDS = {"AGG": "own pool", "DYNP": "priority", "CAP": "cap"}
_OUTLOOKS = {
    Outlook.HELPS: ("good", "expected to help"),
    Outlook.UNSURE: ("unsure", "may help: within the prediction's own error"),
    Outlook.NO_GAIN: ("unsure", "no gain expected"),
    Outlook.HARMS: ("bad", "expected to do more harm than good"),
}


@dataclass(frozen=True)
class RuleLine:
    """One scheduler rule in words; every text is printable.

    id, type, name: ``AGG-1``, ``AGG``, and the query that it is about.
    value: share of the slots (AGG, CAP) or priority (DYNP).
    does, reason: what it asks the scheduler for, and the evidence; sentences.
    expected: the predicted effect without a full stop; empty where none was computed.
    tone, outlook: ``good``, ``unsure`` or ``bad``, and the same in words; empty likewise.
    instead: what would help where scheduler pools do not; else empty.
    besides: what would help besides its pool; empty where an earlier line says the same.
    """

    id: str
    type: str
    name: str
    value: float
    does: str
    reason: str
    expected: str
    tone: str
    outlook: str
    instead: str
    besides: str

    @property
    def kind(self) -> str:
        """What it is called; the paper's word is its type."""
        return _KINDS.get(self.type, self.type)


def rule_lines(rules: Iterable[Rule]) -> list[RuleLine]:
    """Put the rules that a scheduler can act on into words, in their order."""
    of_source: dict[str, Rule] = {}
    lines = []
    shown = scheduler_rules(rules)
    for rule, besides in zip(shown, _besides(shown), strict=True):
        first = rule
        if rule.query_type is QueryType.SOURCE:
            first = of_source.setdefault(rule.fingerprint, rule)
        lines.append(_line(rule, first, besides))
    return lines


def _besides(rules: Iterable[Rule]) -> list[str]:
    """Say for each rule what would help besides its pool, each sentence once."""
    said = {""}
    texts = []
    for rule in rules:
        text = printable(rule.advice) if rule.helps_pools else ""
        texts.append("" if text in said else text)
        said.add(text)
    return texts


def _line(rule: Rule, first: Rule, besides: str) -> RuleLine:
    name = short(rule.query_name, NAME_WIDTH)
    does = _DOES.get((str(rule.rule_type), str(rule.query_type)), "{name}: {value:.3g}.")
    tone = outlook = expected = instead = ""
    if rule.expected:
        tone, outlook = _OUTLOOKS[Outlook(rule.expected["outlook"])]
        expected = printable(rule.expected["sentence"])
        same = first is not rule and first.expected == rule.expected
        if same and rule.rule_type is not RuleType.CAP:
            expected = f"as for {first.id}; a query has one pool, so only one of the two acts"
    if not rule.helps_pools:
        resource = resource_name(Resource(rule.resource))
        what = "Its weight will not help: it shares" if rule.is_in_vain else _NO_POOLS
        instead = f"{what} out slots, not {resource}. What would: {printable(rule.advice)}"
    return RuleLine(
        id=rule.id,
        type=str(rule.rule_type),
        name=name,
        value=rule.rule_value,
        does=does.format(
            name=name,
            value=rule.rule_value,
            share=percent(rule.rule_value),
            idle="" if rule.strict else " while others want some",
        ),
        reason=printable(rule.reason),
        expected=expected,
        tone=tone,
        outlook=outlook,
        instead=instead,
        besides=besides,
    )


@dataclass(frozen=True)
class AdviceLine:
    """Advice to people in words; every text is printable.

    id, title, host: ``ADVICE-1``, what kind of advice it is, and the host that it is about, if any.
    reason, advice: the evidence, and what would help; sentences.
    settings: name and value of each setting, and why.
    """

    id: str
    title: str
    host: str
    reason: str
    advice: str
    settings: tuple[tuple[str, str, str], ...]


def advice_lines(rules: Iterable[Rule]) -> list[AdviceLine]:
    """Put the rules that are for people into words: no scheduler acts on them."""
    kinds = advice_kinds()
    return [
        AdviceLine(
            id=rule.id,
            # A kind of a vocabulary of the user's own is called by its key.
            title=printable(kinds[rule.kind].name if rule.kind in kinds else rule.kind),
            host=printable(rule.host),
            reason=printable(rule.reason),
            advice=printable(rule.advice),
            settings=tuple(
                (printable(one["name"]), printable(one["value"]), printable(one["why"]))
                for one in rule.settings
            ),
        )
        for rule in rules
        if rule.is_advice
    ]


def rejected_lines(rejected: Iterable[RejectedRule]) -> list[str]:
    """Say of each rejected rule, in one line, what it would do, and what would help instead."""
    listed = list(rejected)
    return [
        printable(f"{called(one.rule)} is rejected. Expected: {one.why}. {besides}").rstrip()
        for one, besides in zip(listed, _besides(one.rule for one in listed), strict=True)
    ]


def do_not_apply(diagnosis: Diagnosis) -> str:
    """Warn of scheduler rules that are predicted to harm together; empty if they do not."""
    together = diagnosis.rules_together
    if together is not None and together.harms:
        return f"Do not apply these scheduler rules: {printable(together.sentence)}."
    rejected = diagnosis.rejected_rules
    if not rejected or any(rule.helps_pools for rule in scheduler_rules(diagnosis.rules)):
        return ""
    ids = ", ".join(one.rule.id for one in rejected)
    return f"Do not apply scheduler rules: all that were found ({ids}) are expected to harm."


def all_words(expected: Expected) -> str:
    """Say what all rules come to for victims and for who gets slower: ``victims −41 %``."""
    said = f"victims {change_words(expected.victims_change_percent)}"
    if (worst := expected.slowest) is not None:
        said += f", {short(worst['name'], NAME_WIDTH)} {change_words(worst['change_percent'])}"
    return said


def together_words(expected: Expected) -> str:
    """Say what all rules come to, and how good the replay is that says so."""
    words = f"{printable(expected.sentence)}."
    error, worst = expected.replay_error_percent, expected.replay_worst_error_percent
    if error is not None and worst is not None:
        words += (
            f" A replay of the run as it was is {percent(error / 100, 1)} off (the median query; "
            f"the worst {percent(worst / 100, 1)})."
        )
    return words
