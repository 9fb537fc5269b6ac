"""Pools that rules were compiled to, as text on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from iqcar.base.units import printable, short
from iqcar.rules.pool_plan import PoolPlan
from iqcar.rules.rule_sentences import cap_words
from iqcar.show.terminal.layout import NARROW, plain_table, terminal


def print_plan(plan: PoolPlan, harmful: Sequence[str] = (), console: Console | None = None) -> None:
    """Print a row per pool, then what was decided and why; first of all the ids of what harms."""
    console = console or terminal(width=NARROW)
    if harmful:
        ids = printable(", ".join(harmful))
        console.print(Text(f"Do not apply these pools: {ids} are expected to harm.", style="bold"))
    if plan.pools:
        count = len({a.pool for a in plan.assignments})
        pools = "1 pool of its own" if count == 1 else f"{count:,} pools of their own"
        console.print(Text(f"{pools}; all other queries stay in default.", style="bold"))
        capped = any(pool.is_capped for pool in plan.pools)
        cap = ["cap"] if capped else []
        table = plain_table("pool", ">weight", ">minShare", "mode", *cap, "for queries like")
        matches = {a.pool: a.fingerprint or a.description or a.job_group for a in plan.assignments}
        for pool in plan.pools:
            match = matches.get(pool.name, "")
            table.add_row(
                Text(short(pool.name)),
                str(pool.weight),
                str(pool.min_share),
                pool.mode,
                *([cap_words(pool)] if capped else []),
                Text(short(match)) if match else Text("any other", style="dim"),
            )
        console.print(table)
    else:
        console.print("No rule acts through pools: there is nothing to apply.")
    for note in plan.notes:
        console.print(Text(f"- {printable(note)}"))
