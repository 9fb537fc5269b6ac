"""A PySpark application with stragglers whose causes are known: a squeezed host, and skew."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from hashlib import sha256

from pyspark.sql import SparkSession

TASKS = 16
ROWS = 120_000
"""Rows that a task hashes: about a sixth of a second of a core of its own."""
HOGS = 8
"""Processes beside the task on its one core: it gets a ninth."""
SQUEEZED_AT = 6
"""Tasks that end before the hogs start."""
SQUEEZED_S = 4.0
HASH = "max(crc32(sha2(cast(id AS string), 256))) AS most"
SKEWED = 9
"""Times as many rows as any other key has."""


def digest(pairs: Iterable[tuple[int, int]]) -> Iterator[int]:
    """Take some microseconds for each row: a task's start takes a tenth of a second."""
    yield sum(sha256(b"%d" % value * 400).digest()[0] for _, value in pairs)


def squeeze(spark: SparkSession, stop: threading.Event) -> None:
    """Let processes outside Spark take the core for some seconds once some tasks have ended."""
    tracker = spark.sparkContext.statusTracker()
    while not stop.is_set():
        for job in tracker.getJobIdsForGroup("squeezed"):
            stages = [tracker.getStageInfo(s) for s in tracker.getJobInfo(job).stageIds]
            if sum(s.numCompletedTasks for s in stages if s) >= SQUEEZED_AT:
                hogs = [
                    subprocess.Popen([sys.executable, "-c", "while True: pass"])
                    for _ in range(HOGS)
                ]
                stop.wait(SQUEEZED_S)
                for hog in hogs:
                    hog.kill()
                return
        time.sleep(0.02)


def main() -> None:
    """Run one query while the core is taken away, and one with a heavy key."""
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setJobGroup("warm", "warm")
    spark.range(0, 4 * ROWS, 1, 4).selectExpr(HASH).collect()

    spark.sparkContext.setJobGroup("squeezed", "squeezed")
    done = threading.Event()
    hogs = threading.Thread(target=squeeze, args=(spark, done))
    hogs.start()
    spark.range(0, TASKS * ROWS, 1, TASKS).selectExpr(HASH).collect()
    done.set()
    hogs.join()

    spark.sparkContext.setJobGroup("skewed", "skewed")
    rows = ROWS // 4
    keys = f"CASE WHEN id < {SKEWED * rows} THEN 0 ELSE cast(id / {rows} AS int) END"
    pairs = spark.range(0, (SKEWED + 10) * rows, 1, 2).selectExpr(f"{keys} AS k", "id")
    pairs.rdd.map(lambda row: (row.k % 11, row.id)).partitionBy(11).mapPartitions(digest).collect()
    spark.stop()


main()
