"""What the commands that diagnose print: the whole, queries, blame, stragglers, topics."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from iqcar.base.units import (
    REQUEST_NAMES,
    breakdown,
    duration,
    one_unit,
    percent,
    printable,
    resource_name,
    short,
)
from iqcar.causes.stragglers.straggler_result import Stragglers
from iqcar.causes.topics.topic_result import Topics
from iqcar.diagnosis import Diagnosis
from iqcar.enums import BlameKind, Request, Resource
from iqcar.model.doubts import grave_doubts
from iqcar.say import Blamed, Finding, Target, Verdict, all_doubts, find_verdict
from iqcar.say.finding_driver import driver_section
from iqcar.say.input_sections import hosts_section, yarn_section, yarn_sentence
from iqcar.say.rule_lines import advice_lines
from iqcar.say.section import Section
from iqcar.say.sections import (
    APPLICATION,
    WastedLine,
    acting_rules_section,
    aggressive_section,
    failed_lines,
    owners_section,
    queries_section,
    resources_section,
    rules_section,
    wasted_section,
)
from iqcar.say.sentences import counts, wait_words
from iqcar.say.straggler_sections import (
    GROUPS,
    WHAT_TO_DO,
    causes_section,
    group_section,
    headline,
    link_lines,
    names_of,
    straggler_lines,
    topic_blame_section,
    topic_causes_section,
    topic_queries_section,
    topic_stages_section,
    topics_section,
)
from iqcar.show.terminal.layout import (
    NARROW,
    indented,
    plain_table,
    print_doubts,
    print_part,
    section_block,
    section_table,
    show_section,
    terminal,
)
from iqcar.version import __version__

MOST_FIRST, MOST_LINES = 3, 25
"""Findings, and doubts, that are shown first, and lines for all that is."""
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
    _print_findings(verdict.findings[:most], console, lines=3)
    more = len(verdict.findings) - most
    left = [f"{more:,} more findings"] if more > 1 else ["1 more finding"] if more == 1 else []
    if doubts := len(verdict.doubts):
        left.append("1 doubt" if doubts == 1 else f"{doubts:,} doubts")
    besides = f" ({', '.join(left)})" if left else ""
    _print_grave_doubts(diagnosis, console)
    console.print()
    given = diagnosis.tables.given
    for line in (
        f"Pictures: iqcar report {given} --open",
        f"All of it{besides}: iqcar analyze {given} --full",
    ):
        console.print(Text(line), soft_wrap=True)


def _print_grave_doubts(diagnosis: Diagnosis, console: Console) -> None:
    """Print the doubts that could change the answer; nothing where there are none."""
    if grave := grave_doubts(diagnosis.tables, diagnosis.waits)[:MOST_FIRST]:
        console.print()
        console.print(Text(f"Doubtful: {'; '.join(grave)}."))


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
    """Print findings, sentence and action in so many lines at most if not 0."""
    for rank, one in enumerate(findings, 1):
        console.print()
        title = Text(f"{rank}. {one.kind.words[:1].upper()}{one.kind.words[1:]}", style="bold")
        console.print(title.append(f"  {one.saving}".rstrip(), style="not bold"))
        width = console.width - 6
        room, room_to_act = (lines * width, (lines + 1) * width) if lines else (10_000, 10_000)
        console.print(indented(fitting(one.sentence, room)))
        console.print(indented(f"→ {fitting(one.action, room_to_act)}"))
        for name, value, why in () if lines else one.settings:
            console.print(indented(f"{name}: {value} ({why})", 5))


_ENDS = (re.compile(r"[.;] "), re.compile(r",? \(|, | → "), re.compile(r"(?<![\d.,]) "))
"""Where a text can be cut: after a sentence, before what only adds to it, between two words that
are no number and its unit."""


def fitting(text: str, room: int) -> str:
    """Cut a text after the last sentence that fits, else where it leaves no bracket open."""
    line = short(text, len(text) + 1)
    if len(line) <= room:
        return line
    for end, mark in zip(_ENDS, (".", " …", " …"), strict=True):
        places = [one.start() for one in end.finditer(line, 0, room - 1)]
        whole = [at for at in places if line.count("(", 0, at) == line.count(")", 0, at)]
        if whole and whole[-1] > room // 2:
            return f"{line[: whole[-1]]}{mark}"
    return f"{line[: places[-1]]} …" if places else short(line, room)


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
    several = len(diagnosis.tables.applications) > 1
    room = console.width - NARROW - several * 2 * APPLICATION  # and names as long again
    waits = max(room // WAIT_WIDTH, 0)
    console.print(section_table(queries_section(diagnosis, waits)))
    console.print()
    for line in failed_lines(diagnosis):
        console.print(Text(line))
    right = " Right of it: waits in task time, summed over a query's tasks." if waits else ""
    console.print(
        f"Lost is elapsed time.{right} … had not ended. Look at one with: "
        f"iqcar blame {diagnosis.tables.given} --target QUERY"
    )
    _print_grave_doubts(diagnosis, console)
    if doubts := len(all_doubts(diagnosis)):
        console.print(f"All {doubts:,} doubts: iqcar analyze {diagnosis.tables.given} --full")


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


def print_levels(diagnosis: Diagnosis, console: Console | None = None) -> None:
    """Print the levels of iQC-Graph for each target: query, stages, resources, hosts, sources."""
    console = console or terminal()
    verdict = find_verdict(diagnosis)
    for target in verdict.targets:
        wasted = [line.sentence for line in verdict.wasted if line.query == target.query]
        _print_target(diagnosis, target, wasted, console)
    print_doubts(verdict.doubts, console)


LEVEL_TITLES = (
    "Which of its stages lost the time",
    "What those stages waited for",
    "In which way, and on which host",
    "Whose stages were in the way there",
    "Those stages, wherever they were in the way",
    "Which queries that makes",
)
"""Of levels 1 to 6."""


def _print_target(
    diagnosis: Diagnosis, finding: Target, wasted: Iterable[str], console: Console
) -> None:
    target, lost = finding.query, finding.lost_ms
    console.print(Text(f"{finding.name}  {finding.query_id}", style="bold"))
    _line(console, f"It {finding.summary}.")
    _line(console, f"Its tasks waited: {wait_words(diagnosis, target)}.")
    for line in link_lines(diagnosis.stragglers, diagnosis.topics, target):
        _line(console, printable(f"{line[0].upper()}{line[1:]}."))
    for sentence in wasted:
        _line(console, f"Wasted work: {sentence}")
    if lost <= 0:
        _line(console, "No time was lost that could be measured, so there is nobody to blame.")
        console.print()
        return
    top = diagnosis.settings.top
    graph = diagnosis.graph
    critical = diagnosis.tables.stages["critical"].to_numpy(bool)

    _title(console, 1)
    for row in _largest(graph.top(1, top, target)):
        on_path = "on the critical path" if critical[row["stage"]] else "beside the critical path"
        _line(console, f"{_amount(row, lost)}  {short(row['label'], 60)}, {on_path}")

    _title(console, 2)
    for row in _largest(graph.top(2, top, target)):
        _line(
            console,
            f"{_amount(row, lost)}  {resource_name(row['resource'])}{_of_stage(diagnosis, row)}",
        )

    _title(console, 3)
    for row in _largest(graph.top(3, top, target)):
        what = REQUEST_NAMES[Request(row["request"])]
        where = diagnosis.tables.hosts["host"].iloc[row["host"]] if row["host"] >= 0 else "unknown"
        request = f"waiting for {what} on {printable(where)}"
        _line(console, f"{_amount(row, lost)}  {request}{_of_stage(diagnosis, row)}")

    _title(console, 4)
    for row in _largest(graph.top(4, top, target)):
        what = f"{short(row['label'], 80)}, in the way of stage"
        stage = diagnosis.tables.stages["stage_id"].iloc[row["stage"]]
        _line(console, f"{_amount(row, lost)}  {what} {stage}")

    _title(console, 5)
    by_stage = graph.dor_by_target(5)
    _sources(by_stage, target, graph.vertices(5), lost=lost, top=top, console=console)

    _title(console, 6)
    console.print(indented(blame_table(finding.blamed)))
    console.print()


def _sources(
    pairs: pd.DataFrame,
    target: int,
    vertices: pd.DataFrame,
    lost: float,
    top: int,
    console: Console,
) -> None:
    mine = pairs[(pairs["target_query"] == target).to_numpy()]
    mine = mine.iloc[np.argsort(-mine["lost_ms"].to_numpy(), kind="stable")].head(top)
    labels = vertices["label"].tolist()
    for row in mine.to_dict("records"):
        if row["lost_ms"] > 0:
            _line(console, f"{_amount(row, lost)}  {short(labels[row['source']], 90)}")


def _largest(vertices: pd.DataFrame) -> list[dict[Any, Any]]:
    return [row for row in vertices.to_dict("records") if row["lost_ms"] > 0]


def _amount(row: dict[Any, Any], lost: float) -> str:
    part = float(row["lost_ms"])
    return f"{duration(part):>8}  {percent(part / lost):>5}"


def _of_stage(diagnosis: Diagnosis, row: dict[Any, Any]) -> str:
    stage = int(row["stage"])
    return f", stage {diagnosis.tables.stages['stage_id'].iloc[stage]}"


def _title(console: Console, level: int) -> None:
    console.print()
    console.print(Text(f"   Level {level}. {LEVEL_TITLES[level - 1]}", style="italic"))


def _line(console: Console, words: str) -> None:
    console.print(indented(words))


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


def print_topics(found: Topics, top: int, names: str = "", console: Console | None = None) -> None:
    """Print topics, the stages and queries that have them, their evidence, and advice."""
    console = console or terminal()
    named = names_of(found, names)
    console.print(Text(printable(_headline(found)), style="bold"))
    if named:
        topics = topics_section(found, named)
        sections = [replace(topics, sentence="", advice=(), notes=())]
        if len({one.name for one in named}) < len(named):
            sections.append(topic_causes_section(found, named))
        sections.append(topic_stages_section(found, named, {}, top))
        if (found.jobs["query"] >= 0).any():
            sections.append(topic_queries_section(found, named).first(top))
        if len(found.sources):
            sections.append(topic_blame_section(found, named).first(top))
        sections.append(Section("", "Evidence", notes=topics.notes))
        sections.append(Section("", WHAT_TO_DO, advice=topics.advice))
        for section in sections:
            if section.rows or section.notes or section.advice:
                print_part(console, section.title, section_block(section))
    print_doubts(found.doubts, console)
    console.print()


def _headline(found: Topics) -> str:
    where = ", ".join(dict.fromkeys(found.labels.app(app) for app in found.jobs["app"]))
    if found.reason:
        return f"No topics. {found.reason}"
    jobs = len(found.jobs)
    with_one = found.mixtures["job"].nunique()
    return (
        f"{len(found.topics)} topics explain {with_one:,} of {jobs:,} stages with stragglers"
        f"{f' ({short(where, 60)})' if where else ''}"
    )
