"""The Spark application of :mod:`bigroots_kinds`: jobs of HiBench's kinds, one after the other.

    python scripts/experiments/bigroots_kind_jobs.py PLAN.json

Every job is described by its kind. The first round is run before the file ``warm`` appears, the
others after the file ``go`` is there.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bigroots_jobs import forget
from pyspark.ml.classification import LinearSVC, LogisticRegression, NaiveBayes
from pyspark.ml.clustering import KMeans
from pyspark.ml.feature import PCA, VectorAssembler
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

DIMENSIONS, ITERATIONS, SEED = 8, 3, 1
Plan = dict[str, Any]


def numbers(spark: SparkSession, plan: Plan) -> DataFrame:
    """Rows in as many partitions as there are tasks."""
    return spark.range(0, plan["tasks"] * plan["rows"], 1, plan["tasks"])


def skewed(most: int, seed: int = SEED) -> Any:
    """A random number below ``most``; small ones are frequent, as words are and linked pages."""
    return f.floor(most * f.pow(f.rand(seed), 3))


def points(spark: SparkSession, plan: Plan) -> DataFrame:
    """Points with labels; most lie near one of two centers."""
    near = f.when(f.rand(SEED) < 0.9, 0.0).otherwise(3.0).alias("near")
    names = [f"x{number}" for number in range(DIMENSIONS)]
    at = [(f.col("near") + f.rand(SEED + n)).alias(x) for n, x in enumerate(names)]
    label = (f.col("near") > 0).cast("double").alias("label")
    placed = numbers(spark, plan).select(near).select(*at, label)
    return VectorAssembler(inputCols=names, outputCol="features").transform(placed)


def run(frame: DataFrame) -> None:
    """Compute all rows and keep none."""
    frame.write.format("noop").mode("overwrite").save()


def sort(spark: SparkSession, plan: Plan) -> None:
    """Rows by a random key."""
    run(numbers(spark, plan).withColumn("key", f.rand(SEED)).orderBy("key"))


def wordcount(spark: SparkSession, plan: Plan) -> None:
    """Words of lines, some frequent."""
    line = f.concat_ws(" ", *(skewed(1000, seed).cast("string") for seed in range(8)))
    words = numbers(spark, plan).select(f.explode(f.split(line, " ")).alias("word"))
    run(words.groupBy("word").count())


def aggregation(spark: SparkSession, plan: Plan) -> None:
    """Sums of sales by item, from files that the page cache has forgotten."""
    forget(Path(plan["sales"]))
    sales = spark.read.parquet(plan["sales"])
    run(sales.groupBy("ss_item_sk").agg(*(f.sum(name) for name in plan["measures"])))


def pagerank(spark: SparkSession, plan: Plan) -> None:
    """Ranks of pages, to some of which many link."""
    pages = plan["rows"]
    links = numbers(spark, plan).select(
        (f.col("id") % pages).alias("page"), skewed(pages).alias("to")
    )
    ranks = links.select("page").distinct().withColumn("rank", f.lit(1.0))
    for _ in range(ITERATIONS):
        given = links.join(ranks, "page").groupBy("to").agg(f.sum("rank").alias("rank"))
        ranks = given.select(f.col("to").alias("page"), (0.15 + 0.85 * f.col("rank")).alias("rank"))
    run(ranks)


def learner(model: Any, **settings: Any) -> Callable[[SparkSession, Plan], None]:
    """Fit a model to points; Spark must run before one is made."""

    def fit(spark: SparkSession, plan: Plan) -> None:
        model(**settings).fit(points(spark, plan))

    return fit


KINDS: dict[str, Callable[[SparkSession, Plan], None]] = {
    "kmeans": learner(KMeans, k=5, maxIter=ITERATIONS, seed=SEED),
    "naive bayes": learner(NaiveBayes),
    "logistic regression": learner(LogisticRegression, maxIter=ITERATIONS),
    "pca": learner(PCA, k=3, inputCol="features", outputCol="reduced"),
    "svm": learner(LinearSVC, maxIter=ITERATIONS),
    "sort": sort,
    "wordcount": wordcount,
    "aggregation": aggregation,
    "pagerank": pagerank,
}


def main() -> None:
    """Run all kinds once, wait, and run them as often as told."""
    plan = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    spark = SparkSession.builder.appName("bigroots-kinds").getOrCreate()
    for number in range(1 + plan["rounds"]):
        for kind, job in KINDS.items():
            spark.sparkContext.setJobDescription(kind if number else f"warm {kind}")
            job(spark, plan)
        if number == 0:
            Path(plan["warm"]).touch()
            while not Path(plan["go"]).exists():
                time.sleep(0.1)
    spark.stop()


if __name__ == "__main__":
    main()
