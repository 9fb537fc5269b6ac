"""Plan queues for tenants of a real YARN, apply the plans, and run the tenants again.

    .venv/bin/python scripts/experiments/yarn_queues.py [--repeats N] [--targets yarn-capacity ...]

Ten minutes for each repeat. For each target it prints the time of each query before, in the replay
of that run, as predicted, and after.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from arms import OUT, RESULTS, save
from tables import yarn_queues

from iqcar.rules.queue_files import PlanTarget
from tests.support.listener_spark import spark_homes
from tests.support.yarn_tenants import apply_plan

EXPERIMENT = "yarn_queues"


def main() -> None:
    """Run each target as often as asked, and store the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=1, help="runs of each target")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON")
    every = [str(one) for one in PlanTarget if one is not PlanTarget.FAIR_POOLS]
    parser.add_argument("--targets", nargs="+", choices=every, default=every)
    given = parser.parse_args()
    folder = OUT / EXPERIMENT
    shutil.rmtree(folder, ignore_errors=True)
    rows: list[list[str]] = []
    for number in range(given.repeats):
        for target in given.targets:
            done = apply_plan(spark_homes()[0], folder / f"{target}-{number}", PlanTarget(target))
            rows += done.rows()
            sys.stdout.write(f"{target}, run {number + 1}:\n{yarn_queues({'rows': done.rows()})}\n")
    save(EXPERIMENT, given.results, {"rows": rows}, yarn_queues)


if __name__ == "__main__":
    main()
