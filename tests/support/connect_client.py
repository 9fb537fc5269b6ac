"""A client of a Spark Connect server that knows nothing of iqcar.

Arguments: the server's URL, and queries to send: groups, evens, sql, tagged; those of another
session follow a plus sign.
"""

import sys

from pyspark.sql import SparkSession

for session in " ".join(sys.argv[2:]).split(" + "):
    spark = SparkSession.builder.remote(sys.argv[1]).create()
    for name in session.split():
        numbers = spark.range(0, 1000, 1, 4)
        if name == "evens":
            frame = numbers.where("id % 2 = 0").selectExpr("sum(id) AS k", "1 AS count")
        elif name == "sql":
            frame = spark.sql("SELECT id % 2 AS k, count(*) FROM range(100) GROUP BY 1")
        else:
            frame = numbers.selectExpr("id % 3 AS k").groupBy("k").count()
        if name == "tagged":
            spark.addTag("nightly")
        rows = frame.collect()
        spark.clearTags()
        print("RESULT", name, sorted(tuple(row) for row in rows))
    spark.stop()
