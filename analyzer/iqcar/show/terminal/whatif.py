"""The answer to a what-if question as text on a terminal: what ``iqcar whatif`` prints."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from iqcar.base.units import duration, percent, printable, short, signed
from iqcar.replay.whatif.plan_capacity import Plan
from iqcar.replay.whatif.removal_blame import RemovalBlame
from iqcar.replay.whatif.what_if import WhatIf
from iqcar.say.what_if_sentences import (
    capacity_words,
    change_words,
    check_sentence,
    most_changed,
    plan_note,
    plan_sentence,
    removal_sentence,
    told_apart,
    total_lines,
    waits_of,
)
from iqcar.show.terminal.layout import plain_table, print_doubts, print_section, terminal


def print_what_if(answer: WhatIf, top: int, console: Console | None = None) -> None:
    """Print the check, capacities, the queries that change most, totals, and what it rests on."""
    console = console or terminal()
    console.print(Text(printable(check_sentence(answer.self_check))))
    console.print(Text(printable(f"capacities: {capacity_words(answer)}")))
    for refused in answer.refused:
        console.print(Text(printable(refused), style="bold"))
    if answer.total["change_percent"] is not None:
        print_section(console, printable(answer.question.sentence()), _queries(answer, top))
        console.print()
        for line in total_lines(answer):
            console.print(Text(printable(line)))
    console.print()
    console.print(Text(printable(f"assumed: {'; '.join(answer.assumptions)}")))


def print_plan(plan: Plan, console: Console | None = None) -> None:
    """Print the check, one row per value, and what it rests on."""
    console = console or terminal()
    console.print(Text(printable(check_sentence(plan.self_check))))
    for refused in plan.refused:
        console.print(Text(printable(refused), style="bold"))
    titles = (f">{plan.of_what}", ">all queries", "(80 %)", ">p80", ">first to last", ">slots used")
    table = plain_table(*titles, *([] if plan.price is None else [">cost"]), "")
    for row in plan.values.to_dict("records"):
        table.add_row(
            str(row["value"]),
            duration(row["total_ms"]),
            f"({duration(row['low_ms'])} … {duration(row['high_ms'])})",
            duration(row["p80_ms"]),
            duration(row["makespan_ms"]),
            "unknown" if row["slot_use"] is None else percent(row["slot_use"]),
            *([] if plan.price is None else [f"{row['cost']:.4g}"]),
            plan_note(plan, row["value"]),
        )
    print_section(console, f"each number of {plan.of_what}", table)
    console.print()
    console.print(Text(plan_sentence(plan)))
    console.print(Text(printable(f"assumed: {'; '.join(plan.assumptions)}")))


def print_removal_blame(blame: RemovalBlame, top: int, console: Console | None = None) -> None:
    """Print whom a query waited for, by replay and by attribution."""
    console = console or terminal()
    table = plain_table("", ">cost", ">gain without it", ">attributed", "")
    called = told_apart(blame.sources)
    for row in blame.sources.head(top).to_dict("records"):
        table.add_row(
            short(called(row)),
            signed(row["shapley_ms"]),
            signed(row["without_ms"]),
            duration(row["attributed_ms"]),
            "the two disagree" if row["disagrees"] else "",
        )
    print_section(
        console,
        printable(removal_sentence(blame)),
        table,
    )
    hidden = len(blame.sources) - top
    if hidden > 0:
        console.print(Text(f"   and {hidden} more (--top)"))
    print_doubts((f"{doubt}." for doubt in blame.doubts), console)


def _queries(answer: WhatIf, top: int) -> Table:
    table = plain_table("", ">recorded", ">predicted", "(80 %)", ">change", "waits")
    called = told_apart(answer.queries)
    for row in most_changed(answer, top).to_dict("records"):
        table.add_row(
            short(called(row)),
            duration(row["recorded_ms"]),
            duration(row["predicted_ms"]),
            f"({duration(row['low_ms'])} … {duration(row['high_ms'])})",
            change_words(row["change_percent"]),
            waits_of(row),
        )
    return table
