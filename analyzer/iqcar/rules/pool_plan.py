"""Declares a plan for the FAIR scheduler: pools, and the queries assigned to each.

Spark's FAIR pools are flat and know a scheduling mode, an integer weight and a minimum share;
nothing is taken away from a running task. The plugin's pools know a cap besides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from typing import Annotated, Any, Literal

import msgspec

from iqcar.rules.rule import AboveZero, AtLeastZero, QueryType, Rule, RuleType

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
