"""A PySpark job that knows nothing of iqcar: prints its result.

Arguments: "rows" for a job without SQL, which starts faster; "python" for one with a Python
function besides; "exit" for an exit code.
"""

import sys

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
if "rows" in sys.argv:  # counted in the JVM: Spark 3.3 cannot pickle functions of new Pythons
    print("RESULT", spark.sparkContext.parallelize(list(range(3000)), 6)._jrdd.count())
    spark.stop()
    sys.exit()
spark.conf.set("spark.sql.shuffle.partitions", "3")
rows = spark.range(0, 3000, 1, 4).selectExpr("id % 7 AS k", "id").groupBy("k").count().collect()
print("RESULT", sorted((row["k"], row["count"]) for row in rows))
if "python" in sys.argv:
    squares = spark.sparkContext.parallelize(range(10), 2).map(lambda x: x * x).sum()
    print("RESULT", squares)
spark.stop()
sys.exit(7 if "exit" in sys.argv else 0)
