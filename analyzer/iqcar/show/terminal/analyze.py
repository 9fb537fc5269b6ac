"""The diagnosis as text on a terminal: what ``iqcar analyze`` and ``iqcar queries`` print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from iqcar.base import limits
from iqcar.base.units import breakdown, duration, percent, printable, resource_name, short
from iqcar.diagnosis import Diagnosis
from iqcar.enums import BlameKind, Resource
from iqcar.say import Blamed, Finding, all_doubts, find_verdict
from iqcar.say.owner_losses import KIND_WORDS, losses_by_owner, owner_lines
from iqcar.say.rule_lines import rejected_lines, rule_lines, together_words
from iqcar.say.rules_acting import acting_rules, not_accepted, since_start
from iqcar.say.sentences import amount, counts, wait_words
from iqcar.show.json.straggler_links import link_lines
from iqcar.show.terminal.advice_section import advice_section
from iqcar.show.terminal.layout import (
    indented,
    plain_table,
    print_doubts,
    print_section,
    terminal,
)
from iqcar.show.terminal.straggler_section import straggler_section
from iqcar.show.terminal.topic_section import topic_section
from iqcar.show.terminal.wasted_section import wasted_section
from iqcar.tables import Tables
from iqcar.version import __version__

WIDTH = 32
"""Characters of an owner's name."""


def owner_section(diagnosis: Diagnosis) -> RenderableType | None:
    """One line per owner that lost time and owner or cause that it lost it to; none without --by.

    The last line sums what is not shown, so that the lines sum to what all queries lost.
    """
    if not diagnosis.settings.by:
        return None
    lines, rest = owner_lines(
        losses_by_owner(diagnosis, diagnosis.settings.by), max(3 * diagnosis.settings.top, 1)
    )
    if not lines:
        return None
    table = plain_table("lost by", "to", "", ">lost", ">of all", "waiting for", "evidence")
    for line in (*lines, rest) if rest else lines:
        table.add_row(
            short(printable(line.victim), WIDTH),
            short(printable(line.source), WIDTH),
            KIND_WORDS[line.kind],
            duration(line.lost_ms),
            percent(line.share),
            breakdown(line.by_resource),
            line.evidence,
        )
    return table


def acting_rules_section(tables: Tables) -> RenderableType | None:
    """Show what each rule did from when to when; nothing where the plugin had no rules file."""
    acting, refused = acting_rules(tables), not_accepted(tables)
    if not acting and not refused:
        return None
    table = plain_table("rule", ">from", ">until", "what it did")
    for one in acting[: limits.MOST_ACTED]:
        table.add_row(
            printable(one.rule),
            since_start(tables, one.app, one.from_ms),
            since_start(tables, one.app, one.until_ms),
            one.sentence,
        )
    lines: list[RenderableType] = [table] if acting else []
    if left := len(acting) - limits.MOST_ACTED:
        lines += [Text(f"{left:,} more in the result of --json.")] if left > 0 else []
    lines += [
        Text(f"{since_start(tables, app, time)}: {sentence}")
        for app, time, sentence in refused[: limits.MOST_ACTED]
    ]
    return Group(*lines)


def print_diagnosis(diagnosis: Diagnosis, console: Console | None = None) -> None:
    """Print targets with their blame, then resources, hosts, aggressive queries, rules, doubts."""
    console = console or terminal()
    verdict = find_verdict(diagnosis)
    if verdict.do_not_apply:
        console.print(Text(verdict.do_not_apply, style="bold"))
    console.print(Text(f"iqcar {__version__}: {', '.join(counts(diagnosis.tables))}"))
    console.print(Text(verdict.headline))
    for rank, finding in enumerate(verdict.findings, 1):
        _target(diagnosis, finding, rank, console)
    graph, top = diagnosis.graph, diagnosis.settings.top
    print_section(console, "Hot resources", _hot_resources(graph.hot_resources()))
    print_section(console, "Slow nodes", _slow_nodes(graph.slow_nodes().head(top)))
    print_section(console, "Aggressive queries", _aggressive(diagnosis, top))
    owned, title = owner_section(diagnosis), f"Who lost to whom, by {diagnosis.settings.by}"
    print_section(console, title, owned)
    print_section(console, "Wasted work", wasted_section(diagnosis.wasted, verdict.wasted, top))
    print_section(console, "Stragglers", straggler_section(diagnosis.stragglers, top))
    print_section(console, "Topics", topic_section(diagnosis.topics, top))
    print_section(console, "Rules that acted", acting_rules_section(diagnosis.tables))
    print_section(console, "Scheduler rules", _rules(diagnosis))
    print_section(console, "Advice", advice_section(diagnosis.rules))
    print_doubts(verdict.doubts, console)


def print_queries(diagnosis: Diagnosis, console: Console | None = None) -> None:
    """Print one row per query, by application, in the order in which they started."""
    console = console or terminal()
    console.print(Text(f"iqcar {__version__}: {', '.join(counts(diagnosis.tables))}"))
    queries = diagnosis.queries
    several = len(diagnosis.tables.applications) > 1
    shared = bool((queries[f"{Resource.EXECUTORS}_wait_ms"] > 0).any())
    shown = [r for r in Resource if shared or r is not Resource.EXECUTORS]
    waits = [f">{resource_name(r)}" for r in shown]
    table = plain_table("query", "name", ">ran", ">lost", ">tasks", *waits)
    order = np.lexsort((queries["start_ms"].to_numpy(), queries["app"].to_numpy()))
    app = None
    for query in queries.iloc[order].to_dict("records"):
        application, _, number = query["query_id"].rpartition("/")
        if several and application != app:
            app = application
            table.add_row(Text(short(application), style="italic"))
        ran = duration(query["duration_ms"])
        table.add_row(
            short(number, 20),
            short(query["name"], 20),
            ran if query["ended"] else f"{ran} …",
            amount(query["lost_ms"], query["duration_ms"]),
            str(query["tasks"]),
            *(duration(query[f"{resource}_wait_ms"]) for resource in shown),
        )
    console.print(table)
    console.print(
        "Lost is elapsed time; slots to IO are waits, in task time summed over a query's tasks. "
        "… had not ended. Look at one with: iqcar blame PATH --target QUERY"
    )
    print_doubts(all_doubts(diagnosis), console)


def _target(diagnosis: Diagnosis, finding: Finding, rank: int, console: Console) -> None:
    console.print()
    title = Text(f"{rank}. {short(finding.name)}", style="bold")
    title.append(f"  {finding.query_id}", style="dim")
    title.append(f"  {finding.severity.words}")
    console.print(title)
    for line in (
        finding.summary,
        f"task time waited: {wait_words(diagnosis, finding.query)}",
        *link_lines(diagnosis.stragglers, diagnosis.topics, finding.query),
    ):
        console.print(indented(line))
    console.print(indented(blame_table(finding.blamed)))


def blame_table(blamed: Sequence[Blamed]) -> Table:
    """Whom one target's lost time is attributed to, the largest part first."""
    table = plain_table(
        "who was in the way", ">lost", ">of the loss", ">of its run", "waiting for", "where"
    )
    for one in blamed:
        named = one.kind is BlameKind.QUERY
        table.add_row(
            Text(f"{short(one.name, 32)} {one.number}".rstrip(), style="" if named else "dim"),
            duration(one.lost_ms),
            percent(one.share),
            percent(one.share_of_run),
            breakdown({resource_name(key): ms for key, ms in one.by_resource.items()}),
            _idle(one) or _where(one.by_host),
        )
    return table


def _idle(one: Blamed) -> str:
    """Say how much of what it held was idle, where that is most of what can be said of it."""
    executors = one.by_resource.get(Resource.EXECUTORS, 0.0)
    if executors <= one.lost_ms / 2 or one.idle_ms <= 0:
        return ""
    return f"{percent(one.idle_ms / executors)} in idle executors"


def _where(by_host: Mapping[str, float], shown: int = 2) -> str:
    total = sum(by_host.values())
    if total <= 0:
        return ""
    if len(by_host) == 1:
        return printable(next(iter(by_host)))
    hosts = [
        f"{printable(host)} {percent(ms / total)}" for host, ms in list(by_host.items())[:shown]
    ]
    more = len(by_host) - shown
    return ", ".join(hosts) + (f", {more} more" if more > 0 else "")


def _hot_resources(frame: pd.DataFrame) -> Table | None:
    frame = frame[frame["lost_ms"] > 0]
    if len(frame) == 0:
        return None
    table = plain_table("resource", ">lost to it", ">of all lost time", ">queries hit")
    for row in frame.to_dict("records"):
        table.add_row(
            resource_name(row["resource"]),
            duration(row["lost_ms"]),
            percent(row["share"]),
            str(row["targets"]),
        )
    return table


def _slow_nodes(frame: pd.DataFrame) -> Table | None:
    frame = frame[frame["lost_ms"] > 0]
    if len(frame) == 0:
        return None
    table = plain_table(
        "host", ">lost there", ">of all lost time", ">of it for slots", "mostly for"
    )
    for row in frame.to_dict("records"):
        table.add_row(
            printable(row["host"]),
            duration(row["lost_ms"]),
            percent(row["share"]),
            duration(row["slots_lost_ms"]),
            resource_name(row["resource"]),
        )
    return table


def _aggressive(diagnosis: Diagnosis, top: int) -> Table | None:
    frame = diagnosis.graph.aggressive_queries(top)
    frame = frame[frame["lost_ms"] > 0]
    if len(frame) == 0:
        return None
    names = diagnosis.tables.queries["name"].tolist()
    table = plain_table("query", ">others lost", ">queries hit", "mostly for", "worst hit")
    for row in frame.to_dict("records"):
        worst = row["worst_victim"]
        table.add_row(
            f"{short(row['name'], 32)} {printable(row['query_id'].rsplit('/', 1)[-1])}",
            duration(row["lost_ms"]),
            str(row["victims"]),
            resource_name(row["resource"]),
            short(names[worst], 32) if worst >= 0 else "",
        )
    return table


def _rules(diagnosis: Diagnosis) -> RenderableType | None:
    lines = rule_lines(diagnosis.rules)
    rejected = [Text(line) for line in rejected_lines(diagnosis.rejected_rules)]
    rejected += map(Text, diagnosis.earlier.notes)
    if not lines:
        none = Text("none: no query lost enough to another to be worth a rule")
        return Group(*rejected) if rejected else none
    table = plain_table("type", "query", ">value", "why")
    for line in lines:
        why = [
            line.reason,
            line.instead,
            line.besides,
            line.expected and f"Expected: {line.expected}.",
        ]
        value = f"{line.value:.3g}" if isinstance(line.value, float) else str(line.value)
        table.add_row(line.type, short(line.name, 28), value, Text(" ".join(filter(None, why))))
    together = diagnosis.rules_together
    said = [] if together is None else [f"All together, expected: {together_words(together)}"]
    return Group(table, *map(Text, said), *rejected)
