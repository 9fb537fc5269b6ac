"""Finds topics of a Parquet trace on Spark, with the same numbers as the local engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pandas as pd

from iqcar.causes.stragglers.straggler_result import Labels
from iqcar.causes.topics.build_topics import topics_from
from iqcar.causes.topics.jobs import Tally, metric_names
from iqcar.causes.topics.topic_result import Topics, TopicSettings
from iqcar.errors import IqcarError, UsageError
from iqcar.fleet.logs_on_spark import partitions
from iqcar.fleet.packing import bundles
from iqcar.fleet.send_code import ship
from iqcar.fleet.session import TASKS_PER_BATCH, first_line, rows_per_batch, watched, working_on
from iqcar.fleet.steps import FACTS, JOBS, LOOKS, GroupFacts
from iqcar.fleet.transport import objects, pack_row, rows_of, run_step
from iqcar.lab.traces.trace_columns import BY_NAME, MAX_NAME, TraceColumns
from iqcar.lab.traces.trace_survey import Survey, TraceLayout, survey_of, tasks_of
from iqcar.lab.traces.trace_topic_search import jobs_of_block

_WHOLE = ("tinyint", "smallint", "int", "bigint")
_JOB, _FILE, _ROW = "job", "file", "row"
"""Columns of our own: a row's job, and where it stood, so that tasks keep their order."""


def trace_topics_on_spark(
    spark: Any,
    path: str,
    columns: TraceColumns = BY_NAME,
    settings: TopicSettings | None = None,
    *,
    progress: Callable[[str, int, int], None] | None = None,
) -> Topics:
    """Find what keeps making tasks slow in a trace of another system, on Spark.

    Raises IqcarError if it cannot be read, holds no task with a job and a latency, or Spark fails;
    UsageError if a column is missing, or it is not Parquet.

    spark: SparkSession; not of Spark Connect.
    path: Parquet: a file, folder or URL that Spark can read.
    columns: which column is what; the rest is found by name.
    progress: as of :func:`iqcar.fleet.topics_on_spark`.
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
        wanted = trace.select(*_numbered(trace, settled))
        with rows_per_batch(spark, TASKS_PER_BATCH):
            step = shipped.step("lab.traces.trace_topics.survey_step", settled)
            survey = Survey.total(part for _, part in objects(run_step(wanted, step), SURVEY))
            layout = survey.layout(settled, path)
            step = shipped.step("lab.traces.trace_topics.trace_jobs_step", chosen, layout)
            found = run_step(_by_job(spark, trace, settled, survey.rows), step).persist()
            held.callback(found.unpersist)
            told = [part for _, part in objects(found, FACTS)]
        doing("learning from jobs")
        bundles = found.where(found["kind"] == JOBS).repartition(partitions(spark, survey.rows))
        looked = run_step(bundles, shipped.step("fleet.steps.look_step"))
        return topics_from(
            [look for _, bundle in objects(looked, LOOKS) for look in bundle],
            metric_names(layout.features), chosen,
            tally=sum((part.tally for part in told), Tally(0, 0, 0)),
            labels=Labels([path], layout.jobs, [], [], []), doubts=layout.doubts,
        )  # fmt: skip


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


SURVEY = "survey"
"""Kind of the rows that tell what a part of a trace holds."""


def survey_step(columns: TraceColumns, batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Survey a part of a trace."""
    asked = (*columns.metrics, *columns.times)
    tables = (_named(batch, columns) for batch in batches)
    surveys = (survey_of(table, tasks_of(table, columns), asked) for table in tables)
    yield from rows_of(0, SURVEY, Survey.total(surveys))


def trace_jobs_step(
    settings: TopicSettings, layout: TraceLayout, batches: Iterator[pd.DataFrame]
) -> Iterator[pd.DataFrame]:
    """Find the jobs of a part of a trace that holds all tasks of each of its jobs."""
    parts = list(batches)
    if not sum(len(part) for part in parts):
        return
    table = _named(pd.concat(parts, ignore_index=True), layout.columns)
    tasks = tasks_of(table, layout.columns)
    row_of = {name: row for row, name in enumerate(layout.jobs)}
    job = np.array([*(row_of[name] for name in tasks.names), -1], np.int64)[tasks.job]
    # A latency of 0 is known, but tells nothing.
    block = layout.block(table, np.where(tasks.latency_ms > 0, job, -1))
    found = jobs_of_block(block, layout.features, settings)
    yield from rows_of(0, FACTS, GroupFacts(found.tally, len(found), {}, 0, 0))
    for bundle in bundles(found):
        yield pack_row(int(bundle.stage[0]), JOBS, bundle)


def _named(batch: pd.DataFrame, columns: TraceColumns) -> pd.DataFrame:
    """Give columns their names: Spark has them by number, because a dot would split a name."""
    return batch.set_axis(columns.wanted(), axis=1)
