"""Read five file formats side by side on a live Spark, without and with a hog; who is blamed?

    .venv/bin/python scripts/experiments/quiet_formats.py [--repeats 3]

The jobs are those of the test: readers that sleep, so that cores are free, then readers that
compute beside a query that fills all cores.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import iqcar
from iqcar.model.demand.host_samples import outside_load
from iqcar.tables import INTERVALS, SAMPLES, TASK_RECORDS
from tests.support import SUPPORT
from tests.support.listener_spark import PLUGIN, TWO_CORES, run_alone, spark_homes

RESULT = Path(__file__).resolve().parents[2] / "docs" / "evaluation" / "quiet_formats.json"


def losses(tables: iqcar.Tables, evidence: str) -> list[dict[str, Any]]:
    """What each query lost, and to whom most."""
    found = iqcar.diagnose(tables, expected=False)
    rows = []
    for row, query in enumerate(found.queries.to_dict("records")):
        if not query["name"].startswith(("quiet", "loud")):
            continue
        others = [one for one in found.graph.blame_rows(row) if one["kind"] == "query"]
        worst = max(others, key=lambda one: one["lost_ms"], default=None)
        rows.append(
            {
                "evidence": evidence,
                "query": query["name"],
                "duration_ms": query["duration_ms"],
                "lost_to_others": query["lost_to_others_ms"] / query["duration_ms"],
                "most": worst["source_name"] if worst else "",
            }
        )
    return rows


def main() -> None:
    """Run the jobs some times; store what was said."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    rows, outside = [], []
    for _ in range(parser.parse_args().repeats):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            job = [str(SUPPORT / "format_jobs.py"), str(folder / "data")]
            done = run_alone(
                spark_homes()[0], folder, job, master="local[16]", conf=PLUGIN, prefix=TWO_CORES
            )
            if done.exit_code:
                sys.exit(f"quiet_formats: the application failed: {done.errors[-500:]}")
            tables = iqcar.read([folder / "log"], query_by="job-group")
            outside.append(outside_load(tables).share)
            rows += losses(tables, "measured")
            plain = {"task_records": TASK_RECORDS, "intervals": INTERVALS, "samples": SAMPLES}
            tables = tables.with_(**{table: spec.empty() for table, spec in plain.items()})
            rows += losses(tables, "plain")
    RESULT.write_text(json.dumps({"outside": outside, "rows": rows}, indent=1) + "\n", "utf-8")
    for row in rows:
        sys.stdout.write(f"{row}\n")


if __name__ == "__main__":
    main()
