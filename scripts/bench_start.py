"""Measure how quickly commands start, compared with the imports that they need.

    scripts/bench start          5 rounds
    scripts/bench start --full   20 rounds

`iqcar --help` is compared with `import typer, rich` (goal: at most 2.5 times), `iqcar analyze` of a
log of three tasks with `import numpy, pandas, numba` (goal: at most 2 times; compiled code is
cached before). Each figure is the least CPU time of its rounds, which alternate.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.benchmarks import Goals, parser_of, sized
from tests.support.small_log import small_log


def cpu_s(words: list[str]) -> float:
    """Return the CPU seconds of a process with its children."""
    before = os.times()
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    after = os.times()
    return (after.children_user - before.children_user) + (
        after.children_system - before.children_system
    )


def compare(
    goals: Goals, name: str, command: list[str], base: list[str], rounds: int, goal: float
) -> None:
    """Print the ratio of a command to its base."""
    cpu_s(command)  # compiles and caches what is not yet
    pairs = [(cpu_s(command), cpu_s(base)) for _ in range(rounds)]
    ours, least = (min(pair[n] for pair in pairs) for n in (0, 1))
    goals.most(f"{name}: {ours:.2f} s over imports: {least:.2f} s", ours / least, goal)


def main() -> int:
    """Measure both."""
    options = parser_of(__doc__, full="20 rounds").parse_args()
    rounds = sized(options, quick=1, usual=5, full=20)
    goals = Goals()
    with tempfile.TemporaryDirectory() as folder:
        log = small_log().write(Path(folder) / "app-1")
        imports = ["-c", "import typer, rich"]
        compare(goals, "iqcar --help", ["-m", "iqcar", "--help"], imports, rounds, 2.5)
        imports = ["-c", "import numpy, pandas, numba"]
        compare(goals, "iqcar analyze", ["-m", "iqcar", "analyze", str(log)], imports, rounds, 2.0)
    return goals.end()


if __name__ == "__main__":
    sys.exit(main())
