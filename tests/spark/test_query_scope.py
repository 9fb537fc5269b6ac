"""Naming queries and choosing pools on a real Spark; the pools come from a compiled file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import iqcar
from iqcar.errors import IqcarError, UsageError
from iqcar.rules.compile_pools import allocation_xml, compile_rules
from iqcar.rules.rule import Pool
from tests.conftest import REPO
from tests.rules.test_pool_plan import victim
from tests.support import SUPPORT
from tests.support.listener_spark import (
    APP_TIMEOUT_S,
    python_of,
    read_events,
    run,
    spark_params,
    spark_version,
)

JOBS = SUPPORT / "pool_jobs.py"
CONNECT_JOBS = SUPPORT / "connect_scopes.py"
OWN = [Pool("default", 1, 0, "FAIR"), Pool("ü <&> \"'", 2, 1)]
PLAN = compile_rules([victim(9.0, name="q39b")], 4, 4, OWN)
POOL = PLAN.assignments[0].pool


class Ran(NamedTuple):
    """What an application printed, and the properties of its jobs by job group."""

    seen: dict[str, Any]
    jobs: dict[str, tuple[str | None, str | None]]
    events: list[dict[str, Any]]
    log: Path


def properties_of(job: dict[str, Any]) -> tuple[str | None, str | None]:
    """Description and pool of a job."""
    properties = job["Properties"]
    return properties.get("spark.job.description"), properties.get("spark.scheduler.pool")


@pytest.fixture(scope="module", params=spark_params())
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """One application on each Spark, with an allocation file made from a rule."""
    folder = tmp_path_factory.mktemp("pools")
    (folder / "fairscheduler.xml").write_bytes(allocation_xml(PLAN.pools))
    conf = {
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": (folder / "fairscheduler.xml").as_uri(),
        "spark.sql.shuffle.partitions": "1",
    }
    app = run(request.param, folder, [str(JOBS), POOL], master="local[4]", conf=conf)
    printed = [line for line in app.output.splitlines() if line.startswith("SEEN ")]
    assert printed, app.errors[-3000:]
    jobs = {}
    for event in app.events:
        if event["Event"] == "SparkListenerJobStart":
            jobs[event["Properties"].get("spark.jobGroup.id")] = properties_of(event)
    return Ran(json.loads(printed[0].removeprefix("SEEN ")), jobs, app.events, app.log)


spark = pytest.mark.spark


@pytest.mark.long
@spark
def test_spark_loads_the_compiled_pools_as_they_are(ran: Ran) -> None:
    expected = [[p.name, p.weight, p.min_share, p.mode] for p in PLAN.pools]
    assert ran.seen["pools"] == sorted(expected)


@spark
@pytest.mark.parametrize(
    "group",
    ["sql", "rdd", "inheritable", "plain-decorated", "pooled-1", "pooled-2", "pooled-3", "failing"],
)
def test_what_runs_inside_has_the_name_and_the_pool(ran: Ran, group: str) -> None:
    assert ran.jobs[group] == ("q39b", POOL)


@spark
def test_the_event_log_names_sql_executions_by_the_scope(ran: Ran) -> None:
    described = Counter(
        event["description"] for event in ran.events if event["Event"].endswith("SQLExecutionStart")
    )
    assert described["q39b"] == 7
    assert described["decorated"] == described["inner"] == described["innermost"] == 1


@spark
def test_the_analyzer_finds_the_query_by_the_fingerprint_its_rule_matches(
    ran: Ran, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.write_text("\n".join(json.dumps(event) for event in ran.events))
    queries = iqcar.read(log).queries
    named = queries[queries["fingerprint"] == PLAN.assignments[0].fingerprint]
    assert len(named) == 8
    assert set(named["pool"]) == {POOL}


@spark
def test_a_plain_thread_inherits_nothing(ran: Ran) -> None:
    assert ran.jobs["plain"][1] is None
    assert ran.seen["worker-after"] == [None, None]


@spark
def test_an_inner_scope_keeps_the_pool_unless_it_names_one(ran: Ran) -> None:
    assert ran.jobs["nested"] == ("inner", POOL)
    assert ran.jobs["nested-twice"] == ("innermost", "default")
    assert ran.seen["after-innermost"] == ["inner", POOL]
    assert ran.seen["after-inner"] == ran.seen["inside"] == ran.seen["entered-again"]


@spark
def test_what_was_there_before_is_there_after(ran: Ran) -> None:
    assert ran.seen["before"] == ran.seen["after"] == [None, None]
    assert ran.jobs["after"][1] is None
    assert ran.seen["after-error"] == ["mine", "default"]
    assert ran.seen["error"] == "'of the body'"


@spark
def test_a_decorated_function_stays_itself(ran: Ran) -> None:
    assert ran.jobs["decorated"] == ("decorated", POOL)
    assert ran.seen["returned"] == ["decorated", "decorated", "Keep my words."]


@spark
def test_sql_can_set_the_pool_for_its_session(ran: Ran) -> None:
    assert ran.jobs["by-set"][1] == POOL
    assert ran.jobs["by-reset"][1] is None


@spark
def test_the_heavy_pool_gets_more_slots_while_both_want_some(ran: Ran) -> None:
    """Tasks that began while both had some left to begin: on four slots 3 to 1, as the lighter
    pool is never without one; equal pools would have as many, and the first tasks count as well."""
    stage_of = {
        stage: event["Properties"].get("spark.job.description")
        for event in ran.events
        if event["Event"] == "SparkListenerJobStart"
        for stage in event["Stage IDs"]
    }
    begun: dict[str, list[int]] = {"heavy": [], "light": []}
    for event in ran.events:
        if event["Event"] == "SparkListenerTaskEnd" and stage_of[event["Stage ID"]] in begun:
            begun[stage_of[event["Stage ID"]]].append(event["Task Info"]["Launch Time"])
    since = max(min(times) for times in begun.values())
    until = min(max(times) for times in begun.values())
    both = {name: sum(since <= t <= until for t in times) for name, times in begun.items()}
    weights = {pool.name: pool.weight for pool in PLAN.pools}
    assert weights[POOL] >= 3 * weights["default"]
    assert both["heavy"] > 1.5 * both["light"]


@pytest.fixture(scope="module")
def connected(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A Spark Connect client of the installed Spark; jobs are told apart by their tasks."""
    (home,) = spark_params()[0].values
    if home is None or spark_version(home) < "4" or python_of(home) != sys.executable:
        pytest.skip("needs a JDK and pyspark 4 with Connect")
    pytest.importorskip("grpc")
    folder = tmp_path_factory.mktemp("connect")
    (folder / "log").mkdir()
    done = subprocess.run(
        [sys.executable, str(CONNECT_JOBS), str(folder), POOL],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(REPO / "analyzer")},
        capture_output=True,
        text=True,
        timeout=APP_TIMEOUT_S,
        check=False,
    )
    printed = [line for line in done.stdout.splitlines() if line.startswith("SEEN ")]
    assert printed, done.stderr[-3000:]
    events = read_events(folder)
    jobs = {
        str(event["Stage Infos"][0]["Number of Tasks"]): properties_of(event)
        for event in events
        if event["Event"] == "SparkListenerJobStart"
    }
    return Ran(json.loads(printed[0].removeprefix("SEEN ")), jobs, events, folder / "log")


@pytest.mark.long
@spark
def test_a_connect_client_names_its_jobs_and_chooses_their_pool(connected: Ran) -> None:
    assert connected.jobs["3"] == ("q39b", POOL)
    assert connected.jobs["4"] == ("inner", POOL)
    assert connected.jobs["5"][1] is None
    assert connected.jobs["5"][0] != "q39b"


@pytest.mark.long
@spark
def test_reports_call_a_connect_clients_queries_by_the_scope(connected: Ran) -> None:
    queries = iqcar.read([connected.log]).queries
    assert [name.partition(" (")[0] for name in queries["name"]] == [
        "q39b",
        "inner",
        "write of range",
    ]
    assert queries["fingerprint"].str.startswith("plan:").all()


@spark
def test_a_connect_session_is_as_it_was_after_the_scope(connected: Ran) -> None:
    seen = connected.seen
    assert seen["before"] == seen["after"] == seen["after-error"] == [None, None]
    assert seen["inner"] == ["inner", POOL]
    assert seen["inside"] == ["q39b", POOL]


@spark
def test_what_a_connect_server_refuses_is_one_line_that_says_what_helps(connected: Ran) -> None:
    refused = connected.seen["refused"]
    assert "does not let its client set spark.job.description" in refused
    assert "use the plugin on the server" in refused
    assert "\n" not in refused
    assert "no Spark is running here" in connected.seen["stopped"]


@pytest.mark.parametrize("name", ["", " ", None, 3])
def test_a_name_has_to_be_text(name: object) -> None:
    with pytest.raises(UsageError, match="the name of a query must be text"):
        iqcar.query(name)


def test_a_pool_has_to_be_text() -> None:
    with pytest.raises(UsageError, match="the pool of a query must be text"):
        iqcar.query("q39b", pool="")


def test_without_spark_the_error_says_so() -> None:
    pytest.importorskip("pyspark")
    with pytest.raises(IqcarError, match="no Spark is running here"), iqcar.query("q39b"):
        pass


def test_what_is_no_session_is_refused() -> None:
    pytest.importorskip("pyspark")
    with pytest.raises(UsageError, match="a str is no SparkSession"):
        iqcar.query("q39b", spark="local[2]").__enter__()


def test_generators_and_coroutines_cannot_be_decorated() -> None:
    async def coroutine() -> None: ...

    def generator():
        yield

    for function in (coroutine, generator):
        with pytest.raises(UsageError, match="after its call has returned"):
            iqcar.query("q39b")(function)


def test_importing_it_needs_neither_pyspark_nor_pandas() -> None:
    code = (
        "import sys, iqcar; iqcar.query('q39b'); "
        "print([m for m in ('pyspark', 'pandas', 'msgspec', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_without_pyspark_the_error_says_so(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "import iqcar\n"
        "try:\n    iqcar.query('q39b').__enter__()\nexcept Exception as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "PySpark is not there" in done.stdout


@pytest.mark.long
@spark
def test_threads_that_are_not_pinned_are_refused() -> None:
    code = (
        "from pyspark.sql import SparkSession\nimport iqcar\n"
        "spark = SparkSession.builder.master('local[1]').getOrCreate()\n"
        "try:\n    iqcar.query('q39b').__enter__()\nexcept Exception as error: print(error)\n"
        "spark.stop()\n"
        "try:\n    iqcar.query('q39b', spark=spark).__enter__()\n"
        "except Exception as error: print(error)\n"
    )
    (home,) = spark_params()[0].values
    if home is None:
        pytest.skip("needs a JDK and pyspark")
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYSPARK_PIN_THREAD": "false", "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=APP_TIMEOUT_S,
        check=True,
    )
    pinned, stopped = done.stdout.splitlines()
    assert "not pinned" in pinned
    assert "was stopped" in stopped
