"""Options for the Sparks of tests: one that runs for seconds spends most of them on starting.

Compiling once instead of twice halves a JVM's CPU time; an archive of Spark's loaded classes, made
once per checkout, takes a third off the rest. A Python imports PySpark several times as fast as
from Spark's zip file, whose modules nobody has compiled. What the plugin measures comes from the
kernel and from Spark, so no option here changes what a test shows.
"""

from __future__ import annotations

import fcntl
import functools
import os
import shlex
import subprocess
import sys
import threading
from pathlib import Path
from zlib import crc32

import pyspark

REPO = Path(__file__).resolve().parents[2]
WARM_UP = """
import tempfile

from pyspark.sql import SparkSession

with tempfile.TemporaryDirectory() as folder:
    builder = SparkSession.builder.config("spark.eventLog.enabled", "true")
    spark = builder.config("spark.eventLog.dir", folder).getOrCreate()
    made = spark.range(9).selectExpr("id % 3 k", "id", "string(id) name")
    made.write.parquet(f"{folder}/t")
    spark.read.parquet(f"{folder}/t").createOrReplaceTempView("t")
    where = "from t where id > 1 and name > '1'"
    spark.sql(f"select k, count(*), max(name) {where} group by k order by k").collect()
    for hint in ("merge", "broadcast"):
        spark.sql(f"select /*+ {hint}(u) */ t.k from t join t u on t.k = u.k").count()
    pairs = spark.sparkContext.parallelize(range(9), 3).map(lambda x: (x % 2, x))
    pairs.reduceByKey(int.__add__).collect()
    spark.stop()
"""
"""What most jobs of tests do: with its classes in the archive, a job that writes and joins Parquet
takes a tenth less CPU time."""
PLAIN = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable -Xlog:all=error:stderr"
"""The last two: an archive that does not fit is passed over without a word on standard output."""


INSTALLED = Path(pyspark.__file__).parent


@functools.cache
def archive() -> Path:
    """Where the classes of the installed Spark and this JDK are kept; the file may not exist."""
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    java = "".join(c if c.isalnum() else "-" for c in done.stderr.partition("\n")[0])
    spark = next((INSTALLED / "jars").glob("spark-core_*.jar")).stem
    return REPO / "build" / "cds" / f"{spark}-{java}.jsa"


def options() -> str:
    """Options of ``java``, which does without an archive that is not there or does not fit."""
    return f"{PLAIN} -XX:SharedArchiveFile={archive()}"


@functools.cache
def python(home: Path, interpreter: str) -> str:
    """A Python for the driver and the workers that finds PySpark where its modules are compiled."""
    (py4j,) = (home / "python" / "lib").glob("py4j-*.zip")
    words = [f"PYTHONPATH={home.parent}:{py4j}", interpreter]
    text = f'#!/bin/sh\nexec env {shlex.join(words)} "$@"\n'
    script = REPO / "build" / f"python-{crc32(text.encode())}"  # several Sparks may be tested
    made = script.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
    made.parent.mkdir(parents=True, exist_ok=True)
    made.write_text(text, encoding="utf-8")
    made.chmod(0o755)
    made.replace(script)
    return str(script)


@functools.cache
def make_archive() -> None:
    """Make the archive if nobody has made it or is about to."""
    path = archive()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
        if path.exists():
            return
        script, made = path.with_suffix(".py"), path.with_suffix(".making")
        script.write_text(WARM_UP, encoding="utf-8")
        subprocess.run(
            [INSTALLED / "bin" / "spark-submit", "--master", "local[2]", script],
            env={
                **os.environ,
                "SPARK_HOME": str(INSTALLED),
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_SUBMIT_OPTS": f"{PLAIN} -XX:ArchiveClassesAtExit={made}",
            },
            cwd=path.parent,
            capture_output=True,
            check=False,
        )
        if made.exists():
            made.replace(path)
