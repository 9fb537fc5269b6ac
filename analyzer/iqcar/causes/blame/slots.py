"""Computes slot clocks, which weight the time that tasks wait for and hold slots of an application.

The number of slots changes with executors, so a second of waiting for one of 4 slots differs from
one for one of 400. The *slot clock* of an application advances by ``dt / N(t)``, where N is its
number of slots: a task that holds ``k`` slots for an overlap ``o`` on that clock uses ``k · o`` of
the capacity.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from iqcar.model.waits.executor_shortage import NO_SLOTS, Shortage
from iqcar.tables import Tables
from iqcar.tables.arrays import Floats, Ints, by_group, by_time, most_at_once, running_total


class SlotTimes(NamedTuple):
    """Slot clock readings of each task; NaN where its times or application are unknown.

    asked, launched, finished: (n_tasks,) readings when the task started to wait, was launched, and
        finished.
    no_executor_ms: (n_tasks,), ms; time it waited while its application had no slots and no other
        one held them.
    held: (n_tasks,) slots it held while it ran.
    unknown_cores: number of executors that ran tasks but whose cores are not in the log.
    """

    asked: Floats
    launched: Floats
    finished: Floats
    no_executor_ms: Floats
    held: Floats
    unknown_cores: int


def slot_times(
    tables: Tables,
    asked: Floats,
    launch: Floats,
    finish: Floats,
    order: Ints,
    shortages: Mapping[int, Shortage],
) -> SlotTimes:
    """Compute the slot clock readings of every task.

    tables: ``tasks``, ``executors`` and ``applications`` are used.
    asked, launch, finish: (n_tasks,), ms; times since the epoch; a task with a time that is not
        finite is left out.
    order: (3 · n_tasks,) :func:`iqcar.tables.arrays.by_time` of these three.
    shortages: mapping of application row to Shortage; when other applications held the slots that
        it lacked.
    """
    tasks, n = tables.tasks, len(tables.tasks)
    app = tasks["app"].to_numpy(np.int64)
    usable = (app >= 0) & np.isfinite(asked + launch + finish)
    rows = np.flatnonzero(usable)
    held = np.ones(n)
    if len(tables.applications):
        cpus = tables.applications["task_cpus"].to_numpy(np.float64)
        held[rows] = np.where(cpus > 0, cpus, 1.0)[app[rows]]
    blank = np.full(n, np.nan)
    if len(rows) == 0:
        return SlotTimes(
            asked=blank, launched=blank, finished=blank, no_executor_ms=np.zeros(n), held=held,
            unknown_cores=0,
        )  # fmt: skip

    offers = _offers(tables, rows, held, asked=asked, launch=launch, finish=finish)
    if len(rows) < n:
        place = np.cumsum(usable) - 1
        order = order[usable[order % n]]
        order = order // n * len(rows) + place[order % n]
    times = asked[rows], launch[rows], finish[rows]
    clock, closed = _clocks(app[rows], times, held[rows], order, offers)
    k = len(rows)
    columns = []
    for part in range(3):
        column = blank.copy()
        column[rows] = clock[part * k : (part + 1) * k]
        columns.append(column)
    no_executor = np.zeros(n)
    no_executor[rows] = np.maximum(closed[k : 2 * k] - closed[:k], 0.0)
    for victim, shortage in shortages.items():
        mine = rows[app[rows] == victim]
        held_elsewhere = shortage.short * (shortage.own < NO_SLOTS)
        elsewhere = shortage.during(held_elsewhere, asked[mine], launch[mine])
        no_executor[mine] = np.maximum(no_executor[mine] - elsewhere, 0.0)
    return SlotTimes(
        asked=columns[0], launched=columns[1], finished=columns[2], no_executor_ms=no_executor,
        held=held, unknown_cores=offers.unknown,
    )  # fmt: skip


def _clocks(
    app: Ints, times: tuple[Floats, Floats, Floats], held: Floats, order: Ints, offers: _Offers
) -> tuple[Floats, Floats]:
    """Read the slot clock, and the time without slots, at three times of each task and at changes.

    order: (3 · n_tasks,) :func:`iqcar.tables.arrays.by_time` of the times.
    """
    k, zero = len(app), np.zeros(len(app))
    group = np.concatenate([app] * 3 + [offers.app] * 2)
    when = np.concatenate([*times, offers.added, offers.removed])
    taken = np.concatenate([zero, held, -held, np.zeros(2 * len(offers.app))])
    offered = np.concatenate([zero, zero, zero, offers.cores, -offers.cores])
    changes = by_time(offers.added, offers.removed)
    moment = when[3 * k + changes]
    order = np.insert(order, np.searchsorted(when[order], moment, side="right"), 3 * k + changes)
    order = order[by_group(group[order])]
    moments, of_app = when[order], group[order]
    # A running task holds a slot even where its executor's event is missing or late.
    slots = np.maximum(np.cumsum(offered[order]), np.cumsum(taken[order]))
    open_ = slots > NO_SLOTS
    rates = open_ / np.where(open_, slots, 1.0), ~open_
    clock, closed = np.empty((2, len(order)))
    # Every clock starts anew: its readings are as exact as if there were no other application.
    for at, after in itertools.pairwise(np.flatnonzero(np.diff(of_app, prepend=-1, append=-1))):
        mine = order[at:after]
        step = np.diff(moments[at:after], append=moments[after - 1])
        for reading, rate in zip((clock, closed), rates, strict=True):
            reading[mine] = running_total(step * rate[at:after])
    return clock, closed


class _Offers(NamedTuple):
    app: Ints
    cores: Floats
    added: Floats
    removed: Floats
    unknown: int


def _offers(
    tables: Tables, rows: Ints, held: Floats, asked: Floats, launch: Floats, finish: Floats
) -> _Offers:
    """Return the slots of each executor, and the times from and until which it offers them."""
    executors = tables.executors
    if len(executors) == 0:
        nothing = np.zeros(0)
        return _Offers(np.zeros(0, np.int64), nothing, nothing, nothing, 0)
    cores = executors["cores"].to_numpy(np.float64).copy()
    executor = tables.tasks["executor"].to_numpy(np.int64)[rows]
    unknown = ~(cores > 0)
    blind = np.flatnonzero(unknown)
    seen = rows[(executor >= 0) & unknown[np.maximum(executor, 0)]]
    if len(seen):
        cores[unknown] = 0.0
        most = most_at_once(
            tables.tasks["executor"].to_numpy(np.int64)[seen],
            launch[seen],
            finish[seen],
            held[seen],
            len(cores),
        )
        cores[blind] = most[blind]
    cores = np.where(cores > 0, cores, 0.0)
    added = executors["added_ms"].to_numpy(np.float64)
    removed = executors["removed_ms"].to_numpy(np.float64)
    # An executor without recorded addition or removal counts as present throughout.
    added = np.where(np.isfinite(added), added, asked[rows].min())
    removed = np.where(np.isfinite(removed), removed, max(finish[rows].max(), added.max()))
    app = executors["app"].to_numpy(np.int64)
    # A clock that ran long before the first task asked would only round the readings.
    first = np.full(len(tables.applications) + 1, np.inf)
    np.minimum.at(first, tables.tasks["app"].to_numpy(np.int64)[rows], asked[rows])
    added = np.maximum(added, first[app])
    removed = np.maximum(removed, added)
    busy = np.count_nonzero(np.bincount(executor[executor >= 0], minlength=len(cores))[blind])
    used = (app >= 0) & (cores > 0) & np.isfinite(added)
    return _Offers(app[used], cores[used], added[used], removed[used], int(busy))


def slots_offered(app: Ints, asked: Floats, launch: Floats, by_launch: Ints) -> Floats:
    """Count the slots handed out in each task's application while it waited, itself included.

    Shape (n_tasks,). The data processed of a slot wait (iQCAR table 4), at least 1; NaN where the
    wait is unknown.

    app: (n_tasks,).
    asked, launch: (n_tasks,), ms.
    by_launch: (n_tasks,) rows in the order of launches.
    """
    offered = np.full(len(app), np.nan)
    rows = by_launch[((app >= 0) & np.isfinite(asked + launch))[by_launch]]
    rows = rows[by_group(app[rows])]
    _, first = np.unique(app[rows], return_index=True)
    for at, after in itertools.pairwise([*first, len(rows)]):
        of_app = rows[at:after]
        until = np.searchsorted(launch[of_app], launch[of_app], side="right")
        since = np.searchsorted(launch[of_app], asked[of_app], side="right")
        offered[of_app] = np.maximum(until - since, 1)
    return offered
