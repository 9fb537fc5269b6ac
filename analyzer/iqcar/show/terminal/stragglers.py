"""Stragglers as text on a terminal: counts per cause, stage, query and host; then the worst."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
from rich.console import Console
from rich.text import Text

from iqcar.base.units import printable, short
from iqcar.causes.stragglers.straggler_result import Stragglers
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
    print_doubts,
    print_part,
    section_block,
    terminal,
)


def print_stragglers(found: Stragglers, top: int, console: Console | None = None) -> None:
    """Print, per application, where and why tasks straggled, then the worst with evidence."""
    console = console or terminal()
    for app in dict.fromkeys(found.compared_stages["app"].tolist()):
        _application(found, int(app), top, console)
    print_doubts(found.doubts, console)


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
