"""A PySpark application in which one query fills the cores while many short queries come.

The intruder comes in bursts, so that a short query has tasks that meet it and tasks that do not.
"""

from __future__ import annotations

import threading
import time

from pyspark import InheritableThread
from pyspark.sql import SparkSession

QUERIES, TASKS = 24, 24
ROWS = 8_000
"""Rows that a task of a short query hashes: some hundredths of a second of a core."""
BURST_TASKS, BURST_ROWS = 6, 150_000
PAUSE_S = 0.25


def compute(spark: SparkSession, tasks: int, rows: int) -> None:
    """Tasks that need nothing but the processor."""
    spark.range(0, tasks * rows, 1, tasks).selectExpr(
        "max(crc32(sha2(cast(id AS string), 256))) AS most"
    ).collect()


def intrude(spark: SparkSession, stop: threading.Event) -> None:
    """Fill the cores again and again."""
    spark.sparkContext.setJobGroup("intruder", "intruder")
    while not stop.is_set():
        compute(spark, BURST_TASKS, BURST_ROWS)
        time.sleep(PAUSE_S)


def main() -> None:
    """Run short queries one after the other beside the intruder."""
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setJobGroup("warm", "warm")
    compute(spark, TASKS, ROWS)
    stop = threading.Event()
    intruder = InheritableThread(target=intrude, args=(spark, stop))
    intruder.start()
    for number in range(QUERIES):
        spark.sparkContext.setJobGroup(f"short {number:02d}", f"short {number:02d}")
        compute(spark, TASKS, ROWS)
    stop.set()
    intruder.join()
    spark.stop()


main()
