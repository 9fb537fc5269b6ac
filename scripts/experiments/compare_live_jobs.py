"""The Spark applications of the live comparison: TPC-DS queries one after another, or a neighbour.

    python scripts/experiments/compare_live_jobs.py PLAN.json

The plan names the tables' files, the queries, how long the Python function computes for a row, and
what else runs: a query of the same application for as long as its queries do, or, in an application
that is itself the neighbour, one query again and again until told to stop.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def make_views(spark: SparkSession, tables: dict[str, list[str]]) -> None:
    """Name the tables; their schemas are given, so that Spark runs no job to infer them."""
    for name, (path, schema) in tables.items():
        spark.read.schema(schema).parquet(path).createOrReplaceTempView(name)


def scorer(rounds: int) -> Any:
    """A Python function that computes for as many rounds."""

    def score(quantity: int | None, paid: Any) -> float:
        value = float(paid or 0.0) + (quantity or 0)
        for number in range(rounds):
            value = (value * 31.0 + number) % 65537.0
        return value

    return score


def run(spark: SparkSession, name: str, sql: str) -> float:
    """Run one query; return its seconds by the driver's clock."""
    spark.sparkContext.setJobDescription(name)
    began = time.monotonic()
    spark.sql(sql).collect()
    return time.monotonic() - began


def run_again(spark: SparkSession, name: str, sql: str, ended: Any) -> None:
    """Run a query until a condition is true."""
    while not ended():
        run(spark, name, sql)


def main() -> None:
    """Run the plan; write seconds by query."""
    plan = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    spark = SparkSession.builder.getOrCreate()
    spark.udf.register("score", scorer(plan["rounds"]), "double")
    make_views(spark, plan["tables"])
    name, sql = plan["neighbour"]
    if plan["stop"]:
        run(spark, name, sql)
        Path(plan["ready"]).touch()
        run_again(spark, name, sql, Path(plan["stop"]).exists)
    else:
        done = threading.Event()
        beside = threading.Thread(target=run_again, args=(spark, name, sql, done.is_set))
        if sql:
            beside.start()
        try:
            took = {name: run(spark, name, sql) for name, sql in plan["queries"].items()}
        finally:
            done.set()
        if sql:
            beside.join()
        outcome = {"spark": spark.version, "duration_s": took}
        Path(plan["result"]).write_text(json.dumps(outcome), "utf-8")
    spark.stop()


if __name__ == "__main__":
    main()
