"""Tell which rules are one over time, which contradict each other, and which do the same."""

from __future__ import annotations

from collections.abc import Iterable

from iqcar.rules.pool_plan import PoolPlan
from iqcar.rules.rule import QueryType, Rule, RuleType

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
