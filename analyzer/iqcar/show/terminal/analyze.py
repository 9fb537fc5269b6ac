"""The diagnosis as text on a terminal: what ``iqcar analyze`` and ``iqcar queries`` print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rich.console import Console
from rich.table import Table
from rich.text import Text

from iqcar.base.formatting import breakdown, duration, percent, printable, resource_name, short
from iqcar.diagnosis import Diagnosis
from iqcar.enums import BlameKind, Resource
from iqcar.say import Blamed, Finding, all_doubts, find_verdict
from iqcar.say.host_sections import hosts_section
from iqcar.say.rule_lines import advice_lines
from iqcar.say.section import Section
from iqcar.say.sections import (
    acting_rules_section,
    aggressive_section,
    owners_section,
    queries_section,
    resources_section,
    rules_section,
    wasted_section,
)
from iqcar.say.sentences import counts, wait_words
from iqcar.say.straggler_links import link_lines, names_of
from iqcar.say.straggler_sections import causes_section, headline
from iqcar.say.topic_sections import topics_section
from iqcar.say.wasted_lines import WastedLine
from iqcar.show.terminal.layout import (
    indented,
    plain_table,
    print_doubts,
    section_table,
    show_section,
    terminal,
)
from iqcar.version import __version__


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
    for section in _sections(diagnosis, verdict.wasted):
        show_section(console, section)
    print_doubts(verdict.doubts, console)


def _sections(diagnosis: Diagnosis, wasted: Sequence[WastedLine]) -> list[Section]:
    """Return what is shown beside the targets, in order."""
    top, by, found = diagnosis.settings.top, diagnosis.settings.by, diagnosis.stragglers
    most = max(top, 1)
    hosts = hosts_section(diagnosis)
    slow = tuple(row for row in hosts.rows if row[1] > 0)
    sections = [
        resources_section(diagnosis),
        replace(hosts, rows=slow).first(top),
        aggressive_section(diagnosis, top),
    ]
    if by:
        sections.append(owners_section(diagnosis, by, 3 * most))
    if len(diagnosis.wasted.tasks):
        section = wasted_section(diagnosis, wasted, most)
        costs = tuple(f"- {line.sentence}" for line in wasted[:most])
        sections.append(replace(section, rows=(), notes=(*costs, *section.notes)))
    if len(found.stragglers):
        said = headline(found, found.stragglers, found.tasks)
        more = ("See each, with evidence and advice: iqcar stragglers PATH",)
        causes = causes_section(found).first(2 * most)
        shown = replace(causes, title="Stragglers", sentence=said, notes=more, advice=())
        sections.append(shown)
    if diagnosis.topics is not None:
        more = ("See each stage's mixture, with evidence and advice: iqcar topics PATH",)
        topics = topics_section(diagnosis.topics, names_of(diagnosis.topics))
        sections.append(replace(topics.first(most), title="Topics", notes=more, advice=()))
    acted = acting_rules_section(diagnosis.tables)
    return [*sections, acted, rules_section(diagnosis), _advice(diagnosis)]


def _advice(diagnosis: Diagnosis) -> Section:
    """Show the advice to people, what explains most time first."""
    notes = []
    for line in advice_lines(diagnosis.rules):
        notes += [f"{line.id}. {line.title}", f"   {line.reason}", f"   {line.advice}"]
        notes += [f"   {name}: {value} ({why})" for name, value, why in line.settings]
    head = "To people: no pool is made from it; what it does is not predicted."
    return Section("advice", "Advice", sentence=head if notes else "", notes=tuple(notes))


def print_queries(diagnosis: Diagnosis, console: Console | None = None) -> None:
    """Print one row per query, by application, in the order in which they started."""
    console = console or terminal()
    console.print(Text(f"iqcar {__version__}: {', '.join(counts(diagnosis.tables))}"))
    console.print(section_table(queries_section(diagnosis)))
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
