"""A PySpark application in which two queries sleep for slots, with or without FAIR pools.

Arguments: the folder for the event log; a JSON object of descriptions and their pools; and, for
FAIR, the allocation file.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from pyspark import InheritableThread
from pyspark.sql import SparkSession

SLOTS = 4
TASK_MS = 200
ETL_TASKS, REPORT_TASKS = 80, 12
LATER_S = 1.0
"""`report` comes this much later than `etl`: its tasks fill all slots by then."""


def main(logs: str, pools: dict[str, str], allocation: str = "") -> None:
    builder = (
        SparkSession.builder.master(f"local[{SLOTS}]")
        .appName("pools")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.rolling.enabled", "false")
        .config("spark.eventLog.compress", "false")
        .config("spark.eventLog.dir", Path(logs).as_uri())
    )
    if allocation:
        builder = builder.config("spark.scheduler.mode", "FAIR").config(
            "spark.scheduler.allocation.file", Path(allocation).as_uri()
        )
    spark = builder.getOrCreate()

    def sleep(name: str, tasks: int) -> None:
        """Tasks that hold a slot and use no processor: what another mix cannot make slower."""
        spark.sparkContext.setLocalProperty("spark.job.description", name)
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", pools.get(name))
        spark.range(0, tasks, 1, tasks).selectExpr(
            f"java_method('java.lang.Thread', 'sleep', {TASK_MS}L)"
        ).collect()

    sleep("warm", 2 * SLOTS)
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
    main(sys.argv[1], json.loads(sys.argv[2]), *sys.argv[3:])
