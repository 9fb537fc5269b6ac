"""A PySpark application with one query that something makes slow, or with the action taken.

Arguments: the kind, and ``was`` or ``mended``. Tasks sleep, so that no other load changes what they
take, where the kind allows it. Memory and broadcast are mended by settings: both states are alike.
"""

from __future__ import annotations

import sys
import time

from pyspark import InheritableThread
from pyspark.sql import SparkSession

WORK_MS = 24_000
"""Task time of the target, however it is divided."""
HOG_TASKS, HOG_MS = 40, 1_000
ROWS, SMALL_ROWS, PARTITIONS = 8_000_000, 100_000, 8


def main(kind: str, state: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    slots = spark.sparkContext.defaultParallelism

    def sleep(name: str, times: list[int], pool: str | None = None) -> None:
        """Tasks that hold a slot for so many ms each."""
        spark.sparkContext.setLocalProperty("spark.job.description", name)
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool)
        chosen = " ".join(f"when {number} then {ms}" for number, ms in enumerate(times))
        spark.range(0, len(times), 1, len(times)).selectExpr(
            f"java_method('java.lang.Thread', 'sleep', bigint(case id {chosen} end))"
        ).collect()

    def work(name: str, rows: int) -> None:
        """Aggregate rows of as many keys, or join them with few."""
        spark.sparkContext.setLocalProperty("spark.job.description", name)
        if kind == "memory":
            made = spark.range(0, rows, 1, PARTITIONS).selectExpr("xxhash64(id) as key", "id")
            done = made.groupBy("key").sum("id")
        else:
            small = spark.range(0, SMALL_ROWS, 1, 2).selectExpr("id as key", "3 * id as price")
            key = f"pmod(xxhash64(id), {SMALL_ROWS}) as key"
            made = spark.range(0, rows, 1, PARTITIONS).selectExpr(key, "id")
            done = made.join(small, "key").groupBy().sum("id", "price")
        done.write.format("noop").mode("overwrite").save()

    if kind in ("memory", "broadcast"):
        work("warm", ROWS // 40)
        work("target", ROWS)
        spark.stop()
        return
    sleep("warm", [200] * 2 * slots)
    even = [WORK_MS // (2 * slots)] * 2 * slots
    if kind == "partitions":
        sleep("target", [WORK_MS // 2] * 2 if state == "was" else even)
    elif kind == "skew":
        others = 2 * slots - 1
        sleep("target", [WORK_MS // 2, *[WORK_MS // 2 // others] * others]
              if state == "was" else even)  # fmt: skip
    else:
        pools = ("hogs", "targets") if state == "mended" else (None, None)
        hog = InheritableThread(target=sleep, args=("hog", [HOG_MS] * HOG_TASKS, pools[0]))
        hog.start()
        time.sleep(1.0)
        sleep("target", [HOG_MS] * slots, pools[1])
        hog.join()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
