"""What topics add to reasons: a lack that victims share, stragglers that say the same."""

from __future__ import annotations

import json

import jsonschema
import numpy as np
import pandas as pd
import pytest

import iqcar as package
from iqcar.causes.graph.iqc_graph import build_graph
from iqcar.causes.topics.topic_result import (
    MIXTURES,
    STRAGGLER_TOPICS,
    TOPIC_JOBS,
    TOPIC_SOURCES,
    TOPIC_WORDS,
    TOPICS,
    Topics,
    TopicSettings,
)
from iqcar.enums import Request
from iqcar.errors import IqcarError
from iqcar.pipeline import stragglers_of
from iqcar.rules.advice_rules import advise
from iqcar.rules.compile_pools import dump_rules, parse_rules_file
from iqcar.rules.propose_rules import propose
from iqcar.rules.topic_shapes import SHARED_FROM, straggler_names, with_topics
from iqcar.rules.vocabulary import rule_schema
from tests.causes.stragglers.test_straggler_blame import rows
from tests.support.advised_log import advised_log
from tests.support.random_blame import blame_of_rows, named_tables

WORDS = ("wait_run_queue_ms(+)", "wait_io_read_ms(+)", "gc_ms(+)")
CPU, IO, GC = range(3)


def topics_of_jobs(*jobs: tuple[int, int, list[int]]) -> Topics:
    """Topics of one word each; of every job its query, its stragglers, and the topics of some."""
    words = [
        {"topic": n, "word": word, "feature": word[:-3], "sign": 1, "weight": 1.0}
        for n, word in enumerate(WORDS)
    ]
    listed = [{"query": query, "stragglers": count} for query, count, _ in jobs]
    of = [(job, topic) for job, (_, _, topics) in enumerate(jobs) for topic in topics]
    stragglers = [{"task": n, "job": job, "topic": t} for n, (job, t) in enumerate(of)]
    return Topics(
        rows(TOPICS, *({"jobs": 1} for _ in WORDS)), rows(TOPIC_WORDS, *words),
        rows(TOPIC_JOBS, *listed), MIXTURES.empty(), pd.DataFrame(), TOPIC_SOURCES.empty(),
        None, TopicSettings(), "", (), rows(STRAGGLER_TOPICS, *stragglers),
    )  # fmt: skip


def rules_with(found: Topics, request: Request = Request.RUN_QUEUE):
    """Two victims (queries 0 and 1) lost time to query 2; the rules before and after."""
    tables = named_tables([0, 1, 2])
    demands = [(0, request, 0, 30_000.0, [(2, 30_000.0)]), (1, request, 0, 9000.0, [(2, 9000.0)])]
    lost = np.array([30_000.0, 9000.0, 0.0])
    graph = build_graph(tables, blame_of_rows(tables, demands, lost.tolist()))
    rules = propose(tables, graph)
    return rules, with_topics(rules, tables, graph, found)


def added(before, after) -> dict[str, str]:
    """What became of each rule's reason."""
    for old, new in zip(before, after, strict=True):
        assert new.reason.startswith(old.reason.removesuffix(".")) and new.reason.endswith(".")
        assert new.rule_value == old.rule_value and new.fingerprint == old.fingerprint
    return {
        f"{old.query_type} {old.query_name}": new.reason[len(old.reason) - 1 :]
        for old, new in zip(before, after, strict=True)
    }


def test_a_rule_says_that_its_victims_stragglers_lack_the_same() -> None:
    found = topics_of_jobs((0, 4, [CPU, CPU, CPU, IO]), (1, 2, [CPU, GC]))
    said = added(*rules_with(found))
    own = "stragglers have the recurring topic limited processor, a lack of the same."
    assert said["target q0"] == f"; 3 of its 4 {own}"
    assert said["target q1"] == f"; 1 of its 2 {own}"
    # Victims of the source are both queries.
    assert said["source q2"] == f"; 4 of its victims' 6 {own}"


@pytest.mark.parametrize(
    ("found", "request_"),
    [
        (topics_of_jobs(), Request.RUN_QUEUE),
        (topics_of_jobs((0, 4, [GC] * 4)), Request.RUN_QUEUE),  # no lack of a resource
        (topics_of_jobs((0, 4, [CPU] * 4)), Request.IO_READ),  # of another one
        (topics_of_jobs((2, 4, [CPU] * 4)), Request.RUN_QUEUE),  # of the source itself
        (topics_of_jobs((0, int(2 / SHARED_FROM), [CPU])), Request.RUN_QUEUE),  # of hardly any
    ],
)
def test_nothing_is_said_where_they_do_not(found: Topics, request_: Request) -> None:
    before, after = rules_with(found, request_)
    assert before and [rule.reason for rule in before] == [rule.reason for rule in after]


def test_a_rule_carries_the_topics_of_its_victims_with_weights() -> None:
    found = topics_of_jobs((0, 4, [CPU, CPU, CPU, IO]), (1, 2, [CPU, GC]))
    _, rules = rules_with(found)
    weights = {
        f"{rule.query_type} {rule.query_name}": [
            (topic.topic, round(topic.weight, 3), topic.queries) for topic in rule.topics
        ]
        for rule in rules
    }
    assert weights["target q0"] == [("limited-processor", 0.75, 1), ("input-read", 0.25, 1)]
    assert weights["target q1"] == [("limited-processor", 0.5, 1), ("gc", 0.5, 1)]
    assert weights["source q2"][0] == ("limited-processor", 0.667, 2)
    assert rules[0].topics[0].words == {"wait_run_queue_ms(+)": 1.0}
    assert "topics" not in rules_with(topics_of_jobs())[1][0].to_dict()


def test_topics_of_rules_are_read_back_and_fit_the_schema() -> None:
    _, rules = rules_with(topics_of_jobs((0, 4, [CPU, CPU, CPU, IO])))
    content = dump_rules(rules)
    jsonschema.validate(json.loads(content), json.loads(rule_schema()))
    assert parse_rules_file(content).rules == rules


@pytest.mark.parametrize(
    ("field", "value"),
    [("weight", 1.5), ("weight", "much"), ("words", {"gc_ms(+)": -1}), ("stragglers", -1)],
)
def test_topics_that_break_the_schema_are_refused(field: str, value: object) -> None:
    _, rules = rules_with(topics_of_jobs((0, 4, [CPU] * 4)))
    file = json.loads(dump_rules(rules))
    file["rules"][0]["topics"][0][field] = value
    with pytest.raises(IqcarError, match=field):
        parse_rules_file(json.dumps(file))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(file, json.loads(rule_schema()))


def test_advice_counts_the_stragglers_whose_topic_says_the_same(tmp_path) -> None:
    tables = package.read(advised_log().write(tmp_path / "app-1"))
    stragglers = stragglers_of(tables)
    (task,) = stragglers.stragglers["task"]
    reasons = []
    for key in ("", "gc", "shuffle-skew"):
        names = pd.DataFrame({"task": [task], "key": [key]})
        (rule,) = advise(tables, stragglers, top=5, topics=names)
        reasons.append(rule.reason)
    assert reasons[0] == reasons[1]
    assert reasons[2] == f"{reasons[0][:-1]}; a recurring topic says the same of 1 of them."


def test_stragglers_are_named_after_their_topics() -> None:
    names = straggler_names(topics_of_jobs((0, 3, [CPU, GC])))
    assert names["task"].tolist() == [0, 1]
    assert names["key"].tolist() == ["limited-processor", "gc"]
