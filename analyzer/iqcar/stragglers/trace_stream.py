"""Traces larger than the memory: whole jobs, some at a time. The file is read twice."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from iqcar.stragglers.feature_list import Feature
from iqcar.stragglers.trace_columns import UNITS_MS, TraceColumns
from iqcar.stragglers.trace_features import (
    LARGEST,
    MAX_NAME,
    codes_of,
    feature_called,
    latency_of,
    left_out,
    no_task,
    number_of,
)
from iqcar.stragglers.trace_files import is_parquet, parquet_file, read_pieces, settled_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    from numpy.typing import NDArray

    from iqcar.tables.arrays import Floats, Ints

PIECE_ROWS = 65_536
"""Rows read at once: some 10 MB with 20 metrics."""
BLOCK_BYTES = 256 * 2**20
"""Of a trace whose jobs are scattered over the file, so much is sorted in memory at a time."""
DEFAULT = TraceColumns()


class TraceBlock(NamedTuple):
    """All tasks of some jobs.

    Attributes
    ----------
    job : (tasks,) number of each task's job
    latency_ms : (tasks,) positive
    metrics : (tasks, metrics); NaN where unknown
    """

    job: Ints
    latency_ms: Floats
    metrics: Floats


@dataclass(frozen=True)
class TraceStream:
    """A trace of which only the jobs of its rows are known; its blocks are read when asked for.

    Attributes
    ----------
    where : path of the file
    columns : TraceColumns
    job : (rows,) job of each row as its place among the names; −1 without a job or a latency
    names : names of the jobs in alphabetical order
    features : of the metrics
    sources : column of each feature, and what makes its values ours
    jobs : how many jobs have a task
    grouped : whether the tasks of a job stand together in the file
    doubts : tuple of str
    """

    where: str
    columns: TraceColumns
    job: NDArray[np.int32]
    names: list[str]
    features: tuple[Feature, ...]
    sources: tuple[tuple[str, float], ...]
    jobs: int
    grouped: bool
    doubts: tuple[str, ...]

    @classmethod
    def of(cls, path: str | Path, columns: TraceColumns = DEFAULT) -> TraceStream:
        """Read the columns that tell jobs and latencies, and what metrics there are.

        Parameters
        ----------
        path : path
            CSV (plain or ``.gz``) or Parquet with a row per task, the rows of a job best together.
        columns : TraceColumns
            Which column is what; the rest is found by name.

        Raises
        ------
        IqcarError
            If the file cannot be read, or holds no task with a job and a latency.
        UsageError
            If a column is missing.
        """
        where = str(path)
        settled = settled_columns(path, columns)
        asked = (*settled.metrics, *settled.times)
        plain = _plainly_metrics(where, asked)
        metrics = {name: _Metric(name in plain) for name in asked}
        job, names, usable, rows = _first_reading(where, settled, metrics)
        if not usable:
            raise no_task(where)
        unusable = [name[:MAX_NAME] for name in asked if not metrics[name].usable]
        doubts = left_out(where, rows - usable, rows, unusable)
        listed: dict[str, tuple[Feature, str, float]] = {}
        for name in asked:
            if metrics[name].usable:
                is_time = name in settled.times
                feature = feature_called(name, is_time, listed)
                scale = UNITS_MS[settled.unit] if is_time else 1.0
                listed[feature.name] = (feature, name, scale)
        known = job[job >= 0]
        distinct = int((np.bincount(known, minlength=1) > 0).sum())
        return cls(
            where=where,
            columns=settled,
            job=job,
            names=names,
            features=tuple(feature for feature, _, _ in listed.values()),
            sources=tuple((name, scale) for _, name, scale in listed.values()),
            jobs=distinct,
            grouped=int((known[1:] != known[:-1]).sum()) + min(len(known), 1) == distinct,
            doubts=tuple(doubts),
        )

    def blocks(self) -> Iterator[TraceBlock]:
        """Whole jobs, some at a time; every job once."""
        return self._in_order() if self.grouped else self._sorted()

    def _pieces(self) -> Iterator[TraceBlock]:
        """What was read at once: rows of jobs that are not whole."""
        numbers = [self.columns.latency or self.columns.end]
        numbers += [] if self.columns.latency else [self.columns.start]
        numbers += [name for name, _ in self.sources]
        start = 0
        for piece in read_pieces(self.where, list(dict.fromkeys(numbers)), (), PIECE_ROWS):
            job = self.job[start : start + len(piece)]
            start += len(piece)
            yield self._tasks(piece, job.astype(np.int64))

    def _tasks(self, piece: pd.DataFrame, job: Ints) -> TraceBlock:
        rows = np.flatnonzero(job >= 0)
        metrics = np.empty((len(rows), len(self.sources)))
        for j, (name, scale) in enumerate(self.sources):
            metrics[:, j] = number_of(piece, name)[rows] * scale
        return TraceBlock(job[rows], latency_of(piece, self.columns)[rows], metrics)

    def _in_order(self) -> Iterator[TraceBlock]:
        waiting: list[TraceBlock] = []
        for piece in self._pieces():
            if not len(piece.job):
                continue
            # The last job of a piece may go on in the next one.
            last = len(piece.job) - _run_at_end(piece.job)
            if last:
                yield _joined([*waiting, _part(piece, slice(0, last))])
                waiting = []
            waiting.append(_part(piece, slice(last, None)))
        if waiting:
            yield _joined(waiting)

    def _sorted(self) -> Iterator[TraceBlock]:
        """Put jobs into files of some jobs each, and read one after the other."""
        width = 2 + len(self.sources)
        tasks = np.bincount(self.job[self.job >= 0], minlength=len(self.names))
        # Jobs of one file are neighbours by name.
        file_of = (np.cumsum(tasks) - tasks) * (8 * width) // BLOCK_BYTES
        _, file_of = np.unique(file_of, return_inverse=True)
        with tempfile.TemporaryDirectory(prefix="iqcar-") as folder:
            paths = [Path(folder) / f"{n}.bin" for n in range(int(file_of.max(initial=0)) + 1)]
            for piece in self._pieces():
                rows = np.column_stack([piece.job, piece.latency_ms, piece.metrics])
                of = file_of[piece.job]
                for n in np.unique(of).tolist():
                    with paths[n].open("ab") as file:
                        rows[of == n].tofile(file)
            for path in paths:
                rows = np.fromfile(path).reshape(-1, width)
                path.unlink()
                yield TraceBlock(rows[:, 0].astype(np.int64), rows[:, 1].copy(), rows[:, 2:])


@dataclass
class _Metric:
    """Whether a column holds numbers of 0 or more, as far as it was looked at."""

    settled: bool
    some: bool = field(default=False)
    negative: bool = field(default=False)

    def look(self, numbers: Floats) -> None:
        self.some = self.some or bool(np.isfinite(numbers).any())
        self.negative = self.negative or bool((numbers < 0).any())

    @property
    def usable(self) -> bool:
        return self.settled or (self.some and not self.negative)


def _first_reading(
    where: str, columns: TraceColumns, metrics: dict[str, _Metric]
) -> tuple[NDArray[np.int32], list[str], int, int]:
    """Job of each row, names of jobs, how many rows are tasks, and how many there are."""
    unsettled = [name for name, metric in metrics.items() if not metric.settled]
    single = (columns.latency,) if columns.latency else (columns.start, columns.end)
    wanted = list(dict.fromkeys([*columns.job, *single, *unsettled]))
    numbers: dict[str, int] = {}
    jobs: list[NDArray[np.int32]] = []
    usable, rows = 0, 0
    for piece in read_pieces(where, wanted, columns.job, PIECE_ROWS):
        code, texts = codes_of(piece, columns.job)
        of_text = np.array([numbers.setdefault(text, len(numbers)) for text in texts], np.int32)
        job = np.append(of_text, np.int32(-1))[code]
        latency = latency_of(piece, columns)
        good = (job >= 0) & np.isfinite(latency) & (latency >= 0)
        for name in unsettled:
            metrics[name].look(number_of(piece, name)[good])
        # A latency of 0 is known, but tells nothing.
        jobs.append(np.where(good & (latency > 0), job, np.int32(-1)))
        usable, rows = usable + int(good.sum()), rows + len(piece)
    names = sorted(numbers)
    place = np.full(len(names) + 1, -1, np.int32)
    place[[numbers[name] for name in names]] = np.arange(len(names))
    whole = np.concatenate(jobs) if jobs else np.zeros(0, np.int32)
    return place[whole], names, usable, rows


def _plainly_metrics(where: str, names: tuple[str, ...]) -> set[str]:
    """Columns that Parquet's own statistics show to be numbers of 0 or more."""
    if not is_parquet(where):
        return set()
    with parquet_file(where) as file:
        about = file.metadata
        place = {about.schema.column(c).path: c for c in range(about.num_columns)}
        groups = [about.row_group(r) for r in range(about.num_row_groups)]
        return {
            name
            for name in names
            if name in place and groups and all(_positive(g.column(place[name])) for g in groups)
        }


def _positive(chunk: Any) -> bool:
    found = chunk.statistics
    if found is None or not found.has_min_max:
        return False
    low, high = found.min, found.max
    number = (int, float)
    return isinstance(low, number) and isinstance(high, number) and 0 <= low <= high < LARGEST


def _run_at_end(job: Ints) -> int:
    other = np.flatnonzero(job != job[-1])
    return len(job) - (int(other[-1]) + 1 if len(other) else 0)


def _part(block: TraceBlock, rows: slice) -> TraceBlock:
    return TraceBlock(block.job[rows], block.latency_ms[rows], block.metrics[rows])


def _joined(parts: list[TraceBlock]) -> TraceBlock:
    if len(parts) == 1:
        return parts[0]
    return TraceBlock(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
