"""The order in which a distributed test run hands out the files of tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPO
from tests.support.scheduling import CLUSTER, LONGEST, SHARED, turn

PATIENCE_S = 600


def test_every_file_that_is_named_exists() -> None:
    named = {*SHARED, *LONGEST} - {*SHARED.values()}
    assert [file for file in sorted(named) if not (REPO / file).is_file()] == []


def test_one_process_begins_with_what_computes_the_others_with_what_waits() -> None:
    units = ["tests/model/waits/test_waits.py", "tests/spark/test_fleet.py", LONGEST[-1], CLUSTER]
    waiting = sorted(units, key=lambda unit: turn(unit, True))
    computing = sorted(units, key=lambda unit: turn(unit, False))
    assert waiting == [CLUSTER, "tests/spark/test_fleet.py", LONGEST[-1], units[0]]
    assert computing == [LONGEST[-1], units[0], CLUSTER, "tests/spark/test_fleet.py"]


@pytest.mark.slow
def test_a_run_ends_where_a_process_crashed(tmp_path: Path) -> None:
    """Each process has done files before: what is left is done by those that are there."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(
        "from tests.support.scheduling import FilesInTurn\n"
        "def pytest_xdist_make_scheduler(config, log):\n    return FilesInTurn(config, log)\n"
    )
    for number in range(6):
        (tmp_path / f"test_{number}.py").write_text(
            "import pytest\n@pytest.mark.parametrize('n', range(3))\ndef test(n): pass\n"
        )
    (tmp_path / "test_z.py").write_text(
        "import os, pathlib\ndef test_before(): pass\n"
        f"def test_crash():\n    once = pathlib.Path({str(tmp_path / 'once')!r})\n"
        "    if not once.exists():\n        once.touch()\n        os._exit(1)\n"
        "def test_after(): pass\n"
    )
    words = ["-m", "pytest", "-n", "2", "--dist", "loadfile", "-p", "no:cacheprovider", "."]
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": str(REPO)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert "crashed while running 'test_z.py::test_crash'" in done.stdout, done.stderr
    assert "1 failed, 21 passed" in done.stdout
