"""Two tenants of a Spark Thrift server, through JDBC: a cap is written while both are connected."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest

import iqcar
from iqcar.tables import texts
from tests.support.free_port import free_port
from tests.support.listener_spark import (
    JAR,
    PLUGIN,
    App,
    build_jar,
    environment,
    read_events,
    spark_params,
)
from tests.support.ruled_apps import pool, rule, rules_file
from tests.support.standalone_cluster import wait_until
from tests.support.thrift_server import thrift_server

pytestmark = [pytest.mark.long, pytest.mark.spark]
SLOTS, CAP = 4, 2
NOW = "bigint(java_method('java.lang.System', 'currentTimeMillis'))"


def sleeping(tasks: int, ms: int) -> str:
    """A statement whose tasks sleep, and tell when they began and ended."""
    sleep = f"java_method('java.lang.Thread', 'sleep', bigint({ms}))"
    rows = f"range(0, {tasks}, 1, {tasks})"
    return f"SELECT {NOW} b, {sleep} s, {NOW} e FROM {rows}"  # noqa: S608


HOG = [sleeping(16, 250), sleeping(60, 301), sleeping(16, 252), sleeping(16, 253)]
"""A recurring query with other constants: before the rules, when they come, under them, after."""
VICTIM = sleeping(4, 300).replace(" b,", " victim_began,")


class Tenants(NamedTuple):
    """What the tenants saw, and what the server recorded."""

    app: App
    at_once: list[int]
    """Most tasks of each of the hog's queries that ran at once."""
    victim_at_once: int
    fingerprint: str
    tables: iqcar.Tables


def at_once(rows: Iterable[list[str]]) -> int:
    """Most tasks that ran at once."""
    steps = sorted(step for b, _, e in rows for step in ((int(b), 1), (int(e), -1)))
    return max(sum(change for _, change in steps[: n + 1]) for n in range(len(steps)))


@pytest.fixture(scope="module", params=spark_params())
def tenants(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tenants:
    build_jar()
    home, folder = request.param, tmp_path_factory.mktemp("tenants")
    (folder / "log").mkdir()
    rules = folder / "rules.json"
    rules_file(rules, [], [])
    settings = {
        **PLUGIN,
        "spark.master": f"local[{SLOTS}]",
        "spark.jars": str(JAR),
        "spark.iqcar.rules": str(rules),
        "spark.iqcar.rules.watchMs": "100",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": (folder / "log").as_uri(),
    }

    def events(kind: str) -> int:
        (log,) = (folder / "log").glob("[!.]*")
        return sum(f'{kind}"' in line for line in log.read_text("utf-8").splitlines())

    def write(pools: list[Any], assignments: list[Any]) -> None:
        before = events(".IqcarEventRules")
        rules_file(folder / "beside.json", pools, assignments)
        (folder / "beside.json").replace(rules)
        wait_until(lambda: events(".IqcarEventRules") > before, "rules")

    env = environment(home)
    with (
        thrift_server(home, free_port(), folder, env, settings) as server,
        server.session("hog") as hog,
        server.session("victim") as victim,
    ):
        seen = [hog.ask(HOG[0])]
        (fingerprint,) = texts(iqcar.read([folder / "log"]).queries, "fingerprint")
        jobs = events("SparkListenerJobStart")
        hog.send(HOG[1])
        wait_until(lambda: events("SparkListenerJobStart") > jobs, "second query of the hog")
        write(
            [pool("hog", cap=CAP, strict=True), pool("victim")],
            [rule("hog", fingerprint=fingerprint), rule("victim", description=VICTIM)],
        )
        beside = victim.ask(VICTIM)
        seen += [hog.answer(), hog.ask(HOG[2])]
        write([], [])
        seen.append(hog.ask(HOG[3]))
    app = App(0, "", (folder / "server.log").read_text("utf-8"), read_events(folder))
    tables = iqcar.read([folder / "log"])
    found = [at_once(one.rows) for one in seen]
    return Tenants(app, found, at_once(beside.rows), fingerprint, tables)


def pools(tenants: Tenants, statement: str) -> set[str]:
    """Pools in the records of the tasks of a statement."""
    queries, records = tenants.tables.queries, tenants.tables.task_records
    names = texts(queries, "name")
    query = tenants.tables.tasks["query"].to_numpy()[records["task"].to_numpy()]
    return {
        found
        for one, found in zip(query.tolist(), texts(records, "pool"), strict=True)
        if names[one] == statement
    }


def test_a_cap_acts_on_the_query_that_runs_and_on_the_next_until_it_is_gone(
    tenants: Tenants,
) -> None:
    before, _, under, after = tenants.at_once
    assert (before, under) == (SLOTS, CAP)
    assert after == SLOTS  # no slot was lost
    first, moved, ruled, last = (pools(tenants, one) for one in HOG)
    assert "hog" in moved
    assert (first, ruled, last) == ({""}, {"hog"}, {""})


def test_the_other_tenant_has_the_other_slots(tenants: Tenants) -> None:
    assert tenants.victim_at_once >= SLOTS - CAP
    assert pools(tenants, VICTIM) == {"victim"}


def test_a_statement_is_its_description_and_a_job_group_of_its_own(tenants: Tenants) -> None:
    """So rules match a tenant's statement by its text or plan, and none by job group."""
    starts = [e["Properties"] for e in tenants.app.events if e["Event"].endswith("JobStart")]
    assert {one["spark.job.description"] for one in starts} == {*HOG, VICTIM}
    assert len({one["spark.jobGroup.id"] for one in starts}) == len(HOG) + 1
    assert tenants.fingerprint.startswith("plan:")


def test_when_all_is_over_no_pool_and_no_task_is_left(tenants: Tenants) -> None:
    assert [one["name"] for one in tenants.app.own_events()[-1]["pools"]] == ["default"]
    kinds = [event["Event"] for event in tenants.app.events]
    assert kinds.count("SparkListenerTaskStart") == kinds.count("SparkListenerTaskEnd")
    assert "SparkListenerApplicationEnd" in kinds
    assert not any(e["Task Info"]["Failed"] for e in tenants.app.ends)
    outcomes = [event["outcome"] for event in tenants.app.own_events("Rules")]
    assert outcomes == ["accepted"] * 3
