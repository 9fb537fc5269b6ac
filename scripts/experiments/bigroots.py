"""The protocol of BigRoots (§IV-B), live: are the causes of stragglers those that were injected?

    sudo .venv/bin/python scripts/experiments/bigroots.py [--seed N] [--full]

Five hosts, a Spark application of equal tasks, and anomalies on single hosts as in the paper: one
kind at a time, all kinds on one host, and the schedule of table IV over all hosts. Each straggler's
causes are compared with what was injected meanwhile. Needs root and control groups of version 1
(:mod:`loadable_hosts`). About seven minutes; ``--full`` repeats it all three times.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from arms import OUT, REPO, RESULTS, fresh, save
from bigroots_plan import Part, parts, plan_of, starts
from bigroots_result import make_result
from bigroots_table import bigroots
from cluster import CONF, Cluster, cluster, environment, wait_until
from loadable_hosts import Size, check_machine

from iqcar.demo.data import make_data
from iqcar.listener_jar import listener_jar
from iqcar.spark_conf import SparkConf

EXPERIMENT = "bigroots"
HOSTS = tuple(f"127.0.0.{number}" for number in range(2, 7))
TASKS = 25
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
    parser.add_argument("--full", action="store_true", help="everything three times")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON")
    parser.add_argument("--again", action="store_true", help="score the last run's log anew")
    return parser.parse_args()


def write_sales(folder: Path, source: Path) -> None:
    """Divide TPC-DS's store sales into as many files as tasks, some of them larger."""
    folder.mkdir(parents=True)
    columns = ["ss_item_sk", "ss_ticket_number", *MEASURES]
    table = pa.concat_tables([pq.read_table(source, columns=columns)] * COPIES)
    weights = np.ones(TASKS)
    weights[:FILES_LARGER] = LARGER
    cuts = np.round(np.cumsum(weights) / weights.sum() * len(table)).astype(int)
    for number, (start, end) in enumerate(zip([0, *cuts[:-1]], cuts, strict=True)):
        part = table.slice(int(start), int(end - start))
        file = folder / f"part-{number:02d}.parquet"
        pq.write_table(part, file, compression="none", use_dictionary=False)


def start_jobs(spark: Cluster, folder: Path, sales: Path) -> subprocess.Popen[bytes]:
    """Start the Spark application with the plugin attached."""
    (folder / "eventlogs").mkdir()
    plan = {
        "sales": str(sales), "measures": MEASURES, "tasks": TASKS,
        "rows": ROWS,
        "hashes": HASHES, "stop": str(folder / "stop"), "warm": str(folder / "warm"),
        "result": str(folder / "jobs.json"),
    }  # fmt: skip
    (folder / "plan.json").write_text(json.dumps(plan))
    conf = {
        **SparkConf(jar=str(listener_jar()), log_dir=str(folder / "eventlogs")).settings(),
        **CONF,
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "true",
        "spark.sql.shuffle.partitions": str(TASKS),
        "spark.sql.adaptive.enabled": "false",
        # One task per file.
        "spark.sql.files.openCostInBytes": "128m",
        "spark.sql.files.maxPartitionBytes": "128m",
        "spark.sql.files.minPartitionNum": "1",
        "spark.driver.memory": "1g",
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
    }
    words = ["--master", spark.master]
    for key, value in conf.items():
        words += ["--conf", f"{key}={value}"]
    env = environment("127.0.0.1")
    env["PYSPARK_SUBMIT_ARGS"] = " ".join(map(shlex.quote, [*words, "pyspark-shell"]))
    job = [sys.executable, str(Path(__file__).with_name("bigroots_jobs.py"))]
    with (folder / "jobs.log").open("wb") as out:
        return subprocess.Popen(
            [*job, str(folder / "plan.json")], env=env, stdout=out, stderr=out, cwd=folder
        )


def inject(spark: Cluster, folder: Path, planned: list[Part]) -> list[int]:
    """Carry out all experiments, each host's injections in its own groups; return their starts."""
    begin = round(1000 * (time.time() + SETTLE_S))
    moments = starts(planned, begin)
    injecting: list[subprocess.Popen[bytes]] = []
    try:
        for part, moment in zip(planned, moments, strict=True):
            time.sleep(max(0.0, moment / 1000 - LEAD_S - time.time()))
            say(f"{part.name}: {part.for_s} s, {len(part.injections)} injections")
            for number, host in enumerate(spark.hosts):
                settings = {
                    **SETTINGS,
                    "io": {**SETTINGS["io"], "folder": str(host.folder)},
                }
                plan = plan_of(part, number, host.name, settings)
                if not plan["injections"]:
                    continue
                file = folder / f"plan-{part.name}-{host.name}.json"
                file.write_text(json.dumps(plan))
                words = [sys.executable, "-m", "iqcar", "inject", "schedule", "--plan", str(file)]
                words += ["--start-at", str(moment), "--log", str(folder / "truth.jsonl")]
                env = {**os.environ, "PYTHONPATH": str(REPO / "analyzer")}
                injecting.append(host.start(words, host.hogs, env, folder / "inject.log"))
        time.sleep(max(0.0, moments[-1] / 1000 + planned[-1].for_s - time.time()))
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


def run(folder: Path, planned: list[Part]) -> dict[str, Any]:
    """Run the cluster, the jobs and the injections; return what a later scoring needs."""
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
            moments = inject(spark, folder, planned)
            (folder / "stop").touch()
            if jobs.wait(timeout=120):
                raise SystemExit(f"the Spark application failed, see {folder / 'jobs.log'}")
        finally:
            jobs.terminate()
            jobs.wait()
    meta = {
        "moments": moments,
        "size": {"cores": size.cores, "disk_bytes_per_s": size.disk_bytes_per_s},
        "settings": SETTINGS,
        "tasks_per_stage": TASKS,
        **json.loads((folder / "jobs.json").read_text()),
    }
    (folder / "run.json").write_text(json.dumps(meta))
    return meta


def main() -> None:
    """Run everything and score it."""
    chosen = options()
    planned = parts(chosen.seed, len(HOSTS), times=2, repeats=3 if chosen.full else 1)
    folder = OUT / EXPERIMENT
    if chosen.again:
        meta = json.loads((folder / "run.json").read_text())
    else:
        check_machine()
        meta = run(fresh(EXPERIMENT), planned)
    result = make_result(folder, planned, meta)
    save(EXPERIMENT, chosen.results, {"seed": chosen.seed, **result}, bigroots)


if __name__ == "__main__":
    main()
