"""A window of a running application on a terminal: what ``iqcar live`` shows."""

from __future__ import annotations

import time
from math import inf, isfinite

from rich.console import Group, RenderableType
from rich.text import Text

from iqcar.base import limits
from iqcar.base.units import (
    MINUTES,
    breakdown,
    duration,
    moment,
    one_unit,
    percent,
    printable,
    resource_name,
    short,
)
from iqcar.live.window import Lost, Overview, Victim, Window, overview_of
from iqcar.say.rule_lines import ActingRule, acting_rules, since_start
from iqcar.show.terminal.layout import indented, plain_table
from iqcar.tables import Tables

NAME_WIDTH = 40
MOST_LINES = 4
"""Whom a query's loss is attributed to, in so many lines at most."""
OLD_MS = 10_000.0
"""Age of the newest event from which it is told: Spark writes what it buffers when a stage ends."""

LONG_QUIET_MS = 3_600_000.0
"""Age of the newest event, by the clock here, from which nobody knows whether it runs (an hour)."""


def window_view(window: Window) -> RenderableType:
    """Lay a window out as text."""
    shown = overview_of(window)
    parts: list[RenderableType] = [_head(window, shown), Text(_now(shown))]
    quiet = window.end_ms - window.newest_ms
    if not window.ended and quiet >= OLD_MS:
        parts.append(
            Text(f"The log is quiet: its newest event came {duration(quiet)} ago.", style="bold")
        )
    if shown.finding is not None:
        parts.append(Text(f"{shown.finding.sentence} {shown.finding.action}", style="bold"))
    parts += [Text(""), Text(f"Who waits for whom{_lost_words(shown)}", style="bold")]
    if not shown.victims:
        parts.append(indented("Nobody: no time was lost to contention."))
    parts += [indented(_victim(one)) for one in shown.victims]
    if shown.aggressors:
        parts += [Text(""), Text("Aggressive queries", style="bold"), indented(_aggressors(shown))]
    if shown.slow_tasks:
        parts += [Text(""), Text("Stragglers running now", style="bold"), indented(_slow(shown))]
    in_force = [one for one in acting_rules(window.tables) if one.until_ms == inf]
    if in_force and not window.ended:
        rules = _rules(window.tables, in_force)
        parts += [Text(""), Text("Rules in force", style="bold"), indented(rules)]
    if window.notes:
        parts += [Text(""), *(Text(f"- {printable(note)}") for note in window.notes)]
    return Group(*parts)


def _head(window: Window, shown: Overview) -> Text:
    state = f"{'ended' if window.ended else 'running'}  {moment(window.end_ms)[11:]} UTC"
    if not window.ended and 1e3 * time.time() - window.newest_ms > LONG_QUIET_MS:
        state = f"no end since {moment(window.newest_ms, MINUTES)} UTC"
    name = short(shown.application, NAME_WIDTH) or "an application"
    words = f"{name}  {short(shown.application_id)}  {state}"
    span = duration(window.end_ms - window.start_ms)
    return Text(f"{words}  the last {span}", style="bold")


def _now(shown: Overview) -> str:
    slots = f"{shown.slots_used:.0f} of {shown.slots:.0f}" if isfinite(shown.slots) else "?"
    return (
        f"{slots} slots used on {_count(shown.executors, 'executor')}; "
        f"{_count(shown.queries_running, 'query', 'queries')}, "
        f"{_count(shown.stages_running, 'stage')} and {_count(shown.tasks_running, 'task')} run, "
        f"{_count(shown.tasks_waiting, 'task')} wait to be launched"
    )


def _count(number: int, one: str, several: str = "") -> str:
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def _lost_words(shown: Overview) -> str:
    if shown.lost_ms <= 0:
        return ""
    words = f": {duration(shown.lost_ms)} lost"
    parts = [_shares(shown.resources, resource=True), _shares(shown.hosts)]
    said = "; ".join(part for part in parts if part)
    return f"{words} ({said})"


def _shares(rows: tuple[Lost, ...], resource: bool = False) -> str:
    return ", ".join(
        f"{resource_name(one.name) if resource else short(one.name)} {percent(one.share)}"
        for one in rows[:3]
    )


def _called(name: str, number: str) -> str:
    """Name of a query, and what tells it from others where the name does not."""
    told = not number or name.endswith(f"({number})")
    return short(name, NAME_WIDTH) if told else f"{short(name, NAME_WIDTH)} ({number})"


def _victim(victim: Victim) -> RenderableType:
    waits = f", {_count(victim.waiting, 'task')} waiting" if victim.waiting else ""
    state = "runs" if victim.running else "ran"
    head = Text(
        f"{_called(victim.name, victim.number)} lost {duration(victim.lost_ms)}"
        f"{waits}; it {state} for {duration(victim.elapsed_ms)}"
    )
    table = plain_table(">", "", "", "")
    table.show_header = False
    for one in victim.blamed[:MOST_LINES]:
        table.add_row(
            duration(one.lost_ms),
            percent(one.share),
            _called(one.name, one.number),
            breakdown({resource_name(key): ms for key, ms in one.by_resource.items()}),
        )
    return Group(head, indented(table))


def _aggressors(shown: Overview) -> RenderableType:
    table = plain_table("query", ">others lost", ">victims", "mostly", ">slots now")
    write = one_unit(one.lost_ms for one in shown.aggressors)
    for one in shown.aggressors:
        table.add_row(
            _called(one.name, one.number),
            write(one.lost_ms),
            f"{one.victims:,}",
            resource_name(one.resource),
            f"{one.slots:.0f}" if one.running else "ended",
        )
    return table


def _slow(shown: Overview) -> RenderableType:
    table = plain_table("query", ">stage", ">partition", "host", ">runs for", ">median")
    runs_for = one_unit(one.running_ms for one in shown.slow_tasks)
    median = one_unit(one.median_ms for one in shown.slow_tasks)
    for one in shown.slow_tasks:
        table.add_row(
            _called(one.name, one.number),
            str(one.stage_id),
            str(one.index),
            short(one.host),
            runs_for(one.running_ms),
            median(one.median_ms),
        )
    return table


def _rules(tables: Tables, in_force: list[ActingRule]) -> RenderableType:
    table = plain_table("rule", ">since", "what it does")
    for one in in_force[: limits.MOST_ACTED]:
        since = since_start(tables, one.app, one.from_ms)
        table.add_row(printable(one.rule), since, one.sentence)
    left = len(in_force) - limits.MOST_ACTED
    return Group(table, Text(f"{left:,} more")) if left > 0 else table
