"""Tells from recurring topics which queries share a culprit, and for which ones pools are no help.

A topic that is a lack of a resource has a culprit where one query is blamed for that resource on
the hosts of the stragglers that have it, while they ran. What a culprit takes from each query can
be too little to count; of all queries that share the topic it counts as one sum. Other topics, such
as skew or garbage collection, are nobody's fault: whatever share of the slots a query has, its
stages end no sooner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from iqcar.causes.stragglers.straggler_result import Stragglers
from iqcar.causes.topics.topic_result import FEW_JOBS, Topics
from iqcar.enums import BlameKind
from iqcar.rules.straggler_delays import held_up_ms, tasks_at_once
from iqcar.rules.vocabulary.advice_kinds import advice_kinds
from iqcar.rules.vocabulary.topics import TopicName, topic_name
from iqcar.tables import Tables, recurring_queries, texts

CULPRIT_PART = 0.25
"""Part of what a query's stragglers lost to a resource from which on one query is its culprit:
with less there are others to hold back."""
LEAST_SHARING, SHARING_PART = 3, 0.25
"""Recurring queries that share a culprit, and their part of those whose stragglers lack the
resource, from which on that is no chance."""
MOST_STRAGGLERS = 0.5
"""Part of a query's stragglers with topics that are nobody's fault, from which on those decide."""


@dataclass(frozen=True)
class Nobodys:
    """A query whose stragglers are mostly slow for something that no scheduler can mend.

    fingerprint: of the recurring query.
    query: row of its run with the longest delay.
    name: of the topic that most of these stragglers have.
    stragglers, of: how many have such topics, of all that it has.
    held_ms: about how much later its stages ended for that.
    delay_ms: time of these stragglers over their stages' medians.
    """

    fingerprint: str
    query: int
    name: TopicName
    stragglers: int
    of: int
    held_ms: float
    delay_ms: float


@dataclass(frozen=True)
class TopicShapes:
    """What topics say of recurring queries.

    shared: by culprit's fingerprint and resource, the fingerprints of the queries that share it.
    nobodys: by fingerprint, the queries for which pools are no help.
    """

    shared: Mapping[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    nobodys: Mapping[str, Nobodys] = field(default_factory=dict)


def topic_names(found: Topics) -> list[TopicName]:
    """Name each topic by our vocabulary."""
    return [topic_name(found.words_of(topic)) for topic in range(len(found.topics))]


def shapes_of(
    found: Topics | None, tables: Tables, stragglers: Stragglers, kinds: str = ""
) -> TopicShapes:
    """Tell who shares a culprit, and whom pools do not help; nothing of fewer than 20 stages.

    found: Of these tables, with the topics of its stragglers and who is blamed for them.
    stragglers: Of the same tables.
    kinds: File with kinds of advice; only what there is advice against is nobody's fault.
    """
    if found is None or len(found.jobs) < FEW_JOBS or not len(found.topics):
        return TopicShapes()
    names = topic_names(found)
    advised = {
        topic
        for kind in advice_kinds(kinds).values()
        for topic in kind.topics
        if kind.scope != "host"
    }
    mendable = {
        number: name
        for number, name in enumerate(names)
        if name.key in advised and not name.resource
    }
    return TopicShapes(
        _shared(found, texts(tables.queries, "fingerprint")),
        _nobodys(found, mendable, tables, stragglers),
    )


def _shared(found: Topics, prints: Sequence[str]) -> dict[tuple[str, str], frozenset[str]]:
    """Culprits of each resource, with the queries whose stragglers lost time to them."""
    sources = found.sources
    if not len(sources):
        return {}
    job = sources["job"].to_numpy(np.int64)
    target = found.jobs["query"].to_numpy(np.int64)[job]
    by_query = (sources["kind"] == BlameKind.QUERY.value).to_numpy(bool)
    query = sources["query"].to_numpy(np.int64)
    frame = pd.DataFrame(
        {
            "resource": sources["resource"].tolist(),
            "lost_ms": sources["lost_ms"].to_numpy(np.float64),
            "target": [prints[row] if row >= 0 else "" for row in target.tolist()],
            "source": [
                prints[row] if named else ""
                for row, named in zip(query.tolist(), by_query.tolist(), strict=True)
            ],
        }
    )
    sums = frame[frame["target"] != ""].groupby(["resource", "target", "source"], sort=True)
    lost = sums["lost_ms"].sum().reset_index()
    whole = lost.groupby(["resource", "target"])["lost_ms"].transform("sum")
    culprits: dict[tuple[str, str], frozenset[str]] = {}
    for resource, rows in lost.assign(part=lost["lost_ms"] / whole).groupby("resource", sort=True):
        blamed = (rows["source"] != "") & (rows["source"] != rows["target"])
        blamed &= rows["part"] >= CULPRIT_PART
        for source, mine in rows[blamed.to_numpy(bool)].groupby("source", sort=True):
            others = rows["target"][(rows["target"] != source).to_numpy(bool)].nunique()
            if len(mine) >= max(LEAST_SHARING, SHARING_PART * others):
                culprits[str(source), str(resource)] = frozenset(mine["target"])
    return culprits


def _nobodys(
    found: Topics, mendable: Mapping[int, TopicName], tables: Tables, stragglers: Stragglers
) -> dict[str, Nobodys]:
    """Queries most of whose stragglers have topics that are no lack of a resource."""
    of_job = found.jobs["query"].to_numpy(np.int64)
    prints, group = texts(tables.queries, "fingerprint"), recurring_queries(tables)
    total: dict[int, int] = {}
    for query, count in zip(of_job.tolist(), found.jobs["stragglers"].tolist(), strict=True):
        if query >= 0:
            total[int(group[query])] = total.get(int(group[query]), 0) + int(count)
    mine = found.stragglers[found.stragglers["topic"].isin(list(mendable)).to_numpy(bool)]
    listed = stragglers.stragglers[["task", "query", "stage", "delay_ms"]]
    joined = mine.merge(listed, on="task")
    joined = joined[(joined["query"] >= 0).to_numpy(bool)]
    at_once = tasks_at_once(tables)
    kept: dict[str, Nobodys] = {}
    of = group[joined["query"].to_numpy(np.int64)]
    for number, rows in joined.groupby(of, sort=True):
        all_of_them, worst = total.get(int(str(number)), 0), rows["delay_ms"].idxmax()
        query = int(rows["query"].loc[worst])
        if not prints[query] or len(rows) < MOST_STRAGGLERS * all_of_them:
            continue
        kept[prints[query]] = Nobodys(
            fingerprint=prints[query],
            query=query,
            name=mendable[int(rows["topic"].mode().iloc[0])],
            stragglers=len(rows),
            of=all_of_them,
            held_ms=held_up_ms(rows, at_once),
            delay_ms=float(rows["delay_ms"].sum()),
        )
    return kept
