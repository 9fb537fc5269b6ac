"""The Spark application of the live what-if experiment: the same queries at once, mix after mix.

    python scripts/experiments/whatif_live_jobs.py PLAN.json

Before each mix but the first it waits for a file, so that the cluster can be changed meanwhile;
after each it leaves one. The first mix warms the application up.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

from compare_live_jobs import make_views
from pyspark.sql import SparkSession

WARM_UPS = 4
"""Times that the first mix runs: after one the next still gains a sixth."""


def run_mix(spark: SparkSession, mix: dict[str, Any]) -> list[str]:
    """Run each query of a mix in its own thread from its start time on; return what failed."""
    began = time.monotonic()
    failed: list[str] = []

    def run(query: dict[str, Any]) -> None:
        time.sleep(max(0.0, began + query["start_s"] - time.monotonic()))
        spark.sparkContext.setJobDescription(query["name"])
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", query["pool"] or None)
        try:
            spark.sql(query["sql"]).write.format("noop").mode("overwrite").save()
        except Exception as error:  # reported by the parent
            failed.append(f"{query['name']}: {str(error).splitlines()[0]}")

    threads = [threading.Thread(target=run, args=(query,)) for query in mix["queries"]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failed


def main() -> None:
    """Run the plan's mixes."""
    plan = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    folder = Path(plan["folder"])
    spark = SparkSession.builder.getOrCreate()
    make_views(spark, plan["tables"])
    for number, mix in enumerate(plan["mixes"]):
        while number and not (folder / f"{mix['name']}.go").exists():
            time.sleep(0.05)
        failed = [why for _ in range(1 if number else WARM_UPS) for why in run_mix(spark, mix)]
        (folder / f"{mix['name']}.done").write_text("\n".join(failed), "utf-8")
    spark.stop()


if __name__ == "__main__":
    main()
