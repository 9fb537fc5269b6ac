"""What runs on executors of a trace: its columns are surveyed, then its jobs are looked at."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from iqcar.errors import IqcarError
from iqcar.fleet.job_batches import bundles
from iqcar.fleet.steps import JOBS, TOLD, Told
from iqcar.fleet.transport import one_row, rows_of
from iqcar.stragglers.trace_features import codes_of, features_of, number_of
from iqcar.topics import Jobs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iqcar.stragglers.trace_columns import TraceColumns
    from iqcar.topics import TopicSettings

SURVEY = "survey"
"""Kind of the rows that tell what a part of a trace holds."""


@dataclass(frozen=True)
class Survey:
    """What a part of a trace holds.

    Attributes
    ----------
    rows, left_out : rows, and those without a job or a latency
    jobs, hosts : their names
    some, negative : metrics with a number, and with one below 0, in rows that are not left out
    """

    rows: int = 0
    left_out: int = 0
    jobs: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    some: frozenset[str] = frozenset()
    negative: frozenset[str] = frozenset()

    def __add__(self, other: Survey) -> Survey:
        """What both parts hold."""
        return Survey(
            self.rows + other.rows,
            self.left_out + other.left_out,
            self.jobs | other.jobs,
            self.hosts | other.hosts,
            self.some | other.some,
            self.negative | other.negative,
        )


def survey_step(
    columns: TraceColumns, as_read: AsRead, batches: Iterator[pd.DataFrame]
) -> Iterator[pd.DataFrame]:
    """Tell what a part of a trace holds."""
    found = Survey()
    for batch in batches:
        found = found + survey_of(as_read(batch), columns)
    yield from rows_of(0, SURVEY, found)


def survey_of(table: pd.DataFrame, columns: TraceColumns) -> Survey:
    """Tell what a table holds, as :func:`iqcar.stragglers.trace_features.features_of` does."""
    if columns.latency:
        latency = number_of(table, columns.latency)
    else:
        latency = number_of(table, columns.end) - number_of(table, columns.start)
    job, jobs = codes_of(table, columns.job)
    _, hosts = codes_of(table, (columns.host,) if columns.host else ())
    usable = (job >= 0) & np.isfinite(latency) & (latency >= 0)
    some, negative = set(), set()
    for name in (*columns.metrics, *columns.times):
        number = number_of(table, name)[usable]
        if np.isfinite(number).any():
            some.add(name)
        if (number < 0).any():
            negative.add(name)
    return Survey(
        len(table),
        int((~usable).sum()),
        frozenset(jobs),
        frozenset(hosts),
        frozenset(some),
        frozenset(negative),
    )


@dataclass(frozen=True)
class AsRead:
    """What a batch's columns are in the whole trace.

    Attributes
    ----------
    names : their names; Spark has them by number, because a name with a dot is two to pyspark
    broken : those of whole numbers of which some are missing: these are floats, even in a batch
        that happens to have all
    """

    names: tuple[str, ...]
    broken: tuple[str, ...]

    def __call__(self, batch: pd.DataFrame) -> pd.DataFrame:
        """Turn a batch into a part of the trace."""
        named = batch.set_axis(list(self.names), axis=1)
        return named.astype(dict.fromkeys(self.broken, np.float64)) if self.broken else named


def trace_jobs_step(
    settings: TopicSettings,
    columns: TraceColumns,
    as_read: AsRead,
    names: Sequence[str],
    jobs: Sequence[str],
    where: str,
    batches: Iterator[pd.DataFrame],
) -> Iterator[pd.DataFrame]:
    """Find the jobs of a part of a trace that holds all tasks of each of its jobs.

    Parameters
    ----------
    settings : TopicSettings
    columns : TraceColumns
        With metrics that the whole trace tells of.
    as_read : AsRead
    names : metrics of the whole trace
    jobs : names of the whole trace's jobs, in their order
    where : path of the trace
    """
    parts = list(batches)
    if not sum(len(part) for part in parts):
        return
    table = as_read(pd.concat(parts, ignore_index=True))
    try:
        features = features_of(table, columns, where)
    except IqcarError:
        return  # none of its rows has both a job and a latency: the survey has counted them
    found = Jobs.of(features, settings)
    row_of = {name: row for row, name in enumerate(jobs)}
    stage = np.array([row_of[features.labels.stages[one]] for one in found.stage], np.int64)
    metrics = np.full((len(found.metrics), len(names)), np.nan)
    place = {name: column for column, name in enumerate(names)}
    metrics[:, [place[name] for name in found.names]] = found.metrics
    yield from rows_of(0, TOLD, Told(found.tally, len(found), {}, 0, 0))
    for bundle in bundles(replace(found, names=tuple(names), metrics=metrics, stage=stage)):
        yield one_row(int(bundle.stage[0]), JOBS, bundle)
