"""A PySpark job that runs queries, one of which lasts from the first to after the last.

Arguments: the file whose appearance ends the long one, and bytes that fill each job's event.
"""

import sys
import time
from pathlib import Path

from pyspark import InheritableThread
from pyspark.sql import SparkSession

go, filler = Path(sys.argv[1]), "x" * int(sys.argv[2])
spark = SparkSession.builder.appName("compacted").getOrCreate()
context = spark.sparkContext
path = str(go)


def wait(rows):
    while not Path(path).exists():
        time.sleep(0.05)
    return rows


def run_long() -> None:
    context.setJobDescription("long")
    context.parallelize([1], 1).mapPartitions(wait).count()


def jobs_of(status) -> int:
    return len(status.getActiveJobsIds())


long = InheritableThread(run_long)
long.start()
while not jobs_of(context.statusTracker()):
    time.sleep(0.05)
context.setLocalProperty("filler", filler)
for number in range(6):
    context.setJobDescription(f"short {number}")
    context.parallelize([1], 1).count()
go.touch()
long.join()
context.setLocalProperty("filler", None)
context.setJobDescription("last")
context.parallelize([1], 1).count()
spark.stop()
