"""Finds which tasks got the slots that the scheduler took from others for a fair share."""

from __future__ import annotations

import numpy as np

from iqcar.tables import NONE, Tables
from iqcar.tables.arrays import Ints

OFFERED_MS = 3_000.0
"""A freed slot is offered at once, but may stay empty for Spark's default of spark.locality.wait:
a task that was launched later got its slot otherwise."""


def slot_takers(tables: Tables, killed: Ints) -> Ints:
    """Return for each killed task the task that was launched in its slot then; −1 if none was.

    The log names executors, not slots. So of the launches on the executor after the kill, of other
    stages, each goes to one killed task, in the order of time; shape (n_killed,).

    killed: rows of tasks that the scheduler killed to give their slots away.
    """
    taker = np.full(len(killed), NONE, np.int64)
    tasks = tables.tasks
    executor, stage = (tasks[name].to_numpy(np.int64) for name in ("executor", "stage"))
    launch, finish = (tasks[name].to_numpy(np.float64) for name in ("launch_ms", "finish_ms"))
    order = np.argsort(finish[killed], kind="stable")
    for host in np.unique(executor[killed[executor[killed] >= 0]]).tolist():
        here = np.flatnonzero((executor == host) & np.isfinite(launch))
        here = here[np.argsort(launch[here], kind="stable")]
        when = launch[here]
        given = np.zeros(len(here), bool)
        for place in order[executor[killed[order]] == host].tolist():
            row = killed[place]
            first, last = np.searchsorted(when, (finish[row], finish[row] + OFFERED_MS))
            free = ~given[first:last] & (stage[here[first:last]] != stage[row])
            if free.any():
                chosen = first + int(free.argmax())
                given[chosen] = True
                taker[place] = here[chosen]
    return taker
