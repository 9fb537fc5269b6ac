"""Compile once what every process of a test run would compile for itself at the same time.

That is the bytecode of what is imported, pytest's rewritten assertions and the classes of Spark;
and, with ``--kernels``, numba's kernels, for which tests without Spark wait meanwhile. That is more
than a minute of CPU time for each process. All of it is kept for later runs.
"""

from __future__ import annotations

import fcntl
import functools
import io
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, suppress
from pathlib import Path

import pytest

from iqcar.apps.cli.main import main
from iqcar.tables import compiled
from tests.support import quick_spark
from tests.support.fleet_logs import write_fleet

LOCK = quick_spark.REPO / "build" / "kernels.lock"
"""Held while kernels are compiled."""
COMMANDS = (["topics", "--settings", "least_tasks=10"], ["analyze"])
"""Together they use nearly all kernels."""


def compile_kernels() -> None:
    """Run commands on small logs, with all kernels compiled however few steps they take."""
    compiled.PLAIN_STEPS = 0
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    with LOCK.open("w") as lock, tempfile.TemporaryDirectory() as folder:
        fcntl.flock(lock, fcntl.LOCK_EX)
        logs = Path(folder, "logs")
        write_fleet(logs)
        for words in COMMANDS:
            sys.argv = ["iqcar", *words, str(logs), "--json", "-"]
            with suppress(SystemExit), redirect_stderr(io.StringIO()):
                main()


@functools.cache
def wait_for_kernels() -> None:
    """Wait while another process compiles them."""
    if LOCK.exists():
        with LOCK.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)


if __name__ == "__main__":
    if "--kernels" in sys.argv:
        compile_kernels()
    else:
        with ThreadPoolExecutor(1) as beside:
            if shutil.which("java"):
                beside.submit(quick_spark.make_archive)
            pytest.main(["--collect-only", "-qqq"])
