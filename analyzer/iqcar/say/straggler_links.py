"""Says which stragglers a query has: their causes, the topics of these, and who is blamed."""

from __future__ import annotations

from typing import Any

import pandas as pd

from iqcar.base.limits import MOST_BLAMED_FOR_CAUSE, MOST_CAUSES
from iqcar.base.units import duration, resource_name, short
from iqcar.causes.stragglers.straggler_result import Stragglers
from iqcar.causes.topics.topic_counts import NO_TOPIC, blamed_of_query, cause_topics
from iqcar.causes.topics.topic_result import Topics
from iqcar.rules.vocabulary.topics import TopicName, straggler_cause, topic_name
from iqcar.say.blamed import blamed_name
from iqcar.say.section import Holds, cell_text


def names_of(found: Topics, names: str = "") -> list[TopicName]:
    """Name each topic; by our vocabulary, or by that of a file."""
    return [topic_name(found.words_of(topic), names) for topic in range(len(found.topics))]


def links_to_dict(stragglers: Stragglers, found: Topics | None, query: int) -> dict[str, Any]:
    """Lay a query's stragglers out as JSON, linked to causes, topics and who is blamed.

    Parameters
    ----------
    stragglers : Stragglers
    found : Topics or None
        Of the same tables; None where nobody asked.
    query : int
        Row of the query.
    """
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

    Returns
    -------
    list of str
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
