"""A PySpark application to follow: `hog` holds both slots for some seconds, `victim` waits.

Its arguments are the folder for the event log, and a file at whose appearance `hog` starts.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from pyspark import InheritableThread
from pyspark.sql import SparkSession

HOG_TASKS = 12
NAP_S = 1.0
LATER_S = 1.5
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.rolling.enabled": "false",
    "spark.eventLog.compress": "false",
    "spark.eventLog.buffer.kb": "1",
}


def nap(rows: Iterator[int]) -> Iterator[int]:
    """Hold a slot, and compute nothing."""
    time.sleep(NAP_S)
    return iter([len(list(rows))])


def main() -> None:
    """Run `hog`, and `victim` a little later."""
    logs, start = Path(sys.argv[1]), Path(sys.argv[2])
    builder = SparkSession.builder.master("local[2]").appName("followed")
    for key, value in {**SETTINGS, "spark.eventLog.dir": logs.as_uri()}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    while not start.exists():
        time.sleep(0.05)

    def run(name: str, tasks: int) -> None:
        spark.sparkContext.setJobGroup(name, name)
        spark.sparkContext.parallelize(range(tasks), tasks).mapPartitions(nap).count()

    hog: threading.Thread = InheritableThread(target=run, args=("hog", HOG_TASKS))
    hog.start()
    time.sleep(LATER_S)
    run("victim", 2)
    hog.join()
    spark.stop()


if __name__ == "__main__":
    main()
