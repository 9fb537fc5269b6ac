"""Find changed queries beside which no other query ran: their blame needs no tasks but their own.

Nobody but the query itself can be blamed for its waits. What its own tasks cost it is exact from
them alone: waits for slots do not depend on the devices, which are fitted from all tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iqcar.enums import Request
from iqcar.tables.arrays import known_or_zero
from iqcar.waits import launch_wait, wait_column

if TYPE_CHECKING:
    import pandas as pd

    from iqcar.comparison.compared_rows import ComparedRows
    from iqcar.tables.arrays import Flags, Floats, Ints

ROUNDING_MS = 0.01
"""Overlap that is none: sums of times since the epoch are exact to a thousandth of a ms."""
_OF_TASKS = ("task_records", "intervals", "task_failures")
"""Tables that name tasks."""


def lone_rows(side: ComparedRows, wanted: Ints) -> ComparedRows | None:
    """Return the rows of some queries, if no other query ran while one of them did.

    Parameters
    ----------
    side : ComparedRows
    wanted : ndarray of int64
        Categories of queries.

    Returns
    -------
    ComparedRows or None
        With the tasks of these queries only; None where another query, or a task of none, ran
        beside one of them, or where one waited for executors that others held.
    """
    tasks = side.tables.tasks
    query = tasks["query"].to_numpy(np.int64)
    if (query < 0).any():
        return None
    first, last = _spans(side, query)
    order = np.argsort(first, kind="stable")
    until = np.maximum.accumulate(last[order])
    apart = np.ones(len(order), bool)
    apart[1:] = first[order][1:] >= until[:-1] - ROUNDING_MS
    group = np.cumsum(apart) - 1  # queries that overlap, also by way of others
    category = side.category[order]
    chosen = np.isin(category, wanted)
    low, high = np.full(len(order), len(wanted) + np.iinfo(np.int32).max), np.full(len(order), -2)
    np.minimum.at(low, group, category)
    np.maximum.at(high, group, category)
    if (low != high)[group[chosen]].any():
        return None
    kept = np.isin(side.category, wanted)[query]
    lacking = side.waits[wait_column(Request.EXECUTOR_WAIT)].to_numpy(np.float64)[kept]
    if (known_or_zero(lacking) > 0).any():
        return None
    return _with_tasks(side, kept)


def _spans(side: ComparedRows, query: Ints) -> tuple[Floats, Floats]:
    """Time from the first moment at which a task of each query could run to its last end."""
    queries, tasks = side.tables.queries, side.tables.tasks
    first, last = (queries[name].to_numpy(np.float64).copy() for name in ("start_ms", "end_ms"))
    first, last = np.nan_to_num(first, nan=np.inf), np.nan_to_num(last, nan=-np.inf)
    launch, finish = (tasks[name].to_numpy(np.float64) for name in ("launch_ms", "finish_ms"))
    np.fmin.at(first, query, launch - known_or_zero(launch_wait(side.waits)))
    np.fmax.at(last, query, np.fmax(finish, launch))
    return first, last


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
