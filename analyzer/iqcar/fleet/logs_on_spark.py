"""Reads logs on executors, and brings the tables of each group of logs to one partition.

Tables stay on the executors; the driver gets an outline of each log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from iqcar.fleet.packing import even_shares, in_rounds, pack_by_size, together
from iqcar.fleet.send_code import Shipped
from iqcar.fleet.steps import TABLES, Outline
from iqcar.fleet.transport import run_step
from iqcar.logs.find.layouts import EventLog, Unreadable
from iqcar.logs.ingest import failed
from iqcar.logs.merge import columns_of, hosts_of, merge_columns, row_count
from iqcar.tables import Tables
from iqcar.tables.arrays import Ints


def read_on_spark(
    spark: Any,
    found: Sequence[EventLog | Unreadable],
    shipped: Shipped,
    heavy: Sequence[str],
    unused: Sequence[str],
) -> Any:
    """Read every log on some executor; the largest are started first.

    Parameters
    ----------
    heavy : names of tables that outlines hold no rows of
    unused : names of tables that no later step needs

    Returns the rows of :func:`iqcar.fleet.steps.read_step`.
    """
    logs = [(number, log) for number, log in enumerate(found) if isinstance(log, EventLog)]
    cores = spark.sparkContext.defaultParallelism
    shares = pack_by_size([log.work_bytes for _, log in logs], cores)
    of_tasks = [[logs[row] for row in share] for share in shares]
    step = shipped.step("fleet.steps.read_step", of_tasks, heavy, unused)
    return run_step(spark.range(0, len(shares), 1, len(shares)), step)


def keep(frame: Any, held: ExitStack) -> Any:
    """Keep what a step made, in memory or on the executors' disks, until all is done."""
    kept = frame.persist()
    held.callback(kept.unpersist)
    return kept


def outlined(found: Sequence[EventLog | Unreadable], outlines: Mapping[int, Outline]) -> Tables:
    """Put together what the driver knows of all logs."""
    return merge_columns(
        [
            outlines[number].columns
            if isinstance(place, EventLog)
            else columns_of(failed(place.path, place.message))
            for number, place in enumerate(found)
        ]
    )


TASKS_PER_PARTITION = 200_000
"""Tasks whose jobs one Spark task looks at, or diagnoses: a second's work."""
AT_ONCE = 2
"""Partitions per core at least: who ends early takes another."""
TRIED, LEAST_TRIED = 16, 64
"""Numbers that are tried per partition, and at least: with sixteen the hash misses one partition
in millions."""


def at_one_place(
    spark: Any, read: Any, outlines: Mapping[int, Outline], groups: Mapping[int, int] | None = None
) -> Any:
    """Bring the tables of each group of logs to one partition, in the order of logs.

    Parameters
    ----------
    read : DataFrame of Spark; what :func:`iqcar.fleet.steps.read_step` made.
    outlines : outline of each log, by its number
    groups : group of each log with an application; logs that share a host are one by default

    Returns the rows of tables, with the ``group`` and ``first_stage`` (row of the log's first stage
    among those of all logs).
    """
    hosts: dict[int, list[str]] = {}
    first_stage: dict[int, int] = {}
    stages = 0
    for number in sorted(outlines):
        columns = outlines[number].columns
        if row_count(columns, "applications"):
            hosts[number] = hosts_of(columns)
            first_stage[number] = stages
        stages += row_count(columns, "stages")
    groups = together(hosts) if groups is None else groups
    members = list(hosts)
    tasks = [outlines[number].tasks for number in members]
    of_group = np.bincount([groups[number] for number in members], tasks).tolist()
    count = min(partitions(spark, sum(tasks)), len(of_group))
    shares = even_shares([max(weight, 1) for weight in of_group], count, range(len(of_group)))
    keys = keys_of_partitions(count)
    key_of = {group: keys[share] for share, in_share in enumerate(shares) for group in in_share}
    table = spark.createDataFrame(
        pd.DataFrame(
            {
                "log": members,
                "group": [groups[log] for log in members],
                "key": [key_of[groups[log]] for log in members],
                "first_stage": [first_stage[log] for log in members],
            },
            dtype=np.int64,
        )
    )
    pieces = read.where(f"kind = '{TABLES}'").join(table.hint("broadcast"), "log")
    return pieces.repartition(count, "key").sortWithinPartitions("group", "log", "part")


def partitions(spark: Any, tasks: int) -> int:
    """How many partitions so many tasks of logs are worth."""
    cores = int(spark.sparkContext.defaultParallelism)
    return in_rounds(max(AT_ONCE * cores, tasks // TASKS_PER_PARTITION), cores)


def keys_of_partitions(count: int) -> list[int]:
    """Find a number for each partition that Spark's own hash brings there.

    By the numbers 0, 1, 2 … half of the partitions would be empty, and others have several.
    """
    tried = np.arange(TRIED * count + LEAST_TRIED)
    partition, first = np.unique(hash_of(tried) % count, return_index=True)
    keys = np.full(count, -1)
    keys[partition] = first
    spare = np.setdiff1d(tried, first)
    keys[keys < 0] = spare[: (keys < 0).sum()]
    found: list[int] = keys.tolist()
    return found


def hash_of(numbers: Ints) -> Ints:
    """Return Spark's hash of a column of type bigint: 32 bits of MurmurHash3 with the seed 42."""
    mixed = np.full(len(numbers), 42, np.uint32)
    for word in (numbers & 0xFFFFFFFF, numbers >> 32 & 0xFFFFFFFF):
        scrambled = _turned(word.astype(np.uint32) * np.uint32(0xCC9E2D51), 15)
        mixed = _turned(mixed ^ scrambled * np.uint32(0x1B873593), 13) * np.uint32(5)
        mixed += np.uint32(0xE6546B64)
    mixed ^= np.uint32(8)  # bytes hashed
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        mixed = (mixed ^ mixed >> np.uint32(shift)) * np.uint32(factor)
    return mixed.view(np.int32).astype(np.int64)


def _turned(bits: NDArray[np.uint32], by: int) -> NDArray[np.uint32]:
    turned: NDArray[np.uint32] = bits << np.uint32(by) | bits >> np.uint32(32 - by)
    return turned
