"""Run `scripts/fuzz` for a number of cases that are always the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.conftest import REPO


def fuzz(out: Path, cases: int, seed: int, option: str) -> None:
    """Fail with what it printed if it found anything, or ran another number of cases."""
    done = subprocess.run(
        [
            sys.executable, REPO / "scripts" / "fuzz.py", "60", option, "--cases", str(cases),
            "--seed", str(seed), "--out", out,
        ],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{cases} cases" in done.stdout
