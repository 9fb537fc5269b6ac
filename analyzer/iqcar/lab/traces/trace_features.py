"""Compute features from a trace of another system: a table of job, task, latency and metrics.

What a trace calls a job takes the place of a stage: its tasks are compared with each other. Every
other number is a metric, compared as an amount; a metric that is called like one of our features
is one.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from iqcar.causes.stragglers.features import TaskFeatures
from iqcar.causes.stragglers.labels import Labels
from iqcar.lab.traces.trace_columns import UNITS_MS, TraceColumns
from iqcar.lab.traces.trace_files import read_pieces, settled_columns
from iqcar.lab.traces.trace_survey import survey_of, tasks_of
from iqcar.lab.traces.trace_values import MAX_NAME, codes_of, number_of

DEFAULT = TraceColumns()


def read_trace(path: str | Path, columns: TraceColumns = DEFAULT) -> TaskFeatures:
    """Read a trace as features.

    Parameters
    ----------
    path : path
        CSV (plain or ``.gz``) or Parquet with a row per task.
    columns : TraceColumns
        Which column is what; the rest is found by name.

    Returns
    -------
    TaskFeatures
        In the shape of those of event logs; ``stage`` numbers the trace's jobs.

    Raises
    ------
    IqcarError
        If the file cannot be read, or holds no task with a job and a latency.
    UsageError
        If a column is missing.
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
    labels = Labels([where], layout.jobs, [], [], hosts, _task_names(table, columns.task))
    frame = pd.DataFrame({**identity, **columns_of})
    return TaskFeatures(frame, layout.features, labels, layout.doubts)


def _task_names(table: pd.DataFrame, column: str) -> list[str] | None:
    if not column:
        return None
    names: list[str] = table[column].astype("string").str.slice(0, MAX_NAME).fillna("").tolist()
    return names
