"""Read logs on executors: tables stay there, the driver gets an outline of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from iqcar.fleet.packing import pack_by_size
from iqcar.fleet.transport import stepped
from iqcar.logs.find.locate import EventLog, Unreadable
from iqcar.logs.ingest import failed
from iqcar.logs.merge import columns_of, merge_columns
from iqcar.tables import Tables

if TYPE_CHECKING:
    from iqcar.fleet.send_code import Shipped
    from iqcar.fleet.steps import Outline


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
    spark : SparkSession
    found : sequence of EventLog or Unreadable
    shipped : Shipped
    heavy : names of tables that outlines hold no rows of
    unused : names of tables that no later step needs

    Returns
    -------
    DataFrame of Spark
        The rows of :func:`iqcar.fleet.steps.read_step`.
    """
    logs = [(number, log) for number, log in enumerate(found) if isinstance(log, EventLog)]
    cores = spark.sparkContext.defaultParallelism
    shares = pack_by_size([log.size_bytes for _, log in logs], cores)
    of_tasks = [[logs[row] for row in share] for share in shares]
    step = shipped.step("fleet.steps.read_step", of_tasks, heavy, unused)
    return stepped(spark.range(0, len(shares), 1, len(shares)), step)


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
