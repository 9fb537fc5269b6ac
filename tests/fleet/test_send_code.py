"""What executors are sent: all that a diagnosis needs, also from a checkout."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from iqcar.fleet.send_code import write_package
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
