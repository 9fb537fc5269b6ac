"""Declares a scheduler rule, the paper's 6-tuple (iQCAR definition 6.1), and judges its effect."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec

from iqcar.enums import Kind

SLOWER_SHARE = 0.05
"""A query counts as slower from this share of its duration on. Two runs of one query on a shared
cluster differ by as much."""

LEAST_GAIN_SHARE = 0.01
"""Victims gain from this share of their duration on; below it two runs on an idle cluster differ
by chance."""

TWICE_SHARE = 1.0
"""One query that gets slower by this share of its duration takes twice as long. Its owner does not
accept that for a gain of others, whatever the sum over all queries says."""


class Outlook(Kind):
    """What a replay says about a rule."""

    HELPS = "helps", "Its victims get faster by more than the replay's own error."
    UNSURE = "unsure", "Its victims get faster, but by no more than the replay's own error."
    NO_GAIN = "no-gain", "Its victims do not get faster by 1 %."
    HARMS = (
        "harms",
        "All queries together take 5 % longer, or one query takes twice as long, or the victims do "
        "not gain and they or all queries together get slower by more than the replay's own error.",
    )


def outlook_of(gain: float, cost: float, error: float | None, slowest: float = 0.0) -> Outlook:
    """Judge the predicted changes of a run under a rule.

    Returns: The error excuses no harm of 5 % of all queries, and no query that takes twice as long:
    a rule of which that is not known well is not applied either.

    gain: Change of the victims' duration, as a share of it; below 0 they get faster.
    cost: The same of all queries together.
    error: The replay's own error, as a share of a query's duration; None if unknown.
    slowest: Change of the query that gets slower by most, of those whose delay a person notices.
    """
    if cost >= SLOWER_SHARE or slowest >= TWICE_SHARE:
        return Outlook.HARMS
    if gain > -LEAST_GAIN_SHARE:
        noise = max(LEAST_GAIN_SHARE, error or 0.0)
        return Outlook.HARMS if max(gain, cost) > noise else Outlook.NO_GAIN
    return Outlook.UNSURE if error is None or -gain <= error else Outlook.HELPS


SCHEMA_VERSION = "1"
"""Version of the rules file's format."""

MAX_ITEMS = 1000
"""Rules, pools, assignments and notes of one file, each; a scheduler sorts its pools at every
offer, and a person reads the rules."""

INT_MAX = 2**31 - 1
Text = Annotated[str, msgspec.Meta(min_length=1)]
AtLeastZero = Annotated[int, msgspec.Meta(ge=0, le=INT_MAX)]
AboveZero = Annotated[int, msgspec.Meta(ge=1, le=INT_MAX)]
FEW = msgspec.Meta(max_length=MAX_ITEMS)

JSON_NAMES = {
    "rule_type": "rule-type",
    "query_id": "query-id",
    "query_type": "query-type",
    "rule_value": "rule-value",
    "rule_order": "rule-order",
}
"""Fields of the paper's tuple that are spelled with hyphens in JSON."""


class RuleType(Kind):
    """What a rule asks the scheduler to do (iQCAR §6.3)."""

    AGG = "AGG", "Run an aggressive query in a pool of its own with a share of 1/n."
    DYNP = "DYNP", "Change a query's priority: up for victims, down for sources."
    CAP = "CAP", "Let an aggressive query's tasks take at most a share of the slots."
    ADVICE = (
        "ADVICE",
        "Tell people what helps: no scheduler acts on it.",
    )


ADVICE_FIELDS = ("kind", "host", "settings")
"""Fields that only ADVICE rules have."""
CAP_FIELDS = ("strict",)
"""Fields that only CAP rules have."""
MOST_TOPICS = 10
"""Topics of one rule, those of most stragglers first."""
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class QueryType(Kind):
    """Which side of the contention a rule's query is on."""

    SOURCE = "source", "It held what others waited for."
    TARGET = "target", "It waited for what others held."


class RuleTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A recurring topic of the stragglers of the queries that a rule is to help.

    topic: key in ``rules/topics.json``; empty if no name fits alone.
    name: what it is called.
    resource: what it is a lack of; empty if it is none.
    weight: part of these stragglers that have it.
    stragglers, queries: how many have it, and of how many recurring queries.
    words: weights of its keywords; they sum to 1.
    """

    topic: str
    name: str
    resource: str
    weight: Share
    stragglers: AtLeastZero
    queries: AtLeastZero
    words: Annotated[dict[Text, Share], FEW]


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename=JSON_NAMES):
    """One rule for recurring runs of a query; constraints are checked in files.

    id: unique in its file, e.g. ``AGG-1``.
    rule_type, query_id, query_type, rule_value, rule_order: the paper's tuple. ``query_id`` is the
        run with most evidence. ``rule_value`` is for AGG the share of the slots (0 to 1), for CAP
        the share that it gets at most; for DYNP a priority, 1 being that of every query without a
        rule, in proportion as the weights of FAIR pools are; for ADVICE the ms that the cause
        explains. ``rule_order`` counts from 1 within a rule type.
    fingerprint: matches every run of the recurring query.
    query_name: what a person calls it.
    resource: what was lost most to: slots, executors, cpu, memory, network or io; empty for advice
        against something that is no lack of a resource.
    reason: the evidence, one sentence.
    expected: the predicted effect; None where none was computed, and always for advice.
    helps_pools: whether scheduler pools act on this resource; never for advice.
    advice: what would help where pools do not, or besides them; else empty.
    kind: of advice, a key of ``rules/advice_kinds.json``; empty for other rules.
    host: the machine that advice is about; empty if it is about none.
    settings: of advice, each with name, value and why.
    strict: of a cap, whether slots that nobody else wants stand idle rather than go beyond it.
    topics: recurring topics of the queries it is to help, the heaviest first; of advice, those that
        say the same. Empty where none recurs.
    """

    id: Text
    rule_type: RuleType
    query_id: Text
    query_type: QueryType
    rule_value: Annotated[float, msgspec.Meta(gt=0)]
    rule_order: AboveZero
    fingerprint: Text
    query_name: str
    resource: str
    reason: Text
    helps_pools: bool
    advice: str
    expected: dict[str, Any] | None = None
    schema_version: str = SCHEMA_VERSION
    kind: str = ""
    host: str = ""
    settings: tuple[dict[str, str], ...] = ()
    strict: bool = False
    topics: Annotated[tuple[RuleTopic, ...], msgspec.Meta(max_length=MOST_TOPICS)] = ()

    @property
    def is_advice(self) -> bool:
        """Whether it is for people only."""
        return self.rule_type is RuleType.ADVICE

    @property
    def harms(self) -> bool:
        """Whether pools act on it and its own forecast is harm (:class:`Outlook`)."""
        return self.helps_pools and (self.expected or {}).get("outlook") == Outlook.HARMS.value

    @property
    def is_in_vain(self) -> bool:
        """Whether no pool is made because a replay with shared devices says that it gains nothing.

        That is of its own weight: a cap may help all the same.
        """
        return not self.helps_pools and (self.expected or {}).get("model") == "devices"

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as it stands in JSON: the paper's tuple with hyphens, the rest as is."""
        others: tuple[str, ...] = () if self.is_advice else ADVICE_FIELDS
        others += () if self.rule_type is RuleType.CAP else CAP_FIELDS
        others += () if self.topics else ("topics",)
        listed: dict[str, Any] = msgspec.to_builtins(self)
        return {name: value for name, value in listed.items() if name not in others}


class RejectedRule(msgspec.Struct, frozen=True):
    """A rule that is not recommended, because it is predicted to harm.

    rule: with its expected effect.
    why: the prediction that it is rejected for, without a full stop.
    """

    rule: Rule
    why: str

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as it stands in JSON, and why it is rejected."""
        return {**self.rule.to_dict(), "rejected": self.why}


def scheduler_rules(rules: Iterable[Rule]) -> list[Rule]:
    """Return the rules that a scheduler can act on: all but advice, in their order."""
    return [rule for rule in rules if not rule.is_advice]
