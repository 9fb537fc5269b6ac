"""A job in a context, which is stopped, and one in a second context of the same settings."""

from __future__ import annotations

from pyspark import SparkConf, SparkContext

first = SparkContext()
settings: SparkConf = first.getConf()
for sc in (first, None):
    sc = sc or SparkContext(conf=settings)
    print("DONE", sc.parallelize(range(8), 8).count(), flush=True)
    sc.stop()
