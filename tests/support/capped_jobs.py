"""Jobs in capped pools on four slots: how many of their tasks ran at once, as these saw it."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from pyspark import BarrierTaskContext, InheritableThread
from pyspark.sql import SparkSession

TASK_MS = 250
NOW = "bigint(java_method('java.lang.System', 'currentTimeMillis'))"
SLEEP = f"java_method('java.lang.Thread', 'sleep', bigint({TASK_MS}))"
spark = SparkSession.builder.getOrCreate()
sc = spark.sparkContext
seen: dict[str, int] = {}


def at_once(found: Iterable[tuple[float, float]]) -> int:
    """Most spans that overlap."""
    steps = sorted([step for began, ended in found for step in ((began, 1), (ended, -1))])
    most = now = 0
    for _, change in steps:
        now += change
        most = max(most, now)
    return most


def named(name: str, tasks: int) -> None:
    """A query whose tasks say when they ran.

    Of twice as many tasks as may run at once, some meet though a busy machine delays one of them.
    """
    sc.setJobDescription(name)
    rows = spark.range(0, tasks, 1, tasks).selectExpr(f"{NOW} b", f"{SLEEP} s", f"{NOW} e")
    seen[name] = at_once((row.b, row.e) for row in rows.collect())


def streamed(name: str) -> None:
    """A stream's batch, in the pool that its thread was given; one task per file of one byte."""
    sc.setLocalProperty("spark.scheduler.pool", "two")
    spark.conf.set("spark.sql.files.maxPartitionBytes", 1)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(6):
            Path(folder, f"{number}.txt").write_text("x")
        rows = spark.readStream.text(folder).selectExpr(f"{NOW} b", f"{SLEEP} s", f"{NOW} e")
        query = rows.writeStream.format("memory").queryName("batch").trigger(once=True).start()
        query.awaitTermination()
    sc.setLocalProperty("spark.scheduler.pool", None)
    seen[name] = at_once((row.b, row.e) for row in spark.table("batch").collect())


def together(*names: str) -> None:
    threads = [InheritableThread(target=named, args=(name, 8)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def span(_: Iterable[object]) -> list[tuple[float, float]]:
    """Work for a while; when that was."""
    began = time.time()
    time.sleep(TASK_MS / 1e3)
    return [(began, time.time())]


def in_turn(_: Iterable[object]) -> list[tuple[float, float]]:
    """Wait for the other tasks of a barrier stage; when that was."""
    began = time.time()
    BarrierTaskContext.get().barrier()
    return [(began, time.time())]


named("warm", 4)
named("strict", 8)
named("share", 3)
named("loose", 16)
together("strict beside", "other")
together("one of a pool", "two of a pool")
if not spark.version.startswith("3.3"):  # its Python functions do not go with Python 3.11
    sc.setJobDescription("strict rdd")
    seen["strict rdd"] = at_once(sc.parallelize(range(6), 6).mapPartitions(span).collect())
    sc.setJobDescription("strict barrier")
    whole = sc.parallelize(range(3), 3).barrier().mapPartitions(in_turn).collect()
    seen["strict barrier"] = at_once(whole)
streamed("strict stream")
named("strict again", 8)
print("SEEN " + json.dumps(seen))
spark.stop()
