"""Jobs in capped pools on four slots: how many of their tasks ran at once, as these saw it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator

import pandas as pd
from pyspark import BarrierTaskContext, InheritableThread
from pyspark.sql import SparkSession

TASK_S = 0.25
spark = SparkSession.builder.getOrCreate()
sc = spark.sparkContext
seen: dict[str, int] = {}


def span(_: Iterable[object]) -> list[tuple[float, float]]:
    """Work for a while; when that was."""
    began = time.time()
    time.sleep(TASK_S)
    return [(began, time.time())]


def spans(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for batch in batches:
        yield pd.DataFrame(span(batch), columns=["began", "ended"])


def in_turn(_: Iterable[object]) -> list[tuple[float, float]]:
    """Work that all tasks of a barrier stage do at once."""
    BarrierTaskContext.get().barrier()
    return span(_)


def at_once(found: Iterable[tuple[float, float]]) -> int:
    """Most spans that overlap."""
    steps = sorted([step for began, ended in found for step in ((began, 1), (ended, -1))])
    most = now = 0
    for _, change in steps:
        now += change
        most = max(most, now)
    return most


def named(name: str, tasks: int) -> None:
    """An RDD's job."""
    sc.setJobDescription(name)
    seen[name] = at_once(sc.parallelize(range(tasks), tasks).mapPartitions(span).collect())


def together(*names: str) -> None:
    threads = [InheritableThread(target=named, args=(name, 8)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def sql(name: str) -> None:
    sc.setJobDescription(name)
    found = spark.range(0, 8, 1, 8).mapInPandas(spans, "began double, ended double").collect()
    seen[name] = at_once((row.began, row.ended) for row in found)


named("warm", 4)
named("strict", 8)
sql("strict sql")
named("share", 3)
named("loose", 8)
together("strict beside", "other")
together("one of a pool", "two of a pool")
sc.setJobDescription("strict barrier")
seen["barrier"] = at_once(sc.parallelize(range(3), 3).barrier().mapPartitions(in_turn).collect())
# A cap that stopped a job for good would stop this, too.
watch = threading.Timer(60.0, sc.cancelAllJobs)
watch.start()
named("strict again", 2)
watch.cancel()
print("SEEN " + json.dumps(seen))
spark.stop()
