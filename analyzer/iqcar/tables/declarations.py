"""Classes that declare a table: each column once, with dtype, unit, sentence; bounds of values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

LAST_PLAUSIBLE_MS = 1e14
"""A time beyond it (the year 5138) is damage, not a time; so is a longer duration."""
MOST_CORES = 10_000
"""More cores of an executor or a task are damage: the largest machines have some 2,000."""
MOST_CORES_OF_A_LOG = 1 << 22
"""More cores of all executors of one log are damage (4 M): replays make room for each."""
MOST_TASKS = 10_000_000
"""More tasks of a stage, or executors, are damage: Spark's driver holds an object of each."""
MOST_BYTES = 2.0**50
"""More memory of an executor, or more bytes or records of a task, are damage (1 PiB)."""


NONE = -1
"""The row number that means "no such row"."""


class Column(NamedTuple):
    """One column: its name, dtype, unit and a sentence about it."""

    name: str
    dtype: str
    unit: str
    sentence: str


class TableSpec(NamedTuple):
    """One table: its name, a sentence about it, and its columns in order."""

    name: str
    sentence: str
    columns: tuple[Column, ...]

    def column_names(self) -> list[str]:
        """Names of the columns in order."""
        return [column.name for column in self.columns]

    def frame(self, columns: Mapping[str, Any]) -> pd.DataFrame:
        """Build the table from one array per column.

        columns: exactly the declared columns, all of one length.

        Raises ValueError if a column is missing, unknown, or of another length.
        """
        if set(columns) != set(self.column_names()):
            wrong = sorted(set(columns) ^ set(self.column_names()))
            raise ValueError(f"table {self.name}: columns differ: {wrong}")
        lengths = {len(values) for values in columns.values()}
        if len(lengths) > 1:
            raise ValueError(f"table {self.name}: columns of lengths {sorted(lengths)}")
        has_categories = any(isinstance(values, pd.Categorical) for values in columns.values())
        return self._built(columns) if any(lengths) or has_categories else self.empty()

    def _built(self, columns: Mapping[str, Any]) -> pd.DataFrame:
        # One index for all columns: pandas takes a third of the time to compare indexes of texts.
        # Columns are numbered at first: of names it makes an index of its own texts, unused here.
        index = pd.RangeIndex(len(columns[self.columns[0].name]))
        typed = {
            number: as_dtype(columns[column.name], column.dtype, index)
            for number, column in enumerate(self.columns)
        }
        frame: pd.DataFrame = pd.DataFrame(typed, index, copy=False)
        frame.columns = _names(self)
        return frame

    def empty(self) -> pd.DataFrame:
        """Return the table without rows."""
        return _empty(self).copy(deep=False)


@cache
def _names(spec: TableSpec) -> pd.Index[Any]:
    """Return the columns' names as Python's texts: pandas finds a column in two thirds of the time
    that its own texts take, of which it makes a Python one for each look.
    """
    return pd.Index(spec.column_names(), dtype=object)


@cache
def _empty(spec: TableSpec) -> pd.DataFrame:
    """Return a table without rows that nobody changes: building it takes ten times a copy."""
    return spec._built({column.name: [] for column in spec.columns})


def as_dtype(values: Any, dtype: str, index: pd.RangeIndex | None = None) -> Any:
    """Convert one column to its declared dtype (``str`` becomes an object array of str)."""
    if dtype == "str":
        array = np.empty(len(values), dtype=object)
        array[:] = ["" if v is None else v for v in values]
        return pd.Series(array, index, dtype=object)
    if dtype == "category":
        return values if isinstance(values, pd.Categorical) else pd.Categorical(values)
    return np.asarray(values, dtype=dtype)


def texts(frame: pd.DataFrame, name: str) -> list[str]:
    """Return a text column as a list of str."""
    values: list[str] = frame[name].astype(object).tolist()
    return values


def declare(*rows: tuple[str, str, str, str]) -> tuple[Column, ...]:
    """Make columns from (name, dtype, unit, sentence)."""
    return tuple(Column(*row) for row in rows)
