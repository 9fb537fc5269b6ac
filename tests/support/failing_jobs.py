"""A PySpark application whose queries fail, each in the way that its name says.

Arguments: names of ways, ``lost`` last: it ends executors. It waits for each failure.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import broadcast, udf

spark = SparkSession.builder.getOrCreate()
sc = spark.sparkContext


def udf_error() -> None:
    """A Python function fails for one row."""

    def price(row: int) -> int:
        if row == 3:
            raise ValueError(f"row {row} has no price")
        return row

    spark.range(0, 4, 1, 2).select(udf(price)("id")).collect()


def damaged() -> None:
    """A file is no Parquet: the error has a chain of causes."""
    folder = Path(tempfile.mkdtemp())
    (folder / "part-0.parquet").write_bytes(b"this is no Parquet file at all")
    spark.read.schema("price INT").parquet(str(folder)).collect()


def missing() -> None:
    """What is to be written is there: no job begins."""
    folder = tempfile.mkdtemp()
    spark.range(3).write.mode("error").parquet(folder)


def late_broadcast() -> None:
    """The small side takes longer than a broadcast may."""
    spark.conf.set("spark.sql.adaptive.enabled", "false")  # it waits for broadcasts without end
    spark.conf.set("spark.sql.broadcastTimeout", "1")
    slept = "java_method('java.lang.Thread', 'sleep', bigint(4000 + id)) AS slept"
    small = spark.range(0, 2, 1, 1).selectExpr("id", slept)
    spark.range(0, 10, 1, 1).join(broadcast(small), "id").collect()


def cancelled() -> None:
    """Somebody cancels the job group while its tasks sleep."""

    def cancel() -> None:
        while not sc.statusTracker().getJobIdsForGroup("doomed"):
            time.sleep(0.05)
        time.sleep(1)
        sc.cancelJobGroup("doomed")

    threading.Thread(target=cancel).start()
    sc.setJobGroup("doomed", "cancelled", interruptOnCancel=True)
    sc.parallelize(range(2), 2).map(lambda _: time.sleep(60)).collect()


def lost() -> None:
    """Each attempt of a task kills the executor that it runs in."""

    def die(rows: Iterator[int]) -> Iterator[int]:
        for row in rows:
            if row == 1:
                time.sleep(1)
                parent = int(
                    Path(f"/proc/{os.getppid()}/stat").read_text().rsplit(")", 1)[1].split()[1]
                )
                os.kill(parent, signal.SIGKILL)
                time.sleep(60)
            yield row

    sc.parallelize(range(2), 2).mapPartitions(die).count()


WAYS: dict[str, Callable[[], None]] = {
    one.__name__: one for one in (udf_error, damaged, missing, late_broadcast, cancelled, lost)
}
for name in sys.argv[1:]:
    sc.setJobDescription(name)
    try:
        WAYS[name]()
    except Exception as error:
        print("FAILED", name, type(error).__name__, flush=True)
spark.stop()
