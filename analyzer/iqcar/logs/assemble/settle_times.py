"""Leaves out times that cannot be: one damaged time would stretch an application over years."""

from __future__ import annotations

from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iqcar.logs.collect import Collector
from iqcar.tables import LAST_PLAUSIBLE_MS

CLOCK_STEP_MS = 60_000.0
"""Time by which the driver's clock may be set while an application runs (a minute)."""
LONGEST_QUIET_MS = 365 * 86_400_000.0
"""Time without any event in one application (a year): beyond, one of both sides is damage."""


def settle_times(log: Collector, launch: NDArray[np.float64], finish: NDArray[np.float64]) -> int:
    """Make times outside the application's run NaN, in the log and in those of tasks.

    The run is where most times are, without a year between two of them; where most are between
    the application's start and end, these bound it. The log's last time becomes the last that is
    left. Returns how many were left out that are not of tasks.
    """
    places = _places(log)
    times = np.array([getattr(one, name) for one, name in places], np.float64)
    every = np.concatenate([times, launch, finish])
    every = every[(every > 0) & (every < LAST_PLAUSIBLE_MS)]
    if not len(every):
        return 0
    first, last = _run(every, log)
    wrong = (times > 0) & ((times < first) | (times > last))
    for at in np.flatnonzero(wrong).tolist():
        one, name = places[at]
        setattr(one, name, nan)
    for of_tasks in (launch, finish):
        of_tasks[(of_tasks < first) | (of_tasks > last)] = np.nan
    left = times[(times >= first) & (times <= last)]
    log.last_time = float(left.max()) if len(left) else nan
    return int(wrong.sum()) - int(wrong[0])


def _places(log: Collector) -> list[tuple[Any, str]]:
    """Everything of a log that has times by the driver's clock, and their names; tasks aside."""
    of_kinds = (
        ([log], ("last_time", "end")),
        ([log.application] if log.application else [], ("time",)),
        (log.executors.values(), ("added", "removed")),
        (log.jobs.values(), ("submission", "completion")),
        (log.stages.values(), ("submission", "completion")),
        (log.sql.executions.values(), ("start", "end")),
    )
    return [(one, name) for some, names in of_kinds for one in some for name in names]


def _run(every: NDArray[np.float64], log: Collector) -> tuple[float, float]:
    """Return from when until when the application ran."""
    first, last = float(every.min()), float(every.max())
    if last - first > LONGEST_QUIET_MS:
        every = np.sort(every)
        spells = np.split(every, np.flatnonzero(np.diff(every) > LONGEST_QUIET_MS) + 1)
        every = max(spells, key=len)
        first, last = float(every[0]), float(every[-1])
    began = log.application.time - CLOCK_STEP_MS if log.application else nan
    over = log.end + CLOCK_STEP_MS
    if 2 * int((every < began).sum()) < len(every) and began <= last:
        first = max(first, began)
    if 2 * int((every > over).sum()) < len(every) and over >= first:
        last = min(last, over)
    return first, last
