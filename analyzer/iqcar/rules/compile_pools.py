"""Compiles rules to FAIR pools; writes them as files, and reads rules with checks.

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
from pathlib import Path
from typing import Annotated, Any, Literal
from xml.etree import ElementTree

import msgspec
from msgspec.structs import replace

from iqcar.base.files.json_text import json_bytes
from iqcar.base.units import percent
from iqcar.errors import IqcarError
from iqcar.rules.recorded_setup import DEFAULT_POOL, Recorded, default_of, recorded_scheduler
from iqcar.rules.rule import (
    FEW,
    PREFIX,
    SCHEMA_VERSION,
    Assignment,
    Pool,
    PoolPlan,
    QueryType,
    Rule,
    RuleType,
    Text,
    pool_name,
    scheduler_rules,
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
from iqcar.tables import Tables
from iqcar.version import __version__

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


MAX_FILE_BYTES = 16 * 2**20
"""Larger files are no rules: three rules take about 3 KB."""

_REWRITE = "mend that field, or write the file anew with `iqcar analyze --rules`"


class _Setting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Text
    value: Text
    why: Text


class _Record(Rule, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A rule as it stands in a file, where more must be given."""

    resource: Literal["", "slots", "executors", "cpu", "memory", "network", "io"]
    expected: dict[str, Any] | None
    schema_version: Literal["1"]
    settings: Annotated[tuple[_Setting, ...], FEW] = ()  # type: ignore[assignment]

    def rule(self) -> Rule:
        """Return it as any other rule."""
        values = msgspec.structs.asdict(self)
        return Rule(**{**values, "settings": tuple(map(msgspec.structs.asdict, self.settings))})


class _RulesFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema_version: Literal["1"]
    iqcar_version: str
    rules: Annotated[tuple[_Record, ...], FEW]
    pools: Annotated[tuple[Pool, ...], FEW] | None = None
    assignments: Annotated[tuple[Assignment, ...], FEW] = ()
    notes: Annotated[tuple[str, ...], FEW] = ()
    recorded: Recorded | None = None


class RulesFile(msgspec.Struct, frozen=True):
    """What a rules file holds.

    rules: the rules.
    plan: what they were compiled to; None in a file of rules alone.
    recorded: what they were compiled for; empty where the file does not say.
    """

    rules: tuple[Rule, ...]
    plan: PoolPlan | None
    recorded: Recorded


def dump_rules(
    rules: Iterable[Rule], plan: PoolPlan | None = None, recorded: Recorded | None = None
) -> bytes:
    """Return a rules file: JSON, indented, ending with a newline.

    rules: The rules.
    plan: What they were compiled to: the plugin reads it.
    recorded: What they were compiled for: ``iqcar rules compile`` reads it.
    """
    file = {**_head(), "rules": [rule.to_dict() for rule in rules]}
    if plan is not None:
        file |= _plan(plan)
    if recorded is not None:
        pools = [pool.to_dict() for pool in recorded.pools]
        file["recorded"] = {**msgspec.structs.asdict(recorded), "pools": pools}
    return _formatted(file)


def dump_pools(plan: PoolPlan) -> bytes:
    """Return a plan as JSON: the rules file without its rules."""
    return _formatted({**_head(), **_plan(plan)})


def _plan(plan: PoolPlan) -> dict[str, Any]:
    return {**msgspec.structs.asdict(plan), "pools": [pool.to_dict() for pool in plan.pools]}


def _head() -> dict[str, Any]:
    return {"schema_version": SCHEMA_VERSION, "iqcar_version": __version__}


def _formatted(file: dict[str, Any]) -> bytes:
    return json_bytes(file, indent=2) + b"\n"


def parse_rules_file(content: bytes | str, where: str = "rules") -> RulesFile:
    """Read rules and what they were compiled to from JSON.

    Raises IqcarError if it is no JSON, is too large or breaks the schema; names the field.

    content: bytes or str A whole rules file.
    where: What an error message calls it.
    """
    if len(content) > MAX_FILE_BYTES:
        raise IqcarError(f"is larger than {MAX_FILE_BYTES >> 20} MB", where, _REWRITE)
    try:
        file = msgspec.json.decode(content, type=_RulesFile)
    except msgspec.ValidationError as error:
        raise IqcarError(f"is not a rules file: {error}", where, _REWRITE) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise IqcarError(f"is not JSON: {error}", where, _REWRITE) from error
    problem = _problem_of_rules(file.rules) or _problem_of_pools(file)
    if problem:
        raise IqcarError(problem, where, _REWRITE)
    plan = None
    if file.pools is not None:
        plan = PoolPlan(file.pools, file.assignments, file.notes)
    return RulesFile(
        tuple(record.rule() for record in file.rules), plan, file.recorded or Recorded()
    )


def load_rules_file(path: str | Path) -> RulesFile:
    """Read a rules file.

    Raises IqcarError if it cannot be read, is no JSON, or breaks the schema.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", "") or str(error) or type(error).__name__
        raise IqcarError(f"cannot be read: {reason}", str(path), "check the path") from error
    return parse_rules_file(content, str(path))


def _problem_of_rules(records: Sequence[Rule]) -> str:
    """What the types of the fields cannot tell about rules."""
    seen: set[object] = set()
    for number, record in enumerate(records):
        same = (record.rule_type, record.fingerprint)
        is_advice = record.is_advice
        is_share = record.rule_type in (RuleType.AGG, RuleType.CAP)
        problem = ""
        if is_advice:
            problem = _problem_of_advice(record)
        elif not record.resource:
            problem = "only advice can be about no resource"
        elif record.kind or record.host or record.settings:
            problem = "only ADVICE rules have a kind, a host and settings"
        elif is_share and record.query_type is not QueryType.SOURCE:
            problem = f"{_a(record.rule_type)} rule is for a source"
        elif is_share and record.rule_value > 1:
            problem = f"the share of {_a(record.rule_type)} rule is at most 1"
        if record.strict and record.rule_type is not RuleType.CAP:
            problem = "only CAP rules are strict"
        if problem:
            return f"{problem} - at `$.rules[{number}]`"
        if record.id in seen:
            problem = "repeats the id of an earlier rule"
        elif same in seen and not is_advice:
            problem = "repeats the rule-type and fingerprint of an earlier rule"
        if problem:
            return f"{problem} - at `$.rules[{number}]`"
        seen.update((record.id, same))
    return ""


def _a(rule_type: RuleType) -> str:
    return f"an {rule_type}" if str(rule_type).startswith("A") else f"a {rule_type}"


def _problem_of_advice(record: Rule) -> str:
    if not record.kind:
        return "an ADVICE rule needs a kind"
    if record.query_type is not QueryType.TARGET:
        return "an ADVICE rule is for a target"
    if record.helps_pools or record.expected is not None:
        return "no pool acts on an ADVICE rule: helps_pools is false and expected is null"
    return ""


def _problem_of_pools(file: _RulesFile) -> str:
    """What the types of the fields cannot tell about pools and assignments."""
    recorded = file.recorded.pools if file.recorded else ()
    for place, pools in (("pools", file.pools or ()), ("recorded.pools", recorded)):
        names: set[str] = set()
        for number, pool in enumerate(pools):
            at = f" - at `$.{place}[{number}].name`"
            if not pool.name.isprintable() or not pool.name.strip():
                return f"the name of a pool is blank or holds a control character{at}"
            if pool.name in names:
                return f"repeats the name of an earlier pool{at}"
            names.add(pool.name)
    known = {pool.name for pool in file.pools or ()}
    advice = {rule.id for rule in file.rules if rule.is_advice}
    seen: set[tuple[str, str, str]] = set()
    for number, assigned in enumerate(file.assignments):
        at = f" - at `$.assignments[{number}]`"
        matches = (assigned.fingerprint, assigned.description, assigned.job_group)
        if assigned.pool not in known:
            return f"there is no pool {assigned.pool!r}{at}"
        if assigned.rule_id in advice:
            return f"{assigned.rule_id} is advice and makes no pool{at}"
        if not any(matches):
            return f"needs a fingerprint, a description or a job_group{at}"
        if matches in seen:
            return f"matches the same queries as an earlier assignment{at}"
        seen.add(matches)
    return ""


def dump_compiled(
    tables: Tables,
    rules: Sequence[Rule],
    previous: Recorded | None = None,
    notes: Sequence[str] = (),
) -> bytes:
    """Return a rules file with the rules compiled for the applications that were recorded.

    tables: What the rules were proposed from: slots, queries at once and pools are taken from
        there.
    rules: All of them are compiled, also those that are predicted to harm.
    previous: What rules of an earlier round were compiled for: it counts where these tables do not
        say, and of queries at once the most do.
    notes: More notes for the file, before those of the plan.
    """
    recorded = compiled_for(tables, rules, previous)
    plan = compile_rules(rules, recorded.slots, recorded.running, recorded.pools, all_rules=True)
    plan = replace(plan, notes=(*notes, *plan.notes))
    return dump_rules(rules, plan, recorded)


def compiled_for(
    tables: Tables, rules: Sequence[Rule], previous: Recorded | None = None
) -> Recorded:
    """Return what rules are compiled for; as for :func:`dump_compiled`."""
    recorded = recorded_scheduler(tables, rules)
    if previous is None:
        return recorded
    return Recorded(
        recorded.slots or previous.slots,
        max(recorded.running or 0, previous.running or 0) or None,
        recorded.pools or previous.pools,
    )


def allocation_xml(pools: Iterable[Pool]) -> bytes:
    """Return the file that ``spark.scheduler.allocation.file`` names.

    pools: Names without control characters, as those of every plan are.
    """
    root = ElementTree.Element("allocations")
    for pool in pools:
        element = ElementTree.SubElement(root, "pool", name=pool.name)
        for tag, value in (
            ("schedulingMode", pool.mode),
            ("weight", str(pool.weight)),
            ("minShare", str(pool.min_share)),
        ):
            ElementTree.SubElement(element, tag).text = value
    ElementTree.indent(root)
    content: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return content + b"\n"
