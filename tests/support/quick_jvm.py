"""Options for the JVMs of tests: a Spark that runs for seconds spends most of them on starting.

Compiling once instead of twice halves its CPU time; an archive of Spark's loaded classes, made once
per checkout, takes a third off the rest. What the plugin measures comes from the kernel and from
Spark, so no option here changes what a test shows.
"""

from __future__ import annotations

import fcntl
import functools
import os
import subprocess
import sys
from pathlib import Path

import pyspark

REPO = Path(__file__).resolve().parents[2]
WARM_UP = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
spark.range(9).selectExpr("id % 3 k", "id").createOrReplaceTempView("t")
spark.sql("select k, count(*), sum(id) from t group by k order by k").collect()
spark.sparkContext.parallelize(range(9), 3).map(lambda x: x).collect()
spark.stop()
"""
PLAIN = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable -Xlog:all=error:stderr"
"""The last two: an archive that does not fit is passed over without a word on standard output."""


@functools.cache
def archive() -> Path:
    """Where the classes of this Spark and this JDK are kept; the file may not exist."""
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    java = "".join(c if c.isalnum() else "-" for c in done.stderr.partition("\n")[0])
    return REPO / "build" / "cds" / f"spark-{pyspark.__version__}-{java}.jsa"


def options() -> str:
    """Options of ``java``; without the archive it starts as it would without the option."""
    return f"{PLAIN} -XX:SharedArchiveFile={archive()}"


@functools.cache
def make_archive() -> None:
    """Make the archive if nobody has made it or is about to."""
    path = archive()
    path.parent.mkdir(parents=True, exist_ok=True)
    with (path.parent / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
        if path.exists():
            return
        script, made = path.with_suffix(".py"), path.with_suffix(".making")
        script.write_text(WARM_UP, encoding="utf-8")
        submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        subprocess.run(
            [submit, "--master", "local[2]", script],
            env={
                **os.environ,
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
