"""Pools that rules were compiled to, as text on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from iqcar.formatting import printable, short
from iqcar.report.terminal.analyze import terminal

if TYPE_CHECKING:
    from rich.console import Console

    from iqcar.rules import PoolPlan


def print_plan(plan: PoolPlan, console: Console | None = None) -> None:
    """Print a row per pool, then what was decided and why."""
    console = console or terminal()
    if plan.pools:
        table = Table(box=None, pad_edge=False, header_style="italic", padding=(0, 2, 0, 0))
        for title in ("pool", "weight", "minShare", "mode", "for queries like"):
            right = title in ("weight", "minShare")
            table.add_column(title, justify="right" if right else "left", overflow="fold")
        matches = {a.pool: a.fingerprint or a.description or a.job_group for a in plan.assignments}
        for pool in plan.pools:
            match = matches.get(pool.name, "")
            table.add_row(
                Text(short(pool.name)),
                str(pool.weight),
                str(pool.min_share),
                pool.mode,
                Text(short(match)) if match else Text("any other", style="dim"),
            )
        console.print(table)
    else:
        console.print("No rule acts through pools: there is nothing to apply.")
    for note in plan.notes:
        console.print(Padding(Text(f"- {printable(note)}"), (0, 0, 0, 0)))
