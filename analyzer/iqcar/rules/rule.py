"""A scheduler rule: the paper's 6-tuple with its evidence (iQCAR definition 6.1)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from iqcar.kinds import Kind

SCHEMA_VERSION = "1"
"""Version of the rules file's format."""

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


class QueryType(Kind):
    """Which side of the contention a rule's query is on."""

    SOURCE = "source", "It held what others waited for."
    TARGET = "target", "It waited for what others held."


@dataclass(frozen=True)
class Rule:
    """One rule for recurring runs of a query.

    Attributes
    ----------
    id : unique in its file, e.g. ``AGG-1``.
    rule_type, query_id, query_type, rule_value, rule_order : the paper's tuple. ``query_id`` is
        the run with most evidence. ``rule_value`` is for AGG the share of the slots (0 to 1); for
        DYNP a priority, 1 being that of every query without a rule, in proportion as the weights
        of FAIR pools are. ``rule_order`` counts from 1 within a rule type.
    fingerprint : matches every run of the recurring query.
    query_name : what a person calls it.
    resource : what was lost most to: slots, cpu, memory, network or io.
    reason : the evidence, one sentence.
    expected : the predicted effect; None where none was computed.
    helps_pools : whether scheduler pools act on this resource.
    advice : what would help where pools do not; else empty.
    """

    id: str
    rule_type: RuleType
    query_id: str
    query_type: QueryType
    rule_value: float
    rule_order: int
    fingerprint: str
    query_name: str
    resource: str
    reason: str
    helps_pools: bool
    advice: str
    expected: dict[str, Any] | None = None
    schema_version: str = SCHEMA_VERSION

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as it stands in JSON: the paper's tuple with hyphens, the rest as is."""
        return {JSON_NAMES.get(f.name, f.name): _plain(getattr(self, f.name)) for f in fields(self)}


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Kind) else value
