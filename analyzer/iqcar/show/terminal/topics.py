"""Topics as text on a terminal: what recurs, in which stages and queries, and what to do."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
from rich.console import Console
from rich.text import Text

from iqcar.base.units import printable, short
from iqcar.causes.stragglers.straggler_result import Labels
from iqcar.causes.topics.topic_result import Topics
from iqcar.rules.vocabulary.topics import topic_name
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
    indented,
    plain_table,
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


LETTERS = {"ensemble": "E", "predictive": "P", "dependence": "D", "causal": "C"}
"""What the paper calls the topics of each."""


def print_printed_topics(
    labels: Labels,
    topics: pd.DataFrame,
    mixtures: pd.DataFrame,
    top: int,
    names: str = "",
    console: Console | None = None,
) -> None:
    """Print the topics of Hound as printed (its table 4), then mixtures by model (table 17).

    topics, mixtures: frames of ``PRINTED_TOPICS`` and ``PRINTED_MIXTURES``.
    """
    console = console or terminal()
    console.print("Hound as printed: base learners on raw latency, drawn words, means of mixtures.")
    if topics.empty:
        console.print(Text("Nothing recurs.", style="bold"))
        return
    table = plain_table("topic", "keywords", "cluster", "name", ">coverage", ">dominant")
    called: dict[tuple[str, int], str] = {}
    members: dict[int, list[str]] = {}
    for (model, number), rows in topics.groupby(["model", "topic"], sort=False):
        called[model, number] = f"{LETTERS[model]}{number}"
        members.setdefault(int(rows["cluster"].iloc[0]), []).append(called[model, number])
    for (model, number), rows in topics.groupby(["model", "topic"], sort=False):
        cluster = int(rows["cluster"].iloc[0])
        words = rows[rows["word"] != ""]
        keywords = dict(zip(words["word"], words["weight"], strict=True))
        if cluster >= 0 and model != "ensemble":
            continue
        table.add_row(
            called[model, number],
            printable(", ".join(f"{word} {weight:.2f}" for word, weight in keywords.items()))
            or "none left",
            " ".join(members[cluster][1:]) if cluster >= 0 else "unclustered",
            printable(topic_name(keywords, names).name) if cluster >= 0 else "rejected",
            *(f"{rows[share].iloc[0]:.0%}" for share in ("coverage", "dominant_coverage")),
        )
    console.print(table)
    jobs = plain_table("stage", "model", "mixture")
    for stage, rows in list(mixtures.groupby("stage"))[:top]:
        for model, of in rows.groupby("model", sort=False):
            shares = zip(of["topic"], of["share"], strict=True)
            said = ", ".join(f"{called[model, topic]} {share:.2f}" for topic, share in shares)
            jobs.add_row(short(printable(labels.stage(int(stage))), 40), str(model), said)
    console.print(jobs)
    if (more := mixtures["stage"].nunique() - top) > 0:
        console.print(indented(f"and {more} more (--top)"))


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
