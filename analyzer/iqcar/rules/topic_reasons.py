"""Adds to rules the topics that recur among the victims' stragglers for the same resource."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from msgspec.structs import replace

from iqcar.causes.topics.topic_result import Topics
from iqcar.enums import BlameKind, Resource
from iqcar.rules.rule import QueryType, Rule
from iqcar.rules.vocabulary.topics import topic_name
from iqcar.tables import Tables, texts
from iqcar.tables.arrays import Ints

if TYPE_CHECKING:
    from iqcar.causes.graph.iqc_graph import IQCGraph

SHARED_FROM = 0.25
"""Part of the victims' stragglers from which on a topic is shared: with less, most of them are slow
for something else."""


def with_topics(
    rules: Iterable[Rule], tables: Tables, graph: IQCGraph, found: Topics
) -> tuple[Rule, ...]:
    """Say in a rule's reason that its victims' stragglers share a topic that lacks its resource.

    rules: Advice is left as it is.
    graph: Tells the victims of a source: the queries that lost time to it for the rule's resource.
    found: Of the same tables, with the topics of its stragglers.
    """
    lacks = _lacks(found)
    return tuple(
        rule if rule.is_advice else _with_topic(rule, tables, graph, found, lacks) for rule in rules
    )


def straggler_names(found: Topics) -> pd.DataFrame:
    """Name each straggler's topic: task, and key in the vocabulary (empty if no name fits)."""
    keys = [topic_name(found.words_of(topic)).key for topic in range(len(found.topics))]
    stragglers = found.stragglers
    return pd.DataFrame(
        {"task": stragglers["task"], "key": [keys[int(t)] for t in stragglers["topic"]]}
    )


def _lacks(found: Topics) -> dict[int, tuple[str, str]]:
    """Topics that are a lack of a resource: the resource and the name."""
    named = [topic_name(found.words_of(topic)) for topic in range(len(found.topics))]
    return {n: (one.resource, one.name) for n, one in enumerate(named) if one.resource}


def _with_topic(
    rule: Rule, tables: Tables, graph: IQCGraph, found: Topics, lacks: dict[int, tuple[str, str]]
) -> Rule:
    victims = _victims(rule, tables, graph)
    jobs = found.jobs.index[found.jobs["query"].isin(victims).to_numpy(bool)]
    all_of_them = int(found.jobs["stragglers"].loc[jobs].sum())
    stragglers = found.stragglers[found.stragglers["job"].isin(jobs).to_numpy(bool)]
    names: dict[str, int] = {}
    for topic in stragglers["topic"].tolist():
        resource, name = lacks.get(topic, ("", ""))
        if resource == rule.resource:
            names[name] = names.get(name, 0) + 1
    name, count = max(names.items(), key=lambda item: item[1], default=("", 0))
    if not count or count < SHARED_FROM * all_of_them:
        return rule
    whose = "its" if rule.query_type is QueryType.TARGET else "its victims'"
    text = (
        f"; {count:,} of {whose} {all_of_them:,} stragglers have the recurring topic {name}, a "
        "lack of the same"
    )
    return replace(rule, reason=rule.reason.removesuffix(".") + text + ".")


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
