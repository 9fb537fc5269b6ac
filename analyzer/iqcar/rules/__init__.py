"""Rules for the scheduler: proposed from the graph, written as JSON, read back.

Submodules are imported on first use: the schema alone needs neither pandas nor the graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from iqcar.rules.advice import advice_for as advice_for
    from iqcar.rules.advice import cause_of as cause_of
    from iqcar.rules.advice import vocabulary as vocabulary
    from iqcar.rules.priorities import recorded_priorities as recorded_priorities
    from iqcar.rules.proposal import propose as propose
    from iqcar.rules.rule import QueryType as QueryType
    from iqcar.rules.rule import Rule as Rule
    from iqcar.rules.rule import RuleType as RuleType
    from iqcar.rules.rule_file import dump_rules as dump_rules
    from iqcar.rules.rule_file import load_rules as load_rules
    from iqcar.rules.rule_file import parse_rules as parse_rules

_HOMES = {
    "QueryType": "rule",
    "Rule": "rule",
    "RuleType": "rule",
    "advice_for": "advice",
    "cause_of": "advice",
    "dump_rules": "rule_file",
    "load_rules": "rule_file",
    "parse_rules": "rule_file",
    "propose": "proposal",
    "recorded_priorities": "priorities",
    "vocabulary": "advice",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'iqcar.rules' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"iqcar.rules.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
