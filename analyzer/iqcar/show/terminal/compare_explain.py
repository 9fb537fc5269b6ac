"""The printed method's findings as text on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from iqcar.base.units import duration, printable, short
from iqcar.show.terminal.layout import indented, plain_table, terminal

if TYPE_CHECKING:
    import pandas as pd

    from iqcar.comparison.comparison import Comparison


def print_printed(
    comparison: Comparison, printed: pd.DataFrame, top: int, console: Console | None = None
) -> None:
    """Print the findings of Spectroscope as printed."""
    console = console or terminal()
    console.print("Spectroscope as printed: no margin, no correction for many tests.")
    if printed.empty:
        console.print(Text("No mutation was found.", style="bold"))
        return
    table = plain_table(
        "", "query", "mutation", ">runs", ">before", ">after", "changed stages, or graphs before"
    )
    for number, row in enumerate(printed.head(top).to_dict("records"), 1):
        where = [short(comparison.name(int(of)), 30) for of in row["stages"].split(", ") if of]
        graphs = [graph for graph in row["precursors"].split("\n\n") if graph]
        where += [
            short(f"{n}. {graph}".replace("\n", " · "), 60) for n, graph in enumerate(graphs, 1)
        ]
        table.add_row(
            f"{number}.",
            short(comparison.name(row["category"]), 40),
            row["kind"],
            f"{row['runs_before']}/{row['runs_after']}",
            duration(row["before_ms"]),
            duration(row["after_ms"]),
            Text(printable(", ".join(where))),
        )
    console.print(table)
    if len(printed) > top:
        console.print(indented(f"and {len(printed) - top} more (--top)"))
