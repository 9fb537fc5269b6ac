"""Adds to rules the topics that recur among the stragglers of the queries they are to help."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from msgspec.structs import replace

from iqcar.causes.topics.topic_result import Topics
from iqcar.enums import BlameKind, Resource
from iqcar.rules.rule import MOST_TOPICS, QueryType, Rule, RuleTopic
from iqcar.rules.topic_shapes import topic_names
from iqcar.rules.vocabulary.advice_kinds import AdviceKind, advice_kinds
from iqcar.tables import Tables, recurring_queries, texts
from iqcar.tables.arrays import Ints

if TYPE_CHECKING:
    from iqcar.causes.graph.iqc_graph import IQCGraph

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
