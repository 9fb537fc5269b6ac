"""Every benchmark works: each runs in its quick form, whose figures mean nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest

from scripts.benchmarks import MISSED, Goals
from tests.conftest import REPO
from tests.support.browsing import needs_chromium

ON_SPARK = {
    "locks", "long_life", "offers", "overhead", "record_heap", "sampler",
    "tiny_tasks",
}  # fmt: skip
NAMES = sorted(path.stem.removeprefix("bench_") for path in REPO.glob("scripts/bench_*.py"))
NEEDS_JAVA = pytest.mark.skipif(shutil.which("java") is None, reason="needs a JDK")
MARKS = {
    "scale": pytest.mark.long,
    "report": (pytest.mark.browser, needs_chromium, pytest.mark.long),
    **dict.fromkeys(ON_SPARK, (pytest.mark.spark, NEEDS_JAVA, pytest.mark.long)),
}


@pytest.mark.long("scripts")
@pytest.mark.parametrize("name", [pytest.param(n, marks=MARKS.get(n, ())) for n in NAMES])
def test_a_benchmark_prints_figures_and_ends_without_an_error(name: str) -> None:
    if name in ON_SPARK:
        from tests.support.listener_spark import build_jar

        build_jar()
    done = subprocess.run(
        [sys.executable, REPO / "scripts" / f"bench_{name}.py", "--quick"],
        env={**os.environ, "PYTHONPATH": str(REPO)},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode in (0, MISSED), done.stderr[-3000:]
    assert ("\nMISSED " in done.stdout) == (done.returncode == MISSED)
    assert re.search(r"\d\.\d", done.stdout), done.stdout


def test_a_goal_that_is_missed_is_the_last_line_and_the_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    goals = Goals()
    goals.most("time", 1.0, 2.0, "s")
    assert goals.end() == 0
    goals.least("speed", 1.0, 2.0)
    goals.most("memory", 1.0, 1.0, "MB")
    assert goals.end() == MISSED
    assert capsys.readouterr().out.splitlines()[-1].startswith("MISSED speed: 1.00 x")
