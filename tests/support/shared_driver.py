"""A driver that runs many applications, one after the other, each with settings of its own.

Most applications of tests run for a second in a driver that has run others, and for ten in a new
one, which starts a JVM and compiles Spark.
"""

from __future__ import annotations

import atexit
import json
import shlex
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

POLL_S = 0.02


class Ended(NamedTuple):
    """How an application ended, and what it and its driver printed meanwhile."""

    exit_code: int
    output: str
    errors: str


class SharedDriver:
    """The JVM of spark-submit with the plugin's jars; see Applications.java."""

    def __init__(self, start: Sequence[str], environment: Mapping[str, str]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="shared-driver-"))
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
        atexit.register(self.close)

    def close(self) -> None:
        """End the JVM, whatever it does."""
        self.process.kill()
        self.process.wait()

    def run(
        self,
        folder: Path,
        main: str,
        arguments: Sequence[str],
        properties: Mapping[str, str],
        patience_s: float,
    ) -> Ended:
        """Run an application in a folder: a Python file or a main class, and its arguments."""
        sizes = [path.stat().st_size for path in self.printed]
        ended = folder / "ended"
        application = {
            "main": main,
            "arguments": list(arguments),
            "properties": {
                "spark.app.name": main.rpartition("/")[2],
                "spark.pyspark.driver.python": str(self.python_in(folder)),
                "spark.sql.warehouse.dir": (folder / "spark-warehouse").as_uri(),
                **properties,
            },
            "ended": str(ended),
        }
        asked = folder / "application.json"
        asked.write_text(json.dumps(application), encoding="utf-8")
        assert self.process.stdin is not None
        self.process.stdin.write(f"{asked}\n")
        self.process.stdin.flush()
        deadline = time.monotonic() + patience_s
        while not ended.exists() and self.process.poll() is None:
            if time.monotonic() > deadline:
                self.close()
                raise subprocess.TimeoutExpired(main, patience_s)
            time.sleep(POLL_S)
        code = int(ended.read_text()) if ended.exists() else self.process.wait()
        output, errors = (
            path.read_bytes()[size:].decode("utf-8", "replace")
            for path, size in zip(self.printed, sizes, strict=True)
        )
        return Ended(code, output, errors)

    def python_in(self, folder: Path) -> Path:
        """A Python that runs in a folder and prints where the JVM does."""
        script = folder / "python"
        output = shlex.quote(str(self.printed[0]))
        words = shlex.join(["cd", str(folder)]), shlex.join(["exec", self.python])
        script.write_text(f'#!/bin/sh\n{words[0]} && {words[1]} "$@" >>{output} 2>&1\n', "utf-8")
        script.chmod(0o755)
        return script
