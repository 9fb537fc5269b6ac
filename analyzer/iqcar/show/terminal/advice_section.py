"""Advice in the report of ``iqcar analyze``: what people could change, with evidence."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.text import Text

from iqcar.base.units import printable
from iqcar.rules.rule import Rule
from iqcar.rules.vocabulary.advice_kinds import advice_kinds
from iqcar.show.terminal.layout import indented


def advice_section(rules: Iterable[Rule]) -> RenderableType | None:
    """Show the ADVICE rules, what explains most time first; nothing where there are none."""
    advice = [rule for rule in rules if rule.is_advice]
    if not advice:
        return None
    head = "To people: no pool is made from it; what it does is not predicted."
    lines: list[RenderableType] = [Text(head, style="italic")]
    for rule in advice:
        lines.append(Text(f"{rule.rule_order}. {title(rule)}", style="bold"))
        settings = [f"{one['name']}: {one['value']} ({one['why']})" for one in rule.settings]
        lines += [indented(line) for line in (rule.reason, rule.advice, *settings)]
    return Group(*lines)


def title(rule: Rule) -> str:
    """What kind of advice it is; one of a vocabulary of the user's own is called by its key."""
    known = advice_kinds().get(rule.kind)
    return printable(known.name if known else rule.kind)
