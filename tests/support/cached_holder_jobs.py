"""A PySpark application whose second query caches data when the first one's fill the memory.

Every query is a job group. The victim's blocks drive out the holder's, which go to disk first. A
bystander that caches nothing runs beside it.
"""

from __future__ import annotations

import time

from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession

COLUMNS = [f"rand({seed}) AS c{seed}" for seed in range(10)]
"""Ten columns that do not compress."""
ROW_BYTES = 80
HELD, WANTED = (380_000_000, 8), (300_000_000, 200)
"""Bytes that are cached, of the 434 MB of a driver of 1 GB, and in how many blocks: a large one
takes long to write, and who wants memory for a small one meanwhile waits."""


def cached(spark: SparkSession, name: str, size: int, parts: int) -> DataFrame:
    """Cache a table of so many bytes and parts, named."""
    spark.sparkContext.setJobGroup(name, name)
    rows = spark.range(0, size // ROW_BYTES, 1, parts).selectExpr(*COLUMNS)
    rows.createOrReplaceTempView(f"table_of_{name}")
    spark.catalog.cacheTable(f"table_of_{name}")
    found = spark.table(f"table_of_{name}")
    found.count()
    return found


def bystander(spark: SparkSession) -> None:
    """Compute for some seconds."""
    spark.sparkContext.setJobGroup("bystander", "bystander")
    spark.range(0, 300_000_000, 1, 8).selectExpr("sum(sqrt(id))").collect()


def main() -> None:
    """Fill the memory, then want some."""
    spark = SparkSession.builder.getOrCreate()
    cached(spark, "warm", 1_000_000, 8)
    spark.catalog.uncacheTable("table_of_warm")
    cached(spark, "holder", *HELD)
    beside = InheritableThread(target=bystander, args=(spark,))
    beside.start()
    time.sleep(0.2)
    cached(spark, "victim", *WANTED)
    beside.join()
    spark.stop()


main()
