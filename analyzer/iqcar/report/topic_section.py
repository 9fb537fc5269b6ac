"""Topics in the report of ``iqcar analyze``: what recurs, and what of it the targets have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from iqcar.report.plain_table import plain_table
from iqcar.report.topic_json import names_of
from iqcar.report.words import percent, printable, short
from iqcar.rules.causes import straggler_cause
from iqcar.stragglers.summary import by_group
from iqcar.topics.summary import query_mixtures

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import RenderableType
    from rich.table import Table

    from iqcar.rules.topics import TopicName
    from iqcar.stragglers import Stragglers
    from iqcar.topics import Topics


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


def target_line(stragglers: Stragglers, found: Topics | None, target: int) -> str:
    """Link a target query's stragglers to causes, these to topics, and topics to the blamed.

    Parameters
    ----------
    stragglers : Stragglers
    found : Topics or None
        Of the same tables; None where nobody asked.
    target : int
        Row of the query.

    Returns
    -------
    str
        One line; empty where there are no topics, or none of the query's stages has one.
    """
    if found is None:
        return ""
    frame = query_mixtures(found)
    frame = frame[(frame["query"] == target).to_numpy()]
    if not len(frame):
        return ""
    named = names_of(found)
    groups = by_group(stragglers, "query")
    mine = groups[(groups["query"] == target).to_numpy()]
    parts = []
    if len(mine):
        causes = [
            f"{short(straggler_cause(key).name, 30)} {n:,}"
            for key, n in list(mine["causes"].iloc[0].items())[:3]
        ]
        count = f"{int(mine['stragglers'].iloc[0]):,} stragglers"
        parts.append(f"{count}: {', '.join(causes)}" if causes else f"{count} without a cause")
    shares = dict(zip(frame["topic"].tolist(), frame["share"].tolist(), strict=True))
    parts.append(f"topics of its stages: {mixture_words(shares, named)}")
    parts += _blamed(found, target)
    return " · ".join(parts)


def _blamed(found: Topics, target: int) -> list[str]:
    """Whom iQCAR blames for the resources that a query's stages lack; mean over its stages."""
    jobs = found.jobs.index[(found.jobs["query"] == target).to_numpy()]
    mine = found.sources[found.sources["job"].isin(jobs) & (found.sources["kind"] == "query")]
    parts = []
    of_resource = found.sources[found.sources["job"].isin(jobs)].groupby("resource")
    pairs = of_resource.apply(lambda rows: len(rows.drop_duplicates(["job", "topic"])))
    for resource, rows in mine.groupby("resource", sort=True):
        share = rows.groupby("query")["share"].sum() / int(pairs[resource])
        worst = share.sort_values(ascending=False, kind="stable").head(2)
        who = [f"{short(found.labels.query(int(q)), 32)} {percent(s)}" for q, s in worst.items()]
        parts.append(f"blamed for {resource} there: {', '.join(who)}")
    return parts
