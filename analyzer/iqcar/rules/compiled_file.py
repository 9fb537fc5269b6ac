"""Write a rules file that the plugin can apply: rules with the pools they compile to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iqcar.rules.compile_pools import compile_rules
from iqcar.rules.recorded_setup import recorded_scheduler
from iqcar.rules.rule_file import dump_rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iqcar.rules.rule import Rule
    from iqcar.tables import Tables


def dump_compiled(tables: Tables, rules: Sequence[Rule]) -> bytes:
    """Return a rules file with the rules compiled for the applications that were recorded.

    Parameters
    ----------
    tables : Tables
        What the rules were proposed from: slots, queries at once and pools are taken from there.
    rules : sequence of Rule
        All of them are compiled, also those that are predicted to harm.
    """
    recorded = recorded_scheduler(tables, rules)
    plan = compile_rules(rules, recorded.slots, recorded.running, recorded.pools, all_rules=True)
    return dump_rules(rules, plan, recorded)
