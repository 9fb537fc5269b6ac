"""The Spark applications of the induced-contention experiment: a victim and its sources.

    python scripts/experiments/induced_jobs.py ROLE PLAN.json

``victim`` runs the same query again and again, each named after the phase of the experiment;
``cpu`` hashes numbers and ``io`` scans files of its own, until the file named in the plan appears.
"""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path
from typing import Any

from bigroots_jobs import forget, hashed
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f


@functools.cache
def read(spark: SparkSession, folder: str) -> DataFrame:
    """Files as a table; Spark looks at them once, so that a query is one job."""
    return spark.read.parquet(folder)


def victim(spark: SparkSession, plan: dict[str, Any]) -> DataFrame:
    """Read files and hash what they hold: every task needs both disk and processor."""
    forget(Path(plan["sales"]))
    sales = read(spark, plan["sales"])
    key = f.pmod(f.col("ss_ticket_number"), f.lit(plan["every"]))
    sums = [f.sum(name) for name in plan["measures"]]
    hashes = f.when(key == 0, hashed(f.col("ss_item_sk"), plan["hashes"]))
    return sales.agg(f.sum(hashes), *sums)


def cpu(spark: SparkSession, plan: dict[str, Any]) -> DataFrame:
    """Hashes and nothing else, as the paper's query (iQCAR §7.2.2)."""
    numbers = spark.range(0, plan["slots"] * 8 * plan["rows"], 1, plan["slots"] * 8)
    return numbers.agg(f.sum(hashed(f.col("id"), plan["hashes"])))


def io(spark: SparkSession, plan: dict[str, Any]) -> DataFrame:
    """Read files that the page cache has forgotten, and look at no byte of them."""
    forget(Path(plan["own"]))
    files = spark.read.format("binaryFile").load(plan["own"])
    return files.agg(f.sum(f.length("content")))


def main() -> None:
    """Run a role's query until told to stop."""
    role, plan = sys.argv[1], json.loads(Path(sys.argv[2]).read_text("utf-8"))
    spark = SparkSession.builder.appName(f"induced-{role}").getOrCreate()
    query = {"victim": victim, "cpu": cpu, "io": io}[role]
    stop, ready = Path(plan["stop"]), Path(plan["ready"])
    number = 0
    while not stop.exists():
        phase = Path(plan["phase"]).read_text("utf-8") if role == "victim" else role
        spark.sparkContext.setJobDescription(f"{phase}-{number}")
        query(spark, plan).collect()
        number += 1
        if number == plan["warm"]:
            ready.touch()
    spark.stop()


if __name__ == "__main__":
    main()
