"""Steps on executors for a trace: survey its columns, then find the jobs in it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from iqcar.causes.topics.topic_result import TopicSettings
from iqcar.fleet.job_batches import bundles
from iqcar.fleet.steps import JOBS, TOLD, Told
from iqcar.fleet.transport import one_row, rows_of
from iqcar.lab.traces.trace_columns import TraceColumns
from iqcar.lab.traces.trace_survey import Survey, TraceLayout, survey_of, tasks_of
from iqcar.lab.traces.trace_topic_search import jobs_of_block

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
    yield from rows_of(0, TOLD, Told(found.tally, len(found), {}, 0, 0))
    for bundle in bundles(found):
        yield one_row(int(bundle.stage[0]), JOBS, bundle)


def _named(batch: pd.DataFrame, columns: TraceColumns) -> pd.DataFrame:
    """Give columns their names: Spark has them by number, because a dot would split a name."""
    return batch.set_axis(columns.wanted(), axis=1)
