"""A PySpark application that names queries and chooses pools in every way; prints what it saw.

Each query sums a range of its own length, so that its jobs can be told apart in the event log.
"""

from __future__ import annotations

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from pyspark import InheritableThread
from pyspark.sql import SparkSession

import iqcar

spark = SparkSession.builder.getOrCreate()
sc = spark.sparkContext
KEYS = ("spark.job.description", "spark.scheduler.pool")


def now() -> list[str | None]:
    return [sc.getLocalProperty(key) for key in KEYS]


def sql(group: str) -> None:
    """A SQL query, told apart by its job group, which the scopes leave alone."""
    sc.setLocalProperty("spark.jobGroup.id", group)
    spark.range(10).selectExpr("sum(id)").collect()
    sc.setLocalProperty("spark.jobGroup.id", None)


def rdd(group: str) -> None:
    sc.setLocalProperty("spark.jobGroup.id", group)
    sc.parallelize(range(4), 2).count()
    sc.setLocalProperty("spark.jobGroup.id", None)


def pools() -> list[list]:
    found, each = [], sc._jsc.sc().getAllPools().iterator()
    while each.hasNext():
        pool = each.next()
        mode = pool.schedulingMode().toString()
        found.append([pool.name(), pool.weight(), pool.minShare(), mode])
    return sorted(found)


def run(thread: threading.Thread) -> None:
    thread.start()
    thread.join()


seen: dict[str, object] = {"pools": pools()}
gold = iqcar.query("q39b", pool=sys.argv[1])

seen["before"] = now()
with gold:
    seen["inside"] = now()
    sql("sql")
    rdd("rdd")
    run(InheritableThread(target=sql, args=("inheritable",)))
    run(threading.Thread(target=sql, args=("plain",)))
    run(threading.Thread(target=gold(sql), args=("plain-decorated",)))
    with ThreadPoolExecutor(2) as executor:
        list(executor.map(gold(sql), ["pooled-1", "pooled-2", "pooled-3"]))
        seen["worker-after"] = executor.submit(now).result()
    with iqcar.query("inner"):
        sql("nested")
        with iqcar.query("innermost", pool="default", spark=spark):
            sql("nested-twice")
        seen["after-innermost"] = now()
    seen["after-inner"] = now()
    with gold, gold:
        seen["entered-again"] = now()
seen["after"] = now()
sql("after")

sc.setJobDescription("mine")
sc.setLocalProperty(KEYS[1], "default")
try:
    with gold:
        sql("failing")
        raise KeyError("of the body")
except KeyError as error:
    seen["error"] = str(error)
seen["after-error"] = now()
sc.setJobDescription(None)
sc.setLocalProperty(KEYS[1], None)


@iqcar.query("decorated", pool=sys.argv[1])
def decorated(group: str) -> str:
    """Keep my words."""
    sql(group)
    return group


seen["returned"] = [decorated("decorated"), decorated.__name__, decorated.__doc__]

spark.sql(f"SET spark.scheduler.pool={sys.argv[1]}")
sql("by-set")
spark.sql("RESET spark.scheduler.pool")
sql("by-reset")

both, starts = threading.Barrier(2), {}


def long(name: str, pool: str) -> None:
    with iqcar.query(name, pool):
        both.wait()
        sc.setLocalProperty("spark.jobGroup.id", name)
        sc.parallelize(range(TASKS), TASKS).foreach(lambda _: __import__("time").sleep(0.1))


TASKS = 60
contenders = [
    threading.Thread(target=long, args=("heavy", sys.argv[1])),
    threading.Thread(target=long, args=("light", "default")),
]
for thread in contenders:
    thread.start()
for thread in contenders:
    thread.join()

with gold:
    spark.stop()
print("SEEN", json.dumps(seen))
