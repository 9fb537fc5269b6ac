"""Write rules and their compiled pools as JSON, and read them back with checks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from iqcar.base.files.json_text import json_bytes
from iqcar.errors import IqcarError
from iqcar.rules.pool_plan import Assignment, Pool, PoolPlan
from iqcar.rules.recorded_setup import MAX_POOL_NAME, Recorded
from iqcar.rules.rule import JSON_NAMES, SCHEMA_VERSION, QueryType, Rule, RuleType
from iqcar.version import __version__

MAX_FILE_BYTES = 16 * 2**20
"""Larger files are no rules: three rules take about 3 KB."""

MAX_ITEMS = 1000
"""Rules, pools, assignments and notes of one file, each; a scheduler sorts its pools at every
offer, and a person reads the rules."""

_INT_MAX = 2**31 - 1

_Text = Annotated[str, msgspec.Meta(min_length=1)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_POOL_NAME)]
_Whole = Annotated[int, msgspec.Meta(ge=0, le=_INT_MAX)]
_AboveZero = Annotated[int, msgspec.Meta(ge=1, le=_INT_MAX)]
_Few = msgspec.Meta(max_length=MAX_ITEMS)
_REWRITE = "mend that field, or write the file anew with `iqcar analyze --rules`"


class _Setting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: _Text
    value: _Text
    why: _Text


class _Record(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    rename=JSON_NAMES,
):
    """A rule as it stands in the file; the paper's tuple keeps its hyphens."""

    id: _Text
    rule_type: Literal["AGG", "DYNP", "CAP", "ADVICE"]
    query_id: _Text
    query_type: Literal["source", "target"]
    rule_value: Annotated[float, msgspec.Meta(gt=0)]
    rule_order: _AboveZero
    fingerprint: _Text
    query_name: str
    resource: Literal["", "slots", "executors", "cpu", "memory", "network", "io"]
    reason: _Text
    expected: dict[str, Any] | None
    helps_pools: bool
    advice: str
    schema_version: Literal["1"]
    kind: str = ""
    host: str = ""
    settings: Annotated[list[_Setting], _Few] = []
    strict: bool = False


class _Pool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: _Name
    weight: _AboveZero = 1
    min_share: _Whole = 0
    mode: Literal["FIFO", "FAIR"] = "FIFO"
    cap: _AboveZero | None = None
    cap_share: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    strict: bool = False


class _Assignment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pool: _Name
    rule_id: str = ""
    fingerprint: str = ""
    description: str = ""
    job_group: str = ""


class _Recorded(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    slots: _AboveZero | None = None
    running: _AboveZero | None = None
    pools: Annotated[list[_Pool], _Few] = []


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema_version: Literal["1"]
    iqcar_version: str
    rules: Annotated[list[_Record], _Few]
    pools: Annotated[list[_Pool], _Few] | None = None
    assignments: Annotated[list[_Assignment], _Few] = []
    notes: Annotated[list[str], _Few] = []
    recorded: _Recorded | None = None


@dataclass(frozen=True)
class RulesFile:
    """What a rules file holds.

    Attributes
    ----------
    rules : the rules.
    plan : what they were compiled to; None in a file of rules alone.
    recorded : what they were compiled for; empty where the file does not say.
    """

    rules: tuple[Rule, ...]
    plan: PoolPlan | None
    recorded: Recorded


def dump_rules(
    rules: Iterable[Rule], plan: PoolPlan | None = None, recorded: Recorded | None = None
) -> bytes:
    """Return a rules file: JSON, indented, ending with a newline.

    Parameters
    ----------
    rules : iterable of Rule
        The rules.
    plan : PoolPlan, optional
        What they were compiled to (:func:`iqcar.rules.compile_rules`): the plugin reads it.
    recorded : Recorded, optional
        What they were compiled for: ``iqcar rules compile`` reads it.
    """
    file = {**_head(), "rules": [rule.to_dict() for rule in rules]}
    if plan is not None:
        file |= _plan(plan)
    if recorded is not None:
        pools = [pool.to_dict() for pool in recorded.pools]
        file["recorded"] = {**asdict(recorded), "pools": pools}
    return _formatted(file)


def dump_pools(plan: PoolPlan) -> bytes:
    """Return a plan as JSON: the rules file without its rules."""
    return _formatted({**_head(), **_plan(plan)})


def _plan(plan: PoolPlan) -> dict[str, Any]:
    return {**asdict(plan), "pools": [pool.to_dict() for pool in plan.pools]}


def _head() -> dict[str, Any]:
    return {"schema_version": SCHEMA_VERSION, "iqcar_version": __version__}


def _formatted(file: dict[str, Any]) -> bytes:
    return json_bytes(file, indent=2) + b"\n"


def parse_rules(content: bytes | str, where: str = "rules") -> tuple[Rule, ...]:
    """Read rules from JSON; as :func:`parse_rules_file`."""
    return parse_rules_file(content, where).rules


def parse_rules_file(content: bytes | str, where: str = "rules") -> RulesFile:
    """Read rules and what they were compiled to from JSON.

    Parameters
    ----------
    content : bytes or str
        A whole rules file.
    where : str
        What an error message calls it.

    Raises
    ------
    IqcarError
        If it is no JSON, is too large or breaks the schema; names the field.
    """
    if len(content) > MAX_FILE_BYTES:
        raise IqcarError(f"is larger than {MAX_FILE_BYTES >> 20} MB", where, _REWRITE)
    try:
        file = msgspec.json.decode(content, type=_File)
    except msgspec.ValidationError as error:
        raise IqcarError(f"is not a rules file: {error}", where, _REWRITE) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise IqcarError(f"is not JSON: {error}", where, _REWRITE) from error
    problem = _problem_of_rules(file.rules) or _problem_of_pools(file)
    if problem:
        raise IqcarError(problem, where, _REWRITE)
    plan = None
    if file.pools is not None:
        plan = PoolPlan(
            tuple(_pool_of(pool) for pool in file.pools),
            tuple(Assignment(**msgspec.structs.asdict(a)) for a in file.assignments),
            tuple(file.notes),
        )
    known = file.recorded or _Recorded()
    recorded = Recorded(known.slots, known.running, tuple(_pool_of(p) for p in known.pools))
    return RulesFile(tuple(_rule_of(record) for record in file.rules), plan, recorded)


def load_rules(path: str | Path) -> tuple[Rule, ...]:
    """Read the rules of a file; as :func:`load_rules_file`."""
    return load_rules_file(path).rules


def load_rules_file(path: str | Path) -> RulesFile:
    """Read a rules file.

    Raises
    ------
    IqcarError
        If it cannot be read, is no JSON, or breaks the schema.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", "") or str(error) or type(error).__name__
        raise IqcarError(f"cannot be read: {reason}", str(path), "check the path") from error
    return parse_rules_file(content, str(path))


def _problem_of_rules(records: list[_Record]) -> str:
    """What the types of the fields cannot tell about rules."""
    seen: set[object] = set()
    for number, record in enumerate(records):
        same = (record.rule_type, record.fingerprint)
        is_advice = record.rule_type == RuleType.ADVICE.value
        is_share = record.rule_type in (RuleType.AGG.value, RuleType.CAP.value)
        problem = ""
        if is_advice:
            problem = _problem_of_advice(record)
        elif not record.resource:
            problem = "only advice can be about no resource"
        elif record.kind or record.host or record.settings:
            problem = "only ADVICE rules have a kind, a host and settings"
        elif is_share and record.query_type != QueryType.SOURCE.value:
            problem = f"{_a(record.rule_type)} rule is for a source"
        elif is_share and record.rule_value > 1:
            problem = f"the share of {_a(record.rule_type)} rule is at most 1"
        if record.strict and record.rule_type != RuleType.CAP.value:
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


def _a(rule_type: str) -> str:
    return f"an {rule_type}" if rule_type.startswith("A") else f"a {rule_type}"


def _problem_of_advice(record: _Record) -> str:
    if not record.kind:
        return "an ADVICE rule needs a kind"
    if record.query_type != QueryType.TARGET.value:
        return "an ADVICE rule is for a target"
    if record.helps_pools or record.expected is not None:
        return "no pool acts on an ADVICE rule: helps_pools is false and expected is null"
    return ""


def _problem_of_pools(file: _File) -> str:
    """What the types of the fields cannot tell about pools and assignments."""
    recorded = file.recorded.pools if file.recorded else []
    for place, pools in (("pools", file.pools or []), ("recorded.pools", recorded)):
        names: set[str] = set()
        for number, pool in enumerate(pools):
            at = f" - at `$.{place}[{number}].name`"
            if not pool.name.isprintable() or not pool.name.strip():
                return f"the name of a pool is blank or holds a control character{at}"
            if pool.name in names:
                return f"repeats the name of an earlier pool{at}"
            names.add(pool.name)
    known = {pool.name for pool in file.pools or []}
    advice = {rule.id for rule in file.rules if rule.rule_type == RuleType.ADVICE.value}
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


def _pool_of(pool: _Pool) -> Pool:
    return Pool(**msgspec.structs.asdict(pool))


def _rule_of(record: _Record) -> Rule:
    values = {name: getattr(record, name) for name in _Record.__struct_fields__}
    values["rule_type"] = RuleType(record.rule_type)
    values["query_type"] = QueryType(record.query_type)
    values["settings"] = tuple(msgspec.structs.asdict(one) for one in record.settings)
    return Rule(**values)
