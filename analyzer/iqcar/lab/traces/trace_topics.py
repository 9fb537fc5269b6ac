"""Find topics of a Parquet trace on Spark, with the same numbers as the local engine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from iqcar.causes.stragglers.labels import Labels
from iqcar.causes.topics.build_topics import topics_from
from iqcar.causes.topics.jobs import Tally, metric_names
from iqcar.causes.topics.keyword_evidence import share_kept
from iqcar.causes.topics.topic_result import Topics, TopicSettings
from iqcar.errors import IqcarError, UsageError
from iqcar.fleet.send_code import ship
from iqcar.fleet.session import TASKS_PER_BATCH, first_line, rows_per_batch, working_on
from iqcar.fleet.shuffle import partitions
from iqcar.fleet.spark_progress import watched
from iqcar.fleet.steps import JOBS, LOOKS, TOLD, compile_looks
from iqcar.fleet.transport import objects, stepped
from iqcar.lab.traces.trace_columns import TraceColumns
from iqcar.lab.traces.trace_steps import SURVEY
from iqcar.lab.traces.trace_survey import Survey
from iqcar.lab.traces.trace_values import MAX_NAME

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
        doing("compiling")
        compile_looks(chosen)
        shipped = ship(spark)
        doing("reading the trace")
        trace = _opened(spark, path)
        settled = columns.within(trace.columns, path)
        wanted = trace.select(*_numbered(trace, settled))
        with rows_per_batch(spark, TASKS_PER_BATCH):
            step = shipped.step("lab.traces.trace_steps.survey_step", settled)
            survey = Survey.total(part for _, part in objects(stepped(wanted, step), SURVEY))
            layout = survey.layout(settled, path)
            step = shipped.step("lab.traces.trace_steps.trace_jobs_step", chosen, layout)
            found = stepped(_by_job(spark, trace, settled, survey.rows), step).persist()
            held.callback(found.unpersist)
            told = [part for _, part in objects(found, TOLD)]
        doing("learning from jobs")
        kept = share_kept(sum(part.jobs for part in told))
        bundles = found.where(found["kind"] == JOBS).repartition(partitions(spark, survey.rows))
        looked = stepped(bundles, shipped.step("fleet.steps.look_step", chosen, kept))
        return topics_from(
            [look for _, bundle in objects(looked, LOOKS) for look in bundle],
            metric_names(layout.features),
            chosen,
            sum((part.tally for part in told), Tally(0, 0, 0)),
            Labels([path], layout.jobs, [], [], []),
            layout.doubts,
        )


def _opened(spark: Any, path: str) -> Any:
    from pyspark.errors import PySparkException

    try:
        return spark.read.parquet(path)
    except PySparkException as error:
        raise IqcarError(f"cannot be read: {first_line(error)}", path) from error


def _numbered(trace: Any, columns: TraceColumns) -> list[Any]:
    """Select the columns that are wanted, by number instead of name.

    Whole numbers that are names become text here: pandas would turn them to floats in a batch in
    which one is missing.
    """
    from pyspark.sql import functions

    kinds = dict(trace.dtypes)
    names = {*columns.job, columns.host, columns.task}
    selected = []
    for number, name in enumerate(columns.wanted()):
        column = functions.col(_quoted(name))
        if name in names and kinds[name] in _WHOLE:
            column = column.cast("string")
        selected.append(column.alias(f"c{number}"))
    return selected


def _by_job(spark: Any, trace: Any, columns: TraceColumns, rows: int) -> Any:
    """Bring all tasks of a job to one partition, in the order of the trace."""
    from pyspark.sql import functions

    short = [
        functions.substring(functions.col(_quoted(name)).cast("string"), 1, MAX_NAME)
        for name in columns.job
    ]
    ordered = (
        trace.select(
            *_numbered(trace, columns),
            functions.concat_ws("/", *short).alias(_JOB),
            functions.col("_metadata.file_path").alias(_FILE),
            functions.col("_metadata.row_index").alias(_ROW),
        )
        .repartition(partitions(spark, rows), _JOB)
        .sortWithinPartitions(_FILE, _ROW)
    )
    return ordered.drop(_JOB, _FILE, _ROW)


def _quoted(name: str) -> str:
    """Write a column's name so that Spark takes it as it is."""
    return "`" + name.replace("`", "``") + "`"
