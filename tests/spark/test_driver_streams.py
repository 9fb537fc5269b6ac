"""A driver streams what its event log holds, to who knows the token, and no secret."""

from __future__ import annotations

import json
import os
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from iqcar.live.watch import TOKEN, DriverTail, token_file
from tests.support import SUPPORT
from tests.support.free_port import free_port
from tests.support.listener_spark import (
    APP_TIMEOUT_S,
    PLUGIN,
    ended,
    new_driver,
    settings,
    spark_params,
    start,
)
from tests.support.shared_driver import Running, SharedDriver

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.portable]
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
    kept = token_file("127.0.0.1", port)
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


@pytest.fixture(scope="module", params=spark_params())
def own(request: pytest.FixtureRequest) -> Iterator[tuple[Path, SharedDriver]]:
    """A Spark, and a driver of it that these tests may hurt."""
    driver = new_driver(request.param)
    yield request.param, driver
    driver.close()


def begin(driver: SharedDriver, folder: Path, live: str, **more: str) -> Running:
    """Start the jobs, which end when there is a file ``go`` in the folder."""
    conf = {**PLUGIN, "spark.iqcar.live": live, **more}
    chosen = {"spark.master": "local[2]", **settings(folder, "local[2]", conf)}
    job = str(SUPPORT / "streamed_jobs.py")
    return driver.start(folder, job, [str(folder / "go")], chosen)


def read_until(tail: DriverTail, word: bytes, times: int = 1) -> bytes:
    """Lines that come until a word has come so often."""
    until, came = time.monotonic() + APP_TIMEOUT_S, b""
    while came.count(word) < times:
        assert time.monotonic() < until and not tail.gone, came[-3000:]
        came += b"".join(news.text for news in tail.poll())
        time.sleep(0.05)
    return came


def application(tail: DriverTail) -> str:
    """The id of the application whose events come."""
    events = [json.loads(line) for line in read_until(tail, b'"App ID"').splitlines()]
    return str(next(event["App ID"] for event in events if "App ID" in event))


def test_two_drivers_of_one_home_are_followed_each_with_its_own_token(
    own: tuple[Path, SharedDriver], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TOKEN, raising=False)
    home, driver = own
    port, folders = free_port(), [tmp_path / "one", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
    job = [str(SUPPORT / "streamed_jobs.py"), str(folders[0] / "go")]
    conf = {**PLUGIN, "spark.iqcar.live": f"127.0.0.1:{port}"}
    one = start(home, folders[0], job, conf=conf)
    other = begin(driver, folders[1], f"127.0.0.2:{port}")
    addresses = [f"spark-live://127.0.0.{host}:{port}" for host in (1, 2)]
    for address, running in zip(addresses, (one, other), strict=True):
        connected(address, running)
    found = [application(DriverTail(address)) for address in addresses]
    assert len(set(found)) == 2
    (folders[0] / "go").touch()
    assert ended(one).exit_code == 0
    assert application(DriverTail(addresses[1])) == found[1]
    (folders[1] / "go").touch()
    assert ended(other).exit_code == 0
    assert not any(token_file(f"127.0.0.{host}", port).exists() for host in (1, 2))


def test_a_driver_without_descriptors_goes_on_when_it_has_some_again(
    own: tuple[Path, SharedDriver], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN, SECRET)
    _, driver = own
    port, secret = free_port(), tmp_path / "secret"
    secret.touch(0o600)
    secret.write_text(SECRET)
    running = begin(
        driver, tmp_path, f"127.0.0.1:{port}", **{"spark.iqcar.live.token": f"file:{secret}"}
    )
    tail = connected(f"spark-live://127.0.0.1:{port}", running)
    assert not token_file("127.0.0.1", port).exists()
    read_until(tail, b"SparkListenerSQLExecutionEnd", times=3)  # now it only waits
    process, until = driver.process.pid, time.monotonic() + APP_TIMEOUT_S
    _, most = resource.prlimit(process, resource.RLIMIT_NOFILE)
    resource.prlimit(process, resource.RLIMIT_NOFILE, (0, most))
    try:
        with socket.create_connection(("127.0.0.1", port)):
            while "accepting a follower failed" not in running.errors:
                assert time.monotonic() < until, running.errors[-3000:]
                time.sleep(0.05)
    finally:
        resource.prlimit(process, resource.RLIMIT_NOFILE, (most, most))
    assert application(DriverTail(f"spark-live://127.0.0.1:{port}"))
    (tmp_path / "go").touch()
    assert ended(running).exit_code == 0


def test_a_stream_that_cannot_start_leaves_its_port_to_others(
    own: tuple[Path, SharedDriver], tmp_path: Path
) -> None:
    _, driver = own
    port = free_port()
    full = {"iqcar.test.memory": "starting_the_stream"}
    running = begin(driver, tmp_path, f"127.0.0.1:{port}", **full)
    (tmp_path / "go").touch()
    app = ended(running)
    assert app.exit_code == 0, app.errors[-3000:]
    socket.create_server(("127.0.0.1", port)).close()
    assert "no events are streamed" in app.errors
    assert not token_file("127.0.0.1", port).exists()
