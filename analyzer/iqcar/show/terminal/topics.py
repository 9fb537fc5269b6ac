"""Topics as text on a terminal: what recurs, in which stages and queries, and what to do."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console
from rich.text import Text

from iqcar.base.units import printable, short
from iqcar.causes.topics.topic_result import Topics
from iqcar.say.section import Section
from iqcar.say.straggler_sections import (
    WHAT_TO_DO,
    names_of,
    topic_blame_section,
    topic_causes_section,
    topic_queries_section,
    topic_stages_section,
    topics_section,
)
from iqcar.show.terminal.layout import (
    print_doubts,
    print_part,
    section_block,
    terminal,
)


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
