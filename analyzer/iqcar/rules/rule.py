"""Declares a scheduler rule, the paper's 6-tuple (iQCAR definition 6.1), and says it in words.

Spark's FAIR pools are flat and know a scheduling mode, an integer weight and a minimum share;
nothing is taken away from a running task. The plugin's pools know a cap besides.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Sequence, Set
from string import Template
from typing import Annotated, Any, Literal

import msgspec

from iqcar.base.units import percent
from iqcar.enums import Kind
from iqcar.rules.vocabulary import HOW_TO, read_data
from iqcar.version import __version__

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


PREFIX = "iqcar-"
"""Every pool made from a rule begins so; others are the application's own."""

NAME_LENGTH = 40
"""Characters of a query's name in its pool's name: the Spark UI shows pools in a table column."""

_OTHERS = re.compile(r"[^A-Za-z0-9]+")


def pool_name(query_name: str, taken: Set[str]) -> str:
    """Return ``iqcar-`` and the query's name, with a number where that is taken.

    Letters and digits of ASCII are kept, all else becomes a hyphen: the name stands in XML, in
    SQL, in shells and in properties.
    """
    slug = _OTHERS.sub("-", query_name).strip("-")[:NAME_LENGTH].rstrip("-") or "query"
    name, number = PREFIX + slug, 1
    while name in taken:
        number += 1
        name = f"{PREFIX}{slug}-{number}"
    return name


MAX_POOL_NAME = 256
"""Characters of a pool's name that a plan takes over."""

PoolName = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_POOL_NAME)]


class Pool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One FAIR pool, in Spark's words."""

    name: PoolName
    weight: AboveZero = 1
    """Slots in proportion to the other pools that want some; 1 or more."""
    min_share: AtLeastZero = 0
    """Slots it gets before weights count."""
    mode: Literal["FIFO", "FAIR"] = "FIFO"
    """FIFO or FAIR among the pool's own task sets."""
    cap: AboveZero | None = None
    """Most tasks of the pool that run at once; None: as many as it gets slots."""
    cap_share: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    """The same as a share of the slots at that moment, at least one; the smaller of both acts."""
    strict: bool = False
    """Whether slots that nobody else wants stand free rather than go to a pool at its cap."""

    @property
    def is_capped(self) -> bool:
        """Whether it has a cap."""
        return self.cap is not None or self.cap_share is not None

    def to_dict(self) -> dict[str, Any]:
        """Return it as it stands in JSON: without a cap where it has none."""
        found = msgspec.structs.asdict(self)
        given = {"cap": self.cap is not None, "cap_share": self.cap_share is not None}
        given["strict"] = self.is_capped
        return {name: value for name, value in found.items() if given.get(name, True)}


class Assignment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which query goes into a pool: all of the fields that are not empty must match."""

    pool: PoolName
    rule_id: str = ""
    fingerprint: str = ""
    description: str = ""
    job_group: str = ""


class PoolPlan(msgspec.Struct, frozen=True):
    """Pools and assignments; queries that match none stay in the pool they chose themselves."""

    pools: tuple[Pool, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    notes: tuple[str, ...] = ()
    """What was decided where rules contradict each other or cannot act, in sentences."""


Key = tuple[RuleType, QueryType, str]
"""What is one rule over time: its rule-type, the side of its query, and its fingerprint. Ids and
values change from proposal to proposal."""


def key_of(rule: Rule) -> Key:
    """Return what a rule is known by from one proposal to the next."""
    return rule.rule_type, rule.query_type, rule.fingerprint


def opposite(one: Rule, other: Rule) -> bool:
    """Tell whether one rule raises the query that the other holds back."""
    return one.fingerprint == other.fingerprint and one.query_type is not other.query_type


def stands_for(rule: Rule, acting: Iterable[Rule]) -> Rule | None:
    """Return a rule that acts and does for the query what this one would; None without any.

    A query has one pool, whose weight comes from one rule; a cap stands beside it.
    """
    for other in acting:
        same_side = key_of(other)[1:] == key_of(rule)[1:]
        if same_side and is_cap(other) == is_cap(rule):
            return other
    return None


def is_cap(rule: Rule) -> bool:
    """Tell whether a rule limits how many tasks run at once, instead of giving a weight."""
    return str(rule.rule_type) == "CAP"


def pools_of(rules: Iterable[Rule], plan: PoolPlan) -> dict[str, str]:
    """Return the pool that each rule acts through, by its id; empty for a rule that makes none.

    The pool that a cap acts in is assigned by the rule that gives it its weight.
    """
    made = {assigned.rule_id: assigned.pool for assigned in plan.assignments}
    capped = {pool.name for pool in plan.pools if pool.is_capped}
    held = {one.fingerprint: one.pool for one in plan.assignments if one.pool in capped}
    return {
        rule.id: made.get(rule.id) or (held.get(rule.fingerprint, "") if is_cap(rule) else "")
        for rule in rules
    }


NAME_IN_SENTENCE = 60
"""Characters of a query's name in a sentence: two names and the numbers fit in two lines."""


def in_a_sentence(name: str) -> str:
    """Name on one line, shortened: a query's name can be a whole program."""
    line = " ".join(name.split())
    return line if len(line) <= NAME_IN_SENTENCE else line[: NAME_IN_SENTENCE - 1] + "…"


def called(rule: Rule) -> str:
    """The rule and its query: ``AGG-1 (etl)``."""
    name = in_a_sentence(rule.query_name)
    return f"{rule.id} ({name})" if name else rule.id


def why_no_pool(rule: Rule) -> str:
    """Say that pools will not help against what a rule is about, and what will."""
    what = "weights" if rule.is_in_vain else "pools"
    return (
        f"{called(rule)} makes no pool: {what} share out slots, and it is about {rule.resource}. "
        f"{rule.advice}"
    ).rstrip()


def why_rejected(rule: Rule) -> str:
    """Say that a rule makes no pool because it is predicted to harm."""
    return f"{called(rule)} is rejected. {_expected(rule)} With --all-rules it makes a pool."


def why_not(rule: Rule) -> str:
    """Warn of a rule that makes a pool though it is predicted to harm."""
    return f"Do not apply {called(rule)}. {_expected(rule)}"


def _expected(rule: Rule) -> str:
    return f"Expected: {(rule.expected or {}).get('sentence', 'more harm than good')}."


def what_helps_besides(rules: Iterable[Rule]) -> list[str]:
    """Say what would help besides pools, each once."""
    return list(dict.fromkeys(rule.advice for rule in rules if rule.helps_pools and rule.advice))


def why_first(first: Rule, second: Rule) -> str:
    """Say which of two rules for one query is applied: one pool cannot have two weights."""
    if first.rule_type is not second.rule_type:
        why = f"{first.rule_type} rules come before {second.rule_type} rules"
    elif first.rule_order != second.rule_order:
        why = f"its rule-order {first.rule_order} comes before {second.rule_order}"
    else:
        why = "of equal order the first id counts"
    as_what = ""
    if first.query_type is not second.query_type:
        as_what = f" The query counts as a {first.query_type}, not as a {second.query_type}."
    return (
        f"{called(first)} is applied and {second.id} for the same query is not, because "
        f"{why}.{as_what}"
    )


def what_it_gets(rule: Rule, pool: Pool, weights: int, slots: int | None) -> str:
    """Say what pool a rule makes, and what its query gets there."""
    text = (
        f"{called(rule)} gets pool {pool.name}, weight {pool.weight}: "
        f"{percent(pool.weight / weights)} of the slots while every pool wants some"
    )
    if pool.min_share:
        text += f", and it is offered slots first until it has {pool.min_share} of {slots}"
    return f"{text}."


def cap_words(pool: Pool) -> str:
    """Say in a table what a pool is held to; empty where it has no cap."""
    tasks = [] if pool.cap is None else [f"{pool.cap} tasks"]
    share = [] if pool.cap_share is None else [f"{percent(pool.cap_share)} of the slots"]
    strict = [] if not pool.strict else ["strict"]
    return ", ".join([*tasks, *share, *strict]) if pool.is_capped else ""


def what_it_is_held_to(rule: Rule, pool: Pool, slots: int | None) -> str:
    """Say how many tasks a capped pool runs at once at most, and that the plugin sees to it."""
    share = pool.cap_share or 1.0
    count = "" if slots is None else f", {max(int(share * slots), 1)} of {slots}"
    idle = (
        "slots that nobody else wants stand idle rather than go beyond"
        if pool.strict
        else "it goes beyond only in slots that nobody else wants"
    )
    return (
        f"{called(rule)} caps pool {pool.name}: its tasks run in {percent(share)} of the slots at "
        f"most{count}; {idle}. A cap acts where the iqcar plugin applies the rules; "
        "fairscheduler.xml has no place for it."
    )


def what_the_rest_gets(own: Sequence[Pool], running: int, made: int) -> str:
    """Say what is left for queries without a rule, and how that was counted."""
    names = " and ".join(f"{pool.name} (weight {pool.weight})" for pool in own[:3])
    more = f" and {len(own) - 3} more" if len(own) > 3 else ""
    rest = max(running - made, 1)
    return (
        f"Queries without a rule stay in {names}{more}, which counts as {rest} "
        f"{'query' if rest == 1 else 'queries'}: {running} ran at once at most, and {made} of "
        "them can be in a pool of a rule."
    )


def under_earlier_rules(pools: Sequence[Pool]) -> list[str]:
    """Say that the recorded run was one with rules, where it was."""
    earlier = [pool.name for pool in pools if pool.name.startswith(PREFIX)]
    if not earlier:
        return []
    return [
        f"The run was recorded under earlier rules ({', '.join(earlier[:3])}"
        f"{' and more' if len(earlier) > 3 else ''}): these take their place and can undo what "
        "they did, so keep the earlier file where it was good enough."
    ]


def how_to(
    plan: PoolPlan, rules: Sequence[Rule], source: str, pools_path: str, allocation_url: str
) -> str:
    """Fill the page with the names of a plan; lines to copy are those for the first pool.

    plan: What the rules were compiled to.
    rules: They hold the queries' names.
    source: The rules file.
    pools_path, allocation_url: Where the plan and the allocation file are, as a setting of Spark
        names them.
    """
    names = {rule.fingerprint: rule.query_name for rule in scheduler_rules(rules)}
    query = {a.pool: names.get(a.fingerprint, a.description) for a in plan.assignments}
    first = plan.assignments[0].pool if plan.assignments else "default"
    called = _plain(query.get(first, "")) or "a query"
    return Template(read_data(HOW_TO)).substitute(
        version=__version__,
        source=_code(source),
        pools=_table(plan, query),
        notes="\n".join(f"- {_escaped(note)}" for note in plan.notes),
        pool=first,
        query=called.replace("`", "'"),
        query_python=json.dumps(called, ensure_ascii=False),
        pools_path=shlex.quote(_plain(pools_path)),
        allocation_url=shlex.quote(_plain(allocation_url)),
    )


def _table(plan: PoolPlan, query: dict[str, str]) -> str:
    if not plan.pools:
        return "No rule acts through pools: there is nothing to apply."
    capped = any(pool.is_capped for pool in plan.pools)
    cap = " cap |" if capped else ""
    lines = [
        f"| pool | weight | minShare | mode |{cap} for |",
        f"|---|---|---|---|---|{cap and '---|'}",
    ]
    for pool in plan.pools:
        who = _escaped(in_a_sentence(query[pool.name])) if pool.name in query else "others"
        cap = f" {cap_words(pool)} |" if capped else ""
        lines.append(
            f"| {_escaped(pool.name)} | {pool.weight} | {pool.min_share} | {pool.mode} |"
            f"{cap} {who} |"
        )
    return "\n".join(lines)


def _plain(text: str) -> str:
    """One line that a terminal and an editor show as it is: names in logs are not ours."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    return "".join(f"\\{c}" if c in "\\`*_[]<>|&#" else c for c in _plain(text))


def _code(text: str) -> str:
    return f"`{_plain(text).replace('`', chr(39))}`"
