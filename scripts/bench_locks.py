"""Measure what finding lock owners costs and tells: the sampler against JFR's event streaming.

    scripts/bench locks           3 turns of 5 s each (about 3 minutes)
    scripts/bench locks --full    10 turns of 10 s each (about 15 minutes)

Sixteen threads take turns at four monitors and four ReentrantLocks, and hold each for 3 or 40 ms.
Each run has a JVM of its own (Java 14 or newer); nobody, the sampler and JFR take turns, and costs
are ratios of neighbouring turns. JFR streams JavaMonitorEnter and ThreadPark from 1 ms on, without
stacks. Take figures on an idle machine.
"""

from __future__ import annotations

import statistics
from typing import NamedTuple

from scripts.benchmarks import parser_of, run_java, sized

THREADS = 16
HOLD_MS = (3, 40)
WATCHERS = ("off", "sampler", "jfr")


class Run(NamedTuple):
    """Figures of one run."""

    turns: float
    """Locks taken."""
    cpu: float
    """CPU time of the JVM, s."""
    waited: float
    """Time that threads waited for locks, by their own clocks, s."""
    owned: float
    """The part of that for which an owner was named, s."""


def run(hold_ms: int, seconds: int, watcher: str) -> Run:
    """Run one JVM."""
    return Run(*run_java("executor.measure.LockLoad", THREADS, hold_ms, seconds, watcher))


def main() -> None:
    """Print a table."""
    options = parser_of(__doc__, full="10 turns of 10 s each").parse_args()
    turns, seconds = sized(options, quick=(1, 1), usual=(3, 5), full=(10, 10))
    print("| held | watched by | CPU against none | locks taken | owner known |")
    print("|---|---|---|---|---|")
    for hold in sized(options, quick=HOLD_MS[:1], usual=HOLD_MS, full=HOLD_MS):
        runs = [{one: run(hold, seconds, one) for one in WATCHERS} for _ in range(turns)]
        for one in WATCHERS[1:]:
            cpu = [turn[one].cpu / turn["off"].cpu for turn in runs]
            taken = [turn[one].turns / turn["off"].turns for turn in runs]
            known = [turn[one].owned / turn[one].waited for turn in runs]
            print(
                f"| {hold} ms | {one} | {statistics.median(cpu):.2f} "
                f"({min(cpu):.2f} … {max(cpu):.2f}) | {statistics.median(taken):.3f} | "
                f"{statistics.median(known):.0%} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
