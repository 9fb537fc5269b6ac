"""Start a Spark Thrift server in local mode, and run statements in sessions of `beeline`."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ADDRESS = "127.0.0.1"
MAIN = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
START_S = 240.0
"""The server takes 8 s on a quiet machine."""
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.hadoop.hive.server2.thrift.bind.host": ADDRESS,
}
PROMPT = re.compile(r"^(?:0: jdbc:hive2:\S*> ?)+")
ENDED = re.compile(r"^(?:[\d,]+|No) rows? (?:selected|affected) \(([\d.,]+) seconds\)$")


class Answer(NamedTuple):
    """Rows of a statement, as text, and how long its user waited."""

    rows: list[list[str]]
    seconds: float


@dataclass
class Session:
    """A session of one user: a `beeline` that waits for statements."""

    user: str
    process: subprocess.Popen[str]

    def send(self, statement: str) -> None:
        """Begin a statement, in one line."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{statement};\n")
        self.process.stdin.flush()

    def answer(self) -> Answer:
        """Wait until the statement ends that was sent first.

        Raises RuntimeError if it fails, or `beeline` has ended.
        """
        assert self.process.stdout is not None
        rows: list[list[str]] = []
        for line in self.process.stdout:
            text = PROMPT.sub("", line.rstrip("\n"))
            if text.endswith(";"):  # the end of the statement, which `beeline` repeats
                rows = []
                continue
            ended = ENDED.match(text)
            if ended:
                return Answer(rows, float(ended[1].replace(",", "")))
            if text.startswith("Error: "):
                raise RuntimeError(f"{self.user}: {text}")
            if text:
                rows.append(text.split("\t"))
        raise RuntimeError(f"{self.user}: the session ended")

    def ask(self, statement: str) -> Answer:
        """Run a statement to its end."""
        self.send(statement)
        return self.answer()


@dataclass
class Server:
    """A running Thrift server."""

    home: Path
    port: int
    folder: Path
    env: Mapping[str, str]

    @contextmanager
    def session(self, user: str) -> Iterator[Session]:
        """Open a session; who asks first also waits until it is there."""
        words = [str(self.home / "bin" / "beeline"), "-u", f"jdbc:hive2://{ADDRESS}:{self.port}/"]
        words += ["-n", user, "--outputformat=tsv2", "--showHeader=false"]
        process = subprocess.Popen(
            words, env=dict(self.env), cwd=self.folder, text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            yield Session(user, process)
            process.communicate(timeout=START_S)  # the end of its input ends it
        finally:
            process.kill()
            process.wait()


@contextmanager
def thrift_server(
    home: Path, port: int, folder: Path, env: Mapping[str, str], settings: Mapping[str, str]
) -> Iterator[Server]:
    """Start the server, and stop it as its users do; what it says goes to `server.log`.

    home: the folder of a Spark.
    port: a free port.
    folder: the server's working folder.
    env: environment variables of the processes.
    settings: Spark settings, `spark.master` among them.
    """
    words = [str(home / "bin" / "spark-submit"), "--class", MAIN]
    given = {**SETTINGS, "spark.hadoop.hive.server2.thrift.port": str(port), **settings}
    for key, value in given.items():
        words += ["--conf", f"{key}={value}"]
    log = folder / "server.log"
    with log.open("ab") as out:
        process = subprocess.Popen(
            [*words, "spark-internal"], env=dict(env), cwd=folder, stdout=out, stderr=out
        )
    try:
        deadline = time.monotonic() + START_S
        while "HiveThriftServer2 started" not in log.read_text("utf-8", "replace"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the Thrift server does not start, see {log}")
            time.sleep(0.2)
        yield Server(home, port, folder, env)
    finally:
        process.terminate()
        process.wait()
