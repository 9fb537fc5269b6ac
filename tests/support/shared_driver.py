"""A driver that runs many applications, one after the other, each with settings of its own.

Most applications of tests run for a second in a driver that has run others, and for ten in a new
one, which starts a JVM and compiles Spark.
"""

from __future__ import annotations

import atexit
import json
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

POLL_S = 0.02
GONE_IN_S = 30


class SharedDriver:
    """The JVM of spark-submit with the plugin's jars; see Applications.java."""

    def __init__(self, start: Sequence[str], environment: Mapping[str, str]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="shared-driver-"))
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        self.printed = self.folder / "stdout", self.folder / "stderr"
        out, errors = (path.open("ab") for path in self.printed)
        self.process = subprocess.Popen(
            start,
            env=dict(environment),
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=errors,
            text=True,
        )
        self.python = environment["PYSPARK_PYTHON"]
        self.running: Running | None = None
        atexit.register(self.close)

    @property
    def idle(self) -> bool:
        """Whether it can run an application."""
        over = self.running is None or self.running.ended.exists()
        return over and self.process.poll() is None

    def close(self) -> None:
        """End the JVM, which then removes its files; kill it where an application does not end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(GONE_IN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def start(
        self, folder: Path, main: str, arguments: Sequence[str], properties: Mapping[str, str]
    ) -> Running:
        """Start an application in a folder: a Python file or a main class, and its arguments."""
        sizes = [path.stat().st_size for path in self.printed]
        self.running = Running(self, folder / "ended", sizes)
        application = {
            "main": main,
            "arguments": list(arguments),
            "properties": {
                "spark.app.name": main.rpartition("/")[2],
                "spark.pyspark.driver.python": str(self.python_in(folder)),
                "spark.sql.warehouse.dir": (folder / "spark-warehouse").as_uri(),
                **properties,
            },
            "ended": str(self.running.ended),
        }
        asked = folder / "application.json"
        asked.write_text(json.dumps(application), encoding="utf-8")
        assert self.process.stdin is not None
        self.process.stdin.write(f"{asked}\n")
        self.process.stdin.flush()
        return self.running

    def python_in(self, folder: Path) -> Path:
        """A Python that runs in a folder and prints where the JVM does."""
        script = folder / "python"
        output = shlex.quote(str(self.printed[0]))
        words = shlex.join(["cd", str(folder)]), shlex.join(["exec", self.python])
        script.write_text(f'#!/bin/sh\n{words[0]} && {words[1]} "$@" >>{output} 2>&1\n', "utf-8")
        script.chmod(0o755)
        return script


class Running(NamedTuple):
    """An application of a shared driver."""

    driver: SharedDriver
    ended: Path
    printed_before: Sequence[int]

    @property
    def output(self) -> str:
        """What it and its driver have printed until now."""
        return self._printed(0)

    @property
    def errors(self) -> str:
        """What they have printed to standard error, which is the driver's log."""
        return self._printed(1)

    def _printed(self, which: int) -> str:
        with self.driver.printed[which].open("rb") as printed:
            printed.seek(self.printed_before[which])
            return printed.read().decode("utf-8", "replace")

    def wait(self, patience_s: float) -> int:
        """Its exit code; the driver's where that has ended instead."""
        deadline = time.monotonic() + patience_s
        while not self.ended.exists() and self.driver.process.poll() is None:
            if time.monotonic() > deadline:
                self.driver.close()
                raise TimeoutError(self.errors[-3000:])
            time.sleep(POLL_S)
        return int(self.ended.read_text()) if self.ended.exists() else self.driver.process.wait()
