"""Says which tasks were stragglers, by which causes, which of these recur, and what helps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan
from typing import Any

import pandas as pd

from iqcar.base.limits import MOST_BLAMED_FOR_CAUSE, MOST_CAUSES, NAME_CHARACTERS
from iqcar.base.units import duration, percent, printable, resource_name, short
from iqcar.causes.stragglers.straggler_result import UNEXPLAINED, Stragglers, by_cause, by_group
from iqcar.causes.topics.topic_counts import (
    NO_TOPIC,
    blamed_of_query,
    cause_topics,
    coverage,
    query_mixtures,
)
from iqcar.causes.topics.topic_result import Topics
from iqcar.rules.vocabulary import TopicName, straggler_cause, topic_name, what_helps
from iqcar.say.blamed import blamed_name
from iqcar.say.section import Holds, Section, cell_text, columns


def names_of(found: Topics, names: str = "") -> list[TopicName]:
    """Name each topic; by our vocabulary, or by that of a file."""
    return [topic_name(found.words_of(topic), names) for topic in range(len(found.topics))]


def links_to_dict(stragglers: Stragglers, found: Topics | None, query: int) -> dict[str, Any]:
    """Lay a query's stragglers out as JSON, linked to causes, topics and who is blamed."""
    mine = stragglers.stragglers[(stragglers.stragglers["query"] == query).to_numpy(bool)]
    named = [] if found is None else names_of(found)
    causes: dict[str, dict[str, Any]] = {}
    for row in cause_topics(stragglers, found, query).to_dict("records"):
        key, topic = row["cause"], int(row["topic"])
        name = straggler_cause(key).name
        one = causes.setdefault(
            key,
            {"cause": key or None, "name": name, "stragglers": 0, "delay_ms": 0.0, "topics": []},
        )
        one["stragglers"] += int(row["stragglers"])
        one["delay_ms"] += float(row["delay_ms"])
        if topic != NO_TOPIC:
            called = {"topic": topic, "name": named[topic].name}
            one["topics"].append({**called, "stragglers": int(row["stragglers"])})
    blamed = blamed_of_query(found, query).to_dict("records") if found is not None else []
    labels = stragglers.labels
    return {
        "count": len(mine),
        "delay_ms": float(mine["delay_ms"].sum()),
        "causes": list(causes.values()),
        "blamed": [
            {
                "topic": int(row["topic"]),
                "resource": row["resource"],
                "kind": row["kind"],
                "query_id": labels.query_id(int(row["query"])) or None,
                "name": labels.query(int(row["query"])) or None,
                "lost_ms": float(row["lost_ms"]),
                "share": float(row["share"]),
            }
            for row in blamed
        ],
    }


def link_lines(stragglers: Stragglers, found: Topics | None, query: int) -> list[str]:
    """Say the same in lines: how many stragglers, by cause and topic, and who is blamed.

    Empty where the query has no stragglers.
    """
    links = links_to_dict(stragglers, found, query)
    if not links["count"]:
        return []
    parts = [_cause(one, found is not None) for one in links["causes"][:MOST_CAUSES]]
    more = len(links["causes"]) - MOST_CAUSES
    parts += [f"{more} more causes"] if more > 0 else []
    head = f"stragglers: {links['count']:,}, {duration(links['delay_ms'])} over the median"
    lines = [f"{head}: {', '.join(parts)}"]
    return lines + ([] if found is None else _blamed_lines(found, query))


def _cause(one: dict[str, Any], asked: bool) -> str:
    text = f"{short(one['name'], 40)} {one['stragglers']:,}"
    if not asked:
        return text
    by_name: dict[str, int] = {}
    for topic in one["topics"]:
        by_name[topic["name"]] = by_name.get(topic["name"], 0) + topic["stragglers"]
    if not by_name:
        return text
    listed = [f"{short(name, 40)} {n:,}" for name, n in by_name.items()]
    return f"{text} ({'topic' if len(listed) == 1 else 'topics'} {', '.join(listed)})"


def _blamed_lines(found: Topics, query: int) -> list[str]:
    named = names_of(found)
    frame = blamed_of_query(found, query)
    frame = frame.assign(called=[named[int(topic)].name for topic in frame["topic"]])
    return [
        f"blamed for {resource_name(str(rows['resource'].iloc[0]))} where and while they had the "
        f"topic {short(str(name), 40)}: {cell_text(Holds.SHARES, blamed_shares(found, rows))}"
        for name, rows in frame.groupby("called", sort=False)
    ]


def blamed_shares(found: Topics, rows: pd.DataFrame) -> dict[str, float]:
    """Return who is blamed with their parts of what was lost, the largest first."""
    total = rows.groupby(["kind", "query"], sort=True)["lost_ms"].sum()
    total = total.sort_values(ascending=False, kind="stable")
    whole = float(total.sum())
    return {
        blamed_name(str(kind), found.labels.query(int(row))): float(ms) / whole
        for (kind, row), ms in total.head(MOST_BLAMED_FOR_CAUSE).items()
    }


GROUPS = ("stage", "query", "host")
CAUSE_WIDTH = 40
NOTHING = "nothing recorded explains it"
WHAT_TO_DO = "What to do (advice to people; no pool is made from it)"


@dataclass(frozen=True)
class StragglerLines:
    """A straggler in words; every text is printable.

    task, rest: which task, and how long it took, where.
    causes: name of each cause, and its evidence with who is blamed; empty if
    nothing explains it.
    unexplained: what is known of its time where nothing explains it.
    """

    task: str
    rest: str
    causes: tuple[tuple[str, str], ...]
    unexplained: str


def headline(found: Stragglers, mine: pd.DataFrame, tasks: int) -> str:
    """Say how many of these tasks were stragglers, by how much, and how many are explained."""
    times = f"{found.settings.straggler:g} times"
    if not len(mine):
        return f"none of {tasks:,} tasks took more than {times} its stage's median"
    explained = int((mine["causes"] > 0).sum())
    return (
        f"{len(mine):,} of {tasks:,} tasks took more than {times} their stage's median, "
        f"{duration(float(mine['delay_ms'].sum()))} over it in all; causes found for {explained:,}"
    )


def causes_section(found: Stragglers, app: int | None = None) -> Section:
    """Count stragglers per cause, of all applications or one; the unexplained come last."""
    frame = by_cause(found, app)
    unexplained = (frame["cause"] == UNEXPLAINED).to_numpy()
    rows = []
    for row in pd.concat([frame[~unexplained], frame[unexplained]]).to_dict("records"):
        known = straggler_cause(row["cause"])
        rows.append((known.name, int(row["stragglers"]), float(row["delay_ms"]), known.sentence))
    return Section(
        "causes",
        "Causes",
        columns=columns("cause:name | stragglers:count | over the median:time | what it means"),
        rows=tuple(rows),
        caption="Stragglers by cause; one with two causes counts in both",
        advice=straggler_advice(found, app),
    )


def straggler_advice(found: Stragglers, app: int | None = None) -> tuple[tuple[str, str], ...]:
    """Return name and advice of each cause that something helps against."""
    keys = [key for key in by_cause(found, app)["cause"].tolist() if key]
    named = ((straggler_cause(key).name, what_helps(key, found)) for key in keys)
    return tuple((printable(name), printable(helps)) for name, helps in named if helps)


def group_section(
    found: Stragglers, group: str, names: Mapping[int, str], app: int | None = None
) -> Section:
    """Count stragglers per stage, query or host.

    group: one of :data:`GROUPS`.
    names: what to call each query, by row; by default as the labels do.
    app: row of one application.
    """
    labels = found.labels
    name = {"stage": labels.stage, "host": labels.host, "query": labels.query}[group]
    frame = by_group(found, group, app)
    rows = []
    for row in frame[(frame[group] >= 0).to_numpy()].to_dict("records"):
        called = names.get(row[group]) if group == "query" else None
        causes = {straggler_cause(key).name: n for key, n in row["causes"].items()}
        share = row["stragglers"] / row["tasks"]
        rows.append((called or name(row[group]), row["stragglers"], share, row["delay_ms"], causes))
    return Section(
        f"stragglers-by-{group}",
        {"stage": "Stages", "query": "Queries", "host": "Hosts"}[group],
        columns=columns(
            f"{group}:name",
            "stragglers:count",
            "of tasks:share",
            "over the median:time",
            "causes:counts",
        ),
        rows=tuple(rows),
        caption=f"Stragglers by {group}",
    )


def straggler_lines(
    found: Stragglers, shown: pd.DataFrame, names: Mapping[int, str]
) -> list[StragglerLines]:
    """Put stragglers into words, each with its causes, and whom iQCAR blames for them."""
    labels, causes = found.labels, found.causes
    mine = causes[causes["straggler"].isin(shown.index)]
    by_straggler: dict[int, list[tuple[str, str]]] = {}
    for number, cause in zip(mine.index.tolist(), mine.to_dict("records"), strict=True):
        name = printable(straggler_cause(cause["cause"]).name)
        said = printable(cause["sentence"]).removeprefix(f"{name} ")
        if blamed := _blamed(found, number):
            said += f"; iQCAR blames {blamed}"
        by_straggler.setdefault(int(cause["straggler"]), []).append((name, said))
    lines = []
    for row, one in zip(shown.index.tolist(), shown.to_dict("records"), strict=True):
        query = names.get(one["query"]) or labels.query(one["query"])
        host = labels.host(one["host"])
        words = (
            f"took {duration(one['duration_ms'])} where the median is "
            f"{duration(one['median_ms'])}: {short(labels.stage(one['stage']), NAME_CHARACTERS)}"
        )
        words += f", query {short(query, CAUSE_WIDTH)}" if query else ""
        words += f", on {short(host, CAUSE_WIDTH)}" if host else ""
        task = short(labels.task(one["task"], one["task_id"]), CAUSE_WIDTH)
        known = tuple(by_straggler.get(row, []))
        lines.append(StragglerLines(task, words, known, "" if known else _time_went(one)))
    return lines


def _time_went(one: Mapping[Any, Any]) -> str:
    """Say how an unexplained straggler spent its time, as far as Spark records it."""
    ran, computed = float(one["run_ms"]), float(one["cpu_ms"])
    if isnan(ran):
        return NOTHING
    cpu = "CPU time unknown" if isnan(computed) else f"{duration(computed)} on the processor"
    return f"{NOTHING}: its code ran {duration(ran)}, {cpu}"


def _blamed(found: Stragglers, cause: int) -> str:
    mine = found.sources[found.sources["cause"] == cause].head(MOST_BLAMED_FOR_CAUSE)
    return ", ".join(
        f"{blamed_name(row['kind'], found.labels.query(int(row['query'])), CAUSE_WIDTH)} "
        f"{percent(row['share'])}"
        for row in mine.to_dict("records")
    )


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
