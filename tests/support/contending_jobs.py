"""A PySpark application in which two queries fight for two cores and a third only sleeps."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from pyspark import InheritableThread
from pyspark.sql import SparkSession

ROWS = 3_000_000
"""Rows that a task hashes: some seconds of one core."""
SLEEP_S = 4


def compute(spark: SparkSession, rows: int) -> None:
    """Two tasks that need nothing but the processor."""
    spark.range(0, 2 * rows, 1, 2).selectExpr(
        "max(crc32(sha2(cast(id AS string), 256))) AS most"
    ).collect()


def nap(rows: Iterator[int]) -> Iterator[int]:
    """Sleep, and hardly compute."""
    time.sleep(SLEEP_S)
    return iter([len(list(rows))])


def sleep(spark: SparkSession) -> None:
    """One task that needs nothing but time."""
    spark.sparkContext.parallelize(range(1), 1).mapPartitions(nap).count()


def start_worker(spark: SparkSession) -> None:
    """Have the Python worker started that the sleeper will use: that takes CPU time."""
    spark.sparkContext.parallelize(range(1), 1).count()


def main() -> None:
    """Run all three at once, each as a job group of its own."""
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setJobGroup("warm", "warm")
    compute(spark, ROWS // 20)
    start_worker(spark)
    sleeping = threading.Event()

    def run(name: str) -> None:
        spark.sparkContext.setJobGroup(name, name)
        if name == "sleeper":
            sleeping.set()
            sleep(spark)
        else:
            sleeping.wait()
            compute(spark, ROWS)

    threads = [
        InheritableThread(target=run, args=(name,)) for name in ("sleeper", "busy-1", "busy-2")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spark.stop()


main()
