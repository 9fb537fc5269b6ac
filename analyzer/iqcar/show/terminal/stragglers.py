"""Stragglers as text on a terminal: counts per cause, stage, query and host; then the worst."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
from rich.console import Console
from rich.text import Text

from iqcar.base.units import duration, printable, short
from iqcar.causes.stragglers.straggler_result import Stragglers, labels_of
from iqcar.say.section import Section
from iqcar.say.straggler_sections import (
    GROUPS,
    WHAT_TO_DO,
    causes_section,
    group_section,
    headline,
    straggler_lines,
)
from iqcar.show.terminal.layout import (
    indented,
    plain_table,
    print_doubts,
    print_part,
    section_block,
    terminal,
)
from iqcar.tables import Tables


def print_stragglers(found: Stragglers, top: int, console: Console | None = None) -> None:
    """Print, per application, where and why tasks straggled, then the worst with evidence."""
    console = console or terminal()
    for app in dict.fromkeys(found.compared_stages["app"].tolist()):
        _application(found, int(app), top, console)
    print_doubts(found.doubts, console)


def print_printed_stragglers(
    tables: Tables, printed: pd.DataFrame, top: int, console: Console | None = None
) -> None:
    """Print how many stragglers have each cause by BigRoots as printed, then the worst."""
    console = console or terminal()
    labels, per_task = labels_of(tables), printed.groupby("task", sort=False)
    console.print("BigRoots as printed: how busy hosts were, no waits, amounts of any size.")
    if printed.empty:
        console.print(Text("No task took more than 1.5 times its stage's median.", style="bold"))
        return
    counts = plain_table("", ">stragglers", "cause")
    for name, count in printed["feature"].value_counts().items():
        counts.add_row("", str(count), str(name) or "not explained")
    console.print(counts)
    worst = plain_table("", "stage", ">task", "host", ">took", ">median", "causes")
    for number, (row, of) in enumerate(per_task, 1):
        if number > top:
            break
        task = tables.tasks.iloc[int(row)]
        worst.add_row(
            f"{number}.",
            short(printable(labels.stage(int(task["stage"]))), 40),
            str(task["task_id"]),
            short(printable(labels.host(int(task["host"]))), 24),
            duration(of["duration_ms"].iloc[0]),
            duration(of["median_ms"].iloc[0]),
            ", ".join(filter(None, of["feature"])) or "not explained",
        )
    console.print(worst)
    if per_task.ngroups > top:
        console.print(indented(f"and {per_task.ngroups - top} more (--top)"))


def _application(found: Stragglers, app: int, top: int, console: Console) -> None:
    mine = found.stragglers[found.stragglers["app"] == app]
    stages = found.compared_stages[found.compared_stages["app"] == app]
    console.print(Text(printable(found.labels.app(app)), style="bold"))
    console.print(indented(headline(found, mine, int(stages["tasks"].sum()))))
    if len(mine):
        causes = causes_section(found, app)
        print_part(console, causes.title, section_block(replace(causes, advice=())))
        _groups(found, app, top, console)
        _worst(found, mine.head(top), console)
        if causes.advice:
            print_part(console, WHAT_TO_DO, section_block(Section("", "", advice=causes.advice)))
    console.print()


def _groups(found: Stragglers, app: int, top: int, console: Console) -> None:
    labels = found.labels
    queries = found.stragglers["query"].unique().tolist()
    names = {
        row: f"{short(labels.query(row), 32)} {labels.query_id(row).rpartition('/')[2]}"
        for row in queries
        if row >= 0
    }
    for group in GROUPS:
        section = group_section(found, group, names, app)
        if section.rows:
            print_part(console, section.title, section_block(section.first(top)))


def _worst(found: Stragglers, shown: pd.DataFrame, console: Console) -> None:
    console.print()
    console.print(indented(Text(f"The {len(shown)} most delayed", style="italic")))
    for line in straggler_lines(found, shown, {}):
        console.print(indented(Text(f"task {line.task} ", style="bold").append(line.rest)))
        for name, said in line.causes:
            console.print(indented(f"- {name}: {said}", 5))
        if line.unexplained:
            console.print(indented(f"- {line.unexplained}", 5))
