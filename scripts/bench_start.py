"""Measure how quickly commands answer, compared with the imports that they need.

    scripts/bench start          5 rounds
    scripts/bench start --full   20 rounds

`iqcar --help` is compared with `import typer, rich`, `iqcar analyze` of 64 tasks with `import
numpy, pandas`, and its first answer on a machine, of an installation without bytecode, with the
later ones. Each figure is the least user CPU time of its rounds, which alternate.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.benchmarks import Goals, parser_of, sized

REPO = Path(__file__).resolve().parents[1]
LOG = REPO / "examples" / "monday" / "app-monday-1.zstd"


def user_s(words: list[str], **environment: str) -> float:
    """Return the user CPU seconds of a process with its children."""
    before = os.times().children_user
    command = [sys.executable, *words]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environment})
    return os.times().children_user - before


def first_s(words: list[str]) -> float:
    """Return the same for an installation that nobody has used yet."""
    with tempfile.TemporaryDirectory() as folder:
        analyzer, ignored = Path(folder, "analyzer"), shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPO / "analyzer", analyzer, ignore=ignored)
        for name in ("rules", "listener"):
            Path(folder, name).symlink_to(REPO / name)
        return user_s(words, PYTHONPATH=str(analyzer))


def main() -> int:
    """Measure all."""
    options = parser_of(__doc__, full="20 rounds").parse_args()
    rounds = range(sized(options, quick=1, usual=5, full=20))
    goals = Goals()
    analyze = ["-m", "iqcar", "analyze", str(LOG)]
    user_s(analyze)
    for name, goal, ours, base in (
        (
            "iqcar --help over its imports", 2.5,
            lambda: user_s(["-m", "iqcar", "--help"]), lambda: user_s(["-c", "import typer, rich"]),
        ),
        (
            "iqcar analyze over its imports", 1.6,
            lambda: user_s(analyze), lambda: user_s(["-c", "import numpy, pandas"]),
        ),
        ("the first answer over later ones", 1.5, lambda: first_s(analyze), lambda: user_s(analyze))
    ):  # fmt: skip
        pairs = [(ours(), base()) for _ in rounds]
        took, least = (min(pair[n] for pair in pairs) for n in (0, 1))
        goals.most(f"{name}: {took:.2f} s, {least:.2f} s", took / least, goal)
    return goals.end()


if __name__ == "__main__":
    sys.exit(main())
