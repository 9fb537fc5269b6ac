"""Run the protocol of BigRoots (§IV-B): compare causes of stragglers with injected anomalies.

    sudo .venv/bin/python scripts/experiments/bigroots.py [--seed N] [--runs N]

Five hosts, a Spark application of equal tasks, and anomalies on single hosts as in the paper: one
kind at a time, all kinds on one host, and the schedule of table IV over all hosts. Each straggler's
causes are compared with what was injected meanwhile. Needs root and control groups of version 1
(:mod:`cluster`). A run takes about seven minutes; several have one seed after the other, and are
scored together.
"""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from arms import OUT, REPO, fresh, options, save, say
from bigroots_scoring import Part, Scored, make_result, parts, plan_of, starts
from cluster import (
    Cluster,
    Size,
    check_machine,
    cluster,
    ended_after,
    inject,
    start_application,
    wait_until,
)
from tables import bigroots

from iqcar.apps.demo.mix import make_data
from iqcar_lab.inject.run_plan import LEAD_S as HOGS_LEAD_S

EXPERIMENT = "bigroots"
HOSTS = tuple(f"127.0.0.{number}" for number in range(2, 7))
TASKS = 25
ONE_TASK_PER_FILE = {
    "spark.sql.shuffle.partitions": str(TASKS),
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.files.openCostInBytes": "128m",
    "spark.sql.files.maxPartitionBytes": "128m",
    "spark.sql.files.minPartitionNum": "1",
}
FILES_LARGER = 2
"""Files of sales that hold :data:`LARGER` times as much: stragglers that nobody caused."""
LARGER = 2.5
COPIES = 5
"""So that a task reads 5 MB: more than half a second of its host's disk."""
MEASURES = ("ss_quantity", "ss_sales_price", "ss_net_paid", "ss_net_profit", "ss_ext_list_price")
ROWS, HASHES = 15_000, 8
"""Rows of a task and hashes of each: 0.2 s of a core, a second of a host's. A quota is given out in
steps of 50 ms: tasks of a tenth of a second would differ by chance."""
SETTLE_S = 12
"""Between limiting the hosts and the first experiment: the tasks on the way were faster."""
TIMES = 2
"""Injections of one kind on one host."""
LEAD_S = 4
"""The anomaly generators' Python needs its time to start on a host with part of a core."""
READS = 0.9
SETTINGS: dict[str, dict[str, Any]] = {
    "cpu": {"processes": 4},
    "io": {"processes": 2, "read_share": READS, "size_bytes": 64 << 20},
    "network": {"rate_bytes_per_s": 40 << 20},
}
"""The paper has eight processes of each on 16 cores. Reads and writes have limits of their own:
tasks that read are delayed by who reads."""


def write_sales(folder: Path, source: Path) -> None:
    """Divide TPC-DS's store sales, :data:`COPIES` times, into files, some of them larger."""
    folder.mkdir(parents=True)
    columns = ["ss_item_sk", "ss_ticket_number", *MEASURES]
    table = pa.concat_tables([pq.read_table(source, columns=columns)] * COPIES)
    weights = np.ones(TASKS)
    weights[:FILES_LARGER] = LARGER
    cuts = np.round(np.cumsum(weights) / weights.sum() * len(table)).astype(int)
    for number, (start, end) in enumerate(zip([0, *cuts[:-1]], cuts, strict=True)):
        part, file = table.slice(int(start), int(end - start)), f"part-{number:02d}.parquet"
        pq.write_table(part, folder / file, compression="none", use_dictionary=False)


def start_jobs(spark: Cluster, folder: Path, sales: Path) -> subprocess.Popen[bytes]:
    """Start the Spark application with the plugin attached."""
    plan = {"sales": str(sales), "measures": MEASURES, "tasks": TASKS, "rows": ROWS}
    plan |= {name: str(folder / name) for name in ("stop", "warm")}
    plan |= {"hashes": HASHES, "result": str(folder / "jobs.json")}
    (folder / "plan.json").write_text(json.dumps(plan))
    words = [str(Path(__file__).with_name("bigroots_jobs.py")), str(folder / "plan.json")]
    return start_application(words, spark.master, folder, "jobs", ONE_TASK_PER_FILE)


def inject_all(spark: Cluster, folder: Path, experiments: list[Part]) -> list[int]:
    """Carry out all experiments, each host's injections in its own groups; return their starts."""
    begin = round(1000 * (time.time() + SETTLE_S))
    moments = starts(experiments, begin)
    injecting: list[subprocess.Popen[bytes]] = []
    try:
        for part, moment in zip(experiments, moments, strict=True):
            time.sleep(max(0.0, moment / 1000 - LEAD_S - time.time()))
            say(EXPERIMENT, f"{part.name}: {part.for_s} s, {len(part.injections)} injections")
            for number, host in enumerate(spark.hosts):
                settings = {**SETTINGS, "io": {**SETTINGS["io"], "folder": str(host.folder)}}
                wait_ms = max(round(moment - time.time() * 1000 - 1000 * HOGS_LEAD_S), 0)
                plan = plan_of(part, number, host.name, settings, wait_ms)
                if not plan["injections"]:
                    continue
                file = folder / f"plan-{part.name}-{host.name}.json"
                injecting.append(inject(host, plan, file, folder / "truth.jsonl"))
        time.sleep(max(0.0, moments[-1] / 1000 + experiments[-1].for_s - time.time()))
        for one in injecting:
            if one.wait(timeout=60):
                raise SystemExit(f"an injection failed, see {folder / 'inject.log'}")
    finally:
        for one in injecting:
            one.terminate()
    return moments


def planned(seed: int) -> list[Part]:
    """The experiments of a run."""
    return parts(seed, len(HOSTS), TIMES)


def run(folder: Path, seed: int) -> None:
    """Run the cluster, the jobs and the injections; write what a later scoring needs."""
    folder.mkdir()
    data = make_data(REPO / "build" / "demo", 0.3)
    sales = folder / "sales"
    write_sales(sales, data / "store_sales.parquet")
    size = Size()
    with cluster(HOSTS, folder, size) as spark:
        say(EXPERIMENT, f"{len(HOSTS)} hosts of {size.cores} cores; warming up")
        with ended_after(start_jobs(spark, folder, sales)) as jobs:
            wait_until((folder / "warm").exists, "warm executors", [jobs])
            spark.limit()
            moments = inject_all(spark, folder, planned(seed))
            (folder / "stop").touch()
            if jobs.wait(timeout=120):
                raise SystemExit(f"the Spark application failed, see {folder / 'jobs.log'}")
    meta = {
        "seed": seed,
        "moments": moments,
        "size": {"cores": size.cores, "disk_bytes_per_s": size.disk_bytes_per_s},
        "settings": SETTINGS,
        "tasks_per_stage": TASKS,
        **json.loads((folder / "jobs.json").read_text()),
    }
    (folder / "run.json").write_text(json.dumps(meta))


def main() -> None:
    """Run everything and score it."""
    chosen = options(__doc__, "add", "again", seed=1, runs=1)
    folder = OUT / EXPERIMENT
    if not chosen.again:
        check_machine()
        if not chosen.add:
            fresh(EXPERIMENT)
        done = len(list(folder.glob("run-*/run.json")))
        for number in range(done, done + chosen.runs):
            run(folder / f"run-{number + 1}", chosen.seed + number)
    runs = []
    for file in sorted(folder.glob("run-*/run.json")):
        meta = json.loads(file.read_text())
        runs.append((meta, Scored.from_run(file.parent, planned(meta["seed"]), meta["moments"])))
    first = {name: value for name, value in runs[0][0].items() if name not in ("moments", "seed")}
    seeds = [meta["seed"] for meta, _ in runs]
    result = {"seeds": seeds, **first, **make_result([scored for _, scored in runs])}
    save(EXPERIMENT, chosen.results, result, bigroots)


if __name__ == "__main__":
    main()
