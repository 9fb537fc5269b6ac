"""Plant one cause in each of sixteen applications on a real Spark; compare findings with the truth.

    .venv/bin/python scripts/experiments/planted_causes.py [--kinds KIND ...] [--turns N]
    .venv/bin/python scripts/experiments/planted_causes.py --analyze-only

Each application runs as it was, with the plugin and without, and with the action taken, by turns; a
minute for each run. What the folder of logs holds is not run again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from arms import OUT, RESULTS, save, say
from tables import planted_causes

from tests.support.listener_spark import spark_homes
from tests.support.planted_causes import CAUSES, RUNS, VARIANTS, Planted, Run, judge

EXPERIMENT = "planted_causes"


def record(logs: Path, kinds: Sequence[str], turns: int) -> None:
    """Run what is not there yet."""
    wanted = [
        Run(logs, kind, state, variant, turn)
        for turn in range(1, turns + 1)
        for kind in kinds
        for state, variant in RUNS
    ]
    missing = [run for run in wanted if not run.ended]
    if not missing:
        return
    with Planted(spark_homes()[0], OUT / EXPERIMENT) as planted:
        for run in missing:
            planted.record(run)
            say(EXPERIMENT, f"{run.folder.name}: {run.took_ms / 1e3:.1f} s")


def judged(logs: Path, kinds: Sequence[str]) -> list[dict[str, Any]]:
    """What is found in the logs that are there; each row is told at once."""
    rows = []
    for kind in kinds:
        for variant in VARIANTS:
            row = judge(logs, kind, variant)
            if row is not None:
                rows.append(row)
                say(EXPERIMENT, f"{kind}, {variant}: {row['first']}: {row['sentence']}")
    return rows


def main() -> None:
    """Run, analyze, and store the rows; those of other kinds stay."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kinds", nargs="+", choices=[*CAUSES], default=[*CAUSES])
    parser.add_argument("--turns", type=int, default=1, help="runs of each state and variant")
    parser.add_argument("--analyze-only", action="store_true", help="run nothing")
    parser.add_argument(
        "--logs", type=Path, default=OUT / EXPERIMENT / "logs", help="where logs are kept"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON")
    given = parser.parse_args()
    if not given.analyze_only:
        record(given.logs, given.kinds, given.turns)
    stored = given.results / f"{EXPERIMENT}.json"
    before = json.loads(stored.read_text("utf-8"))["rows"] if stored.exists() else []
    now = judged(given.logs, given.kinds)
    kept = {(row["kind"], row["variant"]): row for row in [*before, *now]}
    rows = [kept[kind, v] for kind in CAUSES for v in VARIANTS if (kind, v) in kept]
    save(EXPERIMENT, given.results, {"rows": rows}, planted_causes)


if __name__ == "__main__":
    main()
