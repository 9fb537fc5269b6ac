"""The Spark applications of the steady contention: one SparkSession, and one event log, per step.

    python scripts/experiments/steady_live_jobs.py PLAN.json

A step names the queries of this application, each with the file whose appearance starts it.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bigroots_jobs import hashed
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

ROWS = {"parquet": 131_072, "csv": 52_000}
"""Of a file: 4 MB."""
COLUMNS = ("a", "b", "c", "d")
SCHEMA = ", ".join(f"{name} double" for name in COLUMNS)
WARM = "warm"


def numbers(spark: SparkSession, files: int, form: str) -> DataFrame:
    """Random numbers, which nothing compresses; a task writes a file."""
    rows = spark.range(0, files * ROWS[form], 1, files)
    return rows.select(*(f.rand().alias(name) for name in COLUMNS))


def prepare(spark: SparkSession, plan: dict[str, Any], step: dict[str, Any]) -> None:
    """Write all files and run all queries, at the machine's speed."""
    for name, files in plan["files"].items():
        form = "csv" if name.startswith("csv") else "parquet"
        numbers(spark, files, form).write.format(form).save(f"{plan['disk']}/{name}")
    warm_up(spark, plan, step)


def query(spark: SparkSession, plan: dict[str, Any], name: str, folder: str) -> None:
    """Run the query of this name over a folder of its own."""
    path = f"{plan['disk']}/{folder}"
    if name == "writer":
        files = plan["written"] if folder == name else 4
        numbers(spark, files, "parquet").write.mode("overwrite").parquet(path)
    elif name == "computing":
        rows = plan["hashed"] if folder == name else 4
        spark.range(0, rows, 1, 1).agg(f.sum(hashed(f.col("id"), 8))).collect()
    else:
        form = "csv" if name == "csv" else "parquet"
        rows = spark.read.schema(SCHEMA).format(form).load(path)
        rows.agg(*(f.sum(column) for column in COLUMNS)).collect()


def wait_for(path: Path) -> None:
    """Wait for a file."""
    while not path.exists():
        time.sleep(0.02)


def run(spark: SparkSession, plan: dict[str, Any], step: dict[str, Any]) -> dict[str, float]:
    """Run each of the step's threads, which runs its queries one after another."""
    took: dict[str, float] = {}

    def turn(names: list[str], go: Path) -> None:
        wait_for(go)
        for name in names:
            spark.sparkContext.setLocalProperty("spark.scheduler.pool", name)
            spark.sparkContext.setJobDescription(name)
            began = time.monotonic()
            query(spark, plan, name, name)
            took[name] = time.monotonic() - began

    threads = [threading.Thread(target=turn, args=(names, Path(go))) for names, go in step["turns"]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return took


def warm_up(spark: SparkSession, plan: dict[str, Any], step: dict[str, Any]) -> None:
    """Load and compile what the step's queries need, on a few files that the page cache has."""
    spark.sparkContext.setJobDescription(WARM)
    for name in [name for names, _ in step["turns"] for name in names]:
        of = {"csv": "csv-warm", "writer": "written-warm"}.get(name, "parquet-warm")
        query(spark, plan, name, of)


def main() -> None:
    """Take steps as they are started."""
    plan = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    todo: dict[str, Callable[..., Any]] = {"prepare": prepare}
    for step in plan["steps"]:
        wait_for(Path(step["start"]))
        builder = SparkSession.builder.appName(step["name"])
        for key, value in step["conf"].items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        if step["warm"]:
            warm_up(spark, plan, step)
        Path(step["ready"]).touch()
        took = todo.get(step["name"], run)(spark, plan, step)
        app = spark.sparkContext.applicationId
        spark.stop()
        result = Path(step["result"])
        result.with_suffix(".part").write_text(json.dumps({"app": app, "took": took or {}}))
        result.with_suffix(".part").rename(result)


if __name__ == "__main__":
    main()
