"""The Spark application of the BigRoots experiment: repeated stages of equal tasks, some skewed.

    python scripts/experiments/bigroots_jobs.py PLAN.json

Each round scans files of sales that the page cache has forgotten, computes, and repartitions with a
key that one partition gets more of. It runs until the file named in the plan appears.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

WARM_ROUNDS = 3
"""At the machine's speed, so that no code is compiled or loaded on a host with part of a core."""


def forget(folder: Path) -> None:
    """Make the kernel forget the files' pages: the next scan reads them from the disk."""
    for path in folder.glob("part-*"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)  # pages that are not on the disk yet cannot be forgotten
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def hashed(of: Column, times: int) -> Column:
    """A number's hash, of its hash, and so on: work that reads and writes nothing."""
    for _ in range(times):
        of = f.sha2(of.cast("string"), 256)
    return f.length(of)


def scan(spark: SparkSession, plan: dict[str, Any]) -> DataFrame:
    """Sums over sales: tasks that read their file and aggregate it."""
    sales = spark.read.parquet(plan["sales"])
    forget(Path(plan["sales"]))
    return sales.agg(*(f.sum(name) for name in plan["measures"]))


def compute(spark: SparkSession, plan: dict[str, Any]) -> DataFrame:
    """Hashes of numbers: tasks that only compute."""
    numbers = spark.range(0, plan["tasks"] * plan["rows"], 1, plan["tasks"])
    return numbers.agg(f.sum(hashed(f.col("id"), plan["hashes"])))


def repartition(spark: SparkSession, plan: dict[str, Any]) -> DataFrame:
    """Hashed numbers, exchanged by a key that every fifteenth of them shares, and hashed again."""
    numbers = spark.range(0, plan["tasks"] * plan["rows"], 1, plan["tasks"])
    before = numbers.withColumn("length", hashed(f.col("id"), plan["hashes"]))
    key = f.when(f.col("id") % 15 == 0, f.lit(7)).otherwise(f.col("id"))
    mixed = before.withColumn("key", key).repartition(plan["tasks"], "key")
    return mixed.agg(f.sum(hashed(f.col("id") + f.col("length"), plan["hashes"])))


QUERIES: tuple[Callable[[SparkSession, dict[str, Any]], DataFrame], ...] = (
    scan,
    compute,
    repartition,
)


def main() -> None:
    """Run rounds until told to stop; say when the executors are warm."""
    plan = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    stop, warm = Path(plan["stop"]), Path(plan["warm"])
    spark = SparkSession.builder.appName("bigroots").getOrCreate()
    rounds = 0
    while not stop.exists():
        for query in QUERIES:
            if stop.exists():
                break
            spark.sparkContext.setJobDescription(query.__name__)
            query(spark, plan).collect()
        rounds += 1
        if rounds == WARM_ROUNDS:
            warm.touch()
    Path(plan["result"]).write_text(json.dumps({"rounds": rounds, "spark": spark.version}))
    spark.stop()


if __name__ == "__main__":
    main()
