"""Find stragglers of HiBench's kinds of jobs and their causes (BigRoots table VI).

    sudo .venv/bin/python scripts/experiments/bigroots_kinds.py [--rounds N] [--rows N]

Learners of Spark's library, micro jobs, SQL and page ranks run on five hosts, and nothing is
injected. Each straggler's causes by measured waits stand beside those of BigRoots as printed. There
is no truth to score them with. Needs what :mod:`loadable_hosts` needs.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from arms import OUT, REPO, RESULTS, fresh, save
from bigroots import HOSTS, MEASURES, ONE_TASK_PER_FILE, TASKS, write_sales
from cluster import cluster, start_application, wait_until
from loadable_hosts import Size, check_machine
from straggler_tables import bigroots_kinds

import iqcar
from iqcar.apps.demo.mix import make_data
from iqcar_lab.printed.bigroots import printed_stragglers

EXPERIMENT = "bigroots_kinds"
TIMEOUT_S = 1800


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Run HiBench's kinds of jobs, find stragglers.")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each kind")
    parser.add_argument("--rows", type=int, default=20_000, help="of a task")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON")
    parser.add_argument("--again", action="store_true", help="analyse the last run's log anew")
    return parser.parse_args()


def run(folder: Path, rounds: int, rows: int) -> None:
    """Run all kinds on hosts that are alike."""
    sales = folder / "sales"
    write_sales(sales, make_data(REPO / "build" / "demo", 0.3) / "store_sales.parquet", larger=0)
    plan = {
        "sales": str(sales), "measures": MEASURES, "tasks": TASKS, "rows": rows, "rounds": rounds,
        "warm": str(folder / "warm"), "go": str(folder / "go"),
    }  # fmt: skip
    (folder / "plan.json").write_text(json.dumps(plan))
    words = [str(Path(__file__).with_name("bigroots_kind_jobs.py")), str(folder / "plan.json")]
    with cluster(HOSTS, folder, Size()) as spark:
        jobs = start_application(words, spark.master, folder, "jobs", ONE_TASK_PER_FILE)
        try:
            wait_until((folder / "warm").exists, "warm executors", [jobs])
            spark.limit()
            (folder / "go").touch()
            if jobs.wait(timeout=TIMEOUT_S):
                raise SystemExit(f"{EXPERIMENT}: the application failed, see {folder}")
        finally:
            jobs.terminate()
            jobs.wait()


def make_result(folder: Path) -> dict[str, Any]:
    """Count stragglers and causes by kind."""
    diagnosis = iqcar.diagnose(iqcar.read([folder / "eventlogs"]))
    tables, found = diagnosis.tables, diagnosis.stragglers
    # Tasks of no query have row -1: the last name.
    of_query = np.append(tables.queries["name"].astype(str).to_numpy(), "")
    kind = of_query[tables.tasks["query"].to_numpy()]
    task_of = found.stragglers["task"].to_numpy()
    causes = Counter(
        (kind[task_of[straggler]], cause)
        for straggler, cause in zip(
            found.causes["straggler"].tolist(), found.causes["cause"].tolist(), strict=True
        )
    )
    printed = printed_stragglers(tables)
    named = Counter(
        (kind[task], feature)
        for task, feature in zip(printed["task"].tolist(), printed["feature"].tolist(), strict=True)
    )
    kinds = [
        name for name in dict.fromkeys(of_query.tolist()) if name and not name.startswith("warm ")
    ]
    return {
        "kinds": [
            {
                "kind": name,
                "tasks": int((kind == name).sum()),
                "stragglers": int((kind[task_of] == name).sum()),
                "causes": _of(causes, name),
                "printed_stragglers": len({t for t in printed["task"].tolist() if kind[t] == name}),
                "printed_causes": _of(named, name),
            }
            for name in kinds
        ]
    }


def _of(counts: Counter[tuple[str, str]], kind: str) -> dict[str, int]:
    """The causes of one kind, the most frequent first; without those that have none."""
    return {cause: n for (of, cause), n in counts.most_common() if of == kind and cause}


def main() -> None:
    """Run, analyse, save."""
    chosen = options()
    folder = OUT / EXPERIMENT
    if not chosen.again:
        check_machine()
        run(fresh(EXPERIMENT), chosen.rounds, chosen.rows)
    meta = {"rounds": chosen.rounds, "rows": chosen.rows, "hosts": len(HOSTS)}
    save(EXPERIMENT, chosen.results, {**meta, **make_result(folder)}, bigroots_kinds)


if __name__ == "__main__":
    main()
