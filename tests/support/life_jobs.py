"""PySpark jobs that live and die in every way Spark has. Arguments: their names."""

import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr, pandas_udf

spark = SparkSession.builder.getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", "2")


def stream() -> object:
    """Three small batches of a query with state."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(3):
            (Path(folder) / f"{number}.txt").write_text("a\nb\n" * (number + 1))
        lines = spark.readStream.option("maxFilesPerTrigger", 1).text(folder)
        counts = lines.groupBy("value").count()
        sink = counts.writeStream.format("memory").queryName("counts").outputMode("complete")
        sink.trigger(availableNow=True).start().awaitTermination()
        return sorted(tuple(row) for row in spark.sql("SELECT * FROM counts").collect())


def pandas() -> object:
    """A pandas UDF."""

    @pandas_udf("long")
    def double(column):  # type: ignore[no-untyped-def]
        return column * 2

    return spark.range(0, 100, 1, 2).select(double("id").alias("x")).agg({"x": "sum"}).collect()


def speculate() -> object:
    """The first attempt of the last task hangs; Spark starts a second one elsewhere."""

    def work(index, rows):  # type: ignore[no-untyped-def]
        context = TaskContext.get()
        slow = index == 3 and context is not None and context.attemptNumber() == 0
        time.sleep(120 if slow else 0.5)
        yield sum(rows)

    found = spark.sparkContext.parallelize(range(8), 4).mapPartitionsWithIndex(work).collect()
    tracker = spark.sparkContext._jsc.sc().statusTracker()
    deadline = time.monotonic() + 100  # the job is done before the attempt that lost is killed
    while any(e.numRunningTasks() for e in tracker.getExecutorInfos()):
        if time.monotonic() > deadline:
            break
        time.sleep(0.2)
    return found


def grow() -> object:
    """A shuffle, an idle time in which executors leave, and another one for new ones."""
    totals = []
    for _ in range(2):
        pairs = spark.sparkContext.parallelize(range(400), 8).map(
            lambda number: (number % 2, number)
        )
        totals.append(pairs.reduceByKey(int.__add__).values().sum())
        time.sleep(6)
    return totals


def abort() -> object:
    """One task fails for good while another one of its stage runs."""
    failing = expr("CASE WHEN id = 0 THEN raise_error('on purpose') ELSE id END")
    return spark.range(0, 2000, 1, 4).select(failing).collect()


def fail_late() -> object:
    """One of two tasks fails after three seconds, once."""

    def work(index, rows):  # type: ignore[no-untyped-def]
        time.sleep(3)
        if index == 1 and TaskContext.get().attemptNumber() == 0:
            raise ValueError("late, with password=hunter2")
        yield sum(rows)

    return spark.sparkContext.parallelize(range(4), 2).mapPartitionsWithIndex(work).collect()


def die_in_shuffle() -> object:
    """An executor dies by `kill -9` while the second stage of a shuffle reads from it."""
    flag = str(Path(tempfile.gettempdir()) / f"iqcar-{spark.sparkContext.applicationId}")

    def write(batches):  # type: ignore[no-untyped-def]
        time.sleep(1)
        yield from batches

    def read(batches):  # type: ignore[no-untyped-def]
        time.sleep(1)
        try:
            os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            daemon = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
            os.kill(int(daemon[1]), signal.SIGKILL)  # its parent is the executor
        yield from batches

    ids = spark.range(0, 400, 1, 6).mapInPandas(write, "id long")
    try:
        return ids.repartition(4, "id").mapInPandas(read, "id long").agg({"id": "sum"}).collect()
    finally:
        Path(flag).unlink(missing_ok=True)


def wait() -> object:
    """Something that is finished, then something that is not."""
    spark.sparkContext.parallelize(range(100), 4)._jrdd.count()
    print("WAITING", flush=True)
    return spark.sparkContext.parallelize(range(2), 2).map(lambda _: time.sleep(300)).count()


JOBS = {
    job.__name__: job
    for job in (stream, pandas, speculate, grow, abort, fail_late, die_in_shuffle, wait)
}

for name in sys.argv[1:]:
    spark.sparkContext.setJobGroup(name, name)
    print("RESULT", name, JOBS[name](), flush=True)
spark.stop()
