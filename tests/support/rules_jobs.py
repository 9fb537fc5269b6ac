"""Queries of many shapes for rules to recognise.

Arguments: a folder for the tables that they read, where two applications are to have the same
recurring queries; a constant of the queries; names of shapes. Default: all, the contest with few
tasks.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession

folder, number = Path(sys.argv[1]), int(sys.argv[2])
tasks = 120 if sys.argv[3:] else 4
"""Of each query of the contest."""
spark = SparkSession.builder.getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", "3")
sc = spark.sparkContext


def sales() -> DataFrame:
    """A table of files, written once."""
    path = str(folder / "sales")
    if not Path(path).exists():
        sc.setJobGroup("prepare", "prepare")
        spark.range(0, 1000, 1, 3).selectExpr(
            "id", "id % 13 AS item", "concat('name ', id % 5) AS name", "id * 1.5 AS price",
            "date_add(date '2024-01-01', cast(id % 365 AS int)) AS day",
        ).write.parquet(path)  # fmt: skip
        forget()
    return spark.read.parquet(path)


def forget() -> None:
    """Leave no group or description on the thread."""
    for name in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
        sc.setLocalProperty(name, None)


def filtered() -> None:
    """Literals of all kinds beside a column."""
    sales().where(f"price > {number} AND name = 'name {number % 5}'").where(
        f"day >= '2024-0{number % 9 + 1}-01' AND item IN ({number}, 2, 3)"
    ).count()


def joined() -> None:
    """A join that shuffles, and an aggregation."""
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    other = sales().groupBy("item").count().where(f"count > {number}")
    sales().join(other, "item").groupBy("name").agg({"price": "sum"}).collect()
    spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


def broadcast() -> None:
    """A join that broadcasts: its job runs on a thread of its own."""
    small = spark.range(number + 3).selectExpr("id AS item", "id AS rank")
    sales().join(small.hint("broadcast"), "item").agg({"rank": "max"}).collect()


def subquery() -> None:
    """A query inside of another: executions with a root."""
    sales().createOrReplaceTempView("sales")
    spark.sql(
        "SELECT name, max(price) FROM sales WHERE price > "  # noqa: S608
        f"(SELECT avg(price) - {number} FROM sales) GROUP BY name"
    ).collect()


def fixed() -> None:
    """A plan that does not adapt."""
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    sales().groupBy("name").count().orderBy("name").collect()
    spark.conf.unset("spark.sql.adaptive.enabled")


def written() -> None:
    """A command that writes."""
    sales().where(f"id > {number}").write.mode("overwrite").parquet(str(folder / "out"))


def cached() -> None:
    """A cached table, made by the first query and read by the second."""
    frame = sales().where(f"item < {number}").groupBy("item").count().cache()
    frame.count()
    frame.where("count > 1").collect()
    frame.unpersist()


def again() -> None:
    """One DataFrame collected twice: its plan is final the second time."""
    frame = sales().groupBy("item").avg("price")
    frame.collect()
    frame.collect()


def window() -> None:
    """A window function, a union and a sort with a limit."""
    sales().createOrReplaceTempView("sales")
    spark.sql(
        "SELECT * FROM (SELECT name, rank() OVER (PARTITION BY item ORDER BY price) AS r"  # noqa: S608
        f" FROM sales) WHERE r < {number}"
        f" UNION ALL SELECT 'x', {number} ORDER BY r LIMIT {number + 5}"
    ).collect()


def sql_named() -> None:
    """A query with a description: that is its name."""
    sc.setJobDescription("nightly report")
    sales().groupBy("name").count().collect()


def statement() -> None:
    """A query described by its text, as the Thrift server does: its plan is hashed."""
    sc.setJobDescription(f"SELECT count(*) FROM sales WHERE item <> {number}")  # noqa: S608
    sales().where(f"item <> {number}").groupBy().count().collect()


def grouped_sql() -> None:
    """A query in a job group."""
    sc.setLocalProperty("spark.jobGroup.id", "etl")
    sales().where(f"item = {number}").agg({"price": "min"}).collect()


def rdd() -> None:
    """A job with nothing but call sites, then one that skips a stage."""
    pairs = sc.parallelize(range(100), 3).map(lambda n: (n % number, 1)).reduceByKey(int.__add__)
    pairs.count()
    pairs.collect()


def rdd_group() -> None:
    """Jobs of a group without a description: the group is the name."""
    sc.setLocalProperty("spark.jobGroup.id", "rdd group")
    sc.parallelize(range(10), 2).count()
    sc.parallelize(range(20), 2).map(str).count()


def rdd_named() -> None:
    """Jobs of a group with a description that changes: the first names the group."""
    sc.setJobGroup("load 1", "load the lake")
    sc.parallelize(range(10), 2).count()
    sc.setJobGroup("load 1", "load the sea")
    sc.parallelize(range(10), 2).count()


def secret() -> None:
    """A description that holds what looks like a secret."""
    sc.setJobDescription(f"copy with password=hunter{number}")
    sc.parallelize(range(10), 2).count()


def stream() -> None:
    """The batches of a streaming query, which has a name."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", number)
    counts = source.option("numPartitions", 2).load().groupBy("value").count()
    sink = counts.writeStream.format("memory").queryName("clicks").outputMode("complete")
    query = sink.trigger(processingTime="0 seconds").start()
    while len(query.recentProgress) < 2:
        query.awaitTermination(0.2)
    query.stop()


def contest() -> None:
    """Two queries at once, each of many short tasks."""
    ready = threading.Barrier(2)

    def run(name: str) -> None:
        sleep = f"reflect('java.lang.Thread', 'sleep', 100L) AS {name}"
        frame = spark.range(0, tasks, 1, tasks).selectExpr(sleep)
        ready.wait()
        frame.collect()

    threads = [InheritableThread(target=run, args=(name,)) for name in ("victim", "bully")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


SHAPES = {
    shape.__name__: shape
    for shape in (
        filtered, joined, broadcast, subquery, fixed, written, cached, again, window, sql_named,
        statement, grouped_sql, rdd, rdd_group, rdd_named, secret, stream, contest,
    )
}  # fmt: skip


def main() -> None:
    """Run the shapes."""
    for name in sys.argv[3:] or SHAPES:
        SHAPES[name]()
        forget()
        print("DONE", name, flush=True)
    spark.stop()


main()
