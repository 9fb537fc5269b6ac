"""Finds topics in a trace larger than the memory, some whole jobs at a time.

The file is read twice: for its jobs, then block by block.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iqcar.causes.stragglers.feature_list import Feature
from iqcar.causes.stragglers.straggler_result import Labels
from iqcar.causes.topics.analyse_job import JobAnalysis, analyse_job
from iqcar.causes.topics.build_topics import topics_from
from iqcar.causes.topics.jobs import Jobs, Tally, metric_names
from iqcar.causes.topics.topic_result import Topics, TopicSettings
from iqcar.lab.traces.trace_columns import (
    BY_NAME,
    LARGEST,
    TraceColumns,
    is_parquet,
    parquet_file,
    read_pieces,
    settled_columns,
)
from iqcar.lab.traces.trace_survey import Survey, TraceBlock, TraceLayout, survey_of, tasks_of
from iqcar.tables.arrays import Ints

DEFAULT = TopicSettings()


def jobs_of_block(
    block: TraceBlock, features: tuple[Feature, ...], settings: TopicSettings
) -> Jobs:
    """Take the jobs of a part of a trace; `features` are of the columns of its metrics."""
    place = {feature.name: j for j, feature in enumerate(features)}
    listed = metric_names(features)
    columns = np.array([place[name] for name in listed], np.int64)
    app, query = np.zeros(len(block.job), np.int64), np.full(len(block.job), -1)
    return Jobs.among(
        listed, np.arange(len(block.job)), block.job, latency=block.latency_ms,
        values=lambda rows: block.metrics[np.ix_(rows, columns)], app=app, query=query,
        settings=settings,
    )  # fmt: skip


def find_topics_in_trace(
    trace: TraceStream,
    settings: TopicSettings = DEFAULT,
    progress: Callable[[int, int], None] | None = None,
) -> Topics:
    """Find what keeps making tasks slow in a trace that need not fit the memory.

    Returns: As of :func:`find_topics` on the whole trace.

    progress: called with the jobs done, those that are too small for anything included, and in all.
    """
    layout = trace.layout

    def look(block: TraceBlock) -> tuple[Tally, list[JobAnalysis]]:
        jobs = jobs_of_block(block, layout.features, settings)
        return jobs.tally, [analyse_job(job) for job in jobs]

    tally = Tally(0, 0, 0)
    looks: list[JobAnalysis] = []
    for more, found in map(look, trace.blocks()):
        tally += more
        looks += found
        if progress is not None:
            progress(tally.seen, trace.n_jobs)
    labels = Labels([layout.where], layout.jobs, [], [], [])
    names = metric_names(layout.features)
    return topics_from(looks, names, settings, tally=tally, labels=labels, doubts=layout.doubts)


BLOCK_BYTES = 256 * 2**20
"""Of a trace whose jobs are scattered over the file, so much is sorted in memory at a time."""


@dataclass(frozen=True)
class TraceStream:
    """A trace of which only the jobs of its rows are known; its blocks are read when asked for.

    layout: names of the jobs, and the metrics.
    job: (n_rows,); position of each row's job in ``layout.jobs``; −1 without a job or a positive
        latency.
    n_jobs: jobs that have a task.
    grouped: whether the tasks of a job stand together in the file.
    """

    layout: TraceLayout
    job: NDArray[np.int32]
    n_jobs: int
    grouped: bool

    @classmethod
    def open(cls, path: str | Path, columns: TraceColumns = BY_NAME) -> TraceStream:
        """Read the columns that tell jobs and latencies, and what metrics there are.

        Raises IqcarError if the file cannot be read, or holds no task with a job and a latency;
        UsageError if a column is missing.

        path: CSV (plain or ``.gz``) or Parquet with a row per task, the rows of a job best
            together.
        columns: which column is what; the rest is found by name.
        """
        where = str(path)
        settled = settled_columns(path, columns)
        survey, job = _first_reading(where, settled)
        layout = survey.layout(settled, where)
        known = job[job >= 0]
        distinct = int((np.bincount(known, minlength=1) > 0).sum())
        runs = int((known[1:] != known[:-1]).sum()) + min(len(known), 1)
        return cls(layout, job, distinct, runs == distinct)

    def blocks(self) -> Iterator[TraceBlock]:
        """Whole jobs, some at a time; every job once."""
        return self._in_order() if self.grouped else self._sorted()

    def _pieces(self) -> Iterator[TraceBlock]:
        """What was read at once: rows of jobs that are not whole."""
        names = dict.fromkeys((*_times(self.layout.columns), *(n for n, _ in self.layout.sources)))
        start = 0
        for piece in read_pieces(self.layout.where, list(names), ()):
            job = self.job[start : start + len(piece)]
            start += len(piece)
            yield self.layout.block(piece, job.astype(np.int64))

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
        width = 2 + len(self.layout.sources)
        tasks = np.bincount(self.job[self.job >= 0], minlength=len(self.layout.jobs))
        # Jobs of one file are neighbours by name.
        file_of = (np.cumsum(tasks) - tasks) * (8 * width) // BLOCK_BYTES
        _, file_of = np.unique(file_of, return_inverse=True)
        with tempfile.TemporaryDirectory(prefix="iqcar-") as folder:
            paths = [Path(folder) / f"{n}.bin" for n in range(int(file_of.max(initial=0)) + 1)]
            for piece in self._pieces():
                rows = np.column_stack([piece.job, piece.latency_ms, piece.metrics])
                target = file_of[piece.job]
                for n in np.unique(target).tolist():
                    with paths[n].open("ab") as file:
                        rows[target == n].tofile(file)
            for path in paths:
                rows = np.fromfile(path).reshape(-1, width)
                path.unlink()
                yield TraceBlock(rows[:, 0].astype(np.int64), rows[:, 1].copy(), rows[:, 2:])


def _first_reading(where: str, columns: TraceColumns) -> tuple[Survey, NDArray[np.int32]]:
    """Survey a trace; and the position of each row's job among the sorted names of all."""
    asked = (*columns.metrics, *columns.times)
    plain = _plainly_metrics(where, asked)
    looked_at = [name for name in asked if name not in plain]
    wanted = list(dict.fromkeys([*columns.job, *_times(columns), *looked_at]))
    numbers: dict[str, int] = {}
    jobs = [np.zeros(0, np.int32)]
    surveys = [Survey(known=frozenset(plain))]
    for piece in read_pieces(where, wanted, columns.job):
        tasks = tasks_of(piece, columns)
        surveys.append(survey_of(piece, tasks, looked_at))
        found = [numbers.setdefault(name, len(numbers)) for name in tasks.names]
        job = np.array([*found, -1], np.int32)[tasks.job]
        # A latency of 0 is known, but tells nothing.
        jobs.append(np.where(tasks.latency_ms > 0, job, np.int32(-1)))
    place = np.full(len(numbers) + 1, -1, np.int32)
    place[[numbers[name] for name in sorted(numbers)]] = np.arange(len(numbers))
    return Survey.total(surveys), place[np.concatenate(jobs)]


def _times(columns: TraceColumns) -> tuple[str, ...]:
    """Columns that tell the latency."""
    return (columns.latency,) if columns.latency else (columns.start, columns.end)


def _plainly_metrics(where: str, names: Sequence[str]) -> set[str]:
    """Columns that Parquet's own statistics show to be numbers of 0 or more."""
    if not is_parquet(where):
        return set()
    with parquet_file(where) as file:
        about = file.metadata
        column_of = {about.schema.column(c).path: c for c in range(about.num_columns)}
        groups = [about.row_group(r) for r in range(about.num_row_groups)]
    return {
        name
        for name in names
        if name in column_of and groups
        and all(_not_negative(group.column(column_of[name])) for group in groups)
    }  # fmt: skip


def _not_negative(chunk: Any) -> bool:
    found = chunk.statistics
    if found is None or not found.has_min_max:
        return False
    low, high = found.min, found.max
    number = (int, float)
    return isinstance(low, number) and isinstance(high, number) and 0 <= low <= high < LARGEST


def _run_at_end(job: Ints) -> int:
    """Rows at the end that have the job of the last row."""
    other = np.flatnonzero(job != job[-1])
    return len(job) - (int(other[-1]) + 1 if len(other) else 0)


def _part(block: TraceBlock, rows: slice) -> TraceBlock:
    return TraceBlock(block.job[rows], block.latency_ms[rows], block.metrics[rows])


def _joined(parts: list[TraceBlock]) -> TraceBlock:
    if len(parts) == 1:
        return parts[0]
    return TraceBlock(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
