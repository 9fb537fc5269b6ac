"""The Spark application of the live topics experiment: even tasks, and shuffles with skewed keys.

    python scripts/experiments/topics_live_jobs.py PLAN.json

It runs the queries of one session after the other, each when a file says that its trouble is there.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from bigroots_jobs import forget, hashed
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

HOT = ((0, 3), (5, 1001), (7, 50021))
"""Of every twelve numbers these have one key each: three partitions get 3.7 times as much."""


def scan(spark: SparkSession, plan: dict[str, Any]) -> DataFrame:
    """Sums over even files that the page cache has forgotten."""
    numbers = spark.read.parquet(plan["files"])
    forget(Path(plan["files"]))
    return numbers.agg(*(f.sum(name) for name in numbers.columns))


def compute(spark: SparkSession, plan: dict[str, Any]) -> DataFrame:
    """Hashes of numbers: even tasks that only compute."""
    numbers = spark.range(0, plan["tasks"] * plan["rows"], 1, plan["tasks"])
    return numbers.agg(f.sum(hashed(f.col("id"), plan["hashes"])))


def skewed(spark: SparkSession, plan: dict[str, Any]) -> DataFrame:
    """Numbers exchanged by a key that is hot for some, and hashed afterwards."""
    numbers = spark.range(0, plan["tasks"] * plan["rows"], 1, plan["tasks"])
    key = f.col("id")
    for rest, hot in HOT:
        key = f.when(f.col("id") % 12 == rest, f.lit(hot)).otherwise(key)
    mixed = numbers.withColumn("key", key).repartition(plan["tasks"], "key")
    return mixed.agg(f.sum(hashed(f.col("id"), plan["hashes"])))


QUERIES = {"scan": scan, "compute": compute, "skewed": skewed}


def main() -> None:
    """Run all sessions."""
    plan = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    folder = Path(plan["folder"])
    spark = SparkSession.builder.appName("topics_live").getOrCreate()
    for number, session in enumerate(plan["sessions"]):
        (folder / f"ready-{number}").touch()
        while not (folder / f"go-{number}").exists():
            time.sleep(0.1)
        for query in session["queries"]:
            spark.sparkContext.setJobDescription(f"{query} in {session['name']}")
            QUERIES[query](spark, plan).collect()
        (folder / f"done-{number}").touch()
    (folder / "jobs.json").write_text(json.dumps({"spark": spark.version}))
    spark.stop()


if __name__ == "__main__":
    main()
