"""Logs read from a real History Server are those in its folder, also while they grow."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest

import iqcar
from iqcar.diagnosis import Settings
from iqcar.live.watch import Watch
from iqcar.logs.find.locate import EventLog, locate
from iqcar.logs.ingest import ingest
from iqcar.logs.log_summary import peek
from tests.support import quick_spark
from tests.support.free_port import free_port
from tests.support.history_server import history_server, rest
from tests.support.hosted_apps import empty_log
from tests.support.listener_spark import environment, spark_params
from tests.support.standalone_cluster import wait_until

pytestmark = [
    pytest.mark.long("analyzer/iqcar/logs", "listener/src"),
    pytest.mark.spark,
    pytest.mark.portable,
]

JOB = Path(__file__).resolve().parents[1] / "support" / "held_job.py"
AGAIN = "application_1713000000000_0001"


class Held(NamedTuple):
    """A server, its folder of logs, and an application that runs until `go` is there."""

    server: str
    logs: Path
    app: str
    go: Path
    running: subprocess.Popen[str]
    ui: str


@pytest.fixture(params=spark_params())
def held(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Held]:
    home, logs, go = request.param, tmp_path / "logs", tmp_path / "go"
    logs.mkdir()
    for number in (1, 2):
        start = 1_713_000_000_000 + number * 60_000
        (logs / f"{AGAIN}_{number}").write_text(empty_log(AGAIN, start, number))
    env = {**environment(home), "SPARK_DAEMON_JAVA_OPTS": quick_spark.options()}
    port = free_port()
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": logs.as_uri(),
        "spark.eventLog.rolling.enabled": "true",
        "spark.eventLog.compress": "true",
        "spark.ui.port": str(port),
    }
    flags = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    submit = [str(home / "bin" / "spark-submit"), "--master", "local[2]", *flags]
    running = subprocess.Popen(
        [*submit, str(JOB), str(go)], env=env, stderr=subprocess.PIPE, text=True
    )
    try:
        with history_server(home, logs, tmp_path / "server.log", env) as server:
            wait_until(lambda: running.poll() is not None or len(rest(server, "")) == 2, "job")
            (app,) = [one["id"] for one in rest(server, "") if one["id"] != AGAIN]
            yield Held(server, logs, app, go, running, f"http://127.0.0.1:{port}")
    finally:
        go.touch()  # The job's Python outlives its JVM until then.
        running.kill()
        running.communicate()


def test_an_application_is_followed_to_its_end_and_then_read_as_from_its_folder(
    held: Held,
) -> None:
    (log,) = [one for one in locate([held.server]) if peek_of(one) == (held.app, "in_progress")]
    watch = Watch(log.path, Settings(), 60_000)
    watch.read()
    assert watch.state == "running"
    held.go.touch()
    assert held.running.wait(120) == 0
    wait_until(lambda: watch.read() or watch.ended, "end of the application")
    assert watch.notes == []
    page = f"{held.server}/history/{held.app}/jobs/"
    # The server looks at its folder from time to time.
    wait_until(lambda: peek_of(locate([page])[0]) == (held.app, "complete"), "the server's list")
    hosted, stored = iqcar.read(log.path), iqcar.read(held.logs / f"eventlog_v2_{held.app}")
    assert list(hosted.inputs["status"]) == ["complete"]
    assert set(hosted.queries["name"]) == {"first", "second"}
    for name in ("tasks", "stages", "jobs", "queries", "executors"):
        pd.testing.assert_frame_equal(getattr(hosted, name), getattr(stored, name))


def test_attempts_are_told_apart(held: Held) -> None:
    found = locate([f"{held.server}/history/{AGAIN}"])
    assert [one.path[-2:] for one in found] == ["/2", "/1"]
    inputs = iqcar.read(f"{held.server}/history/{AGAIN}/1/").inputs
    assert list(inputs["path"]) == [f"{held.server}/history/{AGAIN}/1"]
    assert list(inputs["status"]) == ["complete"]
    assert len(locate([f"{held.server}?name=again&until=2024-04-14"])) == 2
    assert len(locate([f"{held.server}?name=again&since=2024-04-14"])) == 1
    assert peek_of(locate([f"{held.server}?status=running"])[0])[0] == held.app


def test_a_drivers_own_page_says_who_has_the_logs(held: Held) -> None:
    (log,) = locate([held.ui])
    assert isinstance(log, EventLog)
    assert "holds no event log; a driver's own page" in ingest(log).inputs["message"].iloc[0]


def peek_of(log: object) -> tuple[str, str]:
    assert isinstance(log, EventLog), log
    seen = peek(log)
    return seen.application_id, str(seen.status)
