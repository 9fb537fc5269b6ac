"""Says which causes of stragglers recur, in which stages and queries, and what helps."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from iqcar.base.units import percent, resource_name
from iqcar.causes.topics.topic_counts import coverage, query_mixtures
from iqcar.causes.topics.topic_result import Topics
from iqcar.rules.vocabulary.topics import TopicName
from iqcar.say.section import Section, columns
from iqcar.say.straggler_links import blamed_shares

NO_NAME = "no name fits"


def topics_sentence(found: Topics, named: list[TopicName]) -> str:
    """Say how many causes recur and which most often, or why there are none."""
    if found.reason or not named:
        return str(found.reason)
    stages, first = len(found.jobs), named[0].name
    often = percent(float(found.topics["coverage"].iloc[0]))
    if len(named) == 1:
        plural = "s" if stages > 1 else ""
        return f"One cause of stragglers recurs in {often} of {stages:,} stage{plural}: {first}."
    return (
        f"{len(named)} causes of stragglers recur in {stages:,} stages; most often {first}, "
        f"in {often}."
    )


def topics_section(found: Topics, named: list[TopicName]) -> Section:
    """Show the topics, the most frequent first, with their evidence and what helps."""
    rows = []
    for number, row in enumerate(found.topics.to_dict("records")):
        name = named[number].name if named[number].advice else NO_NAME
        shares = (row["coverage"], row["dominant_coverage"], row["mean_share"])
        rows.append((number + 1, name, found.words_of(number), *shares))
    once = {one.name: f"{one.sentence} {one.advice}" for one in named if one.advice}
    return Section(
        "topics",
        "Topics: what keeps making tasks slow",
        sentence=topics_sentence(found, named),
        columns=columns(
            "no.:count | name:name | keywords:shares | coverage:share | dominant:share",
            "mean share:share",
        ),
        rows=tuple(rows),
        caption="Topics, the most frequent first; (+) where stragglers have more of a metric, "
        "(-) less",
        notes=_evidence(found),
        advice=tuple(once.items()),
    )


def topic_causes_section(found: Topics, named: list[TopicName]) -> Section:
    """Show topics of one name together."""
    rows = coverage(found, [one.name for one in named])
    shares = ("coverage", "dominant_coverage", "mean_share")
    return Section(
        "topic-causes",
        "Causes: topics of one name together",
        columns=columns(
            "cause:name | topics:count | coverage:share | dominant:share | mean share:share"
        ),
        rows=tuple(
            (row["name"], len(row["topics"]), *(row[share] for share in shares))
            for row in rows.to_dict("records")
        ),
    )


def topic_stages_section(
    found: Topics, named: list[TopicName], names: Mapping[int, str], most: int
) -> Section:
    """Show the mixture of each stage, the most delayed first, and who is blamed."""
    labels, rows = found.labels, []
    order = found.jobs.sort_values(["delay_ms", "stage"], ascending=[False, True]).head(most)
    for job, one in zip(order.index.tolist(), order.to_dict("records"), strict=True):
        numbers = (int(one["stragglers"]), int(one["tasks"]), float(one["delay_ms"]))
        rows.append(
            (
                labels.stage(one["stage"]),
                names.get(one["query"]) or labels.query(one["query"]),
                *numbers,
                _by_name(_rows_of(found.mixtures, job), named) or "none of the topics",
                blamed_shares(found, found.sources[(found.sources["job"] == job).to_numpy(bool)]),
            )
        )
    left = len(found.jobs) - len(rows)
    return Section(
        "topic-stages",
        "Stages, the most delayed first",
        columns=columns(
            "stage:name | +query:name | stragglers:count | of tasks:count",
            "over the median:time | mixture:shares | +blamed for the resource:shares",
        ),
        rows=tuple(rows),
        caption="Stages, the most delayed first, with the topics of their stragglers",
        notes=(f"{left:,} more stages: iqcar topics --json lists all.",) if left else (),
    )


def _rows_of(mixtures: pd.DataFrame, job: int) -> dict[int, float]:
    mine = mixtures[(mixtures["job"] == job).to_numpy(bool)]
    return dict(zip(mine["topic"].tolist(), mine["share"].tolist(), strict=True))


def topic_queries_section(found: Topics, named: list[TopicName]) -> Section:
    """Show the mixture of each query: that of its stages, weighed by their stragglers."""
    frame, rows = query_mixtures(found), []
    for query, mine in frame.groupby("query", sort=False):
        shares = dict(zip(mine["topic"].tolist(), mine["share"].tolist(), strict=True))
        number = found.labels.query_id(query).rpartition("/")[2]
        name = f"{found.labels.query(query)} {number}"
        rows.append((name, int(mine["stragglers"].iloc[0]), _by_name(shares, named)))
    return Section(
        "topic-queries",
        "Queries",
        columns=columns("query:name | stragglers:count | mixture:shares"),
        rows=tuple(rows),
    )


def topic_blame_section(found: Topics, named: list[TopicName]) -> Section:
    """Show whom iQCAR blames for a resource, where and while stragglers had its topic."""
    called = [named[int(topic)].name for topic in found.sources["topic"]]
    sources = found.sources.assign(called=called)
    rows = []
    for (job, name), mine in sources.groupby(["job", "called"], sort=True):
        stage = found.labels.stage(int(found.jobs["stage"].iloc[job]))
        lost = float(mine["lost_ms"].sum())
        resource = resource_name(mine["resource"].iloc[0])
        rows.append((stage, name, resource, lost, blamed_shares(found, mine)))
    return Section(
        "topic-blame",
        "Who is blamed",
        columns=columns(
            "stage:name | topic:name | resource | lost:time",
            "blamed, where and while it had it:shares",
        ),
        rows=tuple(sorted(rows, key=lambda row: -row[3])),
    )


def _by_name(shares: Mapping[int, float], named: list[TopicName]) -> dict[str, float]:
    """Sum topics of one name, the largest first."""
    total: dict[str, float] = {}
    for topic, share in shares.items():
        name = named[topic].name
        total[name] = total.get(name, 0.0) + share
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


def _evidence(found: Topics) -> tuple[str, ...]:
    checked = found.validation
    if not len(checked):
        return ()
    return (
        f"Of {len(checked):,} keywords of stages' topics, stragglers differ from other tasks "
        f"as the topic says in {percent(float(checked['agrees'].mean()))} (Wilcoxon p < 0.05, "
        "quartiles).",
    )
