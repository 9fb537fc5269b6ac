"""What becomes of a rule's topics in the next run."""

from __future__ import annotations

from dataclasses import replace

import jsonschema
import msgspec
import pytest

from iqcar.comparison.check_rules import Check, TopicChange, TopicRun, check_rules, check_topics
from iqcar.pipeline import diagnose
from iqcar.rules.compile_pools import RulesFile, dump_compiled, parse_rules_file
from iqcar.rules.rule import RuleTopic
from iqcar.show.json.analyze import check_schema, check_to_json
from iqcar.tables import Tables, texts
from iqcar_lab.clusters.planted_findings import World
from iqcar_lab.clusters.recurring import CULPRIT, logged, trouble

FAMILY = "reading takes little from many"


@pytest.fixture(scope="module")
def world() -> World:
    return trouble(FAMILY, 0)


@pytest.fixture(scope="module")
def before(world: World) -> Tables:
    return logged(world, 0)


@pytest.fixture(scope="module")
def after(world: World) -> Tables:
    """The same queries without their culprit."""
    jobs = tuple(job for job in world.work.jobs if job.name != CULPRIT)
    return logged(replace(world, work=replace(world.work, jobs=jobs)), 1)


@pytest.fixture(scope="module")
def rules(before: Tables) -> RulesFile:
    found = diagnose(before)
    return parse_rules_file(dump_compiled(found.tables, found.rules))


@pytest.fixture(scope="module")
def checked(rules: RulesFile, before: Tables, after: Tables) -> Check:
    return check_rules(rules, before, after)


@pytest.mark.long
def test_a_topic_is_rarer_where_its_culprit_is_gone(checked: Check) -> None:
    topics = [topic for rule in checked.rules for topic in rule.topics]
    assert {topic.topic for topic in topics} == {"input-read"}
    for topic in topics:
        assert topic.change == TopicChange.RARER.value
        assert topic.before > 0.2 and topic.after < topic.before / 2


def test_the_check_is_said_and_fits_its_schema(checked: Check) -> None:
    (cap,) = (rule for rule in checked.rules if rule.id == "CAP-1")
    assert "of their tasks have the topic slow input" in cap.sentence
    jsonschema.validate(msgspec.json.decode(check_to_json(checked)), schema())


def schema() -> dict[str, object]:
    return msgspec.json.decode(check_schema())


def test_in_the_same_run_a_topic_is_as_before(rules: RulesFile, before: Tables) -> None:
    same = check_rules(rules, before, before)
    assert {topic.change for rule in same.rules for topic in rule.topics} == {"as-before"}


def test_keywords_that_nobody_recorded_tell_nothing(before: Tables) -> None:
    words = {"no such feature(+)": 0.5, "x": 0.25, "scan_ms(?)": 0.25}
    topic = RuleTopic("", "?", "", 1.0, 1, 1, words)
    run = TopicRun(before)
    (told,) = check_topics([topic], (run, run), texts(before.queries, "fingerprint"))
    assert (told.before, told.after, told.change) == (None, None, "unknown")
    (nobody,) = check_topics([topic], (run, run), ["no query"])
    assert nobody.change == "unknown"
