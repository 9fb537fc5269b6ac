"""Divides waits for what somebody holds: executors, storage memory, locks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.causes.blame.blame_sources import BlameShares, SweepInput
from iqcar.causes.blame.demand_weights import QUERY
from iqcar.causes.blame.ratp import Loss
from iqcar.causes.blame.sweep import SOURCE_ENDS, SOURCE_STARTS, TARGET_ENDS, TARGET_STARTS
from iqcar.causes.blame.task_intervals import BlameColumns, Pieces
from iqcar.causes.blame.usage_sweep import usage_during
from iqcar.enums import REQUESTS, Request
from iqcar.model.waits.executor_shortage import NO_SLOTS
from iqcar.model.waits.shared_cluster import Offers, clusters_of, executor_offers
from iqcar.tables import NONE, Tables
from iqcar.tables.arrays import (
    Flags,
    Floats,
    Ints,
    by_group_and_time,
    distinct,
    most_at_once,
    running_total,
    schedule,
    share_of,
    sum_by,
)

MOST_CELLS = 1024
"""Intervals of time per application; one with fewer events has one between any two of them, so that
its numbers are exact, and one with more has means over several events."""


class HeldSlots(NamedTuple):
    """Slots that applications held, one entry per interval and stage, or idle part.

    app: (n_entries,) row of the application.
    stage: (n_entries,) row of the stage whose tasks ran; of idle slots that of the stage that ran
        beside them, else the one that ran last, else the next one. −1 where the application ran
        none.
    idle: (n_entries,) whether no task ran in the slots.
    since, until: (n_entries,), ms.
    slots: (n_entries,) mean number of slots over the interval.
    """

    app: Ints
    stage: Ints
    idle: Flags
    since: Floats
    until: Floats
    slots: Floats


def held_slots(
    tables: Tables, apps: Ints, launch: Floats, finish: Floats, held: Floats
) -> HeldSlots:
    """Compute which stages of some applications held slots when.

    tables: ``tasks``, ``executors`` and ``applications`` are used.
    apps: rows of the applications.
    launch, finish: (n_tasks,), ms; a task with a time that is not finite is left out.
    held: (n_tasks,) slots that each task held while it ran.
    """
    offers = executor_offers(tables)
    app, stage = (tables.tasks[name].to_numpy(np.int64) for name in ("app", "stage"))
    rows = np.flatnonzero(np.isfinite(launch + finish) & (finish > launch) & np.isin(app, apps))
    rows = rows[by_group_and_time(app[rows], stage[rows].astype(np.float64))]
    parts: list[tuple[int, HeldSlots]] = []
    begin = np.searchsorted(app[rows], apps)
    end = np.searchsorted(app[rows], apps, side="right")
    for at, row in enumerate(apps.tolist()):
        mine = rows[begin[at] : end[at]]
        of_app = offers.of(offers.app == row)
        if len(of_app.app):
            found = _of_application(of_app, stage[mine], launch[mine], finish[mine], held[mine])
            parts.append((row, found))
    if not parts:
        none, no = np.zeros(0, np.int64), np.zeros(0)
        return HeldSlots(app=none, stage=none, idle=none.astype(bool), since=no, until=no, slots=no)
    columns = [np.concatenate(column) for column in zip(*(part for _, part in parts), strict=True)]
    columns[0] = np.repeat([row for row, _ in parts], [len(part.stage) for _, part in parts])
    return HeldSlots(*columns)


def _of_application(
    offers: Offers, stage: Ints, launch: Floats, finish: Floats, held: Floats
) -> HeldSlots:
    """Return the slots held by one application, tasks sorted by stage; ``app`` is not set."""
    edges = np.unique(np.concatenate([offers.since, offers.until, launch, finish]))
    if len(edges) > MOST_CELLS:
        edges = edges[np.linspace(0, len(edges) - 1, MOST_CELLS).astype(np.int64)]
    cells = len(edges) - 1
    length = np.diff(edges)
    busy, owner, most = np.zeros(cells), np.full(cells, NONE), np.zeros(cells)
    of_stage, in_cell, slots = [], [], []
    for number, cell, mean in _by_stage(
        edges, length, stage, launch=launch, finish=finish, held=held
    ):
        of_stage.append(np.full(len(cell), number))
        in_cell.append(cell)
        slots.append(mean)
        busy[cell] += mean
        more = cell[mean > most[cell]]
        owner[more], most[more] = number, mean[mean > most[cell]]
    offered = _means(edges, length, offers.since, offers.until, offers.cores)
    idle = offered - busy
    empty = np.flatnonzero(idle > NO_SLOTS)
    of_stage.append(_last_or_next(owner)[empty])
    in_cell.append(empty)
    slots.append(idle[empty])
    cell = np.concatenate(in_cell)
    running = len(cell) - len(empty)
    return HeldSlots(
        app=np.zeros(len(cell), np.int64), stage=np.concatenate(of_stage),
        idle=np.arange(len(cell)) >= running, since=edges[cell], until=edges[cell + 1],
        slots=np.concatenate(slots),
    )  # fmt: skip


def _by_stage(
    edges: Floats, length: Floats, stage: Ints, launch: Floats, finish: Floats, held: Floats
) -> Iterator[tuple[int, Ints, Floats]]:
    """Return each stage's cells and mean slots in them; a stage that cannot be named is −1."""
    cuts = np.flatnonzero(np.diff(stage)) + 1
    for rows in np.split(np.arange(len(stage)), cuts):
        if len(rows):
            mean = _means(edges, length, launch[rows], finish[rows], held[rows])
            cell = np.flatnonzero(mean > NO_SLOTS)
            yield int(stage[rows[0]]), cell, mean[cell]


def _means(edges: Floats, length: Floats, since: Floats, until: Floats, amount: Floats) -> Floats:
    """Return the mean over each cell of the sum of amounts that are there from and until a time."""
    when = np.concatenate([since, until])
    order = np.argsort(when, kind="stable")
    level = np.cumsum(np.concatenate([amount, -amount])[order])
    total = running_total(np.diff(when[order], append=when[order[-1:]]) * level)
    return np.diff(np.interp(edges, when[order], total)) / length


def _last_or_next(owner: Ints) -> Ints:
    """Replace −1 by the value before it, or at the start by the first one."""
    known = owner != NONE
    if not known.any():
        return owner
    before = np.maximum.accumulate(np.where(known, np.arange(len(owner)), -1))
    return owner[np.where(before >= 0, before, int(known.argmax()))]


def executor_sweep_input(columns: BlameColumns, loss: Loss, group: Ints) -> SweepInput:
    """Return the input of the sweep that divides waits for executors.

    Slots that applications in the way held while some were missing share in the wait of each moment
    in proportion to their number. The clock of a victim advances by ``dt / H(t)`` while slots are
    missing, H being the slots that these held, so that all holders together explain the wait. Its
    rows are the waiting tasks, then the slots held by others, idle ones under the number of their
    stage plus the number of stages.

    loss: to executors.
    group: (n_tasks,) group that each task belongs to as a target.
    """
    stages = len(columns.tables.stages)
    cluster = clusters_of(columns.tables)
    victims = columns.shortages
    hit = [cluster[app] for app in victims]
    apps = np.flatnonzero(np.isin(cluster, hit) & (cluster >= 0))
    held = held_slots(columns.tables, apps, columns.launch, columns.finish, columns.slots.held)
    named = np.where(held.stage >= 0, held.stage + held.idle * stages, NONE)
    domain, begin, end, rate, source, task = [], [], [], [], [], []
    for victim, shortage in victims.items():
        clock = shortage.total(share_of(shortage.short, shortage.others))
        rows = np.flatnonzero(
            (columns.app == victim) & (loss.lost > 0) & np.isfinite(columns.asked + columns.launch)
        )
        others = np.flatnonzero(np.isin(held.app, shortage.holders))
        since, until = (
            np.interp(times[others], shortage.when, clock) for times in (held.since, held.until)
        )
        kept = until > since
        since, until, others = since[kept], until[kept], others[kept]
        slots, names = held.slots[others], named[others]
        domain.append(np.full(len(rows) + len(slots), victim))
        task.append(np.concatenate([rows, np.full(len(slots), NONE)]))
        waited = [np.interp(t[rows], shortage.when, clock) for t in (columns.asked, columns.launch)]
        begin.append(np.concatenate([waited[0], since]))
        end.append(np.concatenate([waited[1], until]))
        rate.append(np.concatenate([np.zeros(len(rows)), slots]))
        source.append(np.concatenate([np.full(len(rows), NONE), names]))
    if not domain:
        domain = task = source = [np.zeros(0, np.int64)]
        begin = end = rate = [np.zeros(0)]
    events = schedule(
        np.concatenate(domain),
        (np.concatenate(begin), TARGET_STARTS | SOURCE_STARTS),
        (np.concatenate(end), TARGET_ENDS | SOURCE_ENDS),
    )
    every_task, every_rate = np.concatenate(task), np.concatenate(rate)
    waits = every_task >= 0
    row_of = np.maximum(every_task, 0)
    everyone = usage_during(events, every_rate, waits)
    weights = tuple(
        share_of(np.where(waits, amount[row_of], 0.0) if len(amount) else everyone, everyone)
        for amount in (loss.slowdown, loss.lost)
    )
    target = np.where(waits, group[row_of], 0) if len(group) else row_of
    return SweepInput.from_tasks(
        events,
        (every_rate, np.concatenate(source), (weights[0], weights[1]), target),
        one_domain=True,
        sources=2 * stages,
    )


LEAST_HELD = 1e-3
"""Part of the most bytes held in an executor at one time: with less, something else fills it."""


def cached_shares(pieces: Pieces, loss: Loss, group: Ints, n_groups: int) -> BlameShares:
    """Share out waits for storage memory.

    All blocks in an executor's memory share in a wait there, at each moment in proportion to their
    bytes, those of the waiting query too. A wait at a time for which the log tells of no block, or
    of less than :data:`LEAST_HELD`, and the part of blocks whose query is not known, are left
    unattributed (eq. 4).

    The clock of an executor advances by ``dt / H(t)``, H being the bytes held in it, and stands
    still where none are told of: the integral of a source's bytes over it is its share of time.

    loss: to storage memory.
    group: (n_tasks,) group that each task belongs to as a target; n_groups of them.
    """
    cached = pieces.columns.tables.cached
    executor, stage = (cached[name].to_numpy(np.int64) for name in ("executor", "stage"))
    since, until, size = (
        np.array(cached[name], np.float64) for name in ("since_ms", "until_ms", "bytes")
    )
    domain, begin, end = pieces.executor, np.array(pieces.launch), np.array(pieces.finish)
    waits = pieces.of_task((loss.lost > 0) & (pieces.columns.stage >= 0)) & (pieces.span > 0)
    kept, share = np.zeros(len(size), bool), np.zeros(len(size))
    for one in np.intersect1d(domain[waits], executor).tolist():
        held, there = np.flatnonzero(executor == one), np.flatnonzero(waits & (domain == one))
        edges, clock, most = _clock(since[held], until[held], size[held])
        since[held], until[held] = (np.interp(t[held], edges, clock) for t in (since, until))
        begin[there], end[there] = (np.interp(t[there], edges, clock) for t in (begin, end))
        kept[held], share[held] = True, size[held] / most
        waits[there] = end[there] > begin[there]
    target, source = np.flatnonzero(waits & np.isin(domain, executor)), np.flatnonzero(kept)
    none = np.zeros(len(source))
    weights = tuple(
        np.append((pieces.of_task(each) * pieces.emphasis(loss.request))[target], none)
        for each in (share_of(loss.slowdown, loss.span), share_of(loss.lost, loss.span))
    )
    sweep = SweepInput.from_tasks(
        schedule(
            np.append(domain[target], executor[source]),
            (np.append(begin[target], since[source]), TARGET_STARTS | SOURCE_STARTS),
            (np.append(end[target], until[source]), TARGET_ENDS | SOURCE_ENDS),
        ),
        (
            np.append(np.zeros(len(target)), share[source]),
            np.append(np.full(len(target), NONE), stage[source]),
            (weights[0], weights[1]),
            np.append(pieces.of_task(group)[target], np.zeros(len(source), np.int64)),
        ),
        one_domain=False,
    )
    nobody = np.zeros(n_groups)
    return BlameShares(sweep, nobody, nobody, raw=np.zeros(len(loss.lost)), room=loss.slowdown)


def _clock(since: Floats, until: Floats, size: Floats) -> tuple[Floats, Floats, float]:
    """Return times, the clock at each, and the most bytes held at one time, which it is scaled by.

    The clock runs at 1 where the most is held, faster where less is, and not at all where nothing.
    """
    edges = np.unique(np.concatenate([since, until]))
    change, count = np.zeros(len(edges)), np.zeros(len(edges), np.int64)
    for times, sign in ((since, 1), (until, -1)):
        place = np.searchsorted(edges, times)
        np.add.at(change, place, sign * size)
        np.add.at(count, place, sign)
    held = np.where(np.cumsum(count) > 0, np.cumsum(change), 0.0)[:-1]
    most = float(held.max())
    held = np.where(held > 0, np.maximum(held, LEAST_HELD * most), 0.0)
    passed = np.cumsum(np.diff(edges) * share_of(np.full(len(held), most), held))
    return edges, np.append(0.0, passed), most


Pair = tuple[int, int]
"""Rows of a target query and of a source query."""


class CachedData(NamedTuple):
    """Cached data of a query: its name, and the most bytes at one time in all executors."""

    name: str
    bytes: float


def cached_by_query(tables: Tables) -> dict[int, list[CachedData]]:
    """Return what each query had cached, the largest first, by the row of the query."""
    query = tables.stages["query"].to_numpy(np.int64)
    cached = tables.cached[(tables.cached["stage"] >= 0).to_numpy()]
    owner = query[cached["stage"].to_numpy(np.int64)]
    cached, owner = cached[owner >= 0], owner[owner >= 0]
    if not len(cached):
        return {}
    key = pd.factorize(pd.MultiIndex.from_arrays([owner, cached["app"], cached["rdd"]]))[0]
    codes, group = distinct(key.astype(np.int64))
    first = np.unique(group, return_index=True)[1]
    since, until, size = (
        cached[name].to_numpy(np.float64) for name in ("since_ms", "until_ms", "bytes")
    )
    most = most_at_once(group, since, until, size, len(codes))
    found: dict[int, list[CachedData]] = {}
    for at in np.argsort(-most, kind="stable").tolist():
        name = str(cached["name"].iloc[first[at]])
        found.setdefault(int(owner[first[at]]), []).append(CachedData(name, float(most[at])))
    return found


def held_from(demands: pd.DataFrame, sources: pd.DataFrame, stages: pd.DataFrame) -> set[Pair]:
    """Return who waited for storage memory that whose blocks filled: rows of both queries.

    demands, sources: frames of `DEMANDS` and of `SOURCES`.
    """
    storage = (demands["request"] == REQUESTS.index(Request.STORAGE_MEMORY)).to_numpy()
    demand, stage = (sources[name].to_numpy(np.int64) for name in ("demand", "source_stage"))
    kept = storage[demand] & (sources["kind"] == QUERY).to_numpy() & (stage >= 0)
    victim = demands["query"].to_numpy(np.int64)[demand[kept]]
    source = stages["query"].to_numpy(np.int64)[stage[kept]]
    return set(zip(victim.tolist(), source.tolist(), strict=True))


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
