"""The Spark application of the live-rules experiment: short queries all the time, and an intruder.

    python scripts/experiments/live_rules_jobs.py PLAN.json

Tasks mostly sleep, so that slots are all that is short, however many processors the machine has.
Short queries come at fixed times, each in a thread of its own; the intruder runs one query after
another for as long as a phase lasts. When all is over, start and end of every query are written.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def sleeping(tasks: int, ms: int) -> str:
    """SQL of a query whose tasks sleep, one row in each."""
    return (
        "SELECT count(slept) FROM (SELECT java_method('java.lang.Thread', 'sleep', "
        f"CAST({ms} AS BIGINT)) AS slept FROM range(0, {tasks}, 1, {tasks}))"
    )


class Mix:
    """The queries of a plan, and when they ran."""

    def __init__(self, spark: SparkSession, plan: dict[str, Any]) -> None:
        self.spark, self.plan = spark, plan
        self.ran: list[dict[str, Any]] = []
        self.failed: list[str] = []

    def query(self, name: str) -> None:
        """Run one query, and note when."""
        size = self.plan["queries"][name]
        self.spark.sparkContext.setJobDescription(name)
        start = time.time()
        try:
            self.spark.sql(sleeping(size["tasks"], size["ms"])).collect()
        except Exception as error:  # reported by the parent
            self.failed.append(f"{name}: {str(error).splitlines()[0]}")
        self.ran.append({"name": name, "start_ms": 1e3 * start, "end_ms": 1e3 * time.time()})

    def run(self, began: float) -> None:
        """Run all of the plan's timeline, which began at some time of the monotonic clock."""

        def later(at_s: float, name: str) -> None:
            time.sleep(max(0.0, began + at_s - time.monotonic()))
            self.query(name)

        def intrude(first_s: float, last_s: float) -> None:
            time.sleep(max(0.0, began + first_s - time.monotonic()))
            while time.monotonic() < began + last_s:
                self.query(self.plan["intruder"])

        threads = [threading.Thread(target=later, args=tuple(one)) for one in self.plan["arrivals"]]
        threads += [threading.Thread(target=intrude, args=tuple(p)) for p in self.plan["phases"]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def main() -> None:
    """Warm up, run the timeline, and write what ran."""
    plan = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    spark = SparkSession.builder.getOrCreate()
    mix = Mix(spark, plan)
    for name in plan["queries"]:
        for _ in range(3):
            spark.sql(sleeping(plan["queries"][name]["tasks"], 1)).collect()
    began, epoch = time.monotonic(), 1e3 * time.time()
    mix.run(began)
    version = spark.version
    spark.stop()
    result = {"began_ms": epoch, "ran": mix.ran, "failed": mix.failed, "spark": version}
    Path(plan["result"]).write_text(json.dumps(result), "utf-8")


if __name__ == "__main__":
    main()
