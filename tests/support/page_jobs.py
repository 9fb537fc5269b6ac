"""A PySpark job whose one task touches the pages of a mapped file in its Python worker."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession

STEP = 1 << 20


def touched(path: str) -> int:
    """Read a byte of each MB, from the file's end: the kernel does not read ahead of that."""
    with Path(path).open("rb") as file:
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return sum(pages[at] for at in range(len(pages) - 1, -1, -STEP))


def run(spark: SparkSession, name: str, path: str) -> None:
    """Touch the pages of a file in a job group of that name."""

    def touch(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for batch in batches:
            yield batch.assign(id=touched(path))

    spark.sparkContext.setJobGroup(name, name)
    (row,) = spark.range(0, 1, 1, 1).mapInPandas(touch, "id long").collect()
    print("TOUCHED", row.id)


def main() -> None:
    """Touch a small file, for which classes and the worker are loaded, and that of the argument."""
    spark = SparkSession.builder.getOrCreate()
    run(spark, "warm", __file__)
    run(spark, "pages", sys.argv[1])
    spark.stop()


main()
