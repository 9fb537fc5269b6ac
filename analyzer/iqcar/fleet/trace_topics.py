"""Topics of a trace in Parquet on Spark, with the numbers of the local engine."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from iqcar.errors import IqcarError, UsageError
from iqcar.fleet.send_code import ship
from iqcar.fleet.session import TASKS_PER_BATCH, first_line, rows_per_batch, working_on
from iqcar.fleet.shuffle import TASKS_PER_PARTITION, partitions
from iqcar.fleet.spark_progress import watched
from iqcar.fleet.steps import JOBS, TOLD
from iqcar.fleet.trace_steps import AsRead, Survey
from iqcar.fleet.transport import objects, stepped
from iqcar.stragglers.labels import Labels
from iqcar.stragglers.trace_columns import TraceColumns
from iqcar.stragglers.trace_features import MAX_NAME, features_of, left_out, no_task
from iqcar.topics import Tally, TopicSettings, metric_names, share_kept, topics_from

if TYPE_CHECKING:
    from collections.abc import Callable

    from iqcar.topics import Topics

DEFAULT = TraceColumns()
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_JOB, _FILE, _ROW = "job", "file", "row"
"""Columns of our own: a row's job, and where it stood, so that tasks keep their order."""


def trace_topics_on_spark(
    spark: Any,
    path: str,
    columns: TraceColumns = DEFAULT,
    settings: TopicSettings | None = None,
    *,
    progress: Callable[[str, int, int], None] | None = None,
) -> Topics:
    """Find what keeps making tasks slow in a trace of another system, on Spark.

    Parameters
    ----------
    spark : SparkSession
        Not of Spark Connect.
    path : str
        Parquet: a file, folder or URL that Spark can read.
    columns : TraceColumns
        Which column is what; the rest is found by name.
    settings : TopicSettings, optional
    progress : callable, optional
        As of :func:`iqcar.fleet.topics_on_spark`.

    Raises
    ------
    IqcarError
        If it cannot be read, holds no task with a job and a latency, or Spark fails.
    UsageError
        If a column is missing, or it is not Parquet.
    """
    chosen = settings or TopicSettings()
    if path.lower().endswith((".csv", ".csv.gz", ".gz")):
        raise UsageError("only Parquet is read on Spark", path, "leave out --on-spark for a CSV")
    with working_on(spark, "iqcar topics of a trace"), ExitStack() as held:
        doing = held.enter_context(watched(spark, progress))
        shipped = ship(spark)
        doing("reading the trace")
        trace = _opened(spark, path)
        settled = columns.within(trace.columns, path)
        wanted = trace.select(*_numbered(settled))
        with rows_per_batch(spark, TASKS_PER_BATCH):
            as_read = AsRead(tuple(settled.wanted()), _broken(trace, settled))
            step = shipped.step("trace_steps.survey_step", settled, as_read)
            survey = sum((one for _, one in objects(stepped(wanted, step))), Survey())
            if survey.left_out == survey.rows:
                raise no_task(path)
            usable = replace(
                settled,
                metrics=_told_of(settled.metrics, survey),
                times=_told_of(settled.times, survey),
            )
            names = _names(usable, path)
            jobs = sorted(survey.jobs)
            step = shipped.step(
                "trace_steps.trace_jobs_step", chosen, usable, as_read, names, jobs, path
            )
            found = stepped(_by_job(spark, trace, settled, survey.rows), step).persist()
            held.callback(found.unpersist)
            told = [one for _, one in objects(found, TOLD)]
        doing("learning from jobs")
        kept = share_kept(sum(one.jobs for one in told))
        bundles = found.where(found["kind"] == JOBS).repartition(partitions(spark, survey.rows))
        looked = stepped(bundles, shipped.step("steps.look_step", chosen, kept))
        unusable = [
            name[:MAX_NAME]
            for name in (*settled.metrics, *settled.times)
            if name not in (*usable.metrics, *usable.times)
        ]
        return topics_from(
            [look for _, bundle in objects(looked) for look in bundle],
            names,
            chosen,
            sum((one.tally for one in told), Tally(0, 0, 0)),
            Labels([path], jobs, [], [], sorted(survey.hosts)),
            left_out(path, survey.left_out, survey.rows, unusable),
        )


def _opened(spark: Any, path: str) -> Any:
    from pyspark.errors import PySparkException

    try:
        return spark.read.parquet(path)
    except PySparkException as error:
        raise IqcarError(f"cannot be read: {first_line(error)}", path) from error


def _told_of(names: tuple[str, ...], survey: Survey) -> tuple[str, ...]:
    """Metrics that the trace tells something of, and nothing impossible."""
    return tuple(name for name in names if name in survey.some and name not in survey.negative)


def _names(columns: TraceColumns, where: str) -> tuple[str, ...]:
    """What the metrics are called as features: as of a trace of one task that has all."""
    one = {name: [1.0] for name in columns.wanted()}
    return metric_names(features_of(pd.DataFrame(one), columns, where).features)


def _numbered(columns: TraceColumns) -> list[Any]:
    """Select the columns that are wanted, by number instead of name."""
    from pyspark.sql import functions

    wanted = enumerate(columns.wanted())
    return [functions.col(_quoted(name)).alias(f"c{number}") for number, name in wanted]


def _broken(trace: Any, columns: TraceColumns) -> tuple[str, ...]:
    """Columns of names that hold whole numbers of which some are missing; see ``AsRead``."""
    kinds = dict(trace.dtypes)
    named = dict.fromkeys([*columns.job, *filter(None, [columns.host])])
    return tuple(
        name
        for name in named
        if kinds[name] in _WHOLE and not trace.where(f"{_quoted(name)} is null").isEmpty()
    )


def _by_job(spark: Any, trace: Any, columns: TraceColumns, rows: int) -> Any:
    """Bring all tasks of a job to one partition, in the order of the trace."""
    from pyspark.sql import functions

    short = [
        functions.substring(functions.col(_quoted(name)).cast("string"), 1, MAX_NAME)
        for name in columns.job
    ]
    count = max(partitions(spark, rows), rows // TASKS_PER_PARTITION)
    ordered = (
        trace.select(
            *_numbered(columns),
            functions.concat_ws("/", *short).alias(_JOB),
            functions.col("_metadata.file_path").alias(_FILE),
            functions.col("_metadata.row_index").alias(_ROW),
        )
        .repartition(count, _JOB)
        .sortWithinPartitions(_FILE, _ROW)
    )
    return ordered.drop(_JOB, _FILE, _ROW)


def _quoted(name: str) -> str:
    """Write a column's name so that Spark takes it as it is."""
    return "`" + name.replace("`", "``") + "`"
