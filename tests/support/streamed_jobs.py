"""A few jobs, which end when a file says so. Arguments: that file."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
for number in range(3):
    spark.sparkContext.setJobDescription(f"query {number}")
    spark.range(0, 100, 1, 4).selectExpr("sum(id)").collect()
while not Path(sys.argv[1]).exists():
    time.sleep(0.05)
spark.stop()
