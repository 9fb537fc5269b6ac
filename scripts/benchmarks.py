"""What all benchmarks share: three sizes, goals beside figures, processes of their own.

A benchmark is `scripts/bench_NAME.py`; `scripts/bench NAME` runs it. Each has a quick form, which
tests run to see that it works: its figures mean nothing. It ends with 0, with `MISSED` if a figure
missed its goal, and otherwise as Python does on an error.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

REPO = Path(__file__).resolve().parent.parent
JARS = [REPO / "listener" / "target" / f"iqcar-listener{kind}.jar" for kind in ("", "-tests")]
MISSED = 3
"""Exit code of a benchmark whose goal is missed: 1 is Python's for an error, 2 for wrong words."""
T = TypeVar("T")


def parser_of(doc: str | None, *, full: str = "larger sizes") -> argparse.ArgumentParser:
    """Return a parser of the sizes that every benchmark has, given what stands above its code."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--quick", action="store_true", help="seconds, only to see that it works")
    sizes.add_argument("--full", action="store_true", help=full)
    return parser


def sized(options: argparse.Namespace, *, quick: T, usual: T, full: T) -> T:
    """Return what belongs to the size that was asked for."""
    return quick if options.quick else full if options.full else usual


class Goals:
    """Figures that have a goal."""

    def __init__(self) -> None:
        self._missed: list[str] = []

    def most(self, what: str, found: float, most: float, unit: str = "x") -> None:
        """Print a figure that should be at most so much."""
        self.met(found <= most, f"{what}: {found:.2f} {unit}, goal at most {most:g} {unit}")

    def least(self, what: str, found: float, least: float, unit: str = "x") -> None:
        """Print a figure that should be at least so much."""
        self.met(found >= least, f"{what}: {found:.2f} {unit}, goal at least {least:g} {unit}")

    def met(self, is_met: bool, line: str) -> None:
        """Print what was found and what is wanted."""
        print(line, flush=True)
        if not is_met:
            self._missed.append(line)

    def end(self) -> int:
        """Print what was missed, last; return the exit code."""
        for line in self._missed:
            print(f"MISSED {line}")
        return MISSED if self._missed else 0


def timed(
    work: Callable[[], T], times: int = 1, clock: Callable[[], float] = time.process_time
) -> tuple[float, T]:
    """Return the least of the seconds that some work takes, by default CPU time, and its result."""
    taken = []
    for _ in range(times):
        began = clock()
        result = work()
        taken.append(clock() - began)
    return min(taken), result


def least_s(*work: Any, **how: Any) -> float:
    """Return only the seconds of :func:`timed`."""
    return timed(*work, **how)[0]


def peak_mb() -> float:
    """Return the most memory that this process has had (`ru_maxrss` begins with its parent's)."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        # In kB, but in bytes on macOS.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 1024.0 / (1024.0 if sys.platform == "darwin" else 1.0)
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def output_of(command: Sequence[object], **more: Any) -> str:
    """Return what a process prints; end with the end of its errors if it fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    if done.returncode:
        sys.exit(f"bench: a run failed:\n{done.stderr[-3000:]}")
    return done.stdout


def run_again(script: str, *words: object, **more: Any) -> Any:
    """Run a benchmark's own script with other words; return the JSON that it prints last."""
    env = {**(more.pop("env", None) or os.environ), "PYTHONPATH": str(REPO)}
    words = (sys.executable, script, *words)
    return json.loads(output_of(words, env=env, **more).splitlines()[-1])


def run_java(main: str, *words: object, options: Sequence[str] = ()) -> list[float]:
    """Run a class of the plugin's tests in a JVM of its own; return the numbers that it prints."""
    import pyspark

    classes = ":".join([*map(str, JARS), str(Path(pyspark.__file__).parent / "jars/*")])
    java = Path(os.environ["JAVA_HOME"]) / "bin/java" if "JAVA_HOME" in os.environ else "java"
    command = [java, *options, "-Xmx256m", "-cp", classes, f"org.iqcar.spark.{main}", *words]
    return [float(word) for word in output_of(command).split()]


def spark_flags(settings: dict[str, str]) -> list[str]:
    """Return the options of spark-submit that make settings."""
    return [word for pair in settings.items() for word in ("--conf", "=".join(pair))]


def run_on_spark(
    script: str,
    *words: object,
    settings: dict[str, str],
    flags: Sequence[str] = (),
    cwd: str | None = None,
) -> Any:
    """Run a benchmark's own script again, whose session then has these settings."""
    submit = " ".join([*flags, *spark_flags(settings), "pyspark-shell"])
    env = {**os.environ, "PYSPARK_SUBMIT_ARGS": submit, "SPARK_LOCAL_IP": "127.0.0.1"}
    return run_again(script, *words, env=env, cwd=cwd)


def spread(ratios: list[float]) -> str:
    """Median and range."""
    return f"{statistics.median(ratios):7.3f}   {min(ratios):.3f} … {max(ratios):.3f}"
