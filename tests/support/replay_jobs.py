"""A PySpark application in which two queries sleep for slots, with or without FAIR pools.

Arguments: a JSON object of descriptions and their pools.
"""

from __future__ import annotations

import json
import sys
import time

from pyspark import InheritableThread
from pyspark.sql import SparkSession

TASK_MS = 200
ETL_TASKS, REPORT_TASKS = 80, 12
LATER_S = 1.0
"""`report` comes this much later than `etl`: its tasks fill all slots by then."""


def main(pools: dict[str, str]) -> None:
    spark = SparkSession.builder.getOrCreate()

    def sleep(name: str, tasks: int) -> None:
        """Tasks that hold a slot and use no processor: what another mix cannot make slower."""
        spark.sparkContext.setLocalProperty("spark.job.description", name)
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", pools.get(name))
        spark.range(0, tasks, 1, tasks).selectExpr(
            f"java_method('java.lang.Thread', 'sleep', {TASK_MS}L)"
        ).collect()

    sleep("warm", 2 * spark.sparkContext.defaultParallelism)
    threads = [
        InheritableThread(target=sleep, args=("etl", ETL_TASKS)),
        InheritableThread(target=sleep, args=("report", REPORT_TASKS)),
    ]
    for thread in threads:
        thread.start()
        time.sleep(LATER_S)
    for thread in threads:
        thread.join()
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
