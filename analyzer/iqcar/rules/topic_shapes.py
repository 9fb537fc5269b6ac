"""Tells from recurring topics which queries share a culprit, for which ones pools are no help, and
adds to rules the topics of the queries they are to help.

A topic that is a lack of a resource has a culprit where one query is blamed for that resource on
the hosts of the stragglers that have it, while they ran. What a culprit takes from each query can
be too little to count; of all queries that share the topic it counts as one sum. Other topics, such
as skew or garbage collection, are nobody's fault: whatever share of the slots a query has, its
stages end no sooner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from msgspec.structs import replace

from iqcar.causes.stragglers.straggler_result import Stragglers
from iqcar.causes.topics.topic_result import FEW_JOBS, Topics
from iqcar.enums import BlameKind, Resource
from iqcar.rules.rule import MOST_TOPICS, QueryType, Rule, RuleTopic
from iqcar.rules.straggler_delays import held_up_ms, tasks_at_once
from iqcar.rules.vocabulary import AdviceKind, TopicName, advice_kinds, topic_name
from iqcar.tables import Tables, recurring_queries, texts
from iqcar.tables.arrays import Ints

if TYPE_CHECKING:
    from iqcar.causes.graph.iqc_graph import IQCGraph


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


SHARED_FROM = 0.25
"""Part of the victims' stragglers from which on a topic is shared: with less, most of them are slow
for something else."""


LEAST_WEIGHT = 0.05
"""Part of the stragglers from which on a rule names a topic."""


def with_topics(
    rules: Iterable[Rule], tables: Tables, graph: IQCGraph, found: Topics, kinds: str = ""
) -> tuple[Rule, ...]:
    """Add to each rule the topics of the stragglers of the queries that it is to help.

    A reason says if they share a topic that lacks the rule's resource.

    rules: Advice has the topics that say the same.
    graph: Tells the victims of a source: the queries that lost time to it for the rule's resource.
    found: Of the same tables, with the topics of its stragglers.
    kinds: File with kinds of advice; ours by default.
    """
    writer = _TopicWriter(tables, graph, found, advice_kinds(kinds))
    return tuple(writer.written(rule) for rule in rules)


def straggler_names(found: Topics) -> pd.DataFrame:
    """Name each straggler's topic: task, and key in the vocabulary (empty if no name fits)."""
    keys = [name.key for name in topic_names(found)]
    stragglers = found.stragglers
    return pd.DataFrame(
        {"task": stragglers["task"], "key": [keys[int(t)] for t in stragglers["topic"]]}
    )


class _TopicWriter:
    def __init__(
        self, tables: Tables, graph: IQCGraph, found: Topics, kinds: Mapping[str, AdviceKind]
    ) -> None:
        self.tables, self.graph, self.found, self.kinds = tables, graph, found, kinds
        self.names = topic_names(found)
        self.group = recurring_queries(tables)

    def written(self, rule: Rule) -> Rule:
        """The rule with its topics."""
        victims = _victims(rule, self.tables, self.graph)
        jobs = self.found.jobs.index[self.found.jobs["query"].isin(victims).to_numpy(bool)]
        all_of_them = int(self.found.jobs["stragglers"].loc[jobs].sum())
        stragglers = self.found.stragglers
        stragglers = stragglers[stragglers["job"].isin(jobs).to_numpy(bool)]
        if not len(stragglers):
            return rule
        topics = [
            self._topic(int(str(topic)), rows, all_of_them)
            for topic, rows in stragglers.groupby("topic", sort=True)
        ]
        if rule.is_advice:
            kind = self.kinds.get(rule.kind)
            said = kind.topics if kind is not None else ()
            topics = [topic for topic in topics if topic.topic in said]
        topics.sort(key=lambda topic: -topic.stragglers)
        kept = tuple(topic for topic in topics if topic.weight >= LEAST_WEIGHT)[:MOST_TOPICS]
        return replace(rule, topics=kept, reason=self._reason(rule, topics, all_of_them))

    def _topic(self, topic: int, rows: pd.DataFrame, all_of_them: int) -> RuleTopic:
        name = self.names[topic]
        query = self.found.jobs["query"].to_numpy(np.int64)[rows["job"].to_numpy(np.int64)]
        return RuleTopic(
            topic=name.key, name=name.name, resource=name.resource,
            weight=min(len(rows) / max(all_of_them, 1), 1.0), stragglers=len(rows),
            queries=len(np.unique(self.group[query])), words=self.found.words_of(topic),
        )  # fmt: skip

    def _reason(self, rule: Rule, topics: Iterable[RuleTopic], all_of_them: int) -> str:
        names: dict[str, int] = {}
        for topic in topics:
            if topic.resource == rule.resource and not rule.is_advice:
                names[topic.name] = names.get(topic.name, 0) + topic.stragglers
        name, count = max(names.items(), key=lambda item: item[1], default=("", 0))
        if not count or count < SHARED_FROM * all_of_them:
            return rule.reason
        whose = "its" if rule.query_type is QueryType.TARGET else "its victims'"
        text = (
            f"; {count:,} of {whose} {all_of_them:,} stragglers have the recurring topic {name}, a "
            "lack of the same"
        )
        return rule.reason.removesuffix(".") + text + "."


def _victims(rule: Rule, tables: Tables, graph: IQCGraph) -> Ints:
    """Runs of the query itself, or those that lost time to it for the rule's resource."""
    own = np.array([f == rule.fingerprint for f in texts(tables.queries, "fingerprint")], bool)
    if rule.query_type is QueryType.TARGET:
        return np.flatnonzero(own)
    hurts = graph.who_hurts_whom(Resource(rule.resource))
    hurts = hurts[(hurts["kind"] == BlameKind.QUERY.value) & (hurts["lost_ms"] > 0)]
    source = hurts["source_query"].to_numpy(np.int64)
    target = hurts["target_query"].to_numpy(np.int64)
    to_it = (source >= 0) & own[np.maximum(source, 0)] & ~own[target]
    return np.unique(target[to_it])
