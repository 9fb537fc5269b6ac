"""Measure curves of two queries on a live Spark by an experiment, and keep them as figures.

    .venv/bin/python scripts/experiments/experiment_live.py [--again]

``--again`` runs nothing, and keeps what the last run measured.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from arms import OUT, RESULTS, save
from live_tables import experiment_live

EXPERIMENT = "experiment_live"
SQL = {
    "count": "SELECT k, sum(crc32(cast(id AS string))) AS s FROM numbers GROUP BY k",
    "shuffle": "SELECT k, count(DISTINCT repeat(cast(id AS string), 12)) AS n FROM numbers "
    "GROUP BY k",
}
ROWS, PARTS = 600_000, 3


def plan(folder: Path) -> dict[str, Any]:
    """A query that computes and one that shuffles, one task at a time, beside two kinds of hogs."""
    numbers = f"SELECT id, id % 997 AS k FROM range(0, {ROWS}, 1, {PARTS})"
    return {
        "master": "local[1]",
        "conf": {"spark.driver.memory": "1g", "spark.shuffle.compress": "false"},
        "setup": [f"CREATE TEMPORARY VIEW numbers AS {numbers}"],
        "queries": [{"name": name, "sql": text} for name, text in SQL.items()],
        "resources": {"cpu": {"processes": 2}, "disk": {"folder": str(folder), "processes": 4}},
        "levels": [0, 0.5, 1],
        "repeats": 6,
        "warm_up": 3,
        "budget": "8m",
        "hosts": ["localhost"],
    }


def main() -> None:
    """Run the experiment, and write its curves and validation without what names the machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--again", action="store_true", help="run nothing")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON")
    given = parser.parse_args()
    folder = OUT / EXPERIMENT
    folder.mkdir(parents=True, exist_ok=True)
    if not given.again:
        (folder / "plan.json").write_text(json.dumps(plan(folder)), "utf-8")
        command = ["experiment", "plan.json", "--yes", "--out", "out", "--force"]
        subprocess.run([sys.executable, "-m", "iqcar_lab", *command], cwd=folder, check=True)
    found = json.loads((folder / "out" / "curves.json").read_text("utf-8"))
    kept = ("law", "ended_by", "curves", "validation")
    save(EXPERIMENT, given.results, {name: found[name] for name in kept}, experiment_live)


if __name__ == "__main__":
    main()
