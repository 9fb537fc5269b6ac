"""The plugin on a Spark Connect server: queries are measured, recognised again and placed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import iqcar
from iqcar.tables import Tables, texts
from tests.support import SUPPORT
from tests.support.free_port import free_port
from tests.support.listener_spark import (
    APP_TIMEOUT_S,
    JAR,
    PLUGIN,
    build_jar,
    command,
    environment,
    read_events,
    records_of,
    spark_homes,
    spark_params,
    spark_version,
)
from tests.support.ruled_apps import applied, pool, pools_of_tasks, rule, rules_file
from tests.support.standalone_cluster import wait_until

pytestmark = [pytest.mark.long, pytest.mark.spark]

CLIENT = SUPPORT / "connect_client.py"
GROUPS = "RESULT groups [(0, 334), (1, 333), (2, 333)]\n"
EVENS = "RESULT evens [(249500, 1)]\n"
PLAN_ID = re.compile(r"plan_id: (\d+)")


def connect_params() -> list[Any]:
    """Sparks that ship the Connect server: those from 4.0 on."""
    homes = [home for home in spark_homes() if spark_version(home) >= "4"]
    return [p for p in spark_params() if p.values[0] in homes or not p.values[0]]


def python_path(home: Path) -> str:
    """Where the Python side of a Spark outside of site-packages is."""
    return str(home.parent) if home.parent.name != "site-packages" else ""


@contextmanager
def server(home: Path, folder: Path, conf: dict[str, str]) -> Iterator[str]:
    """Run a Connect server; yield its URL."""
    build_jar()
    folder.mkdir()
    port = free_port()
    name = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    words = command(
        home,
        folder,
        ["spark-internal"],
        master="local[2]",
        conf={**conf, "spark.connect.grpc.binding.port": str(port)},
        options=["--jars", str(JAR), *name],
    )
    errors = folder / "errors"
    with errors.open("w") as out:
        running = subprocess.Popen(words, env=environment(home), cwd=folder, stdout=out, stderr=out)
        try:
            wait_until(lambda: "server started" in errors.read_text(), "Connect server")
            yield f"sc://127.0.0.1:{port}"
        finally:
            running.terminate()
            running.wait(APP_TIMEOUT_S)


def client(home: Path, url: str, *queries: str) -> str:
    """Send queries in one session or more; return what was printed."""
    done = subprocess.run(
        [sys.executable, str(CLIENT), url, *queries],
        env={**os.environ, "PYTHONPATH": python_path(home)},
        capture_output=True,
        text=True,
        timeout=APP_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module", params=connect_params())
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Tables, Tables, Path]:
    """Queries of several sessions, before and after there is a rule for one of them."""
    home = request.param
    folder = tmp_path_factory.mktemp("connect")
    with server(home, folder / "before", PLUGIN) as url:
        printed = client(home, url, "groups", "+", "evens", "groups", "+", "sql", "tagged")
        assert printed.startswith(GROUPS + EVENS + GROUPS)
    before = iqcar.read([folder / "before" / "log"])
    first = texts(before.queries, "fingerprint")[0]
    path = rules_file(folder / "rules.json", [pool("slow")], [rule("slow", fingerprint=first)])
    with server(home, folder / "after", applied(path)) as url:
        assert client(home, url, "evens", "groups") == EVENS + GROUPS
    return before, iqcar.read([folder / "after" / "log"]), folder


def test_queries_sent_to_a_connect_server_are_measured(
    served: tuple[Tables, Tables, Path],
) -> None:
    _, _, folder = served
    ends = [e for e in read_events(folder / "before") if e["Event"] == "SparkListenerTaskEnd"]
    assert ends
    assert [len(records_of(end)) for end in ends] == [1] * len(ends)


def test_a_query_sent_in_two_sessions_is_one_recurring_query_called_by_its_users_words(
    served: tuple[Tables, Tables, Path],
) -> None:
    before, _, _ = served
    groups, evens, again, statement, tagged = texts(before.queries, "fingerprint")
    assert groups == again == tagged
    assert len({groups, evens, statement}) == 3
    names = texts(before.queries, "name")
    assert names[:2] == ["aggregate of range (sql-0)", "aggregate of range (sql-1)"]
    assert names[3].startswith("SELECT id % 2 AS k")
    assert names[4] == "nightly"


def test_a_rule_places_the_next_run_and_not_what_has_its_plan_id(
    served: tuple[Tables, Tables, Path],
) -> None:
    before, after, folder = served
    innocent, known = texts(after.queries, "fingerprint")
    assert known == texts(before.queries, "fingerprint")[0]
    assert set(pools_of_tasks(after)) == {(innocent, ""), (known, "slow")}
    described = [
        PLAN_ID.findall(event["description"])
        for name in ("before", "after")
        for event in read_events(folder / name)
        if event["Event"].endswith("SparkListenerSQLExecutionStart")
    ]
    assert described[0] == described[5], "the two did not get the same plan id"
