"""Divides the time before a task's launch: waits for its application's slots, and for executors.

A task that waits behind others of its application would have waited less if the missing slots had
been there: some of those ahead of it would have run in them at once, and the others would have gone
through the queue faster. The rest of its wait is one for slots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from iqcar.model.waits.columns import ESTIMATED, MEASURED, MISSING
from iqcar.model.waits.executor_shortage import find_shortages
from iqcar.tables import Tables
from iqcar.tables.arrays import Floats, share_of, sum_by

if TYPE_CHECKING:
    from iqcar.model.waits.executor_shortage import Shortage

    Codes = NDArray[np.int8]


def executor_wait(
    tables: Tables, wait: Floats, launch: Floats, finish: Floats
) -> tuple[Floats, Codes]:
    """Return the part of each task's wait for its launch that missing executors explain.

    wait: (n_tasks,), ms; from the submission of the stage, or the end of the attempt before, to the
        launch; NaN where it is not known.
    launch, finish: (n_tasks,), ms.

    Returns
    -------
    lost: (n_tasks,), ms; from 0 to the wait; NaN where that is not known.
    evidence: (n_tasks,) codes of the evidence: measured where the plugin recorded how many
        executors the application asked for, else estimated.
    """
    lost = np.where(np.isfinite(wait), 0.0, np.nan)
    evidence = np.where(np.isfinite(wait), ESTIMATED, MISSING).astype(np.int8)
    asked = launch - wait
    shortages = find_shortages(tables, asked, launch, finish)
    if not shortages:
        return lost, evidence
    app, stage = (tables.tasks[name].to_numpy(np.int64) for name in ("app", "stage"))
    typical = _typical_duration(stage, finish - launch)
    for victim, shortage in shortages.items():
        rows = np.flatnonzero((app == victim) & (wait > 0) & np.isfinite(finish))
        lost[rows] = _lost(shortage, asked[rows], launch[rows], typical[rows])
        if shortage.measured:
            evidence[rows] = MEASURED
    return lost, evidence


def _lost(shortage: Shortage, asked: Floats, launch: Floats, typical: Floats) -> Floats:
    """Return the wait less the one with the missing slots, at most the time they were missing."""
    served = shortage.during(shortage.own, asked, launch)
    at = np.searchsorted(shortage.when, asked, side="right") - 1
    ahead = np.maximum(served - shortage.missing[np.maximum(at, 0)] * typical, 0.0)
    every = shortage.total(shortage.own + shortage.missing)
    start = np.interp(asked, shortage.when, every)
    without = np.interp(start + ahead, every, shortage.when) - asked
    without = np.where(ahead > 0, np.maximum(without, 0.0), 0.0)
    exposed = shortage.during(shortage.short, asked, launch)
    return np.clip(launch - asked - without, 0.0, exposed)


def _typical_duration(stage: NDArray[np.int64], duration: Floats) -> Floats:
    """Return the mean duration of the tasks of each task's stage, in ms."""
    known = np.isfinite(duration) & (stage >= 0)
    size = int(stage.max(initial=-1)) + 1
    total = sum_by(stage[known], duration[known], size)
    mean = share_of(total, np.bincount(stage[known], minlength=size).astype(np.float64))
    return np.where(stage >= 0, mean[np.maximum(stage, 0)] if size else 0.0, 0.0)
