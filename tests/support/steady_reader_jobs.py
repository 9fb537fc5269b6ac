"""A PySpark application with queries that read a store, alone or beside a steady reader."""

from __future__ import annotations

import sys
import time

from pyspark import InheritableThread
from pyspark.sql import SparkSession

BEFORE_S = 1.5


def read(spark: SparkSession, store: str, name: str) -> None:
    """Read the files of a folder at once."""
    spark.sparkContext.setJobDescription(name)
    rows = spark.read.schema("value LONG").parquet(f"{store}/{name}")
    rows.selectExpr("max(value) AS most").collect()


def main(store: str, victims: int, beside: bool) -> None:
    """Let the victims read one after the other, and if so another all the time."""
    spark = SparkSession.builder.getOrCreate()
    reader = InheritableThread(target=read, args=(spark, store, "reader"))
    if beside:
        reader.start()
        time.sleep(BEFORE_S)
    for _ in range(victims):
        read(spark, store, "victim")
    if beside:
        reader.join()
    spark.stop()


main(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "beside")
