"""A PySpark application in which one query fills the cores while many short queries come.

The short queries are skewed; the intruder comes in bursts.
"""

from __future__ import annotations

import threading
import time

from pyspark import InheritableThread
from pyspark.sql import SparkSession

QUERIES, TASKS = 24, 24
ROWS = 3_000
"""Rows that a task of a short query hashes: some hundredths of a second of a core."""
HEAVY, TIMES = 2, 80
"""Tasks of a short query that hash so many times as many rows: every one of them has stragglers."""
BURST_TASKS, BURST_ROWS = 40, 30_000
PAUSE_S = 0.05
HASH = "max(crc32(sha2(cast(id AS string), 256))) AS most"


def compute(spark: SparkSession, tasks: int, rows: int, heavy: int = 0) -> None:
    """Tasks that need nothing but the processor."""
    copies = f"explode(sequence(1, CASE WHEN id < {heavy * rows} THEN {TIMES} ELSE 1 END)) AS copy"
    numbers = spark.range(0, tasks * rows, 1, tasks)
    (numbers.selectExpr("id", copies) if heavy else numbers).selectExpr(HASH).collect()


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
    compute(spark, TASKS, ROWS, HEAVY)
    stop = threading.Event()
    intruder = InheritableThread(target=intrude, args=(spark, stop))
    intruder.start()
    for number in range(QUERIES):
        spark.sparkContext.setJobGroup(f"short {number:02d}", f"short {number:02d}")
        compute(spark, TASKS, ROWS, HEAVY)
    stop.set()
    intruder.join()
    spark.stop()


main()
