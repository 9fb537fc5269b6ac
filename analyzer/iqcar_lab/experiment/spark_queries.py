"""Runs queries on demand: ``python -m iqcar_lab.experiment.spark_queries``, a Spark application.

It reads one JSON object per line from standard input, ``{"setup": [SQL]}`` or ``{"run": number,
"name": text, "sql": text}``, and answers each with one line on standard output. The end of standard
input ends it, also while a query runs, so that nothing outlives a starter that was killed.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from typing import Any

from pyspark.sql import SparkSession

GROUP = "iqcar-experiment"
"""Job group of a run, with its number."""


def main() -> None:
    """Answer until standard input ends."""
    # Spark's JVM inherits descriptor 1 and may write there: answers go to a copy.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spark = SparkSession.builder.getOrCreate()
    orders: queue.Queue[dict[str, Any] | None] = queue.Queue()
    threading.Thread(target=_listen, args=(spark, orders), daemon=True).start()
    try:
        context = spark.sparkContext
        _say(answers, {"application": context.applicationId, "slots": context.defaultParallelism})
        while (order := orders.get()) is not None:
            _say(answers, _obey(spark, order))
    finally:
        spark.stop()


def _listen(spark: SparkSession, orders: queue.Queue[dict[str, Any] | None]) -> None:
    for line in sys.stdin:
        orders.put(json.loads(line))
    orders.put(None)
    spark.sparkContext.cancelAllJobs()


def _obey(spark: SparkSession, order: dict[str, Any]) -> dict[str, Any]:
    try:
        if "setup" in order:
            for statement in order["setup"]:
                spark.sql(statement)
            return {}
        group = f"{GROUP} {order['run']}"
        spark.sparkContext.setJobGroup(group, f"{order['name']} (run {order['run']})", True)
        began = time.time()
        spark.sql(order["sql"]).write.format("noop").mode("overwrite").save()
    except Exception as error:  # the starter reports it as the run's failure
        said = str(error).strip().splitlines() or [type(error).__name__]
        return {"failed": said[0][:500]}
    return {"start_ms": began * 1000, "duration_ms": (time.time() - began) * 1000}


def _say(answers: Any, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
