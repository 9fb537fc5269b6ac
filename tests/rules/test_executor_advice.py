"""Advice about executors that other applications held: for people, by cluster manager."""

from __future__ import annotations

import io
import json
from pathlib import Path

import jsonschema
import pytest

import iqcar
from iqcar.enums import FindingKind
from iqcar.rules.compile_pools import dump_rules, parse_rules_file
from iqcar.say import find_verdict
from iqcar.show.json.analyze import result_schema, to_json
from iqcar.show.terminal.analyze import print_diagnosis, print_queries
from iqcar.show.terminal.layout import terminal
from tests.support.contended_log import contended_log
from tests.support.shared_cluster_logs import (
    KUBERNETES,
    STANDALONE,
    YARN,
    read,
    three_of_four_held,
    whole_cluster_held,
)


@pytest.mark.parametrize(
    ("master", "kind", "setting"),
    [
        (STANDALONE, "executors-standalone", "spark.cores.max"),
        (YARN, "executors-yarn", "spark.yarn.queue"),
        (KUBERNETES, "executors-kubernetes", "spark.kubernetes.namespace"),
    ],
)
def test_each_cluster_manager_has_advice_of_its_own(
    master: str, kind: str, setting: str, tmp_path: Path
) -> None:
    settings = {"spark_executor_instances": "4", "spark_executor_cores": "2"}
    found = iqcar.diagnose(read(whole_cluster_held(master, **settings), tmp_path))
    (rule,) = [rule for rule in found.rules if rule.resource == "executors"]
    assert (rule.kind, rule.query_name, rule.helps_pools) == (kind, "report", False)
    assert setting in {one["name"] for one in rule.settings}
    assert "application nightly held, most for load" in rule.reason
    assert parse_rules_file(dump_rules(found.rules)).rules == found.rules
    verdict = find_verdict(found)
    assert verdict.targets[0].advice == rule.advice
    # Whoever waits for executors that others hold is not told to keep executors ready.
    assert [one.kind for one in verdict.findings] == [FindingKind.CONTENTION]


def test_no_pool_follows_from_executors(tmp_path: Path) -> None:
    found = iqcar.diagnose(read(three_of_four_held(), tmp_path))
    assert [rule.rule_type.value for rule in found.rules] == ["ADVICE"]


def test_idle_holders_are_named_as_such_in_every_view(tmp_path: Path) -> None:
    found = iqcar.diagnose(read(three_of_four_held(busy=5), tmp_path))
    (rule,) = found.rules
    assert "executors that ran no task, the cheapest to give back" in rule.reason
    said = find_verdict(found).targets[0].sentence
    assert "waiting for executors held by load of nightly, idle for" in said
    shown = io.StringIO()
    print_diagnosis(found, terminal(shown))
    text = " ".join(shown.getvalue().split())
    assert "executors 2.6 min (estimated)" in text
    assert "in idle executors" in text
    assert "waits for executors are estimated" in text
    result = json.loads(to_json(found))
    jsonschema.validate(result, json.loads(result_schema()))
    (report,) = [query for query in result["queries"] if query["name"] == "report"]
    assert report["waits"]["executors"]["ms"] > 0
    assert 0 < report["blame"][0]["idle_ms"] < report["blame"][0]["lost_ms"]
    assert "executors" in found._repr_html_()


def test_where_nobody_was_in_the_way_no_view_mentions_executors(tmp_path: Path) -> None:
    found = iqcar.diagnose(read([contended_log()], tmp_path))
    shown = io.StringIO()
    print_diagnosis(found, terminal(shown))
    print_queries(found, terminal(shown))
    text = shown.getvalue()
    assert "waiting for" in text
    assert "executors" not in text.partition("Advice")[0].partition("Scheduler rules")[0]
    assert not [rule for rule in found.rules if rule.resource == "executors"]
