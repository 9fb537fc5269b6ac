"""Divides waits for executors among the stages of the applications that held them meanwhile."""

from __future__ import annotations

import numpy as np

from iqcar.causes.blame.blame_sources import Meeting
from iqcar.causes.blame.ratp import Loss, TaskColumns
from iqcar.causes.blame.slot_holders import held_slots
from iqcar.causes.blame.sweep import (
    SOURCE_ENDS,
    SOURCE_STARTS,
    TARGET_ENDS,
    TARGET_STARTS,
)
from iqcar.causes.blame.usage_sweep import usage_during
from iqcar.model.waits.shared_cluster import clusters_of
from iqcar.tables import NONE
from iqcar.tables.arrays import Ints, schedule, share_of


def executor_meeting(columns: TaskColumns, loss: Loss, group: Ints) -> Meeting:
    """Return the input of the sweep that divides waits for executors.

    Slots that other applications held while some were missing share in the wait of each moment in
    proportion to their number. The clock of a victim advances by ``dt / H(t)`` while slots are
    missing, H being the slots that others held, so that all holders together explain the wait. Its
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
        there = np.flatnonzero((cluster[held.app] == cluster[victim]) & (held.app != victim))
        since = np.interp(held.since[there], shortage.when, clock)
        until = np.interp(held.until[there], shortage.when, clock)
        kept = until > since
        there, since, until = there[kept], since[kept], until[kept]
        domain.append(np.full(len(rows) + len(there), victim))
        task.append(np.concatenate([rows, np.full(len(there), NONE)]))
        waited = [np.interp(t[rows], shortage.when, clock) for t in (columns.asked, columns.launch)]
        begin.append(np.concatenate([waited[0], since]))
        end.append(np.concatenate([waited[1], until]))
        rate.append(np.concatenate([np.zeros(len(rows)), held.slots[there]]))
        source.append(np.concatenate([np.full(len(rows), NONE), named[there]]))
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
    of = np.maximum(every_task, 0)
    everyone = usage_during(events, every_rate, waits)
    weights = tuple(
        share_of(np.where(waits, amount[of], 0.0) if len(amount) else everyone, everyone)
        for amount in (loss.slowdown, loss.lost)
    )
    target = np.where(waits, group[of], 0) if len(group) else of
    return Meeting.from_tasks(
        events,
        (every_rate, np.concatenate(source), (weights[0], weights[1]), target),
        one_domain=True,
        sources=2 * stages,
    )
