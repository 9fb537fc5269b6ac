"""Clients of `iqcar serve` that are many, slow, silent or gone: it answers all others."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support.contended_log import contended_log
from tests.support.served import Served, large_log, served
from tests.support.small_log import small_log

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of one application for all clients that do it no harm."""
    folder = tmp_path_factory.mktemp("logs")
    contended_log().write(folder / "app-20240101000000-0001")
    with served(folder, cache=folder / "cache") as server:
        yield server


def test_more_analyses_than_fit_are_told_to_come_again(tmp_path: Path) -> None:
    large_log(tmp_path / "app-20230101000000-0001")
    for number in range(40):
        small_log().write(tmp_path / f"app-20240101000000-{number:04}")
    with served(tmp_path, cache=tmp_path / "cache") as server:
        rows = sorted(server.read(), key=lambda one: -one["size_bytes"])
        answers = [
            server.client.post("/api/analyses", json={"applications": [one["key"]]}) for one in rows
        ]
        refused = [one for one in answers if one.status_code == 503]
        assert refused
        assert len(answers) - len(refused) >= 32
        assert refused[0].headers["retry-after"]
        assert server.client.get("/api/applications").status_code == 200
        assert len(server.workers()) <= 1


def test_a_slow_client_holds_up_nobody(tmp_path: Path) -> None:
    contended_log().write(tmp_path / "app-20240101000000-0001")
    with served(tmp_path, cache=tmp_path / "cache", body=1) as server:
        address = urlsplit(server.base)
        lines = [socket.create_connection((address.hostname, address.port)) for _ in range(20)]
        for line in lines:
            line.sendall(b"POST /api/analyses HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n")
        assert server.client.get("/").status_code == 200
        for line in lines:
            line.sendall(b"\r\n")
        assert server.client.get("/").status_code == 200
        lines[0].settimeout(60)
        assert b" 408 " in lines[0].recv(4096)
        for line in lines:
            line.close()


@pytest.mark.long
def test_the_event_loop_answers_while_an_analysis_runs(tmp_path: Path) -> None:
    large_log(tmp_path / "app-20240101000000-0001", 2_000)
    with served(tmp_path, cache=tmp_path / "cache") as server:
        (row,) = server.read()
        started = server.start(row["key"])
        answered = 0
        while server.client.get(f"/api/analyses/{started['id']}").json()["state"] != "done":
            assert server.client.get("/").status_code == 200
            answered += 1
            time.sleep(0.02)
        assert answered > 3


def test_a_client_that_leaves_early_harms_nothing(server: Served) -> None:
    address = urlsplit(server.base)
    for sent in (b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x00" * 100):
        with socket.create_connection((address.hostname, address.port)) as line:
            line.sendall(sent)
    assert httpx.get(f"{server.base}/").status_code == 200
    assert not any("Traceback" in line for line in server.said)


def lines_to(server: Served, count: int, sent: bytes) -> list[socket.socket]:
    """Connections that ask, take the first byte of the answer, and then nothing."""
    address = urlsplit(server.base)
    lines = []
    for _ in range(count):
        line = socket.socket()
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.connect((address.hostname, address.port))
        line.sendall(sent)
        line.recv(1)
        lines.append(line)
    return lines


def resident_bytes(server: Served) -> int:
    """Memory that the server has in use."""
    pages = Path(f"/proc/{server.process.pid}/statm").read_text("ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
def test_an_answer_nobody_reads_is_not_held_whole(server: Served) -> None:
    whole = len(server.client.get("/static/plotly.js").content)
    before = resident_bytes(server)
    lines = lines_to(server, 100, b"GET /static/plotly.js HTTP/1.1\r\nHost: [::1]\r\n\r\n")
    assert server.client.get("/").status_code == 200
    assert resident_bytes(server) - before < len(lines) * whole / 4
    for line in lines:
        line.close()
