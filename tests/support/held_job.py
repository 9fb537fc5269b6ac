"""A PySpark job that runs a query, waits for a file to appear, runs another and ends.

Arguments: the file.
"""

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("held").getOrCreate()
spark.sparkContext.setJobDescription("first")
spark.range(0, 3000, 1, 4).selectExpr("id % 7 k").groupBy("k").count().collect()
while not Path(sys.argv[1]).exists():
    time.sleep(0.1)
spark.sparkContext.setJobDescription("second")
spark.range(0, 3000, 1, 4).selectExpr("id % 7 k").groupBy("k").count().collect()
spark.stop()
