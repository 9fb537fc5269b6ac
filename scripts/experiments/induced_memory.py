"""Run induced memory contention (iQCAR §7.2.2): are waits for execution memory found?

    sudo .venv/bin/python scripts/experiments/induced_memory.py

A query that aggregates in a hash table runs again and again on two hosts: alone, then while another
query of the same application sorts as much as execution memory holds on one of them, then alone
again. Levels 2 and 3 of the query's iQC-Graph must show the loss to memory on that host, and its
blame must name the hog. Needs what :mod:`loadable_hosts` needs; about two minutes.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from arms import OUT, RESULTS, fresh, save
from cluster import cluster, start_application
from live_tables import induced_memory
from loadable_hosts import Size, check_machine

import iqcar
from iqcar.diagnosis import Diagnosis
from iqcar.enums import Resource

EXPERIMENT = "induced_memory"
HOSTS = ("127.0.0.2", "127.0.0.3")
SIZE = Size(cores=1.0)
"""Never limited: nobody here is to wait for a processor or a disk."""
CORES = 2
"""Of each executor: one for the victim's task, one for the hog's."""
TIMEOUT_S = 200
PHASES = (("warm", 4, True), ("alone", 12, False), ("memory", 12, True), ("alone again", 12, False))
"""Name, queries of the victim, and whether a hog runs beside each."""
GROUPS = 400_000
"""Of the victim's task: its hash table wants 34 MB at most."""
HOG_ROWS, HOG_ROW_BYTES = 97_000, 1_000
"""105 MB with its pages, of the 123 MB that an executor of 512 MB has: too few are left."""
HOLD_MS = 4_000
PAUSE_S = 1.5
"""Before each query of the victim: the hog has its memory by then."""


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Hold a query's memory, and look at its graph.")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON")
    parser.add_argument("--again", action="store_true", help="analyse the last run's log anew")
    return parser.parse_args()


def run(folder: Path) -> None:
    """Run the application through all phases."""
    plan = {
        "hosts": HOSTS, "loaded": HOSTS[1], "phases": PHASES, "groups": GROUPS,
        "hog_rows": HOG_ROWS, "hog_row_bytes": HOG_ROW_BYTES, "hold_ms": HOLD_MS,
        "pause_s": PAUSE_S,
    }  # fmt: skip
    file = folder / "plan.json"
    file.write_text(json.dumps(plan))
    words = [str(Path(__file__).with_name("induced_memory_jobs.py")), str(file)]
    conf = {
        "spark.executor.cores": str(CORES),
        "spark.sql.shuffle.partitions": str(len(HOSTS)),
        "spark.sql.adaptive.enabled": "false",
    }
    with cluster(HOSTS, folder, SIZE, CORES) as spark:
        application = start_application(words, spark.master, folder, "application", conf)
        try:
            if application.wait(timeout=TIMEOUT_S):
                raise SystemExit(f"{EXPERIMENT}: the application failed, see {folder}")
        finally:
            application.terminate()
            application.wait()


def make_result(folder: Path) -> dict[str, Any]:
    """Sum the victim's losses to memory by phase and host."""
    diagnosis = iqcar.diagnose(iqcar.read([folder / "eventlogs"]))
    return {"phases": [_phase(diagnosis, name) for name, _, _ in PHASES if name != "warm"]}


def _phase(diagnosis: Diagnosis, name: str) -> dict[str, Any]:
    queries = diagnosis.tables.queries
    names = queries["name"].astype(str).to_numpy()
    of_phase = queries["name"].astype(str).str.rpartition("-")[0].to_numpy() == name
    sql = (queries["kind"] == "sql").to_numpy()
    rows = np.flatnonzero(of_phase & sql & queries["ended"].to_numpy(bool))
    duration = queries["duration_ms"].to_numpy(np.float64)[rows]
    total = float(duration.sum())
    blamed = pd.concat([diagnosis.graph.blame_of(int(row)) for row in rows])
    of_hogs = blamed["source_name"].astype(str).str.startswith(f"hog-{name}-")
    hogs = (of_hogs & (blamed["kind"] == "query")).to_numpy(bool)
    lost = float(blamed["lost_ms"].sum())
    of_memory = blamed["by_resource"].map(lambda by: by.get(str(Resource.MEMORY), 0.0))
    lost_memory = float(of_memory.sum())
    tasks = diagnosis.tables.tasks
    of_hog = np.char.startswith(names[tasks["query"].to_numpy()].astype(str), f"hog-{name}-")
    return {
        "phase": name,
        "queries": len(rows),
        "hogs": int(np.char.startswith(names.astype(str), f"hog-{name}-")[sql].sum()),
        "hogs_spilled_bytes": float(tasks.loc[of_hog, "memory_spilled_bytes"].sum()),
        "duration_s": [round(d / 1e3, 3) for d in duration.tolist()],
        "losses": {
            str(resource): _losses(diagnosis, rows, resource, total) for resource in Resource
        },
        "blamed_on_hog": float(blamed.loc[hogs, "lost_ms"].sum()) / lost if lost else None,
        "memory_blamed_on_hog": float(of_memory[hogs].sum()) / lost_memory if lost_memory else None,
    }


def _losses(
    diagnosis: Diagnosis, rows: np.ndarray[Any, Any], resource: Resource, total: float
) -> dict[str, float]:
    """What queries lost to a resource, as shares of their duration: in all, and by host."""
    hosts = diagnosis.tables.hosts["host"].astype(str).to_numpy()
    by_resource, by_host = diagnosis.graph.vertices(2), diagnosis.graph.vertices(3)
    mine = by_resource[by_resource["target"].isin(rows)]
    there = by_host[by_host["target"].isin(rows) & (by_host["resource"] == str(resource))]
    loaded = hosts[there["host"].to_numpy(np.int64)] == HOSTS[1]
    return {
        "share": float(mine.loc[mine["resource"] == str(resource), "lost_ms"].sum()) / total,
        "share_loaded": float(there.loc[loaded, "lost_ms"].sum()) / total,
        "share_other": float(there.loc[~loaded, "lost_ms"].sum()) / total,
    }


def main() -> None:
    """Run, analyse, save."""
    chosen = options()
    folder = OUT / EXPERIMENT
    if not chosen.again:
        check_machine()
        run(fresh(EXPERIMENT))
    meta = {"loaded": HOSTS[1], "hold_ms": HOLD_MS}
    save(EXPERIMENT, chosen.results, {**meta, **make_result(folder)}, induced_memory)


if __name__ == "__main__":
    main()
