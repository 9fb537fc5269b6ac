"""Measure how quickly commands start, compared with the imports that they need.

    scripts/bench start          5 rounds
    scripts/bench start --full   20 rounds

`iqcar --help` is compared with `import typer, rich` (goal: at most 2.5 times), `iqcar analyze` of a
log of three tasks with `import numpy, pandas, numba` (goal: at most 2 times; compiled code is
cached before). Each figure is the least CPU time of its rounds, which alternate.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.small_log import small_log


def cpu_s(words: list[str]) -> float:
    """Return the CPU seconds of a process with its children."""
    before = os.times()
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    after = os.times()
    return (after.children_user - before.children_user) + (
        after.children_system - before.children_system
    )


def compare(name: str, command: list[str], base: list[str], rounds: int, goal: float) -> None:
    """Print the ratio of a command to its base."""
    cpu_s(command)  # compiles and caches what is not yet
    pairs = [(cpu_s(command), cpu_s(base)) for _ in range(rounds)]
    ours, least = (min(pair[n] for pair in pairs) for n in (0, 1))
    print(f"{name:<24} {ours:6.2f} s {least:6.2f} s {ours / least:6.2f} x  goal {goal:g} x")


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="20 rounds")
    rounds = 20 if parser.parse_args().full else 5
    with tempfile.TemporaryDirectory() as folder:
        log = small_log().write(Path(folder) / "app-1")
        print(f"{'command':<24} {'takes':>8} {'imports':>8}  ratio")
        imports = ["-c", "import typer, rich"]
        compare("iqcar --help", ["-m", "iqcar", "--help"], imports, rounds, 2.5)
        imports = ["-c", "import numpy, pandas, numba"]
        compare("iqcar analyze", ["-m", "iqcar", "analyze", str(log)], imports, rounds, 2.0)


if __name__ == "__main__":
    main()
