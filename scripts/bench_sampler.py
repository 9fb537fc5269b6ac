"""Measure what sampling costs: 4 to 128 threads that sleep or compute, with a budget and without.

    scripts/bench sampler           3 turns of 2 s each (about 5 minutes)
    scripts/bench sampler --full    10 turns of 5 s each (about 30 minutes)

Beside the sleeping threads, of 60 frames each, one thread per processor computes. Each run has a
JVM of its own; the plugin off, its default budget and no budget take turns, and the slow-down is a
ratio of neighbouring turns. The JVM's own log tells for how long stacks stopped it. Other load on
the machine disturbs the slow-down, and hardly the stops and the CPU time.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pyspark

THREADS = (4, 16, 64, 128)
BUDGETS = ("off", "1%", "100%")
JARS = Path(__file__).resolve().parent.parent / "listener/target"
STOP = re.compile(r'"(?:ThreadDump|GetThreadInfo)[^"]*".*Total: +(\d+) ns')
START_S = 1.0
"""The load warms up for so long before its figures begin."""


class Run(NamedTuple):
    """Figures of one run."""

    rate: float
    """Units of work per second."""
    stopped: float
    """Share of the time for which stacks stopped the JVM."""
    cpu: float
    """CPU time of the sampler's threads, as a share of one processor's."""
    coverage: float
    """Percent of the wanted looks at sleeping threads that were taken."""


def run(sleeping: int, computing: int, seconds: int, budget: str) -> Run:
    """Run one JVM."""
    with tempfile.TemporaryDirectory(prefix="iqcar-sampler-") as folder:
        log = Path(folder) / "safepoints"
        jars = [str(JARS / f"iqcar-listener{kind}.jar") for kind in ("", "-tests")]
        classes = ":".join([*jars, str(Path(pyspark.__file__).parent / "jars/*")])
        java = Path(os.environ["JAVA_HOME"]) / "bin/java" if "JAVA_HOME" in os.environ else "java"
        main = "org.iqcar.spark.measure.SamplerLoad"
        command = [str(java), f"-Xlog:safepoint:file={log}", "-Xmx256m", "-cp", classes, main]
        numbers = [str(sleeping), str(computing), str(seconds), budget]
        done = subprocess.run([*command, *numbers], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"bench: a run failed:\n{done.stderr[-3000:]}")
        wall, units, cpu, coverage = (float(word) for word in done.stdout.split())
        stopped = sum(int(ns) for ns in STOP.findall(log.read_text())) / 1e9
    return Run(units / wall, stopped / (wall + START_S), cpu / wall, coverage)


def measure(sleeping: int, computing: int, turns: int, seconds: int) -> list[str]:
    """One line per budget: medians over the turns."""
    runs = [{one: run(sleeping, computing, seconds, one) for one in BUDGETS} for _ in range(turns)]
    lines = []
    for budget in BUDGETS[1:]:
        mine = [turn[budget] for turn in runs]
        slow = [turn["off"].rate / turn[budget].rate - 1 for turn in runs]
        stopped, cpu, coverage = (
            statistics.median(getattr(one, name) for one in mine)
            for name in ("stopped", "cpu", "coverage")
        )
        lines.append(
            f"| {sleeping} | {computing} | {budget} | {stopped:.2%} | {cpu:.2%} | "
            f"{statistics.median(slow):+.1%} ({min(slow):+.1%} … {max(slow):+.1%}) | "
            f"{coverage:.0f}% |".replace("%", " %")
        )
    return lines


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--full", action="store_true", help="10 turns of 5 s each")
    turns, seconds = (10, 5) if parser.parse_args().full else (3, 2)
    cores = os.cpu_count() or 1
    print("| sleeping | computing | budget | stopped | CPU | slow-down (range) | coverage |")
    print("|---|---|---|---|---|---|---|")
    for sleeping, computing in [*((n, cores) for n in THREADS), *((0, n) for n in THREADS)]:
        print("\n".join(measure(sleeping, computing, turns, seconds)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
