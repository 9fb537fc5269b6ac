"""Select the tasks of some queries, of those that may have made them wait, and what ran beside.

Blame of a query needs its own tasks, and whoever held a resource while one of them ran or waited.
The devices of hosts are fitted from at most a few thousand tasks, so that they need no more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.comparison.compared_rows import ComparedRows
from iqcar.enums import Request
from iqcar.model.waits.columns import launch_wait, wait_column
from iqcar.tables.arrays import Flags, Floats, Ints, known_or_zero

ENOUGH_TASKS = 50_000
"""Tasks of a side below which more are kept than ran beside the queries: the devices are estimated
from about 48 tasks of each of 100 stages, which is a tenth of it."""
WORTH = 0.5
"""Share of a side's tasks from which all are kept: the selection costs time, too."""
_OF_TASKS = ("task_records", "intervals", "task_failures")
"""Tables that name tasks."""


class _Times(NamedTuple):
    """Starts and ends of what is looked for in windows, each ndarray of shape (n,), ms."""

    start: Floats
    end: Floats

    def meet(self, windows: _Times) -> Flags:
        """Tell what has an instant in common with one of the windows, which are apart."""
        after = np.searchsorted(windows.end, self.start)
        found: Flags = np.append(windows.start, np.inf)[after] <= self.end
        return found


def concurrent_rows(
    sides: tuple[ComparedRows, ComparedRows], wanted: Ints, moved: Ints, enough: int = ENOUGH_TASKS
) -> tuple[ComparedRows, ComparedRows, Ints] | None:
    """Return the rows of both sides that the blame of some queries is computed from.

    Parameters
    ----------
    sides : ComparedRows of before and after
    wanted : ndarray of int64
        Categories of queries.
    moved : ndarray of int64
        Categories of queries whose own blame is asked for where they ran beside one of these.
    enough : int
        Tasks of a side below which the selected time grows on both ends.

    Returns
    -------
    tuple of (ComparedRows, ComparedRows, ndarray of int64), or None
        With the tasks of the selected time, and the queries whose blame is complete. None where
        most tasks are needed, or where one waited for executors that others held.
    """
    spans = tuple(map(_query_times, sides))
    while True:
        windows = tuple(map(_windows, sides, spans, (wanted, wanted)))
        beside = [
            side.category[span.meet(window)]
            for side, span, window in zip(sides, spans, windows, strict=True)
        ]
        more = np.setdiff1d(np.intersect1d(np.concatenate(beside), moved), wanted)
        if not len(more):
            break
        wanted = np.union1d(wanted, more)
    kept = []
    for side, window in zip(sides, windows, strict=True):
        flags = _tasks_of(side, wanted, window, enough)
        lacking = side.waits[wait_column(Request.EXECUTOR_WAIT)].to_numpy(np.float64)
        if flags.mean() > WORTH or (known_or_zero(lacking[flags]) > 0).any():
            return None
        kept.append(_with_tasks(side, flags))
    return kept[0], kept[1], wanted


def _query_times(side: ComparedRows) -> _Times:
    """Time from the first moment at which a task of each query could run to its last end."""
    queries, tasks = side.tables.queries, side.tables.tasks
    first, last = (queries[name].to_numpy(np.float64).copy() for name in ("start_ms", "end_ms"))
    launch, finish = (tasks[name].to_numpy(np.float64) for name in ("launch_ms", "finish_ms"))
    query = tasks["query"].to_numpy(np.int64)
    of = query >= 0
    asked = launch - known_or_zero(launch_wait(side.waits))
    np.fmin.at(first, query[of], asked[of])
    np.fmax.at(last, query[of], np.fmax(finish, launch)[of])
    return _Times(first, last)


def _windows(side: ComparedRows, spans: _Times, wanted: Ints) -> _Times:
    """Unite the times of some queries to windows that are apart, in order."""
    rows = np.flatnonzero(np.isin(side.category, wanted) & np.isfinite(spans.start + spans.end))
    return _united(_Times(spans.start[rows], spans.end[rows]))


def _united(times: _Times) -> _Times:
    order = np.argsort(times.start, kind="stable")
    start, until = times.start[order], np.maximum.accumulate(times.end[order])
    first = np.flatnonzero(np.append(True, start[1:] > until[:-1])[: len(start)])
    return _Times(start[first], until[np.append(first[1:], len(start))[: len(first)] - 1])


def _tasks_of(side: ComparedRows, wanted: Ints, windows: _Times, enough: int) -> Flags:
    """Mark the tasks of some queries, and what ran in windows that grow until that is enough."""
    tasks = side.tables.tasks
    query = tasks["query"].to_numpy(np.int64)
    times = _Times(*(tasks[name].to_numpy(np.float64) for name in ("launch_ms", "finish_ms")))
    own = np.append(np.isin(side.category, wanted), False)[query]
    margin = 0.0
    while True:
        grown = _united(_Times(windows.start - margin, windows.end + margin))
        flags: Flags = own | times.meet(grown)
        if flags.all() or not len(grown.start) or flags.sum() >= enough:
            return flags
        margin = 2 * margin or float((grown.end - grown.start).mean()) + 1.0


def _with_tasks(side: ComparedRows, kept: Flags) -> ComparedRows:
    rows = np.flatnonzero(kept)
    place = np.cumsum(kept) - 1
    frames: dict[str, pd.DataFrame] = {"tasks": side.tables.tasks.iloc[rows].reset_index(drop=True)}
    for name in _OF_TASKS:
        frame: pd.DataFrame = getattr(side.tables, name)
        task = frame["task"].to_numpy(np.int64)
        here = np.flatnonzero((task >= 0) & np.append(kept, False)[task])
        moved = place[task[here]].astype(np.int32)
        frames[name] = frame.iloc[here].reset_index(drop=True).assign(task=moved)
    waits = side.waits.iloc[rows].reset_index(drop=True)
    return side._replace(tables=side.tables.with_(**frames), waits=waits)
