"""Many jobs of very short tasks under rules, while Spark drops events; then some while it does not.

The last line is JSON: results that are wrong, pools of the last jobs, what was dropped, and what
the plugin holds then and after the end.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from py4j.java_collections import ListConverter
from pyspark import InheritableThread, TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

THREADS, JOBS, TASKS = 4, 15, 20
"""Jobs of each thread, and tasks of each stage; a job has two."""
EVERY = 5
"""One of so many jobs is of a SQL query."""
MOST_LAST = 100
"""Jobs after which none is in its pool: none ever will be."""
spark = SparkSession.builder.getOrCreate()
sc = spark.sparkContext
jvm = spark._jvm.org.iqcar.spark
client = sc._gateway._gateway_client
wrong: list[tuple[int, str]] = []


def pool_of(_: Iterable[object]) -> list[str | None]:
    """The pool in which a task runs."""
    return [TaskContext.get().getLocalProperty("spark.scheduler.pool")]


def query(number: int) -> None:
    """Count words, or add numbers."""
    sc.setJobDescription(f"query {'abc'[number % 3]}")
    if number % EVERY:
        words = [f"{number} {at % 7}" for at in range(3 * TASKS)]
        counts = dict(
            sc._jsc.parallelize(ListConverter().convert(words, client), TASKS).countByValue()
        )
        right = counts == Counter(words)
    else:
        rows = 1000 + number
        numbers = spark.range(0, rows, 1, TASKS).groupBy((f.col("id") % 2).alias("k"))
        counts = {row[0]: row[1] for row in numbers.agg(f.sum("id")).collect()}
        right = counts == {k: sum(range(k, rows, 2)) for k in (0, 1)}
    if not right:
        wrong.append((number, str(counts)))


def storm() -> None:
    """Run queries in several threads."""
    threads = [
        InheritableThread(target=lambda at=at: [query(at + THREADS * job) for job in range(JOBS)])
        for at in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def last_pools() -> list[str | None]:
    """Pools of jobs one by one, until one has the pool of its rule."""
    found: list[str | None] = []
    while "capped" not in found and len(found) < MOST_LAST:
        sc.setJobDescription("query a")
        found += sc.parallelize([0], 1).mapPartitions(pool_of).collect()
        sc._jsc.sc().listenerBus().waitUntilEmpty()
    return found


def main() -> None:
    """Run both, and print what was found."""
    full = jvm.FullQueues.of(sc._jsc.sc())
    storm()
    full.stop()
    sc._jsc.sc().listenerBus().waitUntilEmpty()
    pools = last_pools()
    dropped = json.loads(jvm.FullQueues.dropped(sc._jsc.sc()))
    held = json.loads(jvm.PluginLife.read(sc._jsc.sc()))
    sc.stop()
    over = json.loads(jvm.PluginLife.read(None))
    numbers = range(THREADS * JOBS)
    tasks = sum(2 * TASKS if number % EVERY else TASKS for number in numbers) + len(pools)
    found = {"wrong": wrong, "pools": pools, "dropped": dropped, "tasks": tasks}
    print(json.dumps({**found, "maps": held["maps"], "own_threads": over["own_threads"]}))


main()
