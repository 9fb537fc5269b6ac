"""Estimate the slots of a recorded run: when they came and went, and their handover time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from iqcar.replay.loop.loop_input import Slots
from iqcar.tables import Tables
from iqcar.tables.arrays import Flags, Floats, Ints, most_at_once

IDLE_BEFORE_REMOVAL_MS = 1_000.0
"""An executor that had nothing to do for this long when it was removed went because it was idle
(dynamic allocation waits for spark.dynamicAllocation.executorIdleTimeout, 60 s by default). One
that was lost takes its tasks with it: they end at that moment, give or take a heartbeat's news."""

ENOUGH_HANDOVERS = 20
"""Slots handed from task to task from which their median is a property of the application."""


class Ran(NamedTuple):
    """Tasks of an application as they ran, times relative to its origin."""

    stage: Ints
    executor: Ints
    launch: Floats
    finish: Floats
    first_attempt: Flags


def slots_of(
    tables: Tables, app: int, ran: Ran, stage_first_launch: Floats, origin: float
) -> Slots:
    """Find when slots of an application came and went.

    Parameters
    ----------
    tables : Tables
        ``executors`` and ``applications`` are used.
    app : int
    ran : Ran
    stage_first_launch : ndarray of float64, one per stage
        On the clock of ``ran``.
    origin : float
        Zero of that clock, in ms since the epoch.
    """
    executors = tables.executors
    of_app = np.flatnonzero((executors["app"] == app).to_numpy())
    cpus = float(tables.applications["task_cpus"].iloc[app])
    cpus = cpus if cpus > 0 else 1.0
    cores = executors["cores"].to_numpy(np.float64)
    has = ran.executor >= 0
    size = len(executors)
    most = most_at_once(
        ran.executor[has], ran.launch[has], ran.finish[has], np.ones(int(has.sum())), size
    )
    # What ran is proof of a slot, even where an executor's cores are not recorded.
    slots = np.where(cores > 0, np.maximum(np.floor(cores / cpus), np.minimum(most, 1.0)), most)
    first, last = np.full(size, np.inf), np.full(size, -np.inf)
    np.minimum.at(first, ran.executor[has], ran.launch[has])
    np.maximum.at(last, ran.executor[has], ran.finish[has])
    added = executors["added_ms"].to_numpy(np.float64) - origin
    added = np.fmin(np.where(np.isnan(added), 0.0, added), first)
    removed = executors["removed_ms"].to_numpy(np.float64) - origin
    of_app = of_app[slots[of_app] > 0]
    slots, added, removed, last = slots[of_app], added[of_app], removed[of_app], last[of_app]
    goes = np.isfinite(removed) & (removed > added)
    when = np.concatenate([added, removed[goes]])
    change = np.concatenate([slots, -slots[goes]]).astype(np.int64)
    host = executors["host"].to_numpy(np.int64)[of_app]
    host = np.maximum(np.concatenate([host, host[goes]]), 0)
    idle = np.concatenate(
        [np.zeros(len(of_app), bool), (last < removed - IDLE_BEFORE_REMOVAL_MS)[goes]]
    )
    order = np.lexsort((-change, when))
    handover = _handover(ran, of_app, slots, stage_first_launch)
    return Slots(
        np.maximum(when[order], 0.0),
        change[order],
        idle[order],
        np.zeros(len(order), np.int64),
        host[order],
        np.array([handover]),
        max(len(tables.hosts), 1),
    )


def _handover(ran: Ran, executor: Ints, slots: Floats, stage_first_launch: Floats) -> float:
    """Median time from a task's end to the launch of the next, where one was waiting.

    The k-th launch on an executor with s slots takes the slot that the (k − s)-th end freed.
    """
    by_executor = np.argsort(ran.executor, kind="stable")
    bounds = np.searchsorted(ran.executor[by_executor], np.stack([executor, executor + 1]))
    gaps = []
    for at, after, size in zip(*bounds.tolist(), slots.astype(np.int64).tolist(), strict=True):
        of_executor = by_executor[at:after]
        if len(of_executor) <= size:
            continue
        of_executor = of_executor[np.argsort(ran.launch[of_executor], kind="stable")][size:]
        freed = np.sort(ran.finish[by_executor[at:after]])[: len(of_executor)]
        waited = ran.first_attempt[of_executor] & (
            stage_first_launch[ran.stage[of_executor]] < freed
        )
        gaps.append((ran.launch[of_executor] - freed)[waited])
    every = np.concatenate(gaps) if gaps else np.zeros(0)
    return float(np.median(every)) if len(every) >= ENOUGH_HANDOVERS else 0.0


def preparations_of(ran: Ran, slots: Slots, submitted: Floats, first_launch: Floats) -> Floats:
    """Time from the submission of each stage to when its tasks could be launched.

    Time before the last executor came is left out, and so is time in which all slots were taken:
    what passed after that is the stage's own (its tasks were being put together, or waited for a
    place near their data). Where no slot was free just before the first launch, nothing tells: it
    is the median of the other stages of the application, at most what passed.
    """
    added = slots.when[slots.change > 0]
    before = np.searchsorted(added, first_launch, side="left") - 1
    since = np.where(before >= 0, added[np.maximum(before, 0)], -np.inf) if len(added) else -np.inf
    passed = np.maximum(first_launch - np.fmax(submitted, since), 0.0)
    when = np.concatenate([ran.launch, ran.finish, slots.when])
    free = np.concatenate([np.full(len(ran.launch), -1.0), np.ones(len(ran.finish)), slots.change])
    order = np.lexsort((-free, when))
    when, taken = when[order], np.cumsum(free[order]) <= 0
    last_taken = np.maximum.accumulate(np.where(taken, np.arange(len(when)), -1))
    taken_until = np.where(last_taken >= 0, np.append(when, np.nan)[last_taken + 1], -np.inf)
    state = np.searchsorted(when, first_launch, side="left") - 1
    there = np.isfinite(passed) & (state >= 0)
    state = np.maximum(state, 0)
    known = there & ~taken[state]
    passed = np.where(known, np.fmin(passed, first_launch - taken_until[state]), passed)
    usual = float(np.median(passed[known])) if known.any() else 0.0
    return np.where(known, passed, np.fmin(np.nan_to_num(passed), usual))
