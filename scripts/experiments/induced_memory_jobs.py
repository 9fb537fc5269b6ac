"""The Spark application of the induced-memory experiment: a victim's queries, and a hog's.

    python scripts/experiments/induced_memory_jobs.py PLAN.json

Every query has one task on each of two hosts. The hog's task sorts as many rows as execution memory
holds and gives them out slowly, on one host; on the other it has no rows.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

MY_HOST = "reflect('java.lang.System', 'getenv', 'SPARK_LOCAL_IP')"
SLEEP_MS = 50


def victim(spark: SparkSession, plan: dict[str, Any]) -> DataFrame:
    """Aggregate in a hash table."""
    tasks = len(plan["hosts"])
    numbers = spark.range(0, tasks * plan["groups"], 1, tasks)
    sums = numbers.groupBy((f.col("id") * 7).alias("key")).agg(f.sum("id").alias("sum"))
    return sums.agg(f.max("sum"))


def hog(spark: SparkSession, plan: dict[str, Any]) -> DataFrame:
    """Sort wide rows on the loaded host, and sleep while they are read."""
    tasks, rows = len(plan["hosts"]), plan["hog_rows"]
    every = max(1, rows * SLEEP_MS // plan["hold_ms"])
    sleep = f"reflect('java.lang.Thread', 'sleep', {SLEEP_MS}L)"
    here = spark.range(0, tasks * rows, 1, tasks).where(f"{MY_HOST} = '{plan['loaded']}'")
    # Of a constant row Spark would sort the numbers alone.
    row = f"repeat(CAST(id % 10 AS STRING), {plan['hog_row_bytes']}) AS row"
    wide = here.selectExpr("id", row)
    ordered = wide.sortWithinPartitions(f.desc("id"))
    # Who sleeps is not deterministic to Spark, which so keeps the order that nobody needs.
    slow = ordered.selectExpr("length(row) AS n", f"IF(id % {every} = 0, {sleep}, '') AS slept")
    return slow.agg(f.sum("n"), f.count("slept"))


def run_hog(spark: SparkSession, plan: dict[str, Any], name: str) -> None:
    """Run the hog's query under a name of its own."""
    spark.sparkContext.setJobDescription(name)
    hog(spark, plan).collect()


def main() -> None:
    """Run the victim's query as often as told in each phase."""
    plan = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    spark = SparkSession.builder.appName("induced-memory").getOrCreate()
    while spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() <= len(plan["hosts"]):
        time.sleep(0.2)
    for phase, queries, with_hog in plan["phases"]:
        for number in range(queries):
            beside = InheritableThread(run_hog, args=(spark, plan, f"hog-{phase}-{number}"))
            if with_hog:
                beside.start()
            time.sleep(plan["pause_s"])  # a hog that is alone in its executor takes all it wants
            spark.sparkContext.setJobDescription(f"{phase}-{number}")
            victim(spark, plan).collect()
            if with_hog:
                beside.join()
    spark.stop()


if __name__ == "__main__":
    main()
