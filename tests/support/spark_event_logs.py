"""Event logs that a real Spark has just written, in every codec, rolled and compacted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

WRITER = Path(__file__).with_name("spark_writer.py")
PATIENCE_S = 900
"""A slow machine takes two minutes."""


class SparkLogs(NamedTuple):
    """The folder that spark_writer.py filled."""

    folder: Path

    def log(self, name: str) -> Path:
        """The event log (file or rolling folder) of one application."""
        (log,) = (path for path in (self.folder / name).iterdir() if path.suffix != ".crc")
        return log

    def running(self, name: str) -> Path:
        """The same log as it was while the application ran."""
        return self.log(f"running/{name}")

    def expected(self, name: str) -> list[bytes]:
        """The lines that Spark's own reader finds in the log."""
        return (self.folder / f"{name}.expected").read_bytes().splitlines()


def has_java() -> bool:
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java") is not None or bool(home and Path(home, "bin", "java").exists())


@pytest.fixture(scope="session")
def spark_logs(tmp_path_factory: pytest.TempPathFactory) -> SparkLogs:
    """Logs of seven small applications, written in one process; a skip where there is no JDK."""
    if not has_java():
        pytest.skip("needs a JDK")
    folder = tmp_path_factory.mktemp("spark-event-logs")
    (folder / "running").mkdir()
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, str(WRITER), str(folder)],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return SparkLogs(folder)
