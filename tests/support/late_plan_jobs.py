"""One query that runs while a rule by its plan comes.

Arguments: the rules file, the folder of the event log, and the file in which the JVM lists the
classes that it has loaded. Prints, before and after, whether plans were hashed and in which pools
the query's tasks run.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import InheritableThread
from pyspark.sql import SparkSession

import iqcar

RULES, LOG, CLASSES = map(Path, sys.argv[1:])
MOST_WAIT_S = 240
spark = SparkSession.builder.getOrCreate()
scheduler: Any = spark.sparkContext._jsc.sc().taskScheduler()


def pools() -> list[str]:
    """The pools that run tasks now."""
    queue = scheduler.rootPool().schedulableQueue().toArray()
    return [pool.name() for pool in queue if pool.runningTasks()]


def tell() -> None:
    hashed = "org.iqcar.spark.driver.queries.PlanFingerprint" in CLASSES.read_text()
    print("HASHED", hashed, "POOLS", pools(), flush=True)


def until_pools(wanted: list[str]) -> None:
    end = time.monotonic() + MOST_WAIT_S
    while pools() != wanted and time.monotonic() < end:
        time.sleep(0.05)


def sleep() -> None:
    """A query of 600 tasks of half a second, which is cancelled in the end."""
    nap = "java_method('java.lang.Thread', 'sleep', 500L)"
    with suppress(Py4JJavaError):
        spark.range(0, 600, 1, 600).selectExpr(nap).collect()


query = InheritableThread(target=sleep)
query.start()
until_pools(["default"])
tell()
(plan,) = iqcar.read([LOG]).sql_executions["plan_hash"]
rule = {"pool": "late", "rule_id": "AGG-1", "fingerprint": f"plan:{plan}"}
content = {"schema_version": "1", "pools": [{"name": "late", "weight": 2}], "assignments": [rule]}
beside = RULES.with_name("beside")
beside.write_text(json.dumps(content), encoding="utf-8")
beside.replace(RULES)
until_pools(["late"])
tell()
spark.sparkContext.cancelAllJobs()
query.join()
spark.stop()
