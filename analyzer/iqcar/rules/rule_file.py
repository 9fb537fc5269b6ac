"""Rules as JSON: written, and read back with every field checked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from iqcar.errors import IqcarError
from iqcar.rules.rule import JSON_NAMES, SCHEMA_VERSION, QueryType, Rule, RuleType
from iqcar.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable

_Text = Annotated[str, msgspec.Meta(min_length=1)]
_REWRITE = "mend that field, or write the file anew with `iqcar analyze --rules`"


class _Record(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    rename=JSON_NAMES,
):
    """A rule as it stands in the file; the paper's tuple keeps its hyphens."""

    id: _Text
    rule_type: Literal["AGG", "DYNP"]
    query_id: _Text
    query_type: Literal["source", "target"]
    rule_value: Annotated[float, msgspec.Meta(gt=0)]
    rule_order: Annotated[int, msgspec.Meta(ge=1)]
    fingerprint: _Text
    query_name: str
    resource: Literal["slots", "cpu", "memory", "network", "io"]
    reason: _Text
    expected: dict[str, Any] | None
    helps_pools: bool
    advice: str
    schema_version: Literal["1"]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema_version: Literal["1"]
    iqcar_version: str
    rules: list[_Record]


def dump_rules(rules: Iterable[Rule]) -> bytes:
    """Return a rules file: JSON, indented, ending with a newline."""
    file = {
        "schema_version": SCHEMA_VERSION,
        "iqcar_version": __version__,
        "rules": [rule.to_dict() for rule in rules],
    }
    return msgspec.json.format(msgspec.json.encode(file), indent=2) + b"\n"


def parse_rules(content: bytes | str, where: str = "rules") -> tuple[Rule, ...]:
    """Read rules from JSON.

    Parameters
    ----------
    content : bytes or str
        A whole rules file.
    where : str
        What an error message calls it.

    Raises
    ------
    IqcarError
        If it is no JSON or breaks the schema; names the field.
    """
    try:
        file = msgspec.json.decode(content, type=_File)
    except msgspec.ValidationError as error:
        raise IqcarError(f"is not a rules file: {error}", where, _REWRITE) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise IqcarError(f"is not JSON: {error}", where, _REWRITE) from error
    seen: set[object] = set()
    for number, record in enumerate(file.rules):
        problem = _problem_of(record, seen)
        if problem:
            raise IqcarError(f"{problem} - at `$.rules[{number}]`", where, _REWRITE)
    return tuple(_rule_of(record) for record in file.rules)


def _problem_of(record: _Record, seen: set[object]) -> str:
    """What the types of the fields cannot tell; remembers ids and fingerprints in ``seen``."""
    if record.rule_type == RuleType.AGG.value and record.query_type != QueryType.SOURCE.value:
        return "an AGG rule is for a source"
    if record.rule_type == RuleType.AGG.value and record.rule_value > 1:
        return "the share of an AGG rule is at most 1"
    same = (record.rule_type, record.fingerprint)
    if record.id in seen:
        return "repeats the id of an earlier rule"
    if same in seen:
        return "repeats the rule-type and fingerprint of an earlier rule"
    seen.update((record.id, same))
    return ""


def load_rules(path: str | Path) -> tuple[Rule, ...]:
    """Read a rules file.

    Raises
    ------
    IqcarError
        If it cannot be read, is no JSON, or breaks the schema.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise IqcarError(f"cannot be read: {reason}", str(path), "check the path") from error
    return parse_rules(content, str(path))


def _rule_of(record: _Record) -> Rule:
    values = {name: getattr(record, name) for name in _Record.__struct_fields__}
    values["rule_type"] = RuleType(record.rule_type)
    values["query_type"] = QueryType(record.query_type)
    return Rule(**values)
