"""Rules for the scheduler: proposed from the graph, written as JSON, read back.

Submodules are imported on first use: the schema alone needs neither pandas nor the graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iqcar.base.lazy_names import lazy_names

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

__all__ = [
    "Assignment",
    "Pool",
    "PoolPlan",
    "QueryType",
    "Recorded",
    "RejectedRule",
    "Rule",
    "RuleType",
    "RulesFile",
    "advice_for",
    "advise",
    "cause_of",
    "compile_rules",
    "dump_compiled",
    "dump_pools",
    "dump_rules",
    "load_rules",
    "load_rules_file",
    "parse_rules",
    "parse_rules_file",
    "propose",
    "recorded_priorities",
    "recorded_scheduler",
    "scheduler_rules",
]

__getattr__ = lazy_names(
    __name__,
    {
        "advice_rules": ("advise",),
        "compile_pools": ("compile_rules",),
        "compiled_file": ("dump_compiled",),
        "pool_plan": ("Assignment", "Pool", "PoolPlan"),
        "priorities": ("recorded_priorities",),
        "propose_rules": ("propose",),
        "recorded_setup": ("Recorded", "recorded_scheduler"),
        "rule": ("QueryType", "RejectedRule", "Rule", "RuleType", "scheduler_rules"),
        "rule_file": (
            "RulesFile",
            "dump_pools",
            "dump_rules",
            "load_rules",
            "load_rules_file",
            "parse_rules",
            "parse_rules_file",
        ),
        "vocabulary.lost_time": ("advice_for", "cause_of"),
    },
)
