"""A PySpark application whose victim aggregates alone, and while another query holds the memory.

Every query is a job group. Beside the holder a third query sleeps, which wants no memory.
"""

from __future__ import annotations

import time

from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

RUNS = 3
GROUPS = 400_000
"""Of the victim's task: its hash table wants 34 MB at most."""
ROWS, ROW_BYTES = 97_000, 1_000
"""105 MB with their pages, of the 127 MB that an executor of 512 MB has: too few are left."""
HOLD_MS, SLEEP_MS = 4_000, 50
BEFORE_S = 1.5
"""The holder has its memory by then."""


def victim(spark: SparkSession) -> DataFrame:
    """Aggregate in a hash table."""
    sums = spark.range(0, GROUPS, 1, 1).groupBy((f.col("id") * 7).alias("key")).agg(f.sum("id"))
    return sums.agg(f.max("sum(id)"))


def holder(spark: SparkSession) -> DataFrame:
    """Sort wide rows, and sleep while they are read."""
    every = max(1, ROWS * SLEEP_MS // HOLD_MS)
    sleep = f"reflect('java.lang.Thread', 'sleep', {SLEEP_MS}L)"
    # Of a constant row Spark would sort the numbers alone.
    row = f"repeat(CAST(id % 10 AS STRING), {ROW_BYTES}) AS row"
    ordered = spark.range(0, ROWS, 1, 1).selectExpr("id", row).sortWithinPartitions(f.desc("id"))
    # Who sleeps is not deterministic to Spark, which so keeps the order that nobody needs.
    slow = ordered.selectExpr("length(row) AS n", f"IF(id % {every} = 0, {sleep}, '') AS slept")
    return slow.agg(f.sum("n"), f.count("slept"))


def sleeper(spark: SparkSession) -> DataFrame:
    """Sleep as long as memory is held."""
    sleep = f"reflect('java.lang.Thread', 'sleep', {HOLD_MS}L)"
    return spark.range(0, 1, 1, 1).selectExpr(f"{sleep} AS slept")


QUERIES = {"victim": victim, "holder": holder, "sleeper": sleeper}


def run(spark: SparkSession, name: str) -> None:
    """Run a query under a name of its own."""
    spark.sparkContext.setJobGroup(name, name)
    QUERIES[name.partition("-")[0]](spark).collect()


def main() -> None:
    """Run the victim's query alone, beside a holder, and alone again."""
    spark = SparkSession.builder.getOrCreate()
    for name in ("victim-warm", "sleeper-warm", "holder-warm", "victim-warm2"):
        run(spark, name)
    for when in ("alone", "beside", "again"):
        for number in range(RUNS):
            names = [f"holder-{number}", f"sleeper-{number}"] if when == "beside" else []
            others = [InheritableThread(target=run, args=(spark, name)) for name in names]
            for other in others:
                other.start()
            if others:
                time.sleep(BEFORE_S)
            run(spark, f"victim-{when}-{number}")
            for other in others:
                other.join()
    spark.stop()


main()
