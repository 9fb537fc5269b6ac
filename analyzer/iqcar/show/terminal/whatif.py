"""The answer to a what-if question as text on a terminal: what ``iqcar whatif`` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from iqcar.base.units import printable
from iqcar.replay.whatif.plan_capacity import Plan
from iqcar.replay.whatif.removal_blame import RemovalBlame
from iqcar.replay.whatif.what_if import WhatIf
from iqcar.say.what_if_sentences import (
    capacity_words,
    check_sentence,
    plan_section,
    plan_sentence,
    removal_section,
    total_lines,
    what_if_section,
)
from iqcar.show.terminal.layout import NARROW, print_doubts, show_section, terminal


def print_what_if(answer: WhatIf, top: int, console: Console | None = None) -> None:
    """Print totals, the queries that change most, the check, and what it rests on."""
    console = console or terminal(width=NARROW)
    _print_refused(answer.refused, console)
    if answer.total["change_percent"] is not None:
        first, *more = total_lines(answer)
        asked = answer.question.sentence()
        console.print(Text(printable(f"{asked[:1].upper()}{asked[1:]}: {first}"), style="bold"))
        for line in more:
            console.print(Text(printable(line)))
        show_section(console, replace(what_if_section(answer, top), title="Queries", notes=()))
        console.print()
    console.print(Text(printable(check_sentence(answer.self_check))))
    console.print(Text(printable(f"capacities: {capacity_words(answer)}")))
    console.print(Text(printable(f"assumed: {'; '.join(answer.assumptions)}")))


def print_plan(plan: Plan, console: Console | None = None) -> None:
    """Print what is best, one row per value, the check, and what it rests on."""
    console = console or terminal(width=NARROW)
    _print_refused(plan.refused, console)
    console.print(Text(plan_sentence(plan), style="bold"))
    show_section(console, plan_section(plan))
    console.print()
    console.print(Text(printable(check_sentence(plan.self_check))))
    console.print(Text(printable(f"assumed: {'; '.join(plan.assumptions)}")))


def print_removal_blame(blame: RemovalBlame, top: int, console: Console | None = None) -> None:
    """Print whom a query waited for, by replay and by attribution."""
    console = console or terminal()
    section = removal_section(blame).first(top, "more (--top)")
    show_section(console, replace(section, title=section.sentence, sentence=""))
    print_doubts((f"{doubt}." for doubt in blame.doubts), console)


def _print_refused(refused: Sequence[str], console: Console) -> None:
    for line in refused:
        console.print(Text(printable(line), style="bold"))
