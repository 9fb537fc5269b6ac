"""Stragglers as text on a terminal: counts per cause, stage, query and host; then the worst."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from iqcar.base.limits import MOST_BLAMED_FOR_CAUSE, MOST_CAUSES
from iqcar.base.units import duration, percent, printable, short
from iqcar.causes.stragglers.straggler_result import Stragglers, by_cause, by_group
from iqcar.rules.vocabulary.topics import straggler_cause, what_helps
from iqcar.say.blamed import blamed_name
from iqcar.show.terminal.layout import (
    indented,
    plain_table,
    print_doubts,
    print_part,
    terminal,
)
from iqcar.show.terminal.straggler_section import cause_table, headline

WHAT_TO_DO = "What to do (advice to people; no pool is made from it)"
NOTHING = "nothing recorded explains it"


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
    if not len(mine):
        console.print()
        return
    print_part(console, "Causes", cause_table(found, app, top))
    labels = found.labels

    def query(row: int) -> str:
        return f"{short(labels.query(row), 32)} {labels.query_id(row).rpartition('/')[2]}"

    names = {"stage": labels.stage, "query": query, "host": labels.host}
    titles = {"stage": "Stages", "query": "Queries", "host": "Hosts"}
    for group, name in names.items():
        frame = by_group(found, group, app)
        frame = frame[(frame[group] >= 0).to_numpy()]
        if len(frame):
            print_part(console, titles[group], _group_table(frame, group, name, top))
    console.print()
    console.print(indented(Text(f"The {min(top, len(mine))} most delayed", style="italic")))
    for row in mine.head(top).index.tolist():
        _straggler(found, int(row), console)
    _advice(found, app, top, console)
    console.print()


def _group_table(frame: pd.DataFrame, group: str, name: Any, top: int) -> Table:
    table = plain_table(group, ">stragglers", ">of tasks", ">over the median", "causes")
    for row in frame.head(top).to_dict("records"):
        table.add_row(
            short(name(row[group]), 44),
            f"{row['stragglers']:,}",
            percent(row["stragglers"] / row["tasks"]),
            duration(row["delay_ms"]),
            Text(_causes_of(row["causes"])),
        )
    return table


def _causes_of(counts: dict[str, int]) -> str:
    listed = [f"{short(straggler_cause(key).name, 30)} {n:,}" for key, n in counts.items()]
    more = len(listed) - MOST_CAUSES
    return ", ".join(listed[:MOST_CAUSES]) + (f", {more} more" if more > 0 else "")


def _straggler(found: Stragglers, row: int, console: Console) -> None:
    one = found.stragglers.iloc[row]
    labels = found.labels
    title = Text(f"task {short(labels.task(int(one['task']), int(one['task_id'])))}", style="bold")
    host = labels.host(int(one["host"]))
    where = f" on {short(host, 40)}" if host else ""
    title.append(
        f": {duration(one['duration_ms'])} where the median is {duration(one['median_ms'])}"
        f"{where}, stage {short(labels.stage(int(one['stage'])), 40)}"
    )
    if labels.query(int(one["query"])):
        title.append(f", query {short(labels.query(int(one['query'])), 32)}")
    console.print(indented(title))
    mine = found.causes[found.causes["straggler"] == row]
    if not len(mine):
        console.print(indented(f"- {NOTHING}{_time_went(one)}", 5))
    for number, cause in zip(mine.index.tolist(), mine.to_dict("records"), strict=True):
        name = straggler_cause(cause["cause"]).name
        words = f"- {name}: {cause['sentence'].removeprefix(f'{name} ')}"
        blamed = _blamed(found, int(number))
        whole = f"{words}; iQCAR blames {blamed}" if blamed else words
        console.print(indented(whole, 5))


def _time_went(one: pd.Series) -> str:
    """Say how an unexplained straggler spent its time, as far as Spark records it."""
    ran, computed = float(one["run_ms"]), float(one["cpu_ms"])
    if math.isnan(ran):
        return ""
    on_cpu = (
        "CPU time unknown" if math.isnan(computed) else f"{duration(computed)} on the processor"
    )
    return f": its code ran {duration(ran)}, {on_cpu}"


def _blamed(found: Stragglers, cause: int) -> str:
    mine = found.sources[found.sources["cause"] == cause].head(MOST_BLAMED_FOR_CAUSE)
    return ", ".join(
        f"{blamed_name(row['kind'], found.labels.query(int(row['query'])))} {percent(row['share'])}"
        for row in mine.to_dict("records")
    )


def _advice(found: Stragglers, app: int, top: int, console: Console) -> None:
    frame = by_cause(found, app)
    keys = [key for key in frame["cause"].tolist() if key][:top]
    advised = [(key, helps) for key in keys if (helps := what_helps(key, found))]
    if not advised:
        return
    advice = [Text(printable(f"- {straggler_cause(key).name}: {helps}")) for key, helps in advised]
    print_part(console, WHAT_TO_DO, Group(*advice))
