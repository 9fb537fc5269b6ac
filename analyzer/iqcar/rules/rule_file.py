"""Writes rules and pools as JSON and as Spark's allocation file; reads rules with checks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal
from xml.etree import ElementTree

import msgspec
from msgspec.structs import replace

from iqcar.base.files.json_text import json_bytes
from iqcar.errors import IqcarError
from iqcar.rules.compile_pools import compile_rules
from iqcar.rules.pool_plan import Assignment, Pool, PoolPlan
from iqcar.rules.recorded_setup import Recorded, recorded_scheduler
from iqcar.rules.rule import FEW, SCHEMA_VERSION, QueryType, Rule, RuleType, Text
from iqcar.tables import Tables
from iqcar.version import __version__

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


def parse_rules(content: bytes | str, where: str = "rules") -> tuple[Rule, ...]:
    """Read rules from JSON; as :func:`parse_rules_file`."""
    return parse_rules_file(content, where).rules


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


def load_rules(path: str | Path) -> tuple[Rule, ...]:
    """Read the rules of a file; as :func:`load_rules_file`."""
    return load_rules_file(path).rules


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
