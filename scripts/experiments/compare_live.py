"""Compare live sets of runs of an embedded Spark, before and after one change at a time.

    .venv/bin/python scripts/experiments/compare_live.py [--quick] [--runs 4] [--again]

Each run is an application that runs TPC-DS queries one after another; runs before and after take
turns, so that a drift of the machine hits both. Measured arms are kept, and the result is written
after each: a run that was ended goes on with the next arm. `--quick` runs two arms with two runs a
side.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from pathlib import Path
from typing import Any

from arms import OUT, RESULTS, save
from compare_live_arms import ARMS, BASE, Arm
from compare_live_result import arm_result, quiet_results
from compare_live_runs import prepare, run_once
from compare_live_table import compare_live

import iqcar

EXPERIMENT = "compare_live"
QUICK = ("nothing", "partitions")
MEASURED = "measured.json"
SIDES = ("before", "after")


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Change one thing, and compare.")
    parser.add_argument("--runs", type=int, default=4, help="runs a side")
    parser.add_argument("--arms", default="", help="names of arms, by commas; all by default")
    parser.add_argument("--quick", action="store_true", help="two arms with two runs a side")
    parser.add_argument("--fresh", action="store_true", help="forget arms measured before")
    parser.add_argument("--again", action="store_true", help="run nothing, compare what is there")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON")
    return parser.parse_args()


def measure(arm: Arm, tables: dict[str, Any], folder: Path, runs: int) -> None:
    """Run both sides of an arm in turns: before, after, after, before, and so on."""
    shutil.rmtree(folder, ignore_errors=True)
    took: dict[str, dict[str, list[float]]] = {side: {} for side in SIDES}
    spark = {}
    for number in range(runs):
        for side in SIDES if number % 2 == 0 else SIDES[::-1]:
            setup = arm.before if side == "before" else arm.after
            began = time.monotonic()
            outcome = run_once(tables, setup, folder / side, str(number))
            spark[side] = outcome["spark"]
            for query, seconds in outcome["duration_s"].items():
                took[side].setdefault(query, []).append(seconds)
            total = sum(outcome["duration_s"].values())
            print(
                f"{EXPERIMENT}: {arm.name}, {side} {number + 1}: {total:.1f} s over all queries, "
                f"{time.monotonic() - began:.1f} s in all",
                flush=True,
            )
    content = {"spark": spark, "duration_s": took}
    (folder / MEASURED).write_text(json.dumps(content), "utf-8")


def compare_all(out: Path) -> dict[str, Any]:
    """Compare the arms that are measured, and those of their sets before that are alike."""
    found, alike = [], {}
    spark = ""
    for arm in ARMS:
        file = out / arm.name / MEASURED
        if not file.is_file():
            continue
        measured = json.loads(file.read_text("utf-8"))
        spark = measured["spark"]["after"]
        before, after = (iqcar.read([out / arm.name / side / "eventlogs"]) for side in SIDES)
        took = measured["duration_s"]
        comparison = iqcar.compare(before, after)
        found.append(arm_result(arm, comparison, took["before"], took["after"]))
        if arm.before == BASE:
            alike[arm.name] = before
    return {"spark": spark, "arms": found, "quiet": quiet_results(alike)}


def main() -> None:
    """Measure the arms that are missing; compare all after each."""
    chosen = options()
    names = QUICK if chosen.quick else chosen.arms.split(",") if chosen.arms else ()
    wanted = [arm for arm in ARMS if not names or arm.name in names]
    out = OUT / (f"{EXPERIMENT}_quick" if chosen.quick else EXPERIMENT)
    if chosen.fresh:
        for arm in wanted:
            shutil.rmtree(out / arm.name, ignore_errors=True)
    missing = [arm for arm in wanted if not (out / arm.name / MEASURED).is_file()]
    if missing and not chosen.again:
        tables = prepare(OUT / "compare_live_tables")
        for arm in missing:
            measure(arm, tables, out / arm.name, 2 if chosen.quick else chosen.runs)
    save(EXPERIMENT, out if chosen.quick else chosen.results, compare_all(out), compare_live)


if __name__ == "__main__":
    main()
