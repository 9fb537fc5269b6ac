"""Tells what Spark's History Server dropped from a rolling log that it compacted.

Compaction (``spark.history.fs.eventLog.rolling.maxFilesToRetain``) rewrites the oldest files of a
log and keeps of them the events of jobs and SQL executions that still ran, and of executors that
were still there (Spark's ``BasicEventFilterBuilder`` and ``SQLEventFilterBuilder``). Ids are given
in order, so which are gone is told by those that are missing below the last one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.base.units import duration, moment
from iqcar.logs.find.layouts import COMPACT
from iqcar.logs.find.locate import EventLog
from iqcar.tables.arrays import Ints

MOST_RANGES = 4
"""Ranges of ids that are named; the number of all is told in any case."""


class Gone(NamedTuple):
    """What compaction dropped.

    until_ms : the latest that a dropped job can have run; NaN where nothing was dropped.
    message : which jobs, stages and SQL executions are missing, and from when to when.
    """

    until_ms: float
    message: str


def is_compacted(log: EventLog) -> bool:
    """Tell whether a file of the log was rewritten by compaction."""
    return any(part.path.endswith(COMPACT) for part in log.parts)


def gone(frames: Mapping[str, pd.DataFrame]) -> Gone:
    """Tell what is missing from the tables of a log that was compacted.

    A dropped job was submitted after the kept one with the next smaller id, or else after the
    application's start. It had ended when Spark compacted, and then no kept job had.
    """
    jobs = frames["jobs"]
    ids = jobs["job_id"].to_numpy(np.int64)
    missing = {
        "job": _gaps(ids),
        "stage": _gaps(frames["stages"]["stage_id"].to_numpy(np.int64)),
        "SQL execution": _gaps(frames["sql_executions"]["execution_id"].to_numpy(np.int64)),
    }
    named = [_named(noun, gaps) for noun, gaps in missing.items() if gaps]
    if not named:
        return Gone(np.nan, "compacted: no job that had finished is missing below those kept")
    application = frames["applications"].iloc[0]
    start, end = float(application["start_ms"]), float(application["end_ms"])
    submitted, completed = (
        jobs[name].to_numpy(np.float64) for name in ("submission_ms", "completion_ms")
    )
    first = missing["job"][0][0] if missing["job"] else 0
    since = float(np.fmax.reduce(submitted[ids < first], initial=start))
    until = float(np.fmin.reduce(completed, initial=end))
    return Gone(
        until,
        f"compacted: Spark dropped {', '.join(named)}, which had finished. {_period(since, until)} "
        f"({duration(max(since - start, 0.0))} to {duration(max(until - start, 0.0))} after the "
        "application's start) what they held is not known: those that were in the way may be "
        "missing, and the load of executors is a lower bound",
    )


def _period(since: float, until: float) -> str:
    return f"From {moment(since)} to {moment(until)} at the latest"


def _gaps(ids: Ints) -> list[tuple[int, int]]:
    """Return the first and last of each range of ids below the largest that are not there."""
    known = np.concatenate([[-1], np.unique(ids[ids >= 0])])
    before = np.flatnonzero(np.diff(known) > 1)
    return [*zip((known[before] + 1).tolist(), (known[before + 1] - 1).tolist(), strict=True)]


def _named(noun: str, gaps: Sequence[tuple[int, int]]) -> str:
    """``12 jobs (0 to 9, 11, 13)``."""
    many = sum(last - first + 1 for first, last in gaps)
    ranges = [
        str(first) if first == last else f"{first} to {last}" for first, last in gaps[:MOST_RANGES]
    ]
    more = [] if len(gaps) <= MOST_RANGES else ["…"]
    return f"{many:,} {noun}{'' if many == 1 else 's'} ({', '.join([*ranges, *more])})"
