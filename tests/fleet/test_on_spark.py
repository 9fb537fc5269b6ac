"""What executors are sent, and what is said of what they could not do; without a Spark."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from iqcar.fleet.on_spark import PACKAGE, failure, shipped_files, write_package
from tests.support.contended_log import contended_log

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import iqcar
assert iqcar.__file__.startswith(sys.argv[1]), iqcar.__file__
diagnosis = iqcar.diagnose(iqcar.read(sys.argv[2]))
print(len(diagnosis.tables.queries), len(diagnosis.rules))
"""


@pytest.mark.slow
def test_what_is_sent_can_diagnose(tmp_path: Path) -> None:
    write_package(tmp_path / "iqcar.zip")
    with zipfile.ZipFile(tmp_path / "iqcar.zip") as packed:
        packed.extractall(tmp_path / "unpacked")
    log = contended_log().write(tmp_path / "app-1")
    words = [sys.executable, "-c", PROGRAM, str(tmp_path / "unpacked"), str(log)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == "2"


def test_what_is_shipped_is_the_package_with_its_data_and_nothing_else() -> None:
    names = {place for _, place in shipped_files()}
    modules = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")}
    assert modules <= names
    assert {name.rpartition(".")[2] for name in names} <= {"py", "json", "so", "pyd"}


def test_what_went_wrong_on_an_executor_is_one_line() -> None:
    trace = (
        "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
        "  File \"worker.py\", line 1, in main\nModuleNotFoundError: No module named 'pandas'\n\n"
        "\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:1)\n"
    )
    assert "lacks something: No module named 'pandas'" in str(failure(Exception(trace)))
    other = trace.replace("ModuleNotFoundError: No module named 'pandas'", "MemoryError: ")
    assert "a step failed on an executor: MemoryError" in str(failure(Exception(other)))
    plain = "Job aborted: Stage cancelled because SparkContext was shut down.\n\nDriver stack…"
    assert str(failure(Exception(plain))) == (
        "--on-spark: Spark failed: Job aborted: Stage cancelled because SparkContext was shut down"
    )
