"""PySpark jobs that say what Spark's own metrics hold. Arguments: name or name:argument."""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from pathlib import Path

from pyspark.sql import SparkSession

NAP_S = 0.4
TASKS = 4
FAILED = 3
"""Tasks whose records the plugin fails to write."""


def nap(spark: SparkSession, tasks: int = TASKS) -> None:
    """Tasks that sleep."""
    sleeping = spark.sparkContext.parallelize(range(tasks), tasks)
    sleeping.foreach(lambda _: time.sleep(NAP_S))


def fail(spark: SparkSession) -> None:
    """Tasks for which the plugin fails, in the driver's own JVM."""
    system = spark.sparkContext._jvm.java.lang.System
    system.setProperty("iqcar.test.fail", "a_task_s_end")
    nap(spark, FAILED)
    system.clearProperty("iqcar.test.fail")


def prometheus(spark: SparkSession) -> None:
    """Print the page of Spark's Prometheus servlet, twice: places that failed come with the second.

    The second page is printed.
    """
    page = f"{spark.sparkContext.uiWebUrl}/metrics/prometheus/"
    port = page.rpartition(":")[2]
    for _ in range(2):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=60) as answer:
            text = answer.read().decode()
    print("PROMETHEUS", json.dumps(text), flush=True)


def jmx(spark: SparkSession) -> None:
    """Print the plugin's metrics in the JVM's register of beans."""
    print("JMX", spark.sparkContext._jvm.org.iqcar.spark.Beans.read(), flush=True)


def stay(spark: SparkSession, go: str) -> None:
    """Say where the user interface is, and go on once a file exists."""
    print("AT", json.dumps(spark.sparkContext.uiWebUrl), flush=True)
    while not Path(go).exists():
        time.sleep(0.1)


if __name__ == "__main__":
    session = SparkSession.builder.getOrCreate()
    for job in sys.argv[1:]:
        session.sparkContext.setJobGroup(job, job)
        name, *argument = job.split(":", 1)
        globals()[name](session, *argument)
    session.stop()
