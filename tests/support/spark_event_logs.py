"""Event logs that a real Spark has just written, in every codec, rolled and compacted."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import SUPPORT
from tests.support.listener_spark import run, spark_homes

WRITER = SUPPORT / "spark_writer.py"


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
    """Logs of seven small applications, written in one driver; a skip where there is no JDK."""
    if not has_java():
        pytest.skip("needs a JDK")
    folder = tmp_path_factory.mktemp("spark-event-logs")
    (folder / "running").mkdir()
    (home, *_) = spark_homes()
    app = run(home, folder, [str(WRITER), str(folder)])
    assert app.exit_code == 0, app.errors[-3000:]
    return SparkLogs(folder)
