"""Surveys a trace of another system: its tasks, their jobs and usable metrics, and its features.

What a trace calls a job takes the place of a stage: its tasks are compared with each other. Every
other number is a metric, compared as an amount; one that is called like a feature of ours is that.
Parts of a trace are surveyed alone; the surveys together give the layout of the whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.causes.stragglers.features import FEATURE_LIST, IDENTITY, Feature, TaskFeatures
from iqcar.causes.stragglers.straggler_result import Labels
from iqcar.enums import FeatureKind
from iqcar.errors import IqcarError
from iqcar.lab.traces.trace_columns import (
    BY_NAME,
    MAX_NAME,
    UNITS_MS,
    TraceColumns,
    codes_of,
    number_of,
    read_pieces,
    settled_columns,
)
from iqcar.tables.arrays import Floats, Ints

_OURS = {f.name: f for f in FEATURE_LIST}
_IDENTITY = {column.name for column in IDENTITY}


class TableTasks(NamedTuple):
    """The tasks of a table, which is a trace or a part of one.

    job: (n_rows,); position of each row's job in `names`; −1 for a row without a job or a latency.
    names: jobs in alphabetical order.
    latency_ms: (n_rows,).
    """

    job: Ints
    names: list[str]
    latency_ms: Floats


class TraceBlock(NamedTuple):
    """All tasks of some jobs.

    job: (n_tasks,); position of each task's job among the jobs of the trace.
    latency_ms: (n_tasks,); positive.
    metrics: (n_tasks, n_metrics); naN where unknown.
    """

    job: Ints
    latency_ms: Floats
    metrics: Floats


@dataclass(frozen=True)
class TraceLayout:
    """The jobs and metrics of a whole trace.

    where: path of the trace.
    jobs: names of the jobs in alphabetical order.
    features: of the metrics.
    sources: column of each feature, and the factor that turns its values into ours.
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

    rows, left_out: all rows, and those without a job or a latency.
    jobs: names of the jobs.
    known, negative: metric columns with a finite number, and with one below 0, in rows that are
        tasks.
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

        Raises IqcarError if no row has both a job and a latency.
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
            where=where, columns=columns, jobs=sorted(self.jobs), features=tuple(features.values()),
            sources=tuple(sources), doubts=doubts,
        )  # fmt: skip


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

    name: of the column.
    is_time: whether it is a part of the latency.
    taken: names of the trace's features before.
    """
    ours = _OURS.get(name)
    if ours is not None and (ours.kind is FeatureKind.NUMERICAL or ours.kind is FeatureKind.TIME):
        return ours
    column = name if name not in _IDENTITY else f"{name} (metric)"
    while column in taken:
        column += " (metric)"
    kind = FeatureKind.TIME if is_time else FeatureKind.NUMERICAL
    short = name[:MAX_NAME]
    return Feature(
        name=column, kind=kind, cause=short, unit="ms" if is_time else "", phrase=short,
        sentence="A metric.",
    )  # fmt: skip


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


def read_trace(path: str | Path, columns: TraceColumns = BY_NAME) -> TaskFeatures:
    """Read a trace as features.

    Raises IqcarError if the file cannot be read, or holds no task with a job and a latency;
    UsageError if a column is missing.

    Returns: In the shape of those of event logs; ``stage`` numbers the trace's jobs.

    path: CSV (plain or ``.gz``) or Parquet with a row per task.
    columns: which column is what; the rest is found by name.
    """
    settled = settled_columns(path, columns)
    names = tuple(filter(None, (*settled.job, settled.task, settled.host)))
    pieces = list(read_pieces(path, settled.wanted(), names))
    table = (
        pd.concat(pieces, ignore_index=True) if pieces else pd.DataFrame(columns=settled.wanted())
    )
    return features_of(table, settled, str(path))


def features_of(table: pd.DataFrame, columns: TraceColumns, where: str) -> TaskFeatures:
    """Turn a trace's table into features; see :func:`read_trace`."""
    tasks = tasks_of(table, columns)
    survey = survey_of(table, tasks, (*columns.metrics, *columns.times))
    layout = survey.layout(columns, where)
    host, hosts = codes_of(table, (columns.host,) if columns.host else ())
    start = number_of(table, columns.start) * UNITS_MS[columns.unit]
    rows = np.flatnonzero(tasks.job >= 0)
    n = len(rows)
    none = np.full(n, -1, np.int32)
    identity = {
        "task": rows.astype(np.int32), "task_id": rows, "app": np.zeros(n, np.int32),
        "stage": tasks.job[rows].astype(np.int32), "query": none,
        "host": host[rows].astype(np.int32), "launch_ms": start[rows],
        "duration_ms": tasks.latency_ms[rows], "compared": np.ones(n, bool),
        "measured": np.zeros(n, bool),
    }  # fmt: skip
    metrics = layout.metrics_of(table, rows)
    columns_of = {feature.name: metrics[:, j] for j, feature in enumerate(layout.features)}
    labels = Labels(
        apps=[where], stages=layout.jobs, queries=[], query_ids=[], hosts=hosts,
        tasks=_task_names(table, columns.task),
    )  # fmt: skip
    frame = pd.DataFrame({**identity, **columns_of})
    return TaskFeatures(frame, layout.features, labels, layout.doubts)


def _task_names(table: pd.DataFrame, column: str) -> list[str] | None:
    if not column:
        return None
    names: list[str] = table[column].astype("string").str.slice(0, MAX_NAME).fillna("").tolist()
    return names
