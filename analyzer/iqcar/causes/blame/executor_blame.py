"""Divides waits for executors among the stages of the applications that held them meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from iqcar.causes.blame.blame_sources import SweepInput
from iqcar.causes.blame.ratp import Loss
from iqcar.causes.blame.sweep import SOURCE_ENDS, SOURCE_STARTS, TARGET_ENDS, TARGET_STARTS
from iqcar.causes.blame.task_intervals import BlameColumns
from iqcar.causes.blame.usage_sweep import usage_during
from iqcar.model.waits.executor_shortage import NO_SLOTS
from iqcar.model.waits.shared_cluster import Offers, clusters_of, executor_offers
from iqcar.tables import NONE, Tables
from iqcar.tables.arrays import (
    Flags,
    Floats,
    Ints,
    by_group_and_time,
    running_total,
    schedule,
    share_of,
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
