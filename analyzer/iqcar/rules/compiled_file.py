"""Write a rules file that the plugin can apply: rules with the pools they compile to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from iqcar.rules.compile_pools import compile_rules
from iqcar.rules.recorded_setup import Recorded, recorded_scheduler
from iqcar.rules.rule import Rule
from iqcar.rules.rule_file import dump_rules
from iqcar.tables import Tables


def dump_compiled(
    tables: Tables,
    rules: Sequence[Rule],
    previous: Recorded | None = None,
    notes: Sequence[str] = (),
) -> bytes:
    """Return a rules file with the rules compiled for the applications that were recorded.

    Parameters
    ----------
    tables : Tables
        What the rules were proposed from: slots, queries at once and pools are taken from there.
    rules : sequence of Rule
        All of them are compiled, also those that are predicted to harm.
    previous : Recorded, optional
        What rules of an earlier round were compiled for: it counts where these tables do not say,
        and of queries at once the most do.
    notes : sequence of str
        More notes for the file, before those of the plan.
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
