"""Compile once what every process of a test run would compile for itself at the same time.

That is the bytecode of what is imported, pytest's rewritten assertions, numba's kernels and the
classes of Spark: more than a minute of CPU time for each process. All of it is kept for later runs.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from contextlib import redirect_stderr, suppress
from pathlib import Path

import pytest

from iqcar.cli.main import main
from iqcar.tables import compiled
from tests.support import quick_jvm
from tests.support.fleet_logs import write_fleet

COMMANDS = (["topics", "--settings", "least_tasks=10"], ["analyze"])
"""Together they use nearly all kernels."""


def compile_kernels() -> None:
    """Run commands on small logs, with all kernels compiled however few steps they take."""
    compiled.PLAIN_STEPS = 0
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder, "logs")
        write_fleet(logs)
        for words in COMMANDS:
            sys.argv = ["iqcar", *words, str(logs), "--json", "-"]
            with suppress(SystemExit), redirect_stderr(io.StringIO()):
                main()


if __name__ == "__main__":
    if shutil.which("java"):
        quick_jvm.make_archive()
    compile_kernels()
    pytest.main(["--collect-only", "-qqq"])
