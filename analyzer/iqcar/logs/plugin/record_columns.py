"""The plugin's records as they are collected from a log: columns of numbers, runs of profiles.

Records become numbers as soon as they are met: memory is bounded by the tables, not by the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iqcar.logs.plugin.record_fields import NUMBERS, TEXTS
from iqcar.logs.plugin.record_reader import read_record


class Chunk(NamedTuple):
    """Some records.

    Attributes
    ----------
    numbers : (records, NUMBERS) array; in the units of the record; where it could not be read, all
        are NaN.
    texts : (records,) array; code of its texts.
    run_counts : (records,) array; how many of the runs are its own.
    runs : (runs, 3) array; of each run of a profile the column that it is added to (a position in
        :data:`~iqcar.logs.plugin.record_fields.VALUES`), its first interval, and how many there
        are.
    values : (runs,) array; the number that is in each interval of a run; never 0.
    """

    numbers: NDArray[np.float64]
    texts: NDArray[np.int32]
    run_counts: NDArray[np.int64]
    runs: NDArray[np.uint16]
    values: NDArray[np.float64]


class _Rows:
    """One array that rows are appended to; it grows in place, so no row is in memory twice."""

    def __init__(self, dtype: Any, *shape: int) -> None:
        self._shape = shape
        self._array: NDArray[Any] = np.empty((0, *shape), dtype)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, rows: NDArray[Any]) -> None:
        end = self._count + len(rows)
        if end > len(self._array):
            self._resize(end + end // 8)
        self._array[self._count : end] = rows
        self._count = end

    def view(self) -> NDArray[Any]:
        """Return the rows, which stay; valid until more are appended."""
        return self._array[: self._count]

    def take(self) -> NDArray[Any]:
        """Return the rows; they are used up."""
        self._resize(self._count)
        array, self._array, self._count = self._array, self._array[:0].copy(), 0
        return array

    def _resize(self, rows: int) -> None:
        self._array.resize((rows, *self._shape), refcheck=False)  # nobody else has it yet


class RecordColumns:
    """Collects records.

    Attributes
    ----------
    texts : code of each combination of :data:`~iqcar.logs.plugin.record_fields.TEXTS`; 0 if all are
        empty.
    """

    def __init__(self) -> None:
        self.texts: dict[tuple[str, ...], int] = {("",) * len(TEXTS): 0}
        self._columns: tuple[_Rows, ...] = (
            _Rows(np.float64, len(NUMBERS)), _Rows(np.int32), _Rows(np.int64),
            _Rows(np.uint16, 3), _Rows(np.float64),
        )  # fmt: skip
        self._task_ids, self._orders = _Rows(np.float64), _Rows(np.int64)
        self._next = 0

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self._task_ids)

    def add(self, found: Sequence[tuple[float, bytes | str]]) -> None:
        """Take in task ids and the JSON of their records, in the order of the log."""
        order = np.arange(self._next, self._next + len(found))
        self._next += len(found)
        self._add_texts(found, order)

    def add_scanned(
        self,
        chunk: Chunk,
        task_ids: NDArray[np.float64],
        scanned: NDArray[np.int64],
        others: Sequence[tuple[int, bytes | str]],
    ) -> None:
        """Take in records some of which compiled code has read.

        Parameters
        ----------
        chunk : those that it has read.
        task_ids : of all records, in the order of the log.
        scanned : which of them are in the chunk.
        others : positions and JSON of those that it has not read.
        """
        if len(scanned):
            self._add(chunk, task_ids[scanned], self._next + scanned)
        order = self._next + np.array([row for row, _ in others], np.int64)
        self._add_texts([(float(task_ids[row]), text) for row, text in others], order)
        self._next += len(task_ids)

    def _add_texts(
        self, found: Sequence[tuple[float, bytes | str]], order: NDArray[np.int64]
    ) -> None:
        if not found:
            return
        numbers = np.full((len(found), len(NUMBERS)), np.nan)
        texts, counts = np.zeros(len(found), np.int32), np.zeros(len(found), np.int64)
        runs: list[tuple[int, int, int]] = []
        values: list[float] = []
        for row, (_, text) in enumerate(found):
            record = read_record(text)
            if record is not None:
                numbers[row] = record.numbers
                texts[row] = self.texts.setdefault(record.texts, len(self.texts))
                counts[row] = len(record.runs)
                runs += [run[:3] for run in record.runs]
                values += [run[3] for run in record.runs]
        places = np.array(runs, np.uint16).reshape(-1, 3)
        chunk = Chunk(numbers, texts, counts, places, np.array(values, np.float64))
        self._add(chunk, np.array([task for task, _ in found], np.float64), order)

    def _add(self, chunk: Chunk, task_ids: NDArray[np.float64], order: NDArray[np.int64]) -> None:
        parts: tuple[Any, ...] = chunk
        for column, rows in zip(self._columns, parts, strict=True):
            column.append(rows)
        self._task_ids.append(task_ids)
        self._orders.append(order)

    def of_tasks(self, task_ids: NDArray[np.float64]) -> RecordColumns:
        """Return a copy with only the records of some tasks; it shares the texts."""
        part = RecordColumns()
        part.texts, part._next = self.texts, self._next
        rows = np.flatnonzero(np.isin(self._task_ids.view(), task_ids))
        chunk = pick(Chunk(*(column.view() for column in self._columns)), rows)
        part._add(chunk, self._task_ids.view()[rows], self._orders.view()[rows])
        return part

    def columns(self) -> tuple[NDArray[np.float64], Chunk]:
        """Return task ids and records in the order of the log; they are used up."""
        tasks, orders = self._task_ids.take(), self._orders.take()
        whole = Chunk(*(column.take() for column in self._columns))
        self._next = 0
        if (np.diff(orders) > 0).all():
            return tasks, whole
        order = np.argsort(orders)
        return tasks[order], pick(whole, order)


def pick(chunk: Chunk, rows: NDArray[np.int64]) -> Chunk:
    """Return some records of a chunk, in the order that is asked for."""
    counts = chunk.run_counts[rows]
    at = spread((np.cumsum(chunk.run_counts) - chunk.run_counts)[rows], counts)
    return Chunk(chunk.numbers[rows], chunk.texts[rows], counts, chunk.runs[at], chunk.values[at])


def spread(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers from each start on, as many as its count says, one after the other.

    >>> spread(np.array([7, 1]), np.array([2, 3])).tolist()
    [7, 8, 1, 2, 3]
    """
    ends = np.cumsum(counts)
    shifts: NDArray[np.int64] = np.repeat(starts - ends + counts, counts)
    return shifts + np.arange(len(shifts))
