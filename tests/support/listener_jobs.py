"""PySpark jobs whose waits are known beforehand, run by spark-submit. Arguments: their names."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.sql import SparkSession

SCAN_PAUSES = 6
SCAN_PAUSE_S = 0.3
"""The slow scan's source gives a line, and then nothing for so long."""


def burn(rows: Iterator[int]) -> Iterator[int]:
    """Compute for 1.5 s on the processor."""
    start = time.process_time()
    total = 0
    while time.process_time() - start < 1.5:
        total += sum(range(1000))
    return iter([total + len(list(rows))])


def sleep(rows: Iterator[int]) -> Iterator[int]:
    """Sleep for 2 s."""
    time.sleep(2)
    return iter([len(list(rows))])


def bursts(rows: Iterator[int]) -> Iterator[int]:
    """Compute and sleep in turn, 5 ms each, then compute beside a rival on the same processor.

    Says how long the kernel let it wait for the processor meanwhile.
    """
    begin, waited_ns = time.monotonic(), _run_queue_ns()
    while time.monotonic() - begin < 1.5:
        spin(0.005)
        time.sleep(0.005)
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    rival = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    spin(0.5)
    rival.kill()
    rival.wait()
    os.sched_setaffinity(0, allowed)
    waited_ns = _run_queue_ns() - waited_ns
    list(rows)
    yield waited_ns


def spin(cpu_s: float) -> None:
    """Compute for so long on the processor."""
    until = time.process_time() + cpu_s
    while time.process_time() < until:
        pass


def _run_queue_ns() -> int:
    return int(Path("/proc/self/schedstat").read_text().split()[1])


def python_burn(spark: SparkSession) -> None:
    """A Python function that computes."""
    spark.sparkContext.parallelize(range(2), 2).mapPartitions(burn).count()


def python_sleep(spark: SparkSession) -> None:
    """A Python function that sleeps."""
    spark.sparkContext.parallelize(range(2), 2).mapPartitions(sleep).count()


def python_bursts(spark: SparkSession) -> None:
    """A Python function that computes and sleeps in turn, and then has a rival."""
    (waited_ns,) = spark.sparkContext.parallelize(range(1), 1).mapPartitions(bursts).collect()
    print("WAITED", waited_ns)


def pandas_sleep(spark: SparkSession) -> None:
    """A pandas function that sleeps."""

    def nap(frames):  # type: ignore[no-untyped-def]
        time.sleep(2)
        yield from frames

    spark.range(0, 10, 1, 1).mapInPandas(nap, "id long").collect()


def slow_scan(spark: SparkSession) -> None:
    """A scan of a text file whose source is slow: a pipe that takes the file's place."""
    line = "x" * 99 + "\n"
    path = Path(tempfile.mkdtemp()) / "slow.txt"
    path.write_text(line * SCAN_PAUSES)
    frame = spark.read.text(str(path))  # what the file is like is looked at here
    path.unlink()
    os.mkfifo(path)

    def feed() -> None:
        with path.open("w") as pipe:
            for _ in range(SCAN_PAUSES):
                time.sleep(SCAN_PAUSE_S)
                pipe.write(line)
                pipe.flush()

    feeder = threading.Thread(target=feed)
    feeder.start()
    print("RESULT", frame.selectExpr("sum(length(value)) AS n").collect()[0]["n"])
    feeder.join()


def main() -> None:
    """Run the jobs, each as a job group of its own name."""
    spark = SparkSession.builder.getOrCreate()
    jobs: dict[str, Callable[[SparkSession], None]] = {
        job.__name__: job
        for job in (python_burn, python_sleep, python_bursts, pandas_sleep, slow_scan)
    }
    for name in sys.argv[1:]:
        spark.sparkContext.setJobGroup(name, name)
        jobs[name](spark)
        print("DONE", name)
    spark.stop()


main()
