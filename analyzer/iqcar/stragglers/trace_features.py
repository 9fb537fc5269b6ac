"""Traces of other systems as features: any table with job, task, latency and metrics.

What a trace calls a job takes the place of a stage: its tasks are compared with each other. Every
other number is a metric, compared as an amount; a metric that is called like one of our features
is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from iqcar.enums import FeatureKind
from iqcar.errors import IqcarError
from iqcar.stragglers.feature_list import FEATURE_LIST, IDENTITY, Feature
from iqcar.stragglers.features import TaskFeatures
from iqcar.stragglers.labels import Labels
from iqcar.stragglers.trace_columns import UNITS_MS, TraceColumns
from iqcar.stragglers.trace_files import read_table

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from iqcar.tables.arrays import Floats, Ints

MAX_NAME = 200
"""Characters kept of a name in a trace."""
LARGEST = 1e300
"""A number beyond it is damage."""
_OURS = {f.name: f for f in FEATURE_LIST}
_IDENTITY = {column.name for column in IDENTITY}
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
    table, settled = read_table(path, columns)
    return features_of(table, settled, str(path))


def features_of(table: pd.DataFrame, columns: TraceColumns, where: str) -> TaskFeatures:
    """Turn a trace's table into features; see :func:`read_trace`."""
    scale = UNITS_MS[columns.unit]
    start = number_of(table, columns.start) * scale
    latency = latency_of(table, columns)
    job, jobs = codes_of(table, columns.job)
    host, hosts = codes_of(table, (columns.host,) if columns.host else ())
    usable = (job >= 0) & np.isfinite(latency) & (latency >= 0)
    if not usable.any():
        raise no_task(where)
    rows = np.flatnonzero(usable)
    listed, metrics, unusable = _metrics(table, columns, rows, scale)
    doubts = left_out(where, int((~usable).sum()), len(usable), unusable)
    n = len(rows)
    none = np.full(n, -1, np.int32)
    identity = {
        "task": rows.astype(np.int32), "task_id": rows, "app": np.zeros(n, np.int32),
        "stage": job[rows].astype(np.int32), "query": none, "host": host[rows].astype(np.int32),
        "launch_ms": start[rows], "duration_ms": latency[rows], "compared": np.ones(n, bool),
        "measured": np.zeros(n, bool),
    }  # fmt: skip
    names = (
        table[columns.task].astype(str).str.slice(0, MAX_NAME).tolist() if columns.task else None
    )
    labels = Labels([where], jobs, [], [], hosts, names)
    return TaskFeatures(pd.DataFrame({**identity, **metrics}), tuple(listed), labels, tuple(doubts))


def _metrics(
    table: pd.DataFrame, columns: TraceColumns, rows: Ints, scale: float
) -> tuple[list[Feature], dict[str, Floats], list[str]]:
    """Features and values of the metric columns, and the names of those that are none."""
    listed: list[Feature] = []
    values: dict[str, Floats] = {}
    unusable = []
    for name in (*columns.metrics, *columns.times):
        number = number_of(table, name)[rows]
        if not np.isfinite(number).any() or (number < 0).any():
            unusable.append(name[:MAX_NAME])
            continue
        is_time = name in columns.times
        listed.append(feature_called(name, is_time, values))
        values[listed[-1].name] = number * (scale if is_time else 1.0)
    return listed, values, unusable


def feature_called(name: str, is_time: bool, taken: Collection[str]) -> Feature:
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
    column = name if name not in _IDENTITY and name not in taken else f"{name} (metric)"
    kind = FeatureKind.TIME if is_time else FeatureKind.NUMERICAL
    short = name[:MAX_NAME]
    return Feature(column, kind, short, "ms" if is_time else "", short, "A metric.")


def latency_of(table: pd.DataFrame, columns: TraceColumns) -> Floats:
    """Latency of each row in ms; NaN where unknown."""
    scale = UNITS_MS[columns.unit]
    if columns.latency:
        return number_of(table, columns.latency) * scale
    return number_of(table, columns.end) * scale - number_of(table, columns.start) * scale


def no_task(where: str) -> IqcarError:
    """Say that nothing in a trace can be compared."""
    return IqcarError("no task has both a job and a latency", where, "see --columns")


def left_out(where: str, rows: int, of: int, metrics: Sequence[str]) -> list[str]:
    """Doubts about rows of a trace that are no tasks, and columns that are no metrics."""
    doubts = []
    if rows:
        doubts.append(f"{where}: {rows} of {of} rows have no job or no latency: they were left out")
    if metrics:
        doubts.append(f"{where}: {', '.join(metrics)}: no numbers of 0 or more; left out")
    return doubts


def number_of(table: pd.DataFrame, name: str) -> Floats:
    """A column as numbers; NaN for what is none, is infinite or damaged, or is not there."""
    if not name:
        return np.full(len(table), np.nan)
    numbers = pd.to_numeric(table[name], errors="coerce").to_numpy(np.float64, na_value=np.nan)
    with np.errstate(invalid="ignore"):
        plausible: Floats = np.where(np.abs(numbers) < LARGEST, numbers, np.nan)
    return plausible


def codes_of(table: pd.DataFrame, names: tuple[str, ...]) -> tuple[Ints, list[str]]:
    """Number the texts of a column, or of several together; −1 for what is missing in any.

    Returns
    -------
    (rows,) number of each row's text
    the texts in alphabetical order
    """
    if not names:
        return np.full(len(table), -1, np.int64), []
    codes, texts = _codes_of_one(table[names[0]])
    for name in names[1:]:
        more, others = _codes_of_one(table[name])
        both = np.where((codes < 0) | (more < 0), -1, codes * max(len(others), 1) + more)
        pairs, codes = np.unique(both, return_inverse=True)
        missing = int((pairs < 0).sum())  # one at most, the first
        codes = codes - missing
        one, other = np.divmod(pairs[missing:], max(len(others), 1))
        texts = [
            f"{texts[a]}/{others[b]}" for a, b in zip(one.tolist(), other.tolist(), strict=True)
        ]
    # Texts can be equal that were not before they were cut.
    of_text, found = pd.factorize(pd.Series(texts, dtype="string"), sort=True)
    numbers = np.append(of_text, -1)[codes]
    return numbers.astype(np.int64), [str(one) for one in found]


def _codes_of_one(column: pd.Series) -> tuple[Ints, list[Any]]:
    codes, found = pd.factorize(column)
    return codes.astype(np.int64), pd.Series(found).astype("string").str.slice(0, MAX_NAME).tolist()
