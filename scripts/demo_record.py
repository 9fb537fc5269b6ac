"""Run the demo's mix of TPC-DS queries on an embedded Spark and record its event log."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from demo_data import DEFAULT_SCALE, make_data
from demo_mix import (
    FAIR_SCHEDULER,
    HEAVY_HITTER,
    SCHEDULE,
    Arrival,
    heavy_text,
    query_text,
)
from pyspark.sql import SparkSession

DRIVER_MEMORY = "2g"
ENVIRONMENT_OF_ANOTHER_SPARK = (
    "SPARK_HOME",
    "SPARK_CONF_DIR",
    "HADOOP_CONF_DIR",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_REMOTE",
)


def record(data: Path, out: Path) -> Path:
    """Run the mix on the TPC-DS data in `data`; return the event log written under `out`."""
    logs = out / "eventlogs"
    logs.mkdir(parents=True, exist_ok=True)
    with _spark(out, logs) as spark:
        log = logs / f"{spark.sparkContext.applicationId}.zstd"
        texts = _query_texts(data, spark.sparkContext.defaultParallelism)
        make_views(spark, data, set(re.findall(r"\w+", " ".join(texts.values()))))
        failures = _run_mix(spark, texts, out / "etl_output")
    shutil.rmtree(out / "etl_output", ignore_errors=True)
    if failures:
        sys.exit("demo: " + "; ".join(failures))
    return log


def _query_texts(data: Path, slots: int) -> dict[str, str]:
    tpcds = json.loads((data / "queries.json").read_text())
    return {
        arrival.name: heavy_text(slots)
        if arrival.name == HEAVY_HITTER
        else query_text(arrival, tpcds)
        for arrival in SCHEDULE
    }


@contextmanager
def _spark(out: Path, logs: Path) -> Iterator[SparkSession]:
    for name in ENVIRONMENT_OF_ANOTHER_SPARK:
        os.environ.pop(name, None)
    # Everything is local: a host name that does not resolve must not stop the demo.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    spark_log = out / "spark.log"
    pools = out / "fairscheduler.xml"
    pools.write_text(FAIR_SCHEDULER)
    try:
        with _stderr_to(spark_log):
            spark = (
                SparkSession.builder.master("local[*]")
                .appName("iqcar demo")
                .config("spark.driver.memory", DRIVER_MEMORY)
                .config("spark.eventLog.enabled", "true")
                .config("spark.eventLog.dir", logs.resolve().as_uri())
                .config("spark.eventLog.compress", "true")
                .config("spark.eventLog.compression.codec", "zstd")
                .config("spark.eventLog.rolling.enabled", "false")
                .config("spark.scheduler.mode", "FAIR")
                .config("spark.scheduler.allocation.file", pools.resolve().as_uri())
                .config("spark.sql.warehouse.dir", (out / "warehouse").resolve().as_uri())
                .config("spark.ui.enabled", "false")
                .config("spark.ui.showConsoleProgress", "false")
                .getOrCreate()
            )
    except Exception as error:
        sys.exit(f"demo: Spark did not start ({str(error).splitlines()[0]}); see {spark_log}")
    slots = spark.sparkContext.defaultParallelism
    spark.conf.set("spark.sql.shuffle.partitions", 2 * slots)
    print(f"Spark {spark.version} with {slots} task slots; its own messages: {spark_log}")
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Send standard error to a file; a JVM started meanwhile keeps writing there."""
    sys.stderr.flush()
    saved = os.dup(2)
    with path.open("wb") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def make_views(spark: SparkSession, data: Path, wanted: set[str]) -> None:
    # With a given schema Spark runs no job per table to find it: the log holds the mix alone.
    for table, schema in json.loads((data / "schemas.json").read_text()).items():
        if table in wanted:
            frame = spark.read.schema(schema).parquet(str(data.resolve() / f"{table}.parquet"))
            frame.createOrReplaceTempView(table)


def _run_mix(spark: SparkSession, texts: dict[str, str], etl_output: Path) -> list[str]:
    """Start each query in a thread of its own at its time; return what went wrong."""
    failures: list[str] = []
    first_start = time.monotonic()

    def run(arrival: Arrival) -> None:
        time.sleep(max(0.0, first_start + arrival.start_s - time.monotonic()))
        started = time.monotonic()
        print(f"{started - first_start:5.1f} s  {arrival.name} starts", flush=True)
        try:
            spark.sparkContext.setJobDescription(arrival.name)
            frame = spark.sql(texts[arrival.name])
            if arrival.name == HEAVY_HITTER:
                frame.write.mode("overwrite").parquet(etl_output.resolve().as_uri())
            else:
                frame.collect()
        except Exception as error:
            failures.append(f"{arrival.name} failed: {str(error).splitlines()[0]}")
            return
        now = time.monotonic()
        took = f"{arrival.name} done, it took {now - started:.1f} s"
        print(f"{now - first_start:5.1f} s  {took}", flush=True)

    threads = [threading.Thread(target=run, args=(arrival,)) for arrival in SCHEDULE]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


def _scale(text: str) -> float:
    with suppress(ValueError):
        if 0 < float(text) < math.inf:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no positive number")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for data and event log")
    parser.add_argument("--scale", type=_scale, default=DEFAULT_SCALE, help="TPC-DS scale factor")
    arguments = parser.parse_args()
    log = record(make_data(arguments.out, arguments.scale), arguments.out)
    print(f"Wrote {log}", flush=True)
