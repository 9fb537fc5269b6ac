"""A real `iqcar serve` in a process of its own, for tests of its pages, its API and its manners."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx

from iqcar_lab.clusters.event_log import SyntheticLog
from tests.support.command import Forked
from tests.support.contended_log import contended_log

WAIT_S = 600
"""Longest wait for something that is bound to happen; a first run compiles for some seconds."""

CONSTANTS = {
    "rescan": "iqcar.apps.serve.listing.RESCAN_S",
    "housekeeping": "iqcar.apps.serve.service.HOUSEKEEPING_S",
    "abandoned": "iqcar.apps.serve.analyses.ABANDONED_S",
    "body": "iqcar.apps.serve.guard.BODY_S",
    "forks": "iqcar.apps.serve.fork_server.FORKS",
}
"""How long the server waits for what, which tests that see such a wait out make short; and whether
it forks."""

T = TypeVar("T")
Process = subprocess.Popen[str] | Forked


class Served:
    """A running server: where it is, what it said, and a client that knows no token."""

    def __init__(self, process: Process, cache: Path) -> None:
        self.process = process
        self.cache = cache
        self.line = process.stdout.readline().strip() if process.stdout else ""
        found = re.search(r"http://\S+", self.line)
        self.address = found[0] if found else ""
        self.base = self.address.partition("?")[0].rstrip("/")
        self.said: list[str] = []
        threading.Thread(target=self._listen, daemon=True).start()
        self.client = httpx.Client(base_url=self.base or "http://none", timeout=60)

    def _listen(self) -> None:
        for line in self.process.stderr or ():
            self.said.append(line)

    def applications(self, **query: Any) -> list[dict[str, Any]]:
        answer = self.client.get("/api/applications", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()["applications"]

    def read(self) -> list[dict[str, Any]]:
        """The applications, once the first lines of all of them were read."""
        until(lambda: self.client.get("/api/applications").json()["unread"] == 0)
        return self.applications(sort="name", order="asc", size=500)

    def key(self, name: str) -> str:
        (only,) = (one for one in self.read() if one["name"] == name)
        return only["key"]

    def start(self, *keys: str) -> dict[str, Any]:
        answer = self.client.post("/api/analyses", json={"applications": list(keys)})
        assert answer.status_code in (200, 202), answer.text
        return answer.json()

    def ended(self, analysis: str) -> dict[str, Any]:
        """Progress of an analysis once it has ended."""

        def state() -> dict[str, Any] | None:
            now = self.client.get(f"/api/analyses/{analysis}").json()
            return now if now["state"] in ("done", "failed", "cancelled") else None

        return until(state)

    def analyse(self, *keys: str) -> dict[str, Any]:
        return self.ended(self.start(*keys)["id"])

    def stop(self, how: int = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(WAIT_S)

    def workers(self, kind: str = "analysis") -> list[int]:
        """Process ids of the analyses under way, or of those of a `question` or that `follow`."""
        return [
            pid
            for server, _ in _children(self.process.pid)
            for pid, name in _children(server)
            if name == f"iqcar-{kind}"
        ]


def _children(pid: int | None) -> list[tuple[int, str]]:
    """Process ids and names of a process's children."""
    words = ["ps", "-o", "pid=,comm=", "--ppid", str(pid)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    lines = [line.split(None, 1) for line in done.stdout.splitlines()]
    return [(int(child), name) for child, name in lines]


@contextmanager
def served(
    *paths: Path | str,
    cache: Path,
    options: tuple[str, ...] = (),
    through: tuple[str, ...] | None = None,
    **values: float,
) -> Iterator[Served]:
    """Serve some places on a free port of the loopback address.

    options: more words of the command line.
    through: a command that starts the server as users do, such as ``("env",)``; by default it is
    forked.
    **values: values of :data:`CONSTANTS` in a forked server.
    """
    asked_only = () if "--analyse-small" in options else ("--analyse-small", "0")
    where = ("--port", "0", "--cache", str(cache))
    words = ("serve", *map(str, paths), *where, *asked_only, *options)
    process: Process
    if through is None:
        constants = {CONSTANTS[name]: value for name, value in values.items()}
        process = Forked(*words, constants=constants)
    else:
        process = subprocess.Popen(
            [*through, sys.executable, "-m", "iqcar", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    server = Served(process, cache)
    try:
        yield server
    finally:
        server.client.close()
        if process.poll() is None:
            server.stop()


def until(what: Callable[[], T | None]) -> T:
    """Wait until something is so, and return it; fails after :data:`WAIT_S`."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        if found := what():
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen")


def large_log(path: Path, tasks: int = 60_000) -> Path:
    """A log whose analysis takes long enough to be interrupted."""
    head, task, tail = contended_log(), SyntheticLog(version=None), SyntheticLog(version=None)
    ends = head.lines[:-1]
    line = task.task(7).lines[0]
    with path.open("wb") as file:
        file.write(b"".join(one + b"\n" for one in ends))
        for number in range(tasks):
            file.write(line.replace(b'"Task ID":7', b'"Task ID":%d' % (100 + number)) + b"\n")
        file.write(tail.end(12_000).lines[0] + b"\n")
    return path
