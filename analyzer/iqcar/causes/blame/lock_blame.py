"""Divides waits for locks among the tasks that held them, as the plugin saw it."""

from __future__ import annotations

import numpy as np

from iqcar.causes.blame.blame_sources import BlameShares, SweepInput
from iqcar.causes.blame.ratp import Loss
from iqcar.causes.blame.sweep import SOURCE_ENDS, SOURCE_STARTS, TARGET_ENDS, TARGET_STARTS
from iqcar.causes.blame.task_intervals import BlameColumns
from iqcar.tables.arrays import Floats, Ints, schedule, sum_by


def lock_owners(columns: BlameColumns, wait: Floats) -> tuple[Ints, Ints, Floats]:
    """Return which tasks waited for locks of which, and the part of their waits in it.

    A log may claim anything: only a task that ran meanwhile in the same executor can have held a
    lock, for no longer than both ran, and all together for no longer than the wait.

    wait: (n_tasks,), ms; time waited for locks.

    What is returned, one entry per pair of tasks:
    task, owner: (n_entries,) rows of tasks; both are of a stage.
    part: (n_entries,) share of the task's wait; those of a task sum to 1 at most.
    """
    table = columns.tables.lock_owners
    task, owner = (table[name].to_numpy(np.int64) for name in ("task", "owner"))
    ms = table["wait_ms"].to_numpy(np.float64)
    n = len(wait)
    there = (task >= 0) & (task < n) & (owner >= 0) & (owner < n) & (task != owner)
    task, owner, ms = task[there], owner[there], ms[there]
    both = np.minimum(columns.finish[task], columns.finish[owner])
    both = both - np.maximum(columns.launch[task], columns.launch[owner])
    executor, stage = columns.executor, columns.stage
    held = np.minimum(ms, both)  # NaN where one of them has no times
    real = (held > 0) & (executor[task] == executor[owner]) & (executor[task] >= 0)
    real &= (wait[task] > 0) & (stage[task] >= 0)
    task, owner, held = task[real], owner[real], held[real]
    part = held / np.maximum(sum_by(task, held, n), wait)[task]
    named = stage[owner] >= 0
    return task[named], owner[named], part[named]


def lock_shares(columns: BlameColumns, loss: Loss, group: Ints, groups: int) -> BlameShares:
    """Return the input that divides waits for locks: what no owner explains has no source.

    Each pair of tasks is a domain of its own, in which the owner used a part of one unit of time.

    loss: to locks.
    group: (n_tasks,) group that each task belongs to as a target.
    groups: number of groups.
    """
    task, owner, part = lock_owners(columns, loss.wait)
    events = schedule(
        np.arange(len(task)),
        (np.zeros(len(task)), TARGET_STARTS | SOURCE_STARTS),
        (np.ones(len(task)), TARGET_ENDS | SOURCE_ENDS),
    )
    weights = loss.slowdown[task], loss.lost[task]
    sweep = SweepInput.from_tasks(
        events, (part, columns.stage[owner], weights, group[task]), one_domain=False
    )
    explained = loss.slowdown * sum_by(task, part, len(loss.wait))
    nobody = np.zeros(groups)
    return BlameShares(sweep, nobody, nobody, raw=explained, room=loss.slowdown)
