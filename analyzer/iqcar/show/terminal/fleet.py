"""The summary of many applications as text: what ``iqcar analyze --on-spark`` prints."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from iqcar.base.limits import MOST_DOUBTS
from iqcar.base.units import MINUTES, duration, moment, percent, printable, resource_name, short
from iqcar.rules.vocabulary.topics import straggler_cause
from iqcar.show.terminal.layout import plain_table, print_doubts, print_section, terminal
from iqcar.version import __version__

if TYPE_CHECKING:
    import pandas as pd

    from iqcar.fleet.fleet_summary import FleetFound, FleetSummary
    from iqcar.fleet.shared_hosts import Cut


def print_fleet(found: FleetFound, top: int, console: Console | None = None) -> None:
    """Print totals, then what was lost by resource, host, application and query; then doubts."""
    console = console or terminal()
    summary = found.summary
    if summary is None:
        return
    totals = summary.totals
    counted = ", ".join(
        f"{int(totals[name]):,} {name if totals[name] != 1 else one}"
        for name, one in (("applications", "application"), ("queries", "query"), ("tasks", "task"))
    )
    console.print(Text(f"iqcar {__version__}: {counted}", style="bold"))
    sizes = [len(group) for group in found.groups]
    alone = sizes.count(1)
    console.print(
        f"{alone:,} ran alone on their hosts; {sum(sizes) - alone:,} shared hosts at the same "
        f"time, in {len(sizes) - alone:,} groups of up to {max(sizes, default=0):,}."
    )
    for cut in found.cuts[:top]:
        console.print(Text(cut_words(cut)))
    lost = totals["lost_ms"]
    console.print(
        f"Queries ran {duration(totals['duration_ms'])} in all, lost {duration(lost)}, of it "
        f"{duration(totals['lost_to_others_ms'])} to other queries; work of no use took "
        f"{duration(totals['wasted_ms'])}."
    )
    print_section(console, "Hot resources", _resources(summary.resources, lost))
    print_section(console, "Slow nodes", _hosts(summary.hosts.head(top), lost))
    print_section(console, "Who lost most to others", _applications(summary.applications, top))
    print_section(console, "Queries that lost most", _queries(summary, top))
    print_section(console, "Aggressive queries", _sources(summary, top))
    print_section(console, "Between applications", _pairs(summary.pairs.head(top)))
    print_section(console, "Stragglers", _causes(summary.causes.head(top)))
    doubts = [
        f"{doubt} ({count:,} of {found.bundles:,} diagnoses)"
        for doubt, count in summary.doubts.items()
    ]
    print_doubts(doubts[:MOST_DOUBTS], console)


def cut_words(cut: Cut) -> str:
    """Say in one sentence what was cut."""
    times = " ".join(
        f"{word} {moment(ms, MINUTES)}"
        for word, ms in (("from", cut.start_ms), ("to", cut.end_ms))
        if isfinite(ms)
    )
    return (
        f"Cut into {cut.parts:,} parts by hours: {cut.applications:,} applications of "
        f"{cut.tasks:,} tasks that shared {cut.hosts:,} hosts {times} UTC; what {cut.apart:,} of "
        "them did to applications of another part is not counted."
    )


def _resources(frame: pd.DataFrame, lost: float) -> Table | None:
    frame = frame[frame["lost_ms"] > 0]
    table = plain_table("resource", ">lost to it", ">of all lost time", ">queries hit")
    for row in frame.to_dict("records"):
        share = percent(row["lost_ms"] / lost)
        table.add_row(
            resource_name(row["resource"]), duration(row["lost_ms"]), share, f"{row['queries']:,}"
        )
    return table if len(frame) else None


def _hosts(frame: pd.DataFrame, lost: float) -> Table | None:
    frame = frame[frame["lost_ms"] > 0]
    table = plain_table("host", ">lost there", ">of all lost time", ">of it for slots")
    for row in frame.to_dict("records"):
        table.add_row(
            printable(row["host"]),
            duration(row["lost_ms"]),
            percent(row["lost_ms"] / lost),
            duration(row["slots_lost_ms"]),
        )
    return table if len(frame) else None


def _applications(frame: pd.DataFrame, top: int) -> Table | None:
    table = plain_table(
        "application",
        "user",
        ">queries",
        ">ran",
        ">lost",
        ">to other queries",
        ">others lost to it",
    )
    for row in frame.head(top).to_dict("records"):
        table.add_row(
            f"{short(row['name'], 32)} {printable(row['application_id'])}",
            short(row["user"], 12),
            f"{row['queries']:,}",
            *(
                duration(row[name])
                for name in ("duration_ms", "lost_ms", "lost_to_others_ms", "others_lost_ms")
            ),
        )
    return table if len(frame) else None


def _queries(summary: FleetSummary, top: int) -> Table | None:
    table = plain_table("query", "application", ">ran", ">lost", ">to others", "mostly to")
    for row in summary.queries.head(top).to_dict("records"):
        table.add_row(
            _query(row),
            short(row["application_name"], 24),
            duration(row["duration_ms"]),
            duration(row["lost_ms"]),
            duration(row["lost_to_others_ms"]),
            printable(row["worst_source"]),
        )
    return table if len(summary.queries) else None


def _sources(summary: FleetSummary, top: int) -> Table | None:
    table = plain_table("query", ">others lost", ">queries hit", "mostly for")
    for row in summary.sources.head(top).to_dict("records"):
        table.add_row(
            _query(row),
            duration(row["lost_ms"]),
            f"{row['victims']:,}",
            resource_name(row["resource"]),
        )
    return table if len(summary.sources) else None


def _query(row: dict[str, str]) -> str:
    return f"{short(row['name'], 32)} {printable(row['query_id'])}"


def _pairs(frame: pd.DataFrame) -> Table | None:
    table = plain_table("who was in the way", "of whom", ">lost")
    for row in frame.to_dict("records"):
        table.add_row(printable(row["source"]), printable(row["target"]), duration(row["lost_ms"]))
    return table if len(frame) else None


def _causes(frame: pd.DataFrame) -> Table | None:
    table = plain_table("cause", ">stragglers", ">delayed by")
    for row in frame.to_dict("records"):
        name = straggler_cause(row["cause"]).name
        table.add_row(printable(name), f"{row['stragglers']:,}", duration(row["delay_ms"]))
    return table if len(frame) else None
