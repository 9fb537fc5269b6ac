"""Runs a mix of queries as a Spark application: ``python -m iqcar.apps.demo.workload PLAN.json``.

It runs in a process of its own, so that every run has a fresh JVM. The plan
(:mod:`iqcar.apps.demo.run_mix`) lists the queries and the path of the result.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from iqcar.base.files.derived import write_derived


def main() -> None:
    """Run the plan's queries; write start time and duration, or failure, of each."""
    plan = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    spark = SparkSession.builder.getOrCreate()
    try:
        slots = spark.sparkContext.defaultParallelism
        spark.conf.set("spark.sql.shuffle.partitions", 2 * slots)
        make_views(spark, Path(plan["data"]), [query["sql"] for query in plan["queries"]])
        outcome = {
            "log": spark.sparkContext.applicationId,
            "spark": spark.version,
            "slots": slots,
            "queries": _run_mixes(spark, plan),
        }
    finally:
        spark.stop()
    write_derived(plan["result"], json.dumps(outcome, indent=1))


def make_views(spark: SparkSession, data: Path, texts: list[str]) -> None:
    """Create a view of every TPC-DS table that the queries name.

    The schemas are given, so Spark runs no job to infer them: the log holds only the mix.
    """
    wanted = set(re.findall(r"\w+", " ".join(texts)))
    for table, schema in json.loads((data / "schemas.json").read_text("utf-8")).items():
        if table in wanted:
            frame = spark.read.schema(schema).parquet(str(data.resolve() / f"{table}.parquet"))
            frame.createOrReplaceTempView(table)


def _run_mixes(spark: SparkSession, plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Run the mix once, and again while another time fits: as often as the plan says at most."""
    began = started = time.monotonic()
    outcomes: list[dict[str, Any]] = []
    for run in range(plan["runs"]):
        now = time.monotonic()
        if run and now - began + (now - started) > plan["within_s"]:
            break  # a run like the last one would end too late
        started = now
        if plan["runs"] > 1:
            print(f"run {run + 1}", flush=True)
        outcomes += _run_mix(spark, plan)
    return outcomes


def _run_mix(spark: SparkSession, plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Run each query in its own thread from its start time on."""
    outcomes: list[dict[str, Any]] = [{} for _ in plan["queries"]]
    first_start = time.monotonic()

    def say(when: float, what: str) -> None:
        # In one piece: print writes the end of a line by itself, and other threads come between.
        sys.stdout.write(f"{when - first_start:5.1f} s  {what}\n")
        sys.stdout.flush()

    def run(number: int, query: dict[str, Any]) -> None:
        name = query["name"]
        time.sleep(max(0.0, first_start + query["start_s"] - time.monotonic()))
        started = time.monotonic()
        outcome = {"name": name, "start_s": started - first_start}
        outcomes[number] = outcome
        say(started, f"{name} starts")
        try:
            spark.sparkContext.setJobDescription(name)
            if query["pool"]:
                spark.sparkContext.setLocalProperty("spark.scheduler.pool", query["pool"])
            frame = spark.sql(query["sql"])
            if query["writes"]:
                output = Path(plan["output"]).resolve() / name
                frame.write.mode("overwrite").parquet(output.as_uri())
            else:
                frame.collect()
        except Exception as error:  # reported by the parent, query by query
            outcome["failure"] = str(error).splitlines()[0]
            return
        now = time.monotonic()
        outcome["duration_s"] = now - started
        say(now, f"{name} done, it took {now - started:.1f} s")

    threads = [
        threading.Thread(target=run, args=(number, query))
        for number, query in enumerate(plan["queries"])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


if __name__ == "__main__":
    main()
