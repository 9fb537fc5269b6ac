"""The diagnosis as text on a terminal: what ``iqcar analyze`` and ``iqcar queries`` print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rich.console import Console
from rich.table import Table
from rich.text import Text

from iqcar.base.units import breakdown, one_unit, percent, printable, resource_name, short
from iqcar.diagnosis import Diagnosis
from iqcar.enums import BlameKind, Resource
from iqcar.say import Blamed, Finding, Target, Verdict, all_doubts, find_verdict
from iqcar.say.finding_stages import driver_section
from iqcar.say.input_sections import hosts_section
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
from iqcar.say.straggler_sections import (
    causes_section,
    headline,
    link_lines,
    names_of,
    topics_section,
)
from iqcar.say.wasted_lines import WastedLine
from iqcar.say.yarn_section import yarn_section, yarn_sentence
from iqcar.show.terminal.layout import (
    NARROW,
    indented,
    plain_table,
    print_doubts,
    section_table,
    show_section,
    terminal,
)
from iqcar.version import __version__

MOST_FIRST, MOST_LINES = 3, 25
"""Findings that are shown first, and lines for all that is."""
WAIT_WIDTH = 10
"""Characters of a column of waits."""


def print_answer(diagnosis: Diagnosis, console: Console | None = None) -> None:
    """Print the headline, what would save most, what to do next: at most 25 lines of 80."""
    console = console or terminal(width=NARROW)
    verdict = find_verdict(diagnosis)
    for most in range(MOST_FIRST, 0, -1):
        with console.capture() as answer:
            _print_answer(diagnosis, verdict, console, most)
        if answer.get().count("\n") <= MOST_LINES:
            break
    lines = "\n".join(line.rstrip(" ") for line in answer.get().split("\n"))
    console.print(Text.from_ansi(lines), end="", soft_wrap=True)


def _print_answer(diagnosis: Diagnosis, verdict: Verdict, console: Console, most: int) -> None:
    _head(diagnosis, verdict, console)
    _print_findings(verdict.findings[:most], console, lines=2)
    more = len(verdict.findings) - most
    left = [f"{more:,} more findings"] if more > 1 else ["1 more finding"] if more == 1 else []
    if doubts := len(verdict.doubts):
        left.append("1 doubt" if doubts == 1 else f"{doubts:,} doubts")
    besides = f" ({', '.join(left)})" if left else ""
    console.print()
    given = diagnosis.tables.given
    for line in (
        f"Pictures: iqcar report {given} --open",
        f"All of it{besides}: iqcar analyze {given} --full",
    ):
        console.print(Text(line), soft_wrap=True)


def print_diagnosis(diagnosis: Diagnosis, console: Console | None = None) -> None:
    """Print findings, targets with their blame, resources, hosts, queries, rules, doubts."""
    console = console or terminal()
    verdict = find_verdict(diagnosis)
    _head(diagnosis, verdict, console)
    _print_findings(verdict.findings, console)
    for rank, target in enumerate(verdict.targets, 1):
        _target(diagnosis, target, rank, console)
    for section in _sections(diagnosis, verdict.wasted):
        show_section(console, section)
    print_doubts(verdict.doubts, console)


def _head(diagnosis: Diagnosis, verdict: Verdict, console: Console) -> None:
    if verdict.do_not_apply:
        console.print(Text(verdict.do_not_apply, style="bold"))
    console.print(Text(f"iqcar {__version__}: {', '.join(counts(diagnosis.tables))}"))
    console.print(Text(verdict.headline, style="bold"))
    if diagnosis.yarn is not None and diagnosis.yarn.pending:
        console.print(Text(yarn_sentence(diagnosis.yarn)))


def _print_findings(findings: Sequence[Finding], console: Console, lines: int = 0) -> None:
    """Print findings; a sentence in so many lines at most if not 0, its action in one more."""
    for rank, one in enumerate(findings, 1):
        console.print()
        title = Text(f"{rank}. {one.kind.words[:1].upper()}{one.kind.words[1:]}", style="bold")
        console.print(title.append(f"  {one.saving}", style="not bold"))
        width = console.width - 6
        room, room_to_act = (lines * width, (lines + 1) * width) if lines else (10_000, 10_000)
        console.print(indented(_fitting(one.sentence, room)))
        console.print(indented(f"→ {_fitting(one.action, room_to_act)}"))
        for name, value, why in () if lines else one.settings:
            console.print(indented(f"{name}: {value} ({why})", 5))


def _fitting(text: str, room: int) -> str:
    """Cut a text after the last sentence or clause that fits."""
    line = short(text, len(text) + 1)
    if len(line) <= room:
        return line
    ends = [line.rfind(end, 0, room) for end in (". ", "; ", ", ", ": ")]
    at = next((end for end in ends if end > room // 2), -1)
    return f"{line[:at]}." if at > 0 else short(line, room)


def _sections(diagnosis: Diagnosis, wasted: Sequence[WastedLine]) -> list[Section]:
    """Return what is shown beside the targets, in order."""
    top, by, found = diagnosis.settings.top, diagnosis.settings.by, diagnosis.stragglers
    given = diagnosis.tables.given
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
    sections.append(yarn_section(diagnosis.yarn, 2 * most))
    driver = driver_section(diagnosis, most)
    sections.append(driver if driver.rows else replace(driver, sentence=""))
    if len(diagnosis.wasted.tasks):
        section = wasted_section(diagnosis, wasted, most)
        costs = tuple(f"- {line.sentence}" for line in wasted[:most])
        sections.append(replace(section, rows=(), notes=(*costs, *section.notes)))
    if len(found.stragglers):
        said = headline(found, found.stragglers, found.tasks)
        more = (f"See each, with evidence and advice: iqcar stragglers {given}",)
        causes = causes_section(found).first(2 * most)
        shown = replace(causes, title="Stragglers", sentence=said, notes=more, advice=())
        sections.append(shown)
    if diagnosis.topics is not None:
        more = (f"See each stage's mixture, with evidence and advice: iqcar topics {given}",)
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
    """Print the headline, and one row per query, those that lost most first."""
    console = console or terminal()
    _head(diagnosis, find_verdict(diagnosis), console)
    console.print()
    waits = max((console.width - NARROW) // WAIT_WIDTH, 0)
    console.print(section_table(queries_section(diagnosis, waits)))
    console.print()
    right = " Right of it: waits in task time, summed over a query's tasks." if waits else ""
    console.print(
        f"Lost is elapsed time.{right} … had not ended. Look at one with: "
        f"iqcar blame {diagnosis.tables.given} --target QUERY"
    )
    print_doubts(all_doubts(diagnosis), console)


def _target(diagnosis: Diagnosis, target: Target, rank: int, console: Console) -> None:
    console.print()
    title = Text(f"{rank}. {short(target.name)}", style="bold")
    title.append(f"  {target.query_id}", style="dim")
    title.append(f"  {target.severity.words}")
    console.print(title)
    for line in (
        target.summary,
        f"task time waited: {wait_words(diagnosis, target.query)}",
        *link_lines(diagnosis.stragglers, diagnosis.topics, target.query),
    ):
        console.print(indented(line))
    console.print(indented(blame_table(target.blamed)))


def blame_table(blamed: Sequence[Blamed]) -> Table:
    """Whom one target's lost time is attributed to, the largest part first."""
    table = plain_table("who was in the way", ">lost", ">of its run", "waiting for", "where")
    write = one_unit(one.lost_ms for one in blamed)
    for one in blamed:
        named = one.kind is BlameKind.QUERY
        table.add_row(
            Text(f"{short(one.name, 32)} {one.number}".rstrip(), style="" if named else "dim"),
            write(one.lost_ms),
            percent(one.share_of_run),
            breakdown({resource_name(key): ms for key, ms in one.by_resource.items()}),
            _held(one) or _where(one.by_host),
        )
    return table


def _held(one: Blamed) -> str:
    """Say what it held, cached data or idle executors, where that is most of what can be said."""
    if one.cached and one.by_resource.get(Resource.MEMORY, 0.0) > one.lost_ms / 2:
        return f"holds {one.cached}"
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
