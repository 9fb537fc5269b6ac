"""Where Spark drops events, jobs under rules end with what they should, and the log says so."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support import SUPPORT
from tests.support.command import iqcar
from tests.support.listener_spark import App, run, spark_params
from tests.support.ruled_apps import applied, pool, rule, rules_file

pytestmark = [pytest.mark.long, pytest.mark.spark]

CAPACITY = 10
"""Events that a queue of Spark holds; it posts about as many for one job of one task."""
IDLE = {"iqcar-rules-held", "iqcar-python-search"}
"""Threads that end when they have had nothing to do for some seconds."""
MOST_KNOWN = 64
"""Jobs that may be kept though their ends were dropped."""


@dataclass
class Lossy:
    """What the application left behind, and what it found out itself."""

    app: App
    found: dict[str, Any]
    said: str
    """What `iqcar analyze` says of its log."""


@pytest.fixture(scope="module", params=spark_params())
def lossy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lossy:
    folder = tmp_path_factory.mktemp("lossy")
    pools = [pool("capped", cap=1, strict=True), pool("heavy", 3)]
    placed = [rule("capped", description="query a"), rule("heavy", description="query b")]
    conf = applied(rules_file(folder / "rules.json", pools, placed))
    conf["spark.scheduler.listenerbus.eventqueue.capacity"] = str(CAPACITY)
    conf |= {"spark.iqcar.overhead": "1%", "spark.iqcar.host.enabled": "false"}
    app = run(request.param, folder, [str(SUPPORT / "lossy_jobs.py")], conf=conf)
    assert app.exit_code == 0, app.errors[-3000:]
    analyzed = iqcar("analyze", app.log, "--full")
    assert analyzed.returncode in (0, 3), analyzed.stderr
    assert not analyzed.stderr.count("Traceback")
    return Lossy(app, json.loads(app.output.splitlines()[-1]), analyzed.stdout + analyzed.stderr)


def test_all_jobs_end_with_the_right_results(lossy: Lossy) -> None:
    assert lossy.found["wrong"] == []
    for queue in ("eventLog", "shared", "iqcar"):
        assert lossy.found["dropped"][queue] > 100, lossy.found["dropped"]


def test_a_job_whose_events_came_goes_into_its_pool_afterwards(lossy: Lossy) -> None:
    assert lossy.found["pools"][-1] == "capped"


def test_the_plugin_fails_nowhere_keeps_little_and_ends(lossy: Lossy) -> None:
    assert "iqcar: " not in lossy.app.errors.replace("iqcar: rules of", "")
    assert "Exception" not in "\n".join(
        line for line in lossy.app.errors.splitlines() if "org.iqcar" in line
    )
    maps = lossy.found["maps"]
    assert maps["Placement.jobs"] + maps["HeldJobs.since"] <= MOST_KNOWN
    assert set(lossy.found["own_threads"]) <= IDLE


def test_the_analyzer_says_what_the_log_lacks(lossy: Lossy) -> None:
    assert lossy.said.splitlines()[1].startswith("Do not trust the figures: Spark dropped events")
    said = " ".join(lossy.said.split())
    assert "task ends are missing from" in said
    assert "are missing though their applications ended" in said
    assert "by which rules recognise jobs" in said
    counts = lossy.app.own_events("Dropped")
    assert counts[-1]["queues"]["eventLog"] >= lossy.found["dropped"]["eventLog"]
    assert f"Spark dropped {counts[-1]['queues']['eventLog']:,} events of 1 applications" in said


def test_what_the_log_lacks_is_less_than_what_spark_dropped(lossy: Lossy) -> None:
    kinds = Counter(event["Event"].removeprefix("SparkListener") for event in lossy.app.events)
    dropped = lossy.app.own_events("Dropped")[-1]["queues"]["eventLog"]
    for begun, end in (("JobStart", "JobEnd"), ("StageSubmitted", "StageCompleted")):
        assert abs(kinds[begun] - kinds[end]) <= dropped
    assert 0 < kinds["TaskEnd"] < lossy.found["tasks"]
    assert lossy.found["tasks"] - kinds["TaskEnd"] <= dropped
