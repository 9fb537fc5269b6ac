"""Print what a store answers: rankings, who lost to whom, runs and changes of queries."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd
from rich.table import Table
from rich.text import Text

from iqcar.base.units import (
    MINUTES,
    duration,
    moment,
    percent,
    printable,
    resource_name,
    short,
    signed,
    size,
)
from iqcar.history.ask_store import told_duration, top_headline
from iqcar.rules.vocabulary import straggler_cause
from iqcar.show.terminal.layout import indented, plain_table, print_section, terminal

if TYPE_CHECKING:
    from iqcar.history.add_logs import Added
    from iqcar.history.ask_store import Changes, QueryChange, Top

MOST_FAILED = 10
NOTHING = "Nothing in this part of the store."
_NAME = 56


def print_added(store: str, added: Added) -> None:
    """Print what an addition did."""
    console = terminal()
    written = f", {size(added.written_bytes)}" if added.added else ""
    console.print(
        f"{store}: {added.added:,} applications added{written}; {added.known:,} logs were known."
    )
    if added.partial:
        console.print(f"{added.partial:,} of them are cut or still running; add them again later.")
    if added.cut:
        console.print(
            f"{added.cut:,} times too many applications ran at once to be diagnosed together: "
            "blame between such groups is missing."
        )
    if added.merged:
        console.print(f"{added.merged:,} small files were merged, so that questions open fewer.")
    for path, message in added.failed[:MOST_FAILED]:
        console.print(printable(f"failed: {path}: {message}"))
    if len(added.failed) > MOST_FAILED:
        console.print(f"{len(added.failed) - MOST_FAILED:,} more failed (--json lists all).")


def print_set_aside(lines: list[str]) -> None:
    """Print on stderr which files of a store were not read, and why."""
    for line in lines[:MOST_FAILED]:
        print(printable(line), file=sys.stderr)
    if len(lines) > MOST_FAILED:
        print(f"{len(lines) - MOST_FAILED:,} more set aside (--json lists all)", file=sys.stderr)


def print_top(found: Top, period: str) -> None:
    """Print rankings, the last period first."""
    console = terminal()
    periods = sorted({p for frame in vars(found).values() for p in frame["period"]}, reverse=True)
    if not periods:
        console.print(NOTHING)
    if headline := top_headline(found, period):
        console.print(Text(headline, style="bold"))
    for one in periods:
        if one:
            console.print()
            console.print(Text(f"{period.capitalize()} from {one}", style="bold"))
        of = {name: frame[frame["period"] == one] for name, frame in vars(found).items()}
        queries = _table(
            ("Aggressive query", ">others lost", ">victims", ">runs", "cluster"),
            [
                (r.name, duration(r.lost_ms), f"{r.victims:,}", f"{r.runs:,}", r.cluster)
                for r in of["queries"].itertuples(index=False)
            ],
        )
        hosts = _table(
            ("Slow node", ">slowdown", ">excess", ">stragglers", ">tasks", "cluster"),
            [
                (r.host, f"{r.slowdown:.2f} ×", signed(r.excess_ms), f"{r.stragglers:,}",
                 f"{r.tasks:,}", r.cluster)
                for r in of["hosts"].itertuples(index=False)
            ],
        )  # fmt: skip
        resources = _table(
            ("Hot resource", "host", ">lost to others", ">victims", "cluster"),
            [
                (resource_name(r.resource), r.host or "several hosts", duration(r.lost_ms),
                 f"{r.victims:,}", r.cluster)
                for r in of["resources"].itertuples(index=False)
            ],
        )  # fmt: skip
        causes = _table(
            ("Cause of stragglers", ">delay", ">stragglers", ">applications", ">hosts", "cluster"),
            [
                (straggler_cause(r.cause).name, duration(r.delay_ms), f"{r.stragglers:,}",
                 f"{r.applications:,}", f"{r.hosts:,}", r.cluster)
                for r in of["causes"].itertuples(index=False)
            ],
        )  # fmt: skip
        for table in (queries, hosts, resources, causes):
            if table is not None:
                console.print(indented(table))
                console.print()


def print_who(losses: pd.DataFrame, by: str, most: int) -> None:
    """Print who lost to whom, the largest first."""
    console = terminal()
    if losses.empty:
        console.print("No query lost time to another one in this part of the store.")
        return
    table = _table(
        (f"Victim ({by})", f"lost to ({by})", "for", ">lost", ">share", ">runs"),
        [
            (r.victim, r.source, resource_name(r.resource), duration(r.lost_ms), percent(r.share),
             f"{r.runs:,}")
            for r in losses.head(most).itertuples(index=False)
        ],
    )  # fmt: skip
    console.print(table)
    if len(losses) > most:
        console.print(f"{len(losses) - most:,} more (--top, --json).")


def print_trend(runs: pd.DataFrame, changes: Changes, most: int) -> None:
    """Print the last runs of a query, and when it changed."""
    console = terminal()
    console.print(Text(printable(short(str(runs["name"].iloc[-1]), 100)), style="bold"))
    rows = [
        (
            moment(r.start_ms, MINUTES), told_duration(r),
            duration(r.lost_to_others_ms), r.source, duration(r.cpu_ms),
            size(r.read_bytes), r.application_id,
        )
        for r in runs.tail(most).itertuples(index=False)
    ]  # fmt: skip
    titles = ("Run", ">duration", ">lost to others", "most to", ">CPU", ">read", "application")
    console.print(_table(titles, rows))
    if len(runs) > most:
        console.print(f"{len(runs) - most:,} earlier runs (--top, --json).")
    print_section(console, "Changes that lasted", _changes(changes.changes) or "None found.")


def print_changes(found: Changes, most: int) -> None:
    """Print changes of recurring queries, the costliest first."""
    console = terminal()
    table = _changes(found.changes[:most])
    console.print(table if table is not None else "No change that lasted was found.")
    if len(found.changes) > most:
        console.print(f"{len(found.changes) - most:,} more (--top, --json).")
    console.print(
        f"{found.series:,} recurring queries had enough runs; a change is found in "
        f"{percent(found.alpha)} of those that did not change."
    )


def _changes(changes: Sequence[QueryChange]) -> Table | None:
    return _table(
        ("Query", "since", ">before", ">after", "runs", ">cost", "what else changed"),
        [
            (one.name, moment(one.at_ms, MINUTES), duration(one.before_ms), duration(one.after_ms),
             f"{one.runs_before}/{one.runs_after}", signed(one.cost_ms),
             "; ".join((*one.why, *one.compared)) or "nothing that the store holds")
            for one in changes
        ],
    )  # fmt: skip


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Table | None:
    if not rows:
        return None
    table = plain_table(*titles)
    for first, *others in rows:
        table.add_row(Text(printable(short(first, _NAME))), *(Text(printable(o)) for o in others))
    return table
