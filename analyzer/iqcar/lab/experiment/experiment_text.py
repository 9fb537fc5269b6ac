"""Prints what an experiment would do, and what it found."""

from __future__ import annotations

import shlex
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from iqcar.base.units import change_words, duration, percent, printable, short, size
from iqcar.lab.experiment.cells import at_level, cells_of
from iqcar.lab.experiment.experiment_plan import LoadedPlan
from iqcar.lab.experiment.hogs import there
from iqcar.replay.whatif.curves import FILLED
from iqcar.show.terminal.layout import plain_table, print_section, terminal

MOST_ROWS = 40


def print_dry_run(plan: LoadedPlan, act: str, console: Console | None = None) -> None:
    """Print what would run, on which host, for how long at most, and how to do it."""
    console = console or terminal()
    table = plain_table("query", "under", "level", "hogs on each host", "times", "each at most")
    cells = cells_of(plan)
    for cell in cells[:MOST_ROWS]:
        settings = at_level(plan.strengths[cell.resource], cell.level)
        table.add_row(
            printable(short(cell.query)), cell.resource, f"{cell.level:g}",
            f"{settings.processes} × {settings.anomaly}", str(plan.repeats),
            duration(1000 * plan.longest_run_s),
        )  # fmt: skip
    print_section(console, "Would run, each beside the same without hogs", table)
    if len(cells) > MOST_ROWS:
        console.print(f"   and {len(cells) - MOST_ROWS} more")
    where = f"Spark at {plan.master}" if plan.needs_spark else "commands"
    pair = 2 * plan.longest_run_s
    lines = (
        f"queries: {where}; hogs: {', '.join(plan.hosts)}",
        *(
            f"hogs on {place.host}: {shlex.join(there(place.command))}"
            for place in plan.places
            if place.command
        ),
        f"for {duration(1000 * plan.budget_s)} from when Spark is up, and the pair that runs then: "
        f"at most {duration(1000 * (plan.budget_s + pair))}",
        f"Nothing was run. To run it: {act}",
    )
    console.print()
    for line in lines:
        console.print(Text(printable(line)))


def print_results(results: dict[str, Any], console: Console | None = None) -> None:
    """Print curves, and predicted against measured."""
    console = console or terminal()
    failed = [run for run in results["runs"] if run["failed"]]
    print_section(console, "How much hogs slow it", _curves(results))
    print_section(console, "Each level predicted from the others", _validation(results))
    console.print()
    console.print(f"law: {results['law']}; k: hogs for each task; ranges are 80 %")
    for run in failed:
        what = f"failed: {run['query']} under {run['resource']} {run['level']:g}: {run['failed']}"
        console.print(Text(printable(what)))
    if results["ended_by"]:
        console.print(f"ended by {results['ended_by']}: not every pair was run")


def _curves(results: dict[str, Any]) -> Table | None:
    if not results["curves"]:
        return None
    table = plain_table(
        "of", "resource", "alone", "at once", "r/C", "range", "own rate", "residual", "pairs"
    )
    for curve in results["curves"][:MOST_ROWS]:
        said = f"{curve['share']:.2f}" if curve["identified"] else f"≤ {curve['high']:.2f}"
        table.add_row(
            printable(short(curve["label"] or curve["query"])), curve["resource"],
            duration(curve["alone_ms"]), f"{curve['tasks_at_once']:.1f}", said,
            f"{curve['low']:.2f} … {curve['high']:.2f}", _own_rate(curve),
            percent(curve['residual']), str(curve["pairs"]),
        )  # fmt: skip
    return table


def _own_rate(curve: dict[str, Any]) -> str:
    """What a task did without hogs; at least that, where its like may have filled the device."""
    rate = curve["own_rate_per_s"]
    if rate is None:
        return ""
    return f"{size(rate)}/s" if curve["high"] < FILLED else f"≥ {size(rate)}/s"


def _validation(results: dict[str, Any]) -> Table | None:
    if not results["validation"]:
        return None
    table = plain_table("of", "resource", "level", "measured", "predicted", "range", "error")
    for row in results["validation"][:MOST_ROWS]:
        table.add_row(
            printable(short(row["label"] or row["query"])), row["resource"], f"{row['level']:g}",
            f"{row['measured']:.2f}×", f"{row['predicted']:.2f}×",
            f"{row['low']:.2f} … {row['high']:.2f}", change_words(100 * row['error']),
        )  # fmt: skip
    return table
