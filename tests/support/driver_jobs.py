"""Jobs whose time passes in the driver: a long plan, many files, a broadcast, a commit.

Usage: driver_jobs.py FOLDER
"""

import sys
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

UNIONS, COLUMNS, FILES, ROWS = 400, 20, 300, 600_000


def main(folder: str) -> None:
    spark = SparkSession.builder.config("spark.sql.warehouse.dir", folder).getOrCreate()
    named = spark.sparkContext.setJobDescription
    named("commit")
    spark.range(FILES).withColumn("day", F.col("id")).coalesce(1).write.partitionBy(
        "day"
    ).saveAsTable("many")
    named("plan")
    parts = [
        spark.range(2).select("id", *[(F.col("id") * n + k).alias(f"c{k}") for k in range(COLUMNS)])
        for n in range(UNIONS)
    ]
    whole = reduce(DataFrame.union, parts).filter(F.col("c3") > 5).coalesce(1)
    whole.agg(F.sum("c1")).collect()
    named("listing")
    spark.table("many").coalesce(1).agg(F.sum("id")).collect()
    named("broadcast")
    small = spark.range(ROWS, numPartitions=1).select((F.col("id") * 3).alias("k"), "id")
    large = spark.range(10, numPartitions=1).select(F.col("id").alias("k"))
    large.join(F.broadcast(small), "k").agg(F.sum("id")).collect()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
