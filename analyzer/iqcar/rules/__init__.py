"""Rules for the scheduler: proposed from the graph, written as JSON, read back.

Submodules are imported on first use: the schema alone needs neither pandas nor the graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from iqcar.rules.advice_rules import advise as advise
    from iqcar.rules.compile_pools import compile_rules as compile_rules
    from iqcar.rules.compiled_file import dump_compiled as dump_compiled
    from iqcar.rules.pool_plan import Assignment as Assignment
    from iqcar.rules.pool_plan import Pool as Pool
    from iqcar.rules.pool_plan import PoolPlan as PoolPlan
    from iqcar.rules.priorities import recorded_priorities as recorded_priorities
    from iqcar.rules.propose_rules import propose as propose
    from iqcar.rules.recorded_setup import Recorded as Recorded
    from iqcar.rules.recorded_setup import recorded_scheduler as recorded_scheduler
    from iqcar.rules.rule import QueryType as QueryType
    from iqcar.rules.rule import RejectedRule as RejectedRule
    from iqcar.rules.rule import Rule as Rule
    from iqcar.rules.rule import RuleType as RuleType
    from iqcar.rules.rule import scheduler_rules as scheduler_rules
    from iqcar.rules.rule_file import RulesFile as RulesFile
    from iqcar.rules.rule_file import dump_pools as dump_pools
    from iqcar.rules.rule_file import dump_rules as dump_rules
    from iqcar.rules.rule_file import load_rules as load_rules
    from iqcar.rules.rule_file import load_rules_file as load_rules_file
    from iqcar.rules.rule_file import parse_rules as parse_rules
    from iqcar.rules.rule_file import parse_rules_file as parse_rules_file
    from iqcar.rules.vocabulary.lost_time import advice_for as advice_for
    from iqcar.rules.vocabulary.lost_time import cause_of as cause_of

_HOMES = {
    "Assignment": "pool_plan",
    "Pool": "pool_plan",
    "PoolPlan": "pool_plan",
    "QueryType": "rule",
    "Recorded": "recorded_setup",
    "RejectedRule": "rule",
    "Rule": "rule",
    "RuleType": "rule",
    "RulesFile": "rule_file",
    "advice_for": "vocabulary.lost_time",
    "advise": "advice_rules",
    "cause_of": "vocabulary.lost_time",
    "compile_rules": "compile_pools",
    "dump_pools": "rule_file",
    "dump_compiled": "compiled_file",
    "dump_rules": "rule_file",
    "load_rules": "rule_file",
    "load_rules_file": "rule_file",
    "parse_rules": "rule_file",
    "parse_rules_file": "rule_file",
    "propose": "propose_rules",
    "recorded_priorities": "priorities",
    "recorded_scheduler": "recorded_setup",
    "scheduler_rules": "rule",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'iqcar.rules' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"iqcar.rules.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
