"""SQL queries beside which the driver's event loop, and its listeners, are held up.

Usage: held_loop_jobs.py FOLDER PAUSE_MS
"""

import sys
import threading
import time
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

STAGES = 60


def main(folder: str, pause_ms: int) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    begun, held, go = (str(Path(folder) / name) for name in ("begun", "held", "go"))

    def wait(batches):  # type: ignore[no-untyped-def]
        Path(begun).touch()
        while not Path(held).exists():
            time.sleep(0.02)
        yield from batches
        Path(go).touch()

    def victim() -> None:
        spark.sparkContext.setJobDescription("held")
        rows = spark.range(0, 10, 1, 1).mapInPandas(wait, "id long")
        rows.groupBy().sum("id").collect()

    query = threading.Thread(target=victim)
    query.start()
    while not Path(begun).exists():
        time.sleep(0.02)
    own = spark._jvm.org.iqcar.spark.HeldLoop
    own.run(spark.sparkContext._jsc, held, go, pause_ms)
    query.join()

    spark.sparkContext.setJobDescription("tiny")
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    parts = [
        spark.range(2 + n).selectExpr("id % 2 AS k").groupBy("k").count() for n in range(STAGES)
    ]
    reduce(DataFrame.union, parts).groupBy().count().collect()

    spark.sparkContext.setJobDescription("late")
    own.slowListener(spark.sparkContext._jsc, pause_ms)
    spark.range(0, 10, 1, 1).groupBy().sum("id").collect()
    spark._jsc.sc().listenerBus().waitUntilEmpty()  # after the end no event is logged
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
