"""Topics of many logs on Spark, with the numbers of the local engine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from iqcar.eventlog.ingest import failed
from iqcar.eventlog.locate import EventLog, locate
from iqcar.eventlog.merge import merge
from iqcar.fleet import steps
from iqcar.fleet.finding import topics_of_looks
from iqcar.fleet.packing import pack_by_size, together
from iqcar.fleet.pieces import SCHEMA, rejoined
from iqcar.fleet.progress import watched
from iqcar.fleet.session import working_on
from iqcar.fleet.ship import ship
from iqcar.fleet.sources import sources_on_spark
from iqcar.kinds import QueryBy
from iqcar.queries import identify
from iqcar.rules.topics import topic_name
from iqcar.stragglers.clocks import clock_doubts
from iqcar.stragglers.host_features import sample_doubts
from iqcar.stragglers.labels import labels_of
from iqcar.tables import Tables, texts
from iqcar.topics import TopicSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from iqcar.topics import Topics

TASKS_PER_PARTITION = 100_000
"""Tasks whose jobs one Spark task looks at: some seconds' work."""


def topics_on_spark(
    spark: Any,
    paths: str | Path | Sequence[str | Path],
    settings: TopicSettings | None = None,
    *,
    query_by: QueryBy | str = QueryBy.SQL,
    names: str = "",
    progress: Callable[[str, int, int], None] | None = None,
) -> tuple[Tables, Topics | None]:
    """Find what keeps making tasks slow in many logs, reading and learning on Spark.

    Parameters
    ----------
    spark : SparkSession
        Not of Spark Connect.
    paths : path, or sequence of paths
        As :func:`iqcar.pipeline.read` takes them. They are looked for here and read on the
        executors: both have to reach them under the same name.
    settings : TopicSettings, optional
    query_by : QueryBy or str
        What counts as one query.
    names : str
        File with names of topics in the format of ``rules/topics.json``; ours by default.
    progress : callable, optional
        Called from another thread with what is being done, the Spark tasks done, and those in all.

    Returns
    -------
    Tables
        With an ``inputs`` row per log found, applications, hosts, executors, jobs, stages and
        queries; ``tasks`` and what belongs to tasks is empty: it stayed on the executors. A query
        counts no tasks, and its times are those of its jobs and stages.
    Topics or None
        None if no log could be read.

    Raises
    ------
    IqcarError
        If a URL needs a package that is not installed, or Spark fails.
    """
    chosen, query_by = settings or TopicSettings(), QueryBy(query_by)
    found = locate([paths] if isinstance(paths, str) or not _several(paths) else list(paths))
    logs = [(number, one) for number, one in enumerate(found) if isinstance(one, EventLog)]
    unread = [failed(one.path, one.message) for one in found if not isinstance(one, EventLog)]
    if not logs:
        return merge(unread), None
    with working_on(spark, "iqcar topics"), watched(spark, progress) as doing:
        shipped = ship(spark)
        shares = pack_by_size([one.size_bytes for _, one in logs])
        doing("reading logs")
        read = _on_each(
            spark, len(shares), shipped.step("read_step", [[logs[i] for i in s] for s in shares])
        ).persist()
        placed = None
        try:
            outlines: dict[int, steps.Outline] = {
                number: outline for number, _, outline in rejoined(_rows(read, steps.OUTLINE))
            }
            tables = merge(
                [
                    outlines[number].tables
                    if isinstance(one, EventLog)
                    else failed(one.path, one.message)
                    for number, one in enumerate(found)
                ]
            )
            tables = identify(tables, query_by)
            if not len(tables.applications):
                return tables, None
            placed = _placed(spark, read, outlines).persist()
            tasks = sum(outline.tasks for outline in outlines.values())
            doing("measuring and learning from stages")
            jobs = placed.mapInPandas(shipped.step("jobs_step", chosen, query_by), SCHEMA)
            spread = max(2 * spark.sparkContext.defaultParallelism, tasks // TASKS_PER_PARTITION)
            looked = jobs.repartition(spread).mapInPandas(
                shipped.step("look_step", chosen), SCHEMA
            )
            results = rejoined(_rows(looked))
            tallies = [what for _, kind, what in results if kind == steps.TALLY]
            looks = [what for _, kind, what in results if kind == steps.LOOKS]
            topics = topics_of_looks(
                looks, tallies, tables.stages, labels_of(tables), _doubts(tables, tallies), chosen
            )
            named = [topic_name(topics.words_of(one), names) for one in range(len(topics.topics))]
            lacks = {topic: name.resource for topic, name in enumerate(named) if name.resource}
            doing("asking who was in the way")
            blamed = sources_on_spark(placed, shipped, topics, lacks, tables, query_by)
            return tables, replace(topics, sources=blamed)
        finally:
            read.unpersist()
            if placed is not None:
                placed.unpersist()


def _several(paths: Any) -> bool:
    from pathlib import Path

    return not isinstance(paths, (str, Path))


def _on_each(spark: Any, count: int, step: Callable[[Any], Any]) -> Any:
    """Run a step on the numbers up to `count`, each a task of its own, started in that order."""
    return spark.range(0, count, 1, count).mapInPandas(step, SCHEMA)


def _rows(frame: Any, kind: str = "") -> list[Any]:
    """Bring rows of a kind to the driver."""
    wanted = frame.where(frame["kind"] == kind) if kind else frame
    found: list[Any] = wanted.select("log", "kind", "part", "content").collect()
    return found


def _placed(spark: Any, read: Any, outlines: dict[int, steps.Outline]) -> Any:
    """Bring the tables of each group of logs to one place, in the order of logs."""
    from pyspark.sql import functions

    hosts, first_stage, stages = {}, {}, 0
    for number in sorted(outlines):
        tables = outlines[number].tables
        if len(tables.applications):
            hosts[number] = texts(tables.hosts, "host")
            first_stage[number] = stages
        stages += len(tables.stages)
    groups = together(hosts)
    tasks = np.bincount(
        [groups[number] for number in hosts], [outlines[number].tasks for number in hosts]
    )
    place = _places(spark, tasks.tolist())
    table = spark.createDataFrame(
        [(number, place[groups[number]], first_stage[number]) for number in hosts],
        "log long, place long, first_stage long",
    )
    pieces = read.where(read["kind"] == steps.TABLES).join(functions.broadcast(table), "log")
    count = len(place)
    return pieces.repartition(count, "place").sortWithinPartitions("place", "log", "part")


def _places(spark: Any, tasks: list[float]) -> list[int]:
    """Give each group a number that Spark's own hash brings to a partition of its own."""
    from pyspark.sql import functions

    count = len(tasks)
    tried = spark.range(0, 16 * count + 64, 1, 1)
    bucket = functions.pmod(functions.hash("id"), functions.lit(count))
    rows = tried.select("id", bucket.alias("bucket")).collect()
    of_bucket: dict[int, int] = {}
    for row in rows:
        of_bucket.setdefault(int(row["bucket"]), int(row["id"]))
    spare = (int(row["id"]) for row in rows if row["id"] not in set(of_bucket.values()))
    # The largest groups come first, as far as Spark starts partitions in their order.
    order = sorted(range(count), key=lambda group: (-tasks[group], group))
    places = [0] * count
    for partition, group in enumerate(order):
        places[group] = of_bucket[partition] if partition in of_bucket else next(spare)
    return places


def _doubts(tables: Tables, tallies: list[steps.Tally]) -> tuple[str, ...]:
    """Say of all groups together what the local engine says."""
    offsets = {host: offset for tally in tallies for host, offset in tally.offsets.items()}
    hosts = texts(tables.hosts, "host")
    clocks = clock_doubts(tables, np.array([offsets.get(host, 0.0) for host in hosts]))
    untold = sum(tally.untold for tally in tallies), sum(tally.sampled for tally in tallies)
    return (*clocks, *sample_doubts(*untold))
