"""Topics shape rules: a culprit of many counts, a query that pools do not help is left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from iqcar.causes.graph.iqc_graph import build_graph
from iqcar.diagnosis import Diagnosis
from iqcar.enums import Request
from iqcar.pipeline import diagnose
from iqcar.rules.propose_rules import MIN_LOST_MS, left_out, propose
from iqcar.rules.rule import QueryType, Rule, scheduler_rules
from iqcar.rules.topic_shapes import LEAST_SHARING, Nobodys, TopicShapes, shapes_of
from iqcar.rules.vocabulary import TopicName
from iqcar_lab.clusters.recurring import CULPRIT, compiled, lasted, logged, trouble
from tests.support.random_blame import blame_of_rows, named_tables

LITTLE = 0.4 * MIN_LOST_MS
"""Too little to count by itself; three of it together count."""


def proposed(lost: float, shapes: TopicShapes) -> tuple[Rule, ...]:
    """Rules where queries 0, 1 and 2 each lost so much of the processor to query 3."""
    graph, tables = graph_of(lost)
    return propose(tables, graph, shapes=shapes)


def graph_of(lost: float):
    tables = named_tables([0, 1, 2, 3])
    tables = tables.with_(queries=tables.queries.assign(duration_ms=1_000.0))
    demands = [(q, Request.RUN_QUEUE, 0, lost, [(3, lost)]) for q in range(3)]
    whole = np.array([lost, lost, lost, 0.0])
    return build_graph(tables, blame_of_rows(tables, demands, whole.tolist())), tables


def prints(*queries: int) -> list[str]:
    tables = named_tables([0, 1, 2, 3])
    return [str(tables.queries["fingerprint"].iloc[q]) for q in queries]


def shared(resource: str = "cpu") -> TopicShapes:
    (culprit,) = prints(3)
    return TopicShapes(shared={(culprit, resource): frozenset(prints(0, 1, 2))})


def test_what_many_lost_little_each_makes_rules_for_their_culprit() -> None:
    assert proposed(LITTLE, TopicShapes()) == ()
    rules = proposed(LITTLE, shared())
    assert {rule.fingerprint for rule in rules} == set(prints(3))
    assert {rule.query_type for rule in rules} == {QueryType.SOURCE}
    assert "3 other queries lost 120 ms" in rules[0].reason


@pytest.mark.parametrize("lost", [0.0, 0.2 * MIN_LOST_MS])
def test_a_topic_alone_makes_no_rule(lost: float) -> None:
    assert proposed(lost, shared()) == ()


def test_a_topic_of_another_resource_makes_no_rule() -> None:
    assert proposed(LITTLE, shared("io")) == ()


def nobodys(held_ms: float) -> TopicShapes:
    name = TopicName("input-skew", "data skew: input", "", "", "")
    (mine,) = prints(0)
    return TopicShapes(nobodys={mine: Nobodys(mine, 0, name, 9, 10, held_ms, 3 * held_ms)})


def test_a_query_that_lost_more_to_what_is_nobodys_fault_is_left_out() -> None:
    lost = 10 * MIN_LOST_MS
    graph, tables = graph_of(lost)
    rules = propose(tables, graph, shapes=nobodys(2 * lost))
    assert prints(0)[0] not in {rule.fingerprint for rule in rules}
    assert [one.query for one in left_out(tables, graph, nobodys(2 * lost))] == [0]
    assert propose(tables, graph, shapes=nobodys(lost / 2)) == propose(tables, graph)
    assert left_out(tables, graph, nobodys(lost / 2)) == []


@pytest.fixture(scope="module")
def hurt() -> tuple[Diagnosis, Diagnosis]:
    """Many short queries beside a reader, without topics and with."""
    tables = logged(trouble("reading takes little from many", 0), 0)
    return diagnose(tables, topics=False), diagnose(tables)


def test_who_reads_beside_many_short_queries_is_their_culprit(hurt) -> None:
    _, found = hurt
    shapes = shapes_of(found.topics, found.tables, found.stragglers)
    ((_, resource),) = shapes.shared
    assert resource == "io"
    assert len(next(iter(shapes.shared.values()))) > LEAST_SHARING
    few = replace(found.topics, jobs=found.topics.jobs.iloc[:19])
    assert shapes_of(few, found.tables, found.stragglers) == TopicShapes()


def test_rules_with_topics_save_time_where_rules_without_them_do_not(hurt) -> None:
    world = trouble("reading takes little from many", 0)
    base = sum(lasted(world, 1).values())
    without, with_ = (
        sum(lasted(world, 1, compiled(found, found.rules)).values()) for found in hurt
    )
    assert with_ < 0.97 * base < without
    acting = [rule for rule in hurt[1].rules if rule.helps_pools]
    assert {rule.query_name for rule in acting} == {CULPRIT}
    assert all(rule.topics[0].topic == "input-read" for rule in acting)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_quiet_run_with_recurring_skew_gets_no_rule(seed: int) -> None:
    found = diagnose(logged(trouble("quiet, with skew", seed), seed))
    assert len(found.topics.topics) > 0
    assert scheduler_rules(found.rules) == []


def test_skewed_queries_get_advice_in_place_of_pools() -> None:
    tables = logged(trouble("skew, and hardly too few slots", 1), 1)
    without, found = diagnose(tables, topics=False), diagnose(tables)
    assert scheduler_rules(without.rules)
    assert scheduler_rules(found.rules) == []
    said = [rule for rule in found.rules if "no pool is made for" in rule.reason]
    assert said and {rule.kind for rule in said} == {"split-input"}
