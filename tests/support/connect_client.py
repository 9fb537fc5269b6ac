"""A client of a Spark Connect server that knows nothing of iqcar. Argument: the server's URL."""

import sys

from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
rows = spark.range(0, 1000, 1, 4).selectExpr("id % 3 AS k").groupBy("k").count().collect()
print("RESULT", sorted(tuple(row) for row in rows))
