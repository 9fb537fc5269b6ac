"""Compiles rules to FAIR pools: their weights, and the queries that go into each.

Spark's FAIR scheduler offers a free slot first to pools with fewer running tasks than their
minShare, then to the pool with the fewest running tasks for its weight. It takes no slot back,
so a share is only ever a proportion to the *other pools that want slots*:

* ``AGG``: to give a source 1/n of the slots, everybody else has to have a weight too. The pool
  ``default`` weighs as much as all queries that stay in it at the busiest moment.
* ``DYNP``: a priority is a weight in proportion to that of one ordinary query. Weights alone do
  not help a victim against many queries in one heavy ``default`` pool when few of them run; so
  where the number of slots is known, victims also get a minShare: together half of the slots are
  offered to them first, and the other half stays for everybody else.
* ``CAP``: the pool of the query gets a cap besides, which the plugin enforces. A query without
  another rule weighs what an ordinary one does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from iqcar.base.units import percent
from iqcar.rules.pool_plan import PREFIX, Assignment, Pool, PoolPlan, pool_name
from iqcar.rules.recorded_setup import DEFAULT_POOL, default_of
from iqcar.rules.rule import QueryType, Rule, RuleType, scheduler_rules
from iqcar.rules.rule_sentences import (
    under_earlier_rules,
    what_helps_besides,
    what_it_gets,
    what_it_is_held_to,
    what_the_rest_gets,
    why_first,
    why_no_pool,
    why_not,
    why_rejected,
)

RATIO_ERROR = 0.05
"""The ratio of two weights is within this part of the ratio asked for. Priorities are ranks, and
slots are whole too: a finer proportion would promise what a scheduler does not keep."""

MOST_STEPS = 21
"""The smallest weight never has to be larger: rounding then changes a weight by less than 0.5/21,
and the ratio of two by less than :data:`RATIO_ERROR`."""

MAX_RATIO = 100.0
"""The largest weight over the smallest, at most: with less than a hundredth of the slots a query
starves on any cluster. It also bounds weights to 2100."""


def whole_weights(wanted: Sequence[float]) -> list[int]:
    """Round to the smallest whole numbers in nearly the same proportion.

    Returns: (n,) each 1 or more; ratios within :data:`RATIO_ERROR` of those wanted.

    wanted: (n,) numbers above 0 What is smaller than the largest over :data:`MAX_RATIO` counts as
        that much.
    """
    if not wanted:
        return []
    bounded = bounded_ratios(wanted)
    least = min(bounded)
    for steps in range(1, MOST_STEPS + 1):
        exact = [value / least * steps for value in bounded]
        rounded = [round(value) for value in exact]
        errors = [have / want for have, want in zip(rounded, exact, strict=True)]
        if max(errors) <= min(errors) * (1 + RATIO_ERROR):
            break
    return rounded


def bounded_ratios(wanted: Sequence[float]) -> list[float]:
    """Raise what is smaller than the largest over :data:`MAX_RATIO`; all divided by the largest."""
    most = max(wanted)
    return [max(value / most, 1.0 / MAX_RATIO) for value in wanted]


VICTIMS_FIRST = 0.5
"""Share of the slots that victims together are offered first (minShare). A pool that lacks its
minShare goes before all others, whatever their weights: half of the slots must stay for them."""

_TYPES = tuple(RuleType)


def compile_rules(
    rules: Iterable[Rule],
    slots: int | None = None,
    running: int | None = None,
    pools: Sequence[Pool] = (),
    *,
    all_rules: bool = False,
) -> PoolPlan:
    """Compile rules to FAIR pools.

    With shares s of AGG rules, the rest 1 - Σs is that of the n - k other queries at the busiest
    moment, and one of them has the share u = (1 - Σs) / (n - k), which is 1/n again. A priority p
    weighs u·p and ``default`` u for each query that has no pool of its own. While every pool wants
    slots and no priority is raised a source gets exactly its share; it gets less when victims are
    raised, and more when others want nothing.

    Returns: Pools of rules, the worst first, then ``default`` and the application's own. Empty
    where no rule acts through pools. Ratios of weights are those of the shares within
    :data:`iqcar.rules.compile_pools.RATIO_ERROR`.

    rules: In any order: rule-type, rule-order, fingerprint and id decide, in this order. ADVICE
        rules are skipped: they make no pool.
    slots: Tasks that can run at once for sure; without it no pool gets a minShare.
    running: Queries that ran at once at most. By default what AGG rules say (their share is 1/n),
        and one more than there are pools of rules at least.
    pools: The application's own pools. They keep their mode and minShare, and share with each other
        what the rules leave in the proportion of their weights. Pools of rules work as ``default``
        does inside: FIFO unless it was FAIR.
    all_rules: Whether rules that are predicted to harm make pools, too.
    """
    listed = list(rules)
    chosen, notes = _choose(listed, all_rules)
    caps = _caps(listed, all_rules)
    if not chosen:
        return PoolPlan(notes=tuple(notes))
    running = _queries_at_once(chosen, running)
    rest = max(running - len(chosen), 1)
    shares = _Shares.from_rules(chosen, running)
    notes += [*shares.notes, *under_earlier_rules(pools)]
    default = default_of(pools)
    own = [default, *_kept(pools)]
    of_own = sum(pool.weight for pool in own)
    wanted = [shares.of_rule(rule) for rule in chosen]
    wanted += [shares.ordinary * rest * pool.weight / of_own for pool in own]
    if bounded_ratios(wanted) != [value / max(wanted) for value in wanted]:
        notes.append(
            f"Weights that differ more than {MAX_RATIO:.0f} times are brought to that: a query "
            "with less would hardly ever run."
        )
    weights = whole_weights(wanted)
    min_shares = _min_shares(chosen, slots)
    taken = {pool.name for pool in own}
    made, assignments = [], []
    for rule, weight, min_share in zip(chosen, weights, min_shares, strict=False):
        name = pool_name(rule.query_name, taken)
        taken.add(name)
        pool = Pool(name, weight, min_share, default.mode)
        assignments.append(Assignment(name, rule.id, rule.fingerprint))
        notes.append(what_it_gets(rule, pool, sum(weights), slots))
        cap = caps.get(rule.fingerprint)
        if cap is not None:
            pool = replace(pool, cap_share=cap.rule_value, strict=cap.strict)
            notes.append(what_it_is_held_to(cap, pool, slots))
        made.append(pool)
    kept = [
        replace(pool, weight=weight)
        for pool, weight in zip(own, weights[len(chosen) :], strict=True)
    ]
    notes.append(what_the_rest_gets(kept, running, len(chosen)))
    return PoolPlan((*made, *kept), tuple(assignments), tuple(notes))


def _choose(rules: Iterable[Rule], all_rules: bool) -> tuple[list[Rule], list[str]]:
    """Return one rule per fingerprint that makes its pool, and why the others do not act.

    A cap is added to the pool that another rule makes.
    """
    ordered = sorted(
        scheduler_rules(rules),
        key=lambda r: (_TYPES.index(r.rule_type), r.rule_order, r.fingerprint, r.id),
    )
    caps = _caps(ordered, all_rules)
    chosen: dict[str, Rule] = {}
    notes = []
    for rule in ordered:
        first = chosen.get(rule.fingerprint)
        if not rule.helps_pools:
            notes.append(why_no_pool(rule))
        elif rule.harms and not all_rules:
            notes.append(why_rejected(rule))
        elif first is None:
            chosen[rule.fingerprint] = rule
            notes += [why_not(rule)] if rule.harms else []
        elif rule.rule_type is RuleType.CAP and rule is caps.get(rule.fingerprint):
            notes += [why_not(rule)] if rule.harms else []
        else:
            notes.append(why_first(first, rule))
    return list(chosen.values()), [*notes, *what_helps_besides(ordered)]


def _caps(rules: Iterable[Rule], all_rules: bool) -> dict[str, Rule]:
    """Return the CAP rule of each fingerprint that acts: a pool has one besides its weight."""
    found: dict[str, Rule] = {}
    for rule in sorted(rules, key=lambda r: (r.rule_order, r.id)):
        acts = rule.helps_pools and (all_rules or not rule.harms)
        if rule.rule_type is RuleType.CAP and acts:
            found.setdefault(rule.fingerprint, rule)
    return found


def _queries_at_once(chosen: Sequence[Rule], running: int | None) -> int:
    """Queries at once at most: as recorded, else what shares of 1/n say."""
    if running is None:
        shares = [rule.rule_value for rule in chosen if rule.rule_type is RuleType.AGG]
        running = max((round(1 / max(share, 1 / MAX_RATIO)) for share in shares), default=0)
        running = max(running, len(chosen) + 1)
    return max(running, 1)


@dataclass(frozen=True)
class _Shares:
    """What each rule asks for, as a share of the slots while everybody wants some."""

    ordinary: float
    """Share of one query without a rule."""
    notes: tuple[str, ...]

    @classmethod
    def from_rules(cls, chosen: Sequence[Rule], running: int) -> _Shares:
        shares = [rule.rule_value for rule in chosen if rule.rule_type is RuleType.AGG]
        if not shares:
            return cls(1.0 / running, ())
        left = 1.0 - sum(shares)
        # Shares of 1/n that sum to one leave a rounding error.
        if left > min(shares) * 1e-9:
            return cls(left / max(running - len(shares), 1), ())
        note = (
            f"The AGG rules ask for {percent(sum(shares))} of the slots together: everybody else "
            "counts as one more query, so each source gets less than its share."
        )
        return cls(min(shares), (note,) if len(shares) > 1 else ())

    def of_rule(self, rule: Rule) -> float:
        if rule.rule_type is RuleType.AGG:
            return rule.rule_value
        if rule.rule_type is RuleType.CAP:
            return self.ordinary
        return self.ordinary * rule.rule_value


def _min_shares(chosen: Sequence[Rule], slots: int | None) -> list[int]:
    """Divide the slots that victims are offered first, in proportion to their priorities."""
    raised = [rule.rule_value if _is_raised(rule) else 0.0 for rule in chosen]
    if not any(raised):
        return [0] * len(chosen)
    most = MAX_RATIO * min(value for value in raised if value)
    raised = [min(value, most) for value in raised]
    budget = int((slots or 0) * VICTIMS_FIRST)
    exact = [budget * value / sum(raised) for value in raised]
    found = [int(value) for value in exact]
    # What rounding down left over goes to the largest remainders, the worst-hit first.
    by_remainder = sorted(
        (i for i, value in enumerate(raised) if value), key=lambda i: (found[i] - exact[i], i)
    )
    for i in by_remainder[: budget - sum(found)]:
        found[i] += 1
    return found


def _is_raised(rule: Rule) -> bool:
    is_victim = rule.rule_type is RuleType.DYNP and rule.query_type is QueryType.TARGET
    return is_victim and rule.rule_value > 1


def _kept(pools: Sequence[Pool]) -> list[Pool]:
    """Return the application's own pools: those of earlier rules are made anew or gone."""
    return [
        pool for pool in pools if pool.name != DEFAULT_POOL and not pool.name.startswith(PREFIX)
    ]
