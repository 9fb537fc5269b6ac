"""A driver streams what its event log holds, to who knows the token, and no secret."""

from __future__ import annotations

import json
import os
import socket
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from iqcar.live.watch import TOKEN, DriverTail
from tests.support import SUPPORT
from tests.support.free_port import free_port
from tests.support.listener_spark import (
    APP_TIMEOUT_S,
    PLUGIN,
    ended,
    spark_params,
    start,
)
from tests.support.shared_driver import Running

pytestmark = [pytest.mark.spark, pytest.mark.portable]
SECRET = "-".join(["long", "enough", "to", "be", "one"])
SETTLED = {
    *("SparkListenerApplicationStart", "SparkListenerExecutorAdded", "SparkListenerTaskEnd"),
    *("SparkListenerStageCompleted", "SparkListenerJobEnd", "SparkListenerApplicationEnd"),
}
"""Events whose objects no longer change while they are written."""
Streamed = tuple[list[Any], list[Any], bytes]


def connected(address: str, running: Running) -> DriverTail:
    """Connect once the driver listens."""
    until = time.monotonic() + APP_TIMEOUT_S
    host, port = address.removeprefix("spark-live://").split(":")
    while True:
        try:
            socket.create_connection((host, int(port))).close()
            return DriverTail(address)
        except OSError:
            assert not running.ended.exists(), running.errors[-3000:]
            assert time.monotonic() < until
            time.sleep(0.1)


@pytest.fixture(scope="module", params=spark_params())
def streamed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Streamed:
    """Events of the log, events of the stream, and what came to a stranger."""
    folder, home = tmp_path_factory.mktemp("streamed"), request.param
    port, go = free_port(), folder / "go"
    conf = {
        **PLUGIN,
        "spark.iqcar.live": f"127.0.0.1:{port}",
        "spark.iqcar.live.token": SECRET,
        "spark.mine.password": SECRET[::-1],
    }
    running = start(home, folder, [str(SUPPORT / "streamed_jobs.py"), str(go)], conf=conf)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, TOKEN, SECRET)
        tail = connected(f"spark-live://127.0.0.1:{port}", running)
    with socket.create_connection(("127.0.0.1", port)) as stranger:
        stranger.sendall(b"let me in\n")
        given = stranger.recv(1000)
    with ExitStack() as held, pytest.MonkeyPatch.context() as patch:
        for _ in range(100):  # who drips takes no place of those who know the token
            dripping = held.enter_context(socket.create_connection(("127.0.0.1", port)))
            dripping.sendall(b"x")
        patch.setitem(os.environ, TOKEN, SECRET)
        other = DriverTail(f"spark-live://127.0.0.1:{port}")
        until = time.monotonic() + APP_TIMEOUT_S
        while not any(news.text for news in other.poll()) and time.monotonic() < until:
            time.sleep(0.05)
        assert other.tally.bytes_stored > 0
    go.touch()
    lines, until = [], time.monotonic() + APP_TIMEOUT_S
    while not tail.gone and time.monotonic() < until:
        for news in tail.poll():
            lines += news.text.splitlines()
        time.sleep(0.05)
    app = ended(running)
    assert app.exit_code == 0, app.errors[-3000:]
    return app.events, [json.loads(line) for line in lines], given


def test_the_stream_holds_the_events_of_the_log(
    streamed: Streamed,
) -> None:
    log, stream, _ = streamed
    kinds = {event["Event"] for event in log if event["Event"].startswith("SparkListener")}
    assert kinds > SETTLED
    for kind in kinds:
        theirs, mine = ([e for e in events if e["Event"] == kind] for events in (stream, log))
        assert len(theirs) == len(mine), kind
        assert theirs == mine or kind not in SETTLED, kind
    assert stream[0]["Event"] == "SparkListenerLogStart"


def test_no_secret_is_streamed(streamed: Streamed) -> None:
    _, stream, _ = streamed
    text = json.dumps(stream)
    assert "spark.mine.password" in text
    assert SECRET not in text
    assert SECRET[::-1] not in text


def test_a_stranger_gets_nothing(streamed: Streamed) -> None:
    assert streamed[2] == b""


@pytest.mark.parametrize("home", spark_params())
def test_without_a_token_in_the_settings_only_the_same_user_gets_events(
    home: Path, tmp_path: Path
) -> None:
    port, go = free_port(), tmp_path / "go"
    conf = {**PLUGIN, "spark.iqcar.live": f"127.0.0.1:{port}"}
    running = start(home, tmp_path, [str(SUPPORT / "streamed_jobs.py"), str(go)], conf=conf)
    tail = connected(f"spark-live://127.0.0.1:{port}", running)
    kept = Path(f"~/.iqcar/live-{port}.token").expanduser()
    assert kept.stat().st_mode & 0o077 == 0
    with socket.create_connection(("127.0.0.1", port)) as stranger:
        stranger.sendall(b"\n")
        assert stranger.recv(1000) == b""
    go.touch()
    until = time.monotonic() + APP_TIMEOUT_S
    while not tail.gone and time.monotonic() < until:
        list(tail.poll())
        time.sleep(0.05)
    assert tail.gone and tail.tally.bytes_stored > 10_000
    assert ended(running).exit_code == 0
    assert not kept.exists()
