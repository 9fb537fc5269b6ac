"""Topics in the report of ``iqcar analyze``: what recurs."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from iqcar.base.units import percent, printable, short
from iqcar.causes.topics.topic_result import Topics
from iqcar.rules.vocabulary.topics import TopicName
from iqcar.show.json.topics import names_of
from iqcar.show.terminal.layout import plain_table


def topic_section(found: Topics | None, top: int) -> RenderableType | None:
    """Show the topics and where to read more; nothing where nobody asked for topics."""
    if found is None:
        return None
    if found.reason:
        return Text(printable(found.reason))
    return Group(
        topic_table(found, names_of(found), top),
        Text("See each stage's mixture, with evidence and advice: iqcar topics PATH"),
    )


def topic_table(found: Topics, named: list[TopicName], top: int | None) -> Table:
    """One row per topic, the most frequent first."""
    table = plain_table(
        ">no.", "name", "keywords", ">coverage", ">dominant", ">mean share", "found by"
    )
    rows = found.topics if top is None else found.topics.head(top)
    for number, row in enumerate(rows.to_dict("records")):
        models = row["models"].split("+")
        table.add_row(
            str(number + 1),
            short(named[number].name if named[number].advice else "no name fits", 40),
            Text(printable(keywords(found.words_of(number)))),
            percent(row["coverage"]),
            percent(row["dominant_coverage"]),
            percent(row["mean_share"]),
            ", ".join(models),
        )
    return table


def keywords(words: Mapping[str, float]) -> str:
    """Keywords with their weights."""
    return ", ".join(f"{short(word, 40)} {percent(weight)}" for word, weight in words.items())


def mixture_words(shares: Mapping[int, float], named: list[TopicName]) -> str:
    """Causes with their shares; topics of one name together, the largest first."""
    total: dict[str, float] = {}
    for topic, share in shares.items():
        name = named[topic].name
        total[name] = total.get(name, 0.0) + share
    listed = sorted(total.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{short(name, 40)} {percent(share)}" for name, share in listed)
