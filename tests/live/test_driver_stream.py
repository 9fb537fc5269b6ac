"""Events that a driver streams say what its log says."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from iqcar.diagnosis import Settings
from iqcar.errors import IqcarError, UsageError
from iqcar.live.watch import TOKEN, DriverTail, Watch, is_here, token_file
from tests.support.contended_log import contended_log

LOG = contended_log().bytes()


@contextmanager
def driver(*pieces: bytes, go_on: threading.Event, got: list[bytes]) -> Iterator[str]:
    """Stream pieces to one client on loopback, the last one when told to; then close."""
    listening = socket.create_server(("127.0.0.1", 0))

    def stream() -> None:
        client, _ = listening.accept()
        with client:
            for piece in pieces[:-1]:
                client.sendall(piece)
            go_on.wait(60)
            got.append(client.recv(100) if got else b"")
            client.sendall(pieces[-1])

    thread = threading.Thread(target=stream)
    thread.start()
    yield f"spark-live://127.0.0.1:{listening.getsockname()[1]}"
    go_on.set()
    thread.join()
    listening.close()


def test_a_stream_is_followed_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, "secret")
    go_on, got = threading.Event(), [b"token"]
    with driver(b'{"version":1}\n' + LOG[:3000], LOG[3000:], go_on=go_on, got=got) as address:
        watch = Watch(address, Settings(), 1e9)
        while not watch.read():
            pass
        assert watch.state == "running" and watch.tail.held_bytes > 0
        go_on.set()
        while not watch.over:
            watch.read()
        found = watch.window()
    assert found is not None and found.ended
    assert len(found.tables.tasks) == 4
    assert got[-1] == b"secret\n"


def test_a_stream_that_breaks_off_is_gone() -> None:
    go_on = threading.Event()
    go_on.set()
    with driver(b"{}\n", LOG[:3000], go_on=go_on, got=[]) as address:
        watch = Watch(address, Settings(), 1e9)
        while not watch.over:
            watch.read()
    assert watch.state == "gone"
    assert "without an end" in watch.last_words()


def test_what_is_no_stream_is_one_line() -> None:
    go_on = threading.Event()
    go_on.set()
    with (
        driver(b"HTTP/1.1 400\r\n", b"\r\n", go_on=go_on, got=[]) as address,
        pytest.raises(IqcarError, match="its first line is no header"),
    ):
        Watch(address, Settings(), 1e9)
    with pytest.raises(IqcarError, match="does not answer"):
        Watch(address, Settings(), 1e9)
    with pytest.raises(UsageError, match="no address"):
        Watch("spark-live://nowhere", Settings(), 1e9)


@contextmanager
def flood(line: bytes) -> Iterator[tuple[str, list[int]]]:
    """Stream a line with other numbers in place of N for as long as somebody reads."""
    listening = socket.create_server(("127.0.0.1", 0))
    sent = [0]

    def stream() -> None:
        client, _ = listening.accept()
        with client, contextlib.suppress(OSError):
            client.sendall(b"{}\n" + b"\n".join(LOG.split(b"\n")[:4]) + b"\n")
            while True:
                more = (line.replace(b"N", b"%d" % n) for n in range(sent[0], sent[0] + 1000))
                client.sendall(b"\n".join(more) + b"\n")
                sent[0] += 1000

    thread = threading.Thread(target=stream, daemon=True)
    thread.start()
    yield f"spark-live://127.0.0.1:{listening.getsockname()[1]}", sent
    listening.close()


JOB = (
    b'{"Event":"SparkListenerJobStart","Job ID":N,"Submission Time":1500,"Stage IDs":[N],'
    b'"Stage Infos":[{"Stage ID":N,"Number of Tasks":1}]}'
)
STAGE = (
    b'{"Event":"SparkListenerStageSubmitted","Stage Info":{"Stage ID":N,"Submission Time":1500}}'
)
SQL = (
    b'{"Event":"org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart","executionId":N,'
    b'"description":"q N","time":1500}'
)


@pytest.mark.parametrize("line", [JOB, STAGE, SQL], ids=["jobs", "stages", "queries"])
def test_a_driver_that_never_pauses_gets_windows_and_bounded_memory(
    line: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iqcar.live.watch.MAX_POLL_BYTES", 3 << 20)
    monkeypatch.setattr("iqcar.live.growing_log.MOST_OPEN", 500)
    with flood(line) as (address, sent):
        watch = Watch(address, Settings(), 60_000.0)
        for window in range(1, 4):
            while watch.growing.log.events < 2000 * window:
                watch.read()
            assert watch.window() is not None
            log = watch.growing.log
            kept = max(len(log.jobs), len(log.stages), len(log.sql.executions))
            assert 0 < kept < sent[0] / 2
        assert watch.state == "running"
        watch.tail._socket.close()


def test_the_token_of_a_driver_of_the_same_user_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(TOKEN, raising=False)
    go_on, got = threading.Event(), [b"token"]
    with driver(b'{"version":1}\n', LOG, go_on=go_on, got=got) as address:
        kept = token_file("127.0.0.1", int(address.rpartition(":")[2]))
        kept.parent.mkdir()
        kept.write_text("of-the-driver")
        watch = Watch(address, Settings(), 1e9)
        go_on.set()
        while not watch.over:
            watch.read()
    assert got[-1] == b"of-the-driver\n"


def test_a_token_that_is_written_while_the_driver_refuses_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(TOKEN, raising=False)
    shown: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

        kept = token_file("127.0.0.1", port)
        kept.parent.mkdir()
        kept.write_text("of-a-driver-that-was-killed")

        def begin() -> None:
            refused, _ = listening.accept()
            with refused:
                shown.append(refused.recv(100))
                kept.write_text("just-written")
            client, _ = listening.accept()
            with client:
                shown.append(client.recv(100))
                client.sendall(b'{"version":1}\n')

        thread = threading.Thread(target=begin)
        thread.start()
        DriverTail(f"spark-live://127.0.0.1:{port}")
        thread.join()
    assert shown == [b"of-a-driver-that-was-killed\n", b"just-written\n"]


@pytest.mark.parametrize(
    ("there", "here", "same"),
    [
        ("127.0.0.1", "127.0.0.1", True), ("127.0.0.2", "127.0.0.1", True), ("::1", "::1", True),
        ("192.0.2.2", "192.0.2.2", True), ("fe80::2%eth0", "fe80::2%eth0", True),
        ("192.0.2.3", "192.0.2.2", False), ("fe80::3%eth0", "fe80::2%eth0", False),
    ],
)  # fmt: skip
def test_only_a_driver_on_this_machine_gets_a_kept_token(there: str, here: str, same: bool) -> None:
    assert is_here(there, here) is same
