"""Run the protocol of BigRoots (§IV-B): compare causes of stragglers with injected anomalies.

    sudo .venv/bin/python scripts/experiments/bigroots.py [--seed N] [--full]

Five hosts, a Spark application of equal tasks, and anomalies on single hosts as in the paper: one
kind at a time, all kinds on one host, and the schedule of table IV over all hosts. Each straggler's
causes are compared with what was injected meanwhile. Needs root and control groups of version 1
(:mod:`cluster`). A run takes about seven
minutes; ``--full`` makes three, with one seed after the other, and scores them together.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from arms import OUT, REPO, RESULTS, fresh, save
from bigroots_scoring import Part, Scored, make_result, parts, plan_of, starts
from cluster import Cluster, Size, check_machine, cluster, start_application, wait_until
from tables import bigroots

from iqcar.apps.demo.mix import make_data

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
FULL_RUNS = 3
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


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Inject anomalies, and score their discovery.")
    parser.add_argument("--seed", type=int, default=1, help="which hosts are loaded when")
    parser.add_argument("--full", action="store_true", help=f"{FULL_RUNS} runs instead of one")
    parser.add_argument(
        "--add", action="store_true", help="keep the runs that are there, add to them"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON")
    parser.add_argument("--again", action="store_true", help="run nothing, score what is there")
    return parser.parse_args()


def write_sales(
    folder: Path,
    source: Path,
    files: int = TASKS,
    larger: int = FILES_LARGER,
    rows: int = 0,
    *,
    group_rows: int | None = None,
) -> None:
    """Divide TPC-DS's store sales into files, some of them larger.

    folder, source: where to, and the table's file.
    files, larger: how many, and how many of them hold :data:`LARGER` times as much.
    rows: rows in all; by default the table :data:`COPIES` times.
    group_rows: most rows of a row group, which a task reads at once.
    """
    folder.mkdir(parents=True)
    columns = ["ss_item_sk", "ss_ticket_number", *MEASURES]
    table = pa.concat_tables([pq.read_table(source, columns=columns)] * COPIES)
    table = table.slice(0, rows or len(table))
    weights = np.ones(files)
    weights[:larger] = LARGER
    cuts = np.round(np.cumsum(weights) / weights.sum() * len(table)).astype(int)
    for number, (start, end) in enumerate(zip([0, *cuts[:-1]], cuts, strict=True)):
        part = table.slice(int(start), int(end - start))
        file = folder / f"part-{number:02d}.parquet"
        pq.write_table(
            part, file, compression="none", use_dictionary=False, row_group_size=group_rows
        )


def start_jobs(spark: Cluster, folder: Path, sales: Path) -> subprocess.Popen[bytes]:
    """Start the Spark application with the plugin attached."""
    plan = {
        "sales": str(sales), "measures": MEASURES, "tasks": TASKS,
        "rows": ROWS,
        "hashes": HASHES, "stop": str(folder / "stop"), "warm": str(folder / "warm"),
        "result": str(folder / "jobs.json"),
    }  # fmt: skip
    (folder / "plan.json").write_text(json.dumps(plan))
    words = [str(Path(__file__).with_name("bigroots_jobs.py")), str(folder / "plan.json")]
    return start_application(words, spark.master, folder, "jobs", ONE_TASK_PER_FILE)


def inject(spark: Cluster, folder: Path, experiments: list[Part]) -> list[int]:
    """Carry out all experiments, each host's injections in its own groups; return their starts."""
    begin = round(1000 * (time.time() + SETTLE_S))
    moments = starts(experiments, begin)
    injecting: list[subprocess.Popen[bytes]] = []
    try:
        for part, moment in zip(experiments, moments, strict=True):
            time.sleep(max(0.0, moment / 1000 - LEAD_S - time.time()))
            say(f"{part.name}: {part.for_s} s, {len(part.injections)} injections")
            for number, host in enumerate(spark.hosts):
                settings = {**SETTINGS, "io": {**SETTINGS["io"], "folder": str(host.folder)}}
                plan = plan_of(part, number, host.name, settings)
                if not plan["injections"]:
                    continue
                file = folder / f"plan-{part.name}-{host.name}.json"
                file.write_text(json.dumps(plan))
                words = [sys.executable, "-m", "iqcar_lab", "inject", "schedule", "--plan", file]
                wait_ms = max(round(moment - time.time() * 1000), 10)
                words += ["--delay", f"{wait_ms}ms", "--log", folder / "truth.jsonl"]
                env = {**os.environ, "PYTHONPATH": str(REPO / "analyzer")}
                said = folder / "inject.log"
                injecting.append(host.start([*map(str, words)], host.hogs, env, said))
        time.sleep(max(0.0, moments[-1] / 1000 + experiments[-1].for_s - time.time()))
        for one in injecting:
            if one.wait(timeout=60):
                raise SystemExit(f"an injection failed, see {folder / 'inject.log'}")
    finally:
        for one in injecting:
            one.terminate()
    return moments


def say(line: str) -> None:
    """Tell what happens."""
    print(f"{EXPERIMENT}: {line}", flush=True)


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
        say(f"{len(HOSTS)} hosts of {size.cores} cores; warming up")
        jobs = start_jobs(spark, folder, sales)
        try:
            wait_until((folder / "warm").exists, "warm executors", [jobs])
            spark.limit()
            moments = inject(spark, folder, planned(seed))
            (folder / "stop").touch()
            if jobs.wait(timeout=120):
                raise SystemExit(f"the Spark application failed, see {folder / 'jobs.log'}")
        finally:
            jobs.terminate()
            jobs.wait()
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
    chosen = options()
    folder = OUT / EXPERIMENT
    if not chosen.again:
        check_machine()
        if not chosen.add:
            fresh(EXPERIMENT)
        done = len(list(folder.glob("run-*/run.json")))
        for number in range(done, done + (FULL_RUNS if chosen.full else 1)):
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
