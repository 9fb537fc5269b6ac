"""The answer to a what-if question as text on a terminal: what ``iqcar whatif`` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from rich.text import Text

from iqcar.formatting import duration, percent, printable, short, signed, size
from iqcar.report.terminal.layout import plain_table, print_doubts, print_section, terminal
from iqcar.whatif.what_if import RESOURCES, SLOWER

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console
    from rich.table import Table

    from iqcar.whatif.plan_capacity import Plan
    from iqcar.whatif.removal_blame import RemovalBlame
    from iqcar.whatif.what_if import WhatIf

NOTICED = 0.01
"""Share of a query's duration from which a change of a wait is named."""
MOST_WAITS = 3


def print_what_if(answer: WhatIf, top: int, console: Console | None = None) -> None:
    """Print the check, capacities, the queries that change most, totals, and what it rests on."""
    console = console or terminal()
    console.print(Text(printable(check_sentence(answer.self_check))))
    console.print(Text(printable(f"capacities: {_capacities(answer)}")))
    for refused in answer.refused:
        console.print(Text(printable(refused), style="bold"))
    if answer.total["change_percent"] is not None:
        print_section(console, printable(answer.question.sentence()), _queries(answer, top))
        console.print()
        for line in _totals(answer):
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
        notes = []
        if row["value"] == plan.knee:
            notes.append("knee: more gains little")
        if row["value"] == plan.recorded:
            notes.append("as recorded")
        table.add_row(
            str(row["value"]),
            duration(row["total_ms"]),
            f"({duration(row['low_ms'])} … {duration(row['high_ms'])})",
            duration(row["p80_ms"]),
            duration(row["makespan_ms"]),
            "unknown" if row["slot_use"] is None else percent(row["slot_use"]),
            *([] if plan.price is None else [f"{row['cost']:.4g}"]),
            ", ".join(notes),
        )
    print_section(console, f"each number of {plan.of_what}", table)
    console.print()
    if plan.knee is None:
        console.print(Text(f"more {plan.of_what} gain nothing"))
    console.print(Text(f"recorded with {plan.recorded} {plan.of_what} at most"))
    console.print(Text(printable(f"assumed: {'; '.join(plan.assumptions)}")))


def print_removal_blame(blame: RemovalBlame, top: int, console: Console | None = None) -> None:
    """Print whom a query waited for, by replay and by attribution."""
    console = console or terminal()
    cost = blame.duration_ms - blame.alone_ms
    table = plain_table("", ">cost", ">gain without it", ">attributed", "")
    for row in blame.sources.head(top).to_dict("records"):
        table.add_row(
            short(row["name"]),
            signed(row["shapley_ms"]),
            signed(row["without_ms"]),
            duration(row["attributed_ms"]),
            "the two disagree" if row["disagrees"] else "",
        )
    print_section(
        console,
        printable(
            f"{short(blame.target)}: {duration(blame.duration_ms)}, without the others "
            f"{duration(blame.alone_ms)}; they cost {signed(cost)}"
        ),
        table,
    )
    hidden = len(blame.sources) - top
    if hidden > 0:
        console.print(Text(f"   and {hidden} more (--top)"))
    print_doubts((f"{doubt}." for doubt in blame.doubts), console)


def check_sentence(check: dict[str, Any]) -> str:
    """Say how well the replay of the run as it was reproduces it."""
    if check["median"] is None:
        return "self-check: no query ended, so nothing can be held against the replay"
    worst = ""
    if check["worst"] > 2 * check["median"]:
        worst = f", {percent(check['worst'])} at worst ({short(check['query'])})"
    return (
        "self-check: the replay of the run as it was is off by "
        f"{_share(check['median'])} (median){worst}"
    )


def _share(share: float) -> str:
    return f"{100 * share:.1f} %" if share < 0.1 else percent(share)


def _capacities(answer: WhatIf) -> str:
    found = []
    for row in answer.capacities.to_dict("records"):
        value, unit = row["value"], row["unit"]
        text = f"{size(value)}/s" if unit == "bytes/s" else f"{value:g}"
        busy = f"{percent(row['busy_before'])} → {percent(row['busy_after'])} busy"
        found.append(f"{row['resource']} {text} per host ({row['evidence']}, {busy})")
    return ", ".join(found) or "no device was used"


def _queries(answer: WhatIf, top: int) -> Table:
    table = plain_table("", ">recorded", ">predicted", "(80 %)", ">change", "waits")
    queries = answer.queries
    said = queries[queries["refused"] == ""]
    change = (said["predicted_ms"] - said["recorded_ms"]).abs()
    for row in said.loc[change.sort_values(ascending=False).index[:top]].to_dict("records"):
        table.add_row(
            short(row["name"]),
            duration(row["recorded_ms"]),
            duration(row["predicted_ms"]),
            f"({duration(row['low_ms'])} … {duration(row['high_ms'])})",
            f"{row['change_percent']:+.0f} %",
            waits_of(row),
        )
    return table


def waits_of(row: dict[str, float]) -> str:
    """Name the waits of a query that change most, before and after."""
    found = []
    for resource in RESOURCES:
        before, after = row[f"{resource}_wait_before_ms"], row[f"{resource}_wait_after_ms"]
        change = abs(after - before)
        if np.isfinite(change) and change >= NOTICED * row["recorded_ms"]:
            found.append((change, f"{resource} {duration(before)} → {duration(after)}"))
    return ", ".join(text for _, text in sorted(found, reverse=True)[:MOST_WAITS])


def _totals(answer: WhatIf) -> list[str]:
    total = answer.total
    lines = [
        f"all {total['queries']} queries: {duration(total['recorded_ms'])} → "
        f"{duration(total['predicted_ms'])} ({duration(total['low_ms'])} … "
        f"{duration(total['high_ms'])})  {total['change_percent']:+.0f} %; from first to last "
        f"{duration(total['makespan_before_ms'])} → {duration(total['makespan_after_ms'])}"
    ]
    slower = slower_queries(answer.queries)
    if len(slower):
        worst = slower.iloc[0]
        count = f"{len(slower)} quer{'y gets' if len(slower) == 1 else 'ies get'}"
        lines.append(
            f"{count} slower by more than {SLOWER:.0%}, most {short(worst['name'])} "
            f"({worst['change_percent']:+.0f} %)".replace("5%", "5 %")
        )
    busiest = _bottleneck(answer)
    if busiest:
        lines.append(busiest)
    return lines


def slower_queries(queries: pd.DataFrame) -> pd.DataFrame:
    """Return the queries that get slower, the one that loses most first."""
    slower = queries[queries["change_percent"] > 100 * SLOWER]
    return slower.sort_values("change_percent", ascending=False)


def _bottleneck(answer: WhatIf) -> str:
    """Say which device is busiest afterwards, where it is another one than before."""
    devices = answer.capacities
    if devices.empty:
        return ""
    before = devices["resource"].iloc[int(devices["busy_before"].argmax())]
    after = devices["resource"].iloc[int(devices["busy_after"].argmax())]
    if before == after:
        return ""
    return f"the busiest device is then {after}, not {before}"
