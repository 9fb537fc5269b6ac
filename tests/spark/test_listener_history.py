"""A real History Server reads logs that the plugin wrote, without its jar and with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.support import quick_spark
from tests.support.history_server import get, history_server, rest
from tests.support.listener_spark import (
    JAR,
    App,
    environment,
    records_of,
    samples_of,
    spark_params,
)

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", params=spark_params())
def recorded(
    request: pytest.FixtureRequest, waiting_apps: Callable[[Path], App]
) -> tuple[Path, App]:
    """A Spark, and the application of known waits that it ran."""
    app = waiting_apps(request.param)
    assert samples_of(app)
    assert app.own_events("Scheduler")
    return request.param, app


@pytest.fixture(params=[False, True], ids=["without the jar", "with the jar"])
def server(
    request: pytest.FixtureRequest, recorded: tuple[Path, App], tmp_path: Path
) -> Iterator[tuple[str, Path, bool]]:
    """Start a History Server; its address, its log, and whether it has the jar."""
    home, app = recorded
    env = {
        **environment(home),
        "SPARK_DAEMON_JAVA_OPTS": quick_spark.options(),
        "SPARK_DAEMON_CLASSPATH": str(JAR) if request.param else "",
    }
    log = tmp_path / "server.log"
    with history_server(home, app.log, log, env) as address:
        yield address, log, request.param


@pytest.mark.long
def test_the_log_it_serves_has_every_record_and_its_store_of_the_ui_has_none(
    server: tuple[str, Path, bool], recorded: tuple[Path, App]
) -> None:
    address, log, has_jar = server
    _, app = recorded
    (start,) = (e for e in app.events if e["Event"] == "SparkListenerApplicationStart")
    (listed,) = rest(address, "")
    assert listed["id"] == start["App ID"]
    assert listed["attempts"][0]["completed"]
    stages = rest(address, f"/{listed['id']}/stages")
    tasks = [
        task
        for stage in stages
        for task in rest(
            address,
            f"/{listed['id']}/stages/{stage['stageId']}/{stage['attemptId']}/taskList?length=1000",
        )
    ]
    assert {task["taskId"] for task in tasks} == {e["Task Info"]["Task ID"] for e in app.ends}
    assert "iqcar.task" not in json.dumps([stages, tasks])
    with ZipFile(BytesIO(get(f"{address}/api/v1/applications/{listed['id']}/logs"))) as served:
        lines = [line for name in served.namelist() for line in served.read(name).splitlines()]
    ends = [e for e in map(json.loads, lines) if e["Event"] == "SparkListenerTaskEnd"]
    assert ends == app.ends
    assert all(len(records_of(end)) == 1 for end in ends)
    assert b"</html>" in get(f"{address}/history/{listed['id']}/jobs/")
    text = log.read_text()
    # Without the jar the server says what it does not know, and goes on.
    for event in ("IqcarEventScheduler", "IqcarEventSamples"):
        assert (event in text) != has_jar
    assert " ERROR " not in text
