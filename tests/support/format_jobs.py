"""A PySpark application in which five file formats are read side by side, without and with a hog.

Arguments: a folder for the files. Quietly, the readers hardly need the processor: each row sleeps.
Loudly, they compute on what they read, beside a query that fills all cores.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession

FORMATS = ("parquet", "orc", "csv", "json", "text")
FILES = 3
ROWS = 900
"""Rows of a file, of 2 kB each."""
SLEEP_MS = 7
"""So long that what five readers wait for each other while they start is little beside it."""
HASHES = 25
"""Times that a loud reader hashes each row."""
HOG_ROWS = 750_000
"""Of a task of the hog: it outlasts the loud readers, which compute half as much together."""
LOUD = FORMATS[:2]


def write(spark: SparkSession, folder: str) -> None:
    """Write the same rows in every format."""
    rows = spark.range(0, FILES * ROWS, 1, FILES).selectExpr(
        "repeat(sha2(cast(id AS string), 256), 32) AS value"
    )
    for kind in FORMATS:
        rows.write.mode("overwrite").format(kind).save(f"{folder}/{kind}")


def read(spark: SparkSession, folder: str, kind: str) -> DataFrame:
    """Read one format, a task per file."""
    reader = spark.read
    if kind in ("csv", "json"):
        reader = reader.schema("value string")
    return reader.format(kind).load(f"{folder}/{kind}")


def sleepy(rows: DataFrame) -> None:
    """Sleep for every row, in the JVM."""
    rows.selectExpr(
        f"reflect('java.lang.Thread', 'sleep', {SLEEP_MS}L) AS slept", "length(value) AS size"
    ).write.mode("overwrite").format("noop").save()


def busy(rows: DataFrame) -> None:
    """Hash every row many times."""
    hashed = "value"
    for _ in range(HASHES):
        hashed = f"sha2(concat(value, {hashed}), 512)"
    rows.selectExpr(f"{hashed} AS hashed").write.mode("overwrite").format("noop").save()


def hog(spark: SparkSession, tasks: int) -> None:
    """Tasks that need nothing but the processor."""
    spark.range(0, tasks * HOG_ROWS, 1, tasks).selectExpr(
        "max(crc32(sha2(cast(id AS string), 256))) AS most"
    ).collect()


def side_by_side(spark: SparkSession, jobs: dict[str, Callable[[], None]]) -> None:
    """Run jobs at once, each as a job group of its own."""

    def run(name: str, job: Callable[[], None]) -> None:
        spark.sparkContext.setJobGroup(name, name)
        job()

    threads = [InheritableThread(target=run, args=item) for item in jobs.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> None:
    """Write, warm up, then both."""
    folder = sys.argv[1]
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setJobGroup("write", "write")
    write(spark, folder)
    spark.sparkContext.setJobGroup("warm", "warm")
    for kind in LOUD:
        busy(read(spark, folder, kind))
    for kind in FORMATS:
        sleepy(read(spark, folder, kind).limit(10))
    hog(spark, 1)
    side_by_side(spark, {f"quiet-{k}": lambda k=k: sleepy(read(spark, folder, k)) for k in FORMATS})
    loud: dict[str, Callable[[], None]] = {
        f"loud-{k}": lambda k=k: busy(read(spark, folder, k)) for k in LOUD
    }
    side_by_side(spark, {"hog": lambda: hog(spark, 4), **loud})
    spark.stop()


main()
