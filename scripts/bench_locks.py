"""Measure what finding lock owners costs and tells: the sampler against JFR's event streaming.

    scripts/bench locks           3 turns of 5 s each (about 3 minutes)
    scripts/bench locks --full    10 turns of 10 s each (about 15 minutes)

Sixteen threads take turns at four monitors and four ReentrantLocks, and hold each for 3 or 40 ms.
Each run has a JVM of its own (Java 14 or newer); nobody, the sampler and JFR take turns, and costs
are ratios of neighbouring turns. JFR streams JavaMonitorEnter and ThreadPark from 1 ms on, without
stacks. Take figures on an idle machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pyspark

THREADS = 16
HOLD_MS = (3, 40)
WATCHERS = ("off", "sampler", "jfr")
JARS = Path(__file__).resolve().parent.parent / "listener/target"


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
    jars = [str(JARS / f"iqcar-listener{kind}.jar") for kind in ("", "-tests")]
    classes = ":".join([*jars, str(Path(pyspark.__file__).parent / "jars/*")])
    java = Path(os.environ["JAVA_HOME"]) / "bin/java" if "JAVA_HOME" in os.environ else "java"
    main = "org.iqcar.spark.measure.LockLoad"
    numbers = [str(THREADS), str(hold_ms), str(seconds), watcher]
    command = [str(java), "-Xmx256m", "-cp", classes, main, *numbers]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"bench: a run failed:\n{done.stderr[-3000:]}")
    return Run(*(float(word) for word in done.stdout.split()))


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--full", action="store_true")
    turns, seconds = (10, 10) if parser.parse_args().full else (3, 5)
    sys.stdout.write("| held | watched by | CPU against none | locks taken | owner known |\n")
    sys.stdout.write("|---|---|---|---|---|\n")
    for hold in HOLD_MS:
        runs = [{one: run(hold, seconds, one) for one in WATCHERS} for _ in range(turns)]
        for one in WATCHERS[1:]:
            cpu = [turn[one].cpu / turn["off"].cpu for turn in runs]
            taken = [turn[one].turns / turn["off"].turns for turn in runs]
            known = [turn[one].owned / turn[one].waited for turn in runs]
            sys.stdout.write(
                f"| {hold} ms | {one} | {statistics.median(cpu):.2f} "
                f"({min(cpu):.2f} … {max(cpu):.2f}) | {statistics.median(taken):.3f} | "
                f"{statistics.median(known):.0%} |\n"
            )


if __name__ == "__main__":
    main()
