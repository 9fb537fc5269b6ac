"""Run induced contention (iQCAR §7.2.2): does iQC-Graph find the contention that was induced?

    sudo .venv/bin/python scripts/experiments/induced_contention.py

A query runs again and again on a cluster of two hosts: alone, then while another application hashes
on one of the hosts, then while one reads files there. Levels 2 and 3 of the query's iQC-Graph must
show the loss to that resource on that host, and its blame must name the culprit. Needs what
:mod:`cluster` needs; about four minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from arms import OUT, REPO, RESULTS, fresh, save
from bigroots import MEASURES, ONE_TASK_PER_FILE, write_sales
from cluster import Cluster, Host, Size, check_machine, cluster, start_application, wait_until
from tables import induced_contention

import iqcar
from iqcar.apps.demo.mix import make_data
from iqcar.diagnosis import Diagnosis
from iqcar.enums import REQUESTS, Request, Resource
from iqcar.model.waits.columns import launch_wait

EXPERIMENT = "induced_contention"
HOSTS = ("127.0.0.2", "127.0.0.3")
SIZE = Size(cores=0.7, hogs=3)
PHASES = ("alone", "cpu", "alone again", "io")
PHASE_S = 40
FILE_ROWS = 200_000
"""One file, and so one task, for each host: 6 MB, most of a second of a host's disk."""
ROWS, HASHES, EVERY = 15_000, 8, 10
"""Rows of a culprit's task and hashes of each; the victim hashes every tenth row."""
WARM = 15
"""Queries after which executors have compiled and loaded what they need."""
OWN_BYTES = 8 << 20
"""Of each file of the culprit for the disk: three tasks read for three seconds."""
SLOTS = 3
"""Of the culprit: three tasks beside the victim's one."""
ASKED = {
    Resource.CPU: Request.RUN_QUEUE,
    Resource.IO: Request.IO_READ,
    Resource.NETWORK: Request.SHUFFLE_FETCH,
}
"""The request of each resource that the victim waits for most."""
CULPRITS = {"cpu": Resource.CPU, "io": Resource.IO}
"""Phase, and the resource that its culprit takes."""


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Get in a query's way, and look at its graph.")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON")
    parser.add_argument("--again", action="store_true", help="analyse the last run's logs anew")
    return parser.parse_args()


def start(
    role: str, folder: Path, plan: dict[str, Any], spark: Cluster, on: Host | None = None
) -> subprocess.Popen[bytes]:
    """Start one of the applications."""
    ours = {name: str(folder / f"{role}.{name}") for name in ("stop", "ready")}
    file = folder / f"{role}.json"
    file.write_text(json.dumps({**plan, **ours}))
    words = [str(Path(__file__).with_name("induced_jobs.py")), role, str(file)]
    conf = {**ONE_TASK_PER_FILE, "spark.cores.max": str(len(HOSTS))}
    return start_application(
        words, f"local[{SLOTS}]" if on else spark.master, folder, role, conf, on
    )


def stop(role: str, folder: Path, process: subprocess.Popen[bytes]) -> None:
    """Let an application end after its query."""
    (folder / f"{role}.stop").touch()
    if process.wait(timeout=120):
        raise SystemExit(f"{EXPERIMENT}: the application {role} failed, see {folder}")


def run(folder: Path) -> None:
    """Run the victim through all phases."""
    sales, own = folder / "sales", folder / "own"
    data = make_data(REPO / "build" / "demo", 0.3)
    write_sales(sales, data / "store_sales.parquet", len(HOSTS), 0, len(HOSTS) * FILE_ROWS)
    own.mkdir()
    for number in range(2 * SLOTS):
        (own / f"part-{number}").write_bytes(os.urandom(OWN_BYTES))
    phase = folder / "phase"
    plan = {
        "sales": str(sales), "own": str(own), "measures": MEASURES, "rows": ROWS,
        "hashes": HASHES, "every": EVERY, "slots": SLOTS, "warm": WARM, "phase": str(phase),
    }  # fmt: skip
    phase.write_text("warm")
    running: list[subprocess.Popen[bytes]] = []
    with cluster(HOSTS, folder, SIZE) as spark:
        try:
            victim = start("victim", folder, plan, spark)
            running.append(victim)
            wait_until((folder / "victim.ready").exists, "warm executors", running)
            spark.limit()
            for name in PHASES:
                culprit = None
                phase.write_text("between")
                if name in ("cpu", "io"):
                    culprit = start(name, folder, {**plan, "warm": 2}, spark, spark.hosts[1])
                    running.append(culprit)
                    wait_until((folder / f"{name}.ready").exists, "culprit", running)
                phase.write_text(name)
                print(f"{EXPERIMENT}: {name}: {PHASE_S} s", flush=True)
                time.sleep(PHASE_S)
                phase.write_text("between")
                if culprit is not None:
                    stop(name, folder, culprit)
                    running.remove(culprit)
            stop("victim", folder, victim)
        finally:
            for process in running:
                process.terminate()
            for process in running:
                process.wait()


def make_result(folder: Path, phases: Sequence[str], loaded: str) -> dict[str, Any]:
    """Sum the victim's losses by phase, resource and host.

    folder: with ``eventlogs/``.
    phases: the victim's queries are named after them.
    loaded: the host that culprits ran on.
    """
    diagnosis = iqcar.diagnose(iqcar.read([folder / "eventlogs"]))
    queries = diagnosis.tables.queries
    inputs = diagnosis.tables.inputs
    victims = inputs.loc[inputs["application_name"] == "induced-victim", "app"]
    of_victim = queries["app"].isin(victims).to_numpy() & (queries["kind"] == "sql").to_numpy()
    phase = queries["name"].astype(str).str.rpartition("-")[0].to_numpy()
    ended = queries["ended"].to_numpy(bool)
    found = []
    for name in phases:
        rows = np.flatnonzero(of_victim & (phase == name) & ended)
        # The first query of a phase began in the one before.
        found.append(_phase(diagnosis, name, rows[1:] if len(rows) > 2 else rows, loaded))
    return {"phases": found}


def _phase(
    diagnosis: Diagnosis, name: str, rows: np.ndarray[Any, Any], loaded: str
) -> dict[str, Any]:
    queries, hosts = diagnosis.tables.queries, diagnosis.tables.hosts["host"].astype(str).to_numpy()
    duration = queries["duration_ms"].to_numpy(np.float64)[rows]
    graph = diagnosis.graph
    by_resource = graph.vertices(2)
    by_host = graph.vertices(3)
    mine = by_resource[by_resource["target"].isin(rows)]
    there = by_host[by_host["target"].isin(rows)]
    total = float(duration.sum())
    demands = diagnosis.blame.demands
    demands = demands[demands["query"].isin(rows)]
    losses = {}
    for resource, request in ASKED.items():
        one = there[there["resource"] == str(resource)]
        at = hosts[one["host"].to_numpy(np.int64)]
        asked = demands[(demands["request"] == REQUESTS.index(request)).to_numpy()]
        where = hosts[asked["host"].to_numpy(np.int64)]
        losses[str(resource)] = {
            "share": float(mine.loc[mine["resource"] == str(resource), "lost_ms"].sum()) / total,
            "share_loaded": float(one.loc[at == loaded, "lost_ms"].sum()) / total,
            "share_other": float(one.loc[at != loaded, "lost_ms"].sum()) / total,
            "ratp_loaded": _median(asked[where == loaded], "ratp"),
            "ratp_other": _median(asked[where != loaded], "ratp"),
            "wait_ms_loaded": _median(asked[where == loaded], "wait_ms"),
            "wait_ms_other": _median(asked[where != loaded], "wait_ms"),
        }
    tasks = diagnosis.tables.tasks
    victims = tasks["query"].isin(rows).to_numpy(bool)
    slot_wait = launch_wait(diagnosis.waits)[victims]
    ran_on = hosts[tasks["host"].to_numpy(np.int64)[victims]]
    blamed = pd.concat([graph.blame_of(int(row)) for row in rows])
    others = blamed[blamed["kind"] == "query"]
    lost = float(blamed["lost_ms"].sum())
    inputs = diagnosis.tables.inputs
    culprits = inputs.loc[inputs["application_name"] == f"induced-{name}", "application_id"]
    of_culprit = others["source_query_id"].astype(str).str.split("/").str[0].isin(culprits)
    to_culprit = float(others.loc[of_culprit.to_numpy(bool), "lost_ms"].sum())
    return {
        "phase": name,
        "culprit": str(CULPRITS[name]) if name in CULPRITS else "",
        "queries": len(rows),
        "duration_s": [round(d / 1e3, 3) for d in duration.tolist()],
        "losses": losses,
        "slot_wait_ms_loaded": _mean(slot_wait[ran_on == loaded]),
        "slot_wait_ms_other": _mean(slot_wait[ran_on != loaded]),
        "blamed_on_culprit": to_culprit / lost if lost and name in CULPRITS else None,
    }


def _median(demands: pd.DataFrame, name: str) -> float | None:
    """Median over queries of what each stage has that waits longest there."""
    by_query = demands.sort_values("wait_ms").groupby("query")[name].last().dropna()
    return float(by_query.median()) if len(by_query) else None


def _mean(waits: np.ndarray[Any, Any]) -> float | None:
    """Mean of the waits that are known."""
    known = waits[np.isfinite(waits)]
    return float(known.mean()) if len(known) else None


def main() -> None:
    """Run, analyse, save."""
    chosen = options()
    folder = OUT / EXPERIMENT
    if not chosen.again:
        check_machine()
        run(fresh(EXPERIMENT))
    result = make_result(folder, PHASES, HOSTS[1])
    meta = {"phase_s": PHASE_S, "cores": SIZE.cores, "loaded": HOSTS[1]}
    save(EXPERIMENT, chosen.results, {**meta, **result}, induced_contention)


if __name__ == "__main__":
    main()
