"""The summary of many applications as text: what ``iqcar analyze --on-spark`` prints."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from math import isfinite
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from iqcar.base.limits import MOST_DOUBTS
from iqcar.base.units import duration, resource_name, short
from iqcar.rules.vocabulary.topics import straggler_cause
from iqcar.say.section import Section, columns
from iqcar.show.terminal.layout import print_doubts, show_section, terminal
from iqcar.version import __version__

if TYPE_CHECKING:
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
    for section in fleet_sections(summary, top):
        if section.rows:
            show_section(console, section)
    doubts = [
        f"{doubt} ({count:,} of {found.bundles:,} diagnoses)"
        for doubt, count in summary.doubts.items()
    ]
    print_doubts(doubts[:MOST_DOUBTS], console)


def cut_words(cut: Cut) -> str:
    """Say in one sentence what was cut."""
    times = " ".join(
        f"{word} {datetime.fromtimestamp(ms / 1e3, timezone.utc):%Y-%m-%d %H:%M}"
        for word, ms in (("from", cut.start_ms), ("to", cut.end_ms))
        if isfinite(ms)
    )
    return (
        f"Cut into {cut.parts:,} parts by hours: {cut.applications:,} applications of "
        f"{cut.tasks:,} tasks that shared {cut.hosts:,} hosts {times} UTC; what {cut.apart:,} of "
        "them did to applications of another part is not counted."
    )


def fleet_sections(summary: FleetSummary, top: int) -> Iterator[Section]:
    """Show what was lost by resource, host, application, query and pair, and stragglers."""
    lost = summary.totals["lost_ms"]
    resources = summary.resources[summary.resources["lost_ms"] > 0]
    hosts = summary.hosts[summary.hosts["lost_ms"] > 0]
    yield Section(
        "resources",
        "Hot resources",
        columns=columns("resource | lost to it:time | of all lost time:share | queries hit:count"),
        rows=tuple(
            (resource_name(row.resource), row.lost_ms, row.lost_ms / lost, row.queries)
            for row in resources.itertuples()
        ),
    )
    yield Section(
        "hosts",
        "Slow nodes",
        columns=columns(
            "host:name | lost there:time | of all lost time:share | of it for slots:time"
        ),
        rows=tuple(
            (row.host, row.lost_ms, row.lost_ms / lost, row.slots_lost_ms)
            for row in hosts.head(top).itertuples()
        ),
    )
    yield from _query_sections(summary, top)
    yield Section(
        "pairs",
        "Between applications",
        columns=columns("who was in the way:name | of whom:name | lost:time"),
        rows=tuple(
            (row.source, row.target, row.lost_ms) for row in summary.pairs.head(top).itertuples()
        ),
    )
    yield Section(
        "stragglers",
        "Stragglers",
        columns=columns("cause:name | stragglers:count | delayed by:time"),
        rows=tuple(
            (straggler_cause(row.cause).name, row.stragglers, row.delay_ms)
            for row in summary.causes.head(top).itertuples()
        ),
    )


def _query_sections(summary: FleetSummary, top: int) -> Iterator[Section]:
    applications = ("duration_ms", "lost_ms", "lost_to_others_ms", "others_lost_ms")
    yield Section(
        "applications",
        "Who lost most to others",
        columns=columns(
            "application:name | user:name | queries:count | ran:time | lost:time",
            "to other queries:time | others lost to it:time",
        ),
        rows=tuple(
            (
                f"{short(row['name'], 32)} {row['application_id']}",
                short(row["user"], 12),
                row["queries"],
                *(row[name] for name in applications),
            )
            for row in summary.applications.head(top).to_dict("records")
        ),
    )
    yield Section(
        "queries",
        "Queries that lost most",
        columns=columns(
            "query:name | application:name | ran:time | lost:time | to others:time", "mostly to"
        ),
        rows=tuple(
            (
                f"{short(row['name'], 32)} {row['query_id']}",
                short(row["application_name"], 24),
                *(row[name] for name in applications[:3]),
                row["worst_source"],
            )
            for row in summary.queries.head(top).to_dict("records")
        ),
    )
    yield Section(
        "aggressive",
        "Aggressive queries",
        columns=columns("query:name | others lost:time | queries hit:count | mostly for"),
        rows=tuple(
            (
                f"{short(row['name'], 32)} {row['query_id']}",
                row["lost_ms"],
                row["victims"],
                resource_name(row["resource"]),
            )
            for row in summary.sources.head(top).to_dict("records")
        ),
    )
