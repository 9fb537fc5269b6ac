"""Survey a trace: its tasks, the names of their jobs, and its usable metrics.

Every way of reading a trace goes through here: a table at once, a file in pieces, and partitions
on Spark. Parts are surveyed alone; the surveys together give the layout of the whole trace.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.causes.stragglers.feature_list import FEATURE_LIST, IDENTITY, Feature
from iqcar.enums import FeatureKind
from iqcar.errors import IqcarError
from iqcar.lab.traces.trace_columns import UNITS_MS, TraceColumns
from iqcar.lab.traces.trace_values import MAX_NAME, codes_of, number_of
from iqcar.tables.arrays import Floats, Ints

_OURS = {f.name: f for f in FEATURE_LIST}
_IDENTITY = {column.name for column in IDENTITY}


class TableTasks(NamedTuple):
    """The tasks of a table, which is a trace or a part of one.

    Attributes
    ----------
    job : ndarray of shape (n_rows,)
        Position of each row's job in `names`; −1 for a row without a job or a latency.
    names : list of str
        Jobs in alphabetical order.
    latency_ms : ndarray of shape (n_rows,)
    """

    job: Ints
    names: list[str]
    latency_ms: Floats


class TraceBlock(NamedTuple):
    """All tasks of some jobs.

    Attributes
    ----------
    job : ndarray of shape (n_tasks,)
        Position of each task's job among the jobs of the trace.
    latency_ms : ndarray of shape (n_tasks,)
        Positive.
    metrics : ndarray of shape (n_tasks, n_metrics)
        NaN where unknown.
    """

    job: Ints
    latency_ms: Floats
    metrics: Floats


@dataclass(frozen=True)
class TraceLayout:
    """The jobs and metrics of a whole trace.

    Attributes
    ----------
    where : str
        Path of the trace.
    columns : TraceColumns
    jobs : list of str
        Names of the jobs in alphabetical order.
    features : tuple of Feature
        Of the metrics.
    sources : tuple of (str, float)
        Column of each feature, and the factor that turns its values into ours.
    doubts : tuple of str
    """

    where: str
    columns: TraceColumns
    jobs: list[str]
    features: tuple[Feature, ...]
    sources: tuple[tuple[str, float], ...]
    doubts: tuple[str, ...]

    def block(self, table: pd.DataFrame, job: Ints) -> TraceBlock:
        """Tasks of a part of the trace: the rows whose `job` is not −1."""
        rows = np.flatnonzero(job >= 0)
        latency = latency_of(table, self.columns)[rows]
        return TraceBlock(job[rows], latency, self.metrics_of(table, rows))

    def metrics_of(self, table: pd.DataFrame, rows: Ints) -> Floats:
        """Values of the features in some rows: ndarray of shape (n_rows, n_metrics)."""
        metrics = np.empty((len(rows), len(self.sources)))
        for j, (name, scale) in enumerate(self.sources):
            metrics[:, j] = number_of(table, name)[rows] * scale
        return metrics


@dataclass(frozen=True)
class Survey:
    """What a part of a trace holds; surveys of several parts are added up by :meth:`total`.

    Attributes
    ----------
    rows, left_out : int
        All rows, and those without a job or a latency.
    jobs : frozenset of str
        Names of the jobs.
    known, negative : frozenset of str
        Metric columns with a finite number, and with one below 0, in rows that are tasks.
    """

    rows: int = 0
    left_out: int = 0
    jobs: frozenset[str] = frozenset()
    known: frozenset[str] = frozenset()
    negative: frozenset[str] = frozenset()

    @classmethod
    def total(cls, parts: Iterable[Survey]) -> Survey:
        """Survey of several parts together."""
        several = list(parts)
        none: frozenset[str] = frozenset()
        return cls(
            sum(part.rows for part in several),
            sum(part.left_out for part in several),
            none.union(*(part.jobs for part in several)),
            none.union(*(part.known for part in several)),
            none.union(*(part.negative for part in several)),
        )

    def layout(self, columns: TraceColumns, where: str) -> TraceLayout:
        """Layout of the trace that was surveyed.

        Raises
        ------
        IqcarError
            If no row has both a job and a latency.
        """
        if self.left_out == self.rows:
            raise IqcarError("no task has both a job and a latency", where, "see --columns")
        asked = (*columns.metrics, *columns.times)
        unusable = [name for name in asked if name not in self.known or name in self.negative]
        features: dict[str, Feature] = {}
        sources = []
        for name in asked:
            if name not in unusable:
                is_time = name in columns.times
                feature = _feature_called(name, is_time, features)
                features[feature.name] = feature
                sources.append((name, UNITS_MS[columns.unit] if is_time else 1.0))
        doubts = _left_out(where, self, [name[:MAX_NAME] for name in unusable])
        return TraceLayout(
            where, columns, sorted(self.jobs), tuple(features.values()), tuple(sources), doubts
        )


def tasks_of(table: pd.DataFrame, columns: TraceColumns) -> TableTasks:
    """Find the job and the latency of each row."""
    job, names = codes_of(table, columns.job)
    latency = latency_of(table, columns)
    is_task = np.isfinite(latency) & (latency >= 0)
    return TableTasks(np.where(is_task, job, -1), names, latency)


def survey_of(table: pd.DataFrame, tasks: TableTasks, metrics: Sequence[str]) -> Survey:
    """Survey a table; `metrics` are the columns to look at."""
    is_task = tasks.job >= 0
    known, negative = set(), set()
    for name in metrics:
        number = number_of(table, name)[is_task]
        if np.isfinite(number).any():
            known.add(name)
        if (number < 0).any():
            negative.add(name)
    return Survey(
        len(table),
        int((~is_task).sum()),
        frozenset(tasks.names),
        frozenset(known),
        frozenset(negative),
    )


def latency_of(table: pd.DataFrame, columns: TraceColumns) -> Floats:
    """Latency of each row in ms; NaN where unknown."""
    scale = UNITS_MS[columns.unit]
    if columns.latency:
        return number_of(table, columns.latency) * scale
    return number_of(table, columns.end) * scale - number_of(table, columns.start) * scale


def _feature_called(name: str, is_time: bool, taken: Collection[str]) -> Feature:
    """The feature of a metric column: one of ours of this name, else a new one.

    Parameters
    ----------
    name : str
        Of the column.
    is_time : bool
        Whether it is a part of the latency.
    taken : collection of str
        Names of the trace's features before.
    """
    ours = _OURS.get(name)
    if ours is not None and (ours.kind is FeatureKind.NUMERICAL or ours.kind is FeatureKind.TIME):
        return ours
    column = name if name not in _IDENTITY else f"{name} (metric)"
    while column in taken:
        column += " (metric)"
    kind = FeatureKind.TIME if is_time else FeatureKind.NUMERICAL
    short = name[:MAX_NAME]
    return Feature(column, kind, short, "ms" if is_time else "", short, "A metric.")


def _left_out(where: str, survey: Survey, metrics: Sequence[str]) -> tuple[str, ...]:
    """Doubts about rows of a trace that are no tasks, and columns that are no metrics."""
    doubts = []
    if survey.left_out:
        doubts.append(
            f"{where}: {survey.left_out} of {survey.rows} rows have no job or no latency: they "
            "were left out"
        )
    if metrics:
        doubts.append(f"{where}: {', '.join(metrics)}: no numbers of 0 or more; left out")
    return tuple(doubts)
