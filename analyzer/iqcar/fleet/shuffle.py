"""Bring the tables of each group of logs to one partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from iqcar.fleet.packing import even_shares, together
from iqcar.fleet.steps import TABLES
from iqcar.tables import texts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iqcar.fleet.steps import Outline

TASKS_PER_PARTITION = 100_000
"""Tasks whose jobs one Spark task looks at: some seconds' work."""
AT_ONCE = 2
"""Partitions per core at least: who ends early takes another."""
TRIED, LEAST_TRIED = 16, 64
"""Numbers that are tried per partition, and at least: with sixteen the hash misses one partition
in millions."""


def at_one_place(
    spark: Any,
    read: Any,
    outlines: Mapping[int, Outline],
    groups: Mapping[int, int] | None = None,
) -> Any:
    """Bring the tables of each group of logs to one partition, in the order of logs.

    Parameters
    ----------
    spark : SparkSession
    read : DataFrame of Spark
        What :func:`iqcar.fleet.steps.read_step` made.
    outlines : outline of each log, by its number
    groups : group of each log with an application; logs that share a host are one by default

    Returns
    -------
    DataFrame of Spark
        The rows of tables, with the ``group`` and ``first_stage`` (row of the log's first stage
        among those of all logs).
    """
    from pyspark.sql import functions

    hosts: dict[int, list[str]] = {}
    first_stage: dict[int, int] = {}
    stages = 0
    for number in sorted(outlines):
        tables = outlines[number].tables
        if len(tables.applications):
            hosts[number] = texts(tables.hosts, "host")
            first_stage[number] = stages
        stages += len(tables.stages)
    groups = together(hosts) if groups is None else groups
    members = list(hosts)
    tasks = [outlines[number].tasks for number in members]
    of_group = np.bincount([groups[number] for number in members], tasks).tolist()
    count = min(partitions(spark, sum(tasks)), len(of_group))
    shares = even_shares([max(weight, 1) for weight in of_group], count, range(len(of_group)))
    keys = _keys(spark, count)
    key_of = {group: keys[share] for share, in_share in enumerate(shares) for group in in_share}
    table = spark.createDataFrame(
        [(log, groups[log], key_of[groups[log]], first_stage[log]) for log in members],
        "log long, group long, key long, first_stage long",
    )
    pieces = read.where(read["kind"] == TABLES).join(functions.broadcast(table), "log")
    return pieces.repartition(count, "key").sortWithinPartitions("group", "log", "part")


def partitions(spark: Any, tasks: int) -> int:
    """How many partitions so many tasks of logs are worth."""
    at_once = AT_ONCE * int(spark.sparkContext.defaultParallelism)
    return max(at_once, tasks // TASKS_PER_PARTITION, 1)


def _keys(spark: Any, count: int) -> list[int]:
    """Find a number for each partition that Spark's own hash brings there.

    By the numbers 0, 1, 2 … half of the partitions would be empty, and others have several.
    """
    from pyspark.sql import functions

    tried = spark.range(0, TRIED * count + LEAST_TRIED, 1, 1)
    bucket = functions.pmod(functions.hash("id"), functions.lit(count)).alias("bucket")
    numbers: dict[int, int] = {}
    spare: list[int] = []
    for number, partition in tried.select("id", bucket).collect():
        if numbers.setdefault(partition, number) != number:
            spare.append(number)
    return [
        numbers[partition] if partition in numbers else spare.pop() for partition in range(count)
    ]
