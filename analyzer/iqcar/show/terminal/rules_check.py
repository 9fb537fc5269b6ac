"""Two runs and their rules as text on a terminal: what ``iqcar rules check`` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from iqcar.base.units import change_words, one_unit, printable, short
from iqcar.show.terminal.layout import plain_table, terminal

if TYPE_CHECKING:
    from iqcar.comparison.check_rules import Check

MAX_NAMES = 10
"""Names of queries without a partner that are shown; the rest is counted."""


def print_check(check: Check, console: Console | None = None) -> None:
    """Print each rule's sentence, then one row per recurring query, the total, and the rest."""
    console = console or terminal()
    for rule in check.rules:
        console.print(Text(printable(f"{rule.sentence}.")))
    if check.rules:
        console.print()
    if check.total is not None:
        table = plain_table("query", ">runs", ">before", ">after", ">change", ">predicted", ">off")
        total = check.total
        before = one_unit([total.before_ms, *(row.before_ms for row in check.queries)])
        after = one_unit([total.after_ms, *(row.after_ms for row in check.queries)])
        for row in check.queries:
            table.add_row(
                short(row.name, 40),
                f"{row.runs_before}, {row.runs_after}",
                before(row.before_ms),
                after(row.after_ms),
                *map(_percent, (row.change_percent, row.predicted_percent, row.off_percent)),
            )
        table.add_row(
            Text("all together", style="italic"),
            "",
            before(total.before_ms),
            after(total.after_ms),
            *map(_percent, (total.change_percent, total.predicted_percent, total.off_percent)),
        )
        console.print(table)
        console.print(
            "Durations are means over runs, before and after; off is predicted less actual change."
        )
    for names, side in ((check.only_before, "before"), (check.only_after, "after")):
        if names:
            console.print(Text(printable(f"Only {side}: {_listed(names)}.")))
    for doubt in check.doubts:
        console.print(Text(printable(f"Doubtful: {doubt}.")))


def _percent(value: float | None) -> str:
    return "unknown" if value is None else change_words(value)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(short(name, 40) for name in names[:MAX_NAMES])
    more = len(names) - MAX_NAMES
    return f"{shown} and {more} more" if more > 0 else shown
