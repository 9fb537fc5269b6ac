"""A PySpark job that reads and writes at each place that its arguments name."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

if __name__ == "__main__":
    spark = SparkSession.builder.getOrCreate()
    for argument in sys.argv[1:]:
        name, place = argument.split("=", 1)
        spark.sparkContext.setJobGroup(f"{name} text", name)
        spark.read.text(f"{place}/lines.txt").selectExpr("max(value)").collect()
        spark.sparkContext.setJobGroup(f"{name} parquet", name)
        rows = spark.read.schema("number long").parquet(f"{place}/rows.parquet")
        rows.selectExpr("sum(number)").collect()
        spark.sparkContext.setJobGroup(f"{name} binary", name)
        whole = spark.read.format("binaryFile").load(f"{place}/whole.txt")
        whole.selectExpr("sum(length(content))").collect()
        spark.sparkContext.setJobGroup(f"{name} write", name)
        spark.range(10, numPartitions=1).write.csv(f"{place}/out")
    spark.stop()
