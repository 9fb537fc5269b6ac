"""The Spark application of the experiment with delays: two queries of one table, one of another.

    python scripts/experiments/delayed_jobs.py PLAN.json

Runs the mixes that a file named in the plan asks for, one line each, and writes how long every
query took, until the line ``stop``.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bigroots_jobs import forget
from induced_jobs import read
from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

POLL_S = 0.05


def aggregate(spark: SparkSession, plan: dict[str, Any]) -> DataFrame:
    """Read the shared table and aggregate it by group: Q1 and Q2."""
    return _sums(read(spark, plan["shared"]), plan)


def self_join(spark: SparkSession, plan: dict[str, Any]) -> DataFrame:
    """Read the other table twice, from two copies, join them and aggregate: Q3.

    The page cache would serve the second read of one copy.
    """
    left, right = (_sums(read(spark, path), plan) for path in plan["copies"])
    return left.join(right.select("item"), "item").groupBy().sum()


def _sums(sales: DataFrame, plan: dict[str, Any]) -> DataFrame:
    item = (f.col("ss_item_sk") % plan["groups"]).alias("item")
    return sales.groupBy(item).agg(*(f.sum(name).alias(name) for name in plan["measures"]))


QUERIES = {"q1": aggregate, "q2": aggregate, "q3": self_join}


def run_mix(spark: SparkSession, plan: dict[str, Any], mix: dict[str, Any]) -> dict[str, float]:
    """Start the queries of a mix, each after its delay; return seconds that each took."""
    for folder in (plan["shared"], *plan["copies"]):
        forget(Path(folder))
    took: dict[str, float] = {}

    def run(query: str, delay_s: float) -> None:
        time.sleep(delay_s)
        spark.sparkContext.setJobDescription(f"{mix['name']}-{query}")
        start = time.monotonic()
        QUERIES[query](spark, plan).collect()
        took[query] = time.monotonic() - start

    threads = [InheritableThread(target=run, args=one) for one in mix["delay_s"].items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return took


def lines(file: Path) -> Iterator[str]:
    """Lines of a file that somebody else appends to."""
    with file.open(encoding="utf-8") as text:
        line = ""
        while True:
            line += text.readline()
            if line.endswith("\n"):
                yield line.rstrip("\n")
                line = ""
            else:
                time.sleep(POLL_S)


def main() -> None:
    """Run mixes until told to stop."""
    plan = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    spark = SparkSession.builder.appName(plan["name"]).getOrCreate()
    with Path(plan["done"]).open("a", encoding="utf-8") as done:
        for line in lines(Path(plan["asked"])):
            if line == "stop":
                break
            took = run_mix(spark, plan, json.loads(line))
            print(json.dumps(took), file=done, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
