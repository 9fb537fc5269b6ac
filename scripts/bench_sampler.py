"""Measure what sampling costs: 4 to 128 threads that sleep or compute, with a budget and without.

    scripts/bench sampler           3 turns of 2 s each (about 5 minutes)
    scripts/bench sampler --full    10 turns of 5 s each (about 30 minutes)

Beside the sleeping threads, of 60 frames each, one thread per processor computes. Each run has a
JVM of its own; the plugin off, its default budget and no budget take turns, and the slow-down is a
ratio of neighbouring turns. The JVM's own log tells for how long stacks stopped it. Other load on
the machine disturbs the slow-down, and hardly the stops and the CPU time.
"""

from __future__ import annotations

import os
import re
import statistics
import tempfile
from pathlib import Path
from typing import NamedTuple

from scripts.benchmarks import parser_of, run_java, sized

THREADS = (4, 16, 64, 128)
BUDGETS = ("off", "1%", "100%")
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
        options = [f"-Xlog:safepoint:file={log}"]
        words = (sleeping, computing, seconds, budget)
        wall, units, cpu, coverage = run_java(
            "executor.measure.SamplerLoad", *words, options=options
        )
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


def main() -> None:
    """Measure, and print a table."""
    options = parser_of(__doc__, full="10 turns of 5 s each").parse_args()
    turns, seconds = sized(options, quick=(1, 1), usual=(3, 2), full=(10, 5))
    cores = os.cpu_count() or 1
    loads = [*((n, cores) for n in THREADS), *((0, n) for n in THREADS)]
    print("| sleeping | computing | budget | stopped | CPU | slow-down (range) | coverage |")
    print("|---|---|---|---|---|---|---|")
    for sleeping, computing in loads[:1] if options.quick else loads:
        print("\n".join(measure(sleeping, computing, turns, seconds)), flush=True)


if __name__ == "__main__":
    main()
