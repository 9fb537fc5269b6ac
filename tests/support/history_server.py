"""A real Spark History Server over a folder of event logs."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.free_port import free_port
from tests.support.standalone_cluster import wait_until

SERVER = "org.apache.spark.deploy.history.HistoryServer"
ANSWER_TIMEOUT_S = 60
START_TIMEOUT_S = 300.0


@contextmanager
def history_server(
    home: Path,
    logs: Path,
    log: Path,
    environment: Mapping[str, str],
    *,
    applications: int = 1,
    settings: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """Start a server of that Spark, and wait until it lists so many; yields its address.

    Its own log goes to `log`.
    """
    port = free_port()
    chosen = {
        "spark.history.fs.logDirectory": logs.as_uri(),
        "spark.history.ui.port": str(port),
        "spark.history.fs.update.interval": "1s",
        **(settings or {}),
    }
    options = " ".join(f"-D{key}={value}" for key, value in chosen.items())
    env = {"SPARK_DAEMON_MEMORY": "512m", **environment, "SPARK_HISTORY_OPTS": options}
    with log.open("w") as out:
        start = [str(home / "bin" / "spark-class"), SERVER]
        running = subprocess.Popen(start, env=env, stdout=out, stderr=out, cwd=log.parent)
    address = f"http://127.0.0.1:{port}"

    def lists_them() -> bool:
        assert running.poll() is None, log.read_text()[-3000:]
        try:
            return len(rest(address, "")) >= applications
        except (urllib.error.URLError, ConnectionError, json.JSONDecodeError):
            return False  # it listens before its API is there, and answers with an empty page

    try:
        wait_until(lists_them, "list of applications", START_TIMEOUT_S)
        yield address
    finally:
        running.terminate()
        running.wait()


def get(address: str) -> bytes:
    """What is at an address."""
    with urllib.request.urlopen(address, timeout=ANSWER_TIMEOUT_S) as answer:  # noqa: S310
        return bytes(answer.read())


def rest(address: str, path: str) -> Any:
    """What the server's API says."""
    return json.loads(get(f"{address}/api/v1/applications{path}"))
