"""Fits capacities and tasks' demands so that a replay of recorded launches gives recorded waits.

The loop is open: every task starts when and where it did, only the devices are shared. Hosts are
then independent of each other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from iqcar.replay.loop.device_sharing import DEVICES
from iqcar.replay.loop.event_loop import run
from iqcar.replay.loop.loop_input import Devices, Run, Shares, Slots, Steps, Work
from iqcar.replay.loop.task_demands import (
    COMPUTE,
    WAIT,
    TaskDemands,
)
from iqcar.tables import Tables
from iqcar.tables.arrays import Floats, Ints, share_of, sum_by

MANY_TASKS = 4_000
"""Tasks from which all go through their phases once: four rounds take four times as long, and
hardly tell more."""
STEPS = 4
POWER = 0.35
"""How far each step of the fit goes, in log; more oscillates where devices are nearly full."""
OUTSIDE_ROUNDS = 3
"""Times that the waits which no recorded task explains are computed; more change little."""
LEAST_OUTSIDE = 0.45
"""Share of the time in processors that tasks must have lost to something else before it is kept
where nothing else was seen to run: two tasks on the threads of one core, which the replay does not
know, cost each other up to 0.4."""
SEEN = 0.1
"""Processors that something else was seen to use: the waits are its doing, however few."""
LEAST_MS = 5.0
"""Time in a phase below which the error of a replay means nothing."""


class Launches(NamedTuple):
    """When and where tasks started: ms, and rows of hosts."""

    launch: Floats
    host: Ints
    n_hosts: int

    def of(self, rows: Ints) -> Launches:
        """Return those of some tasks."""
        return self._replace(launch=self.launch[rows], host=self.host[rows])


def open_loop(demands: TaskDemands, launches: Launches) -> Run:
    """Replay tasks that start when and where they did.

    Where there are many tasks, they go through their phases once.
    """
    launch, host, n_hosts = launches
    n = len(launch)
    order = np.arange(n)
    zero, one, none = np.zeros(n), np.ones(n, np.int64), np.full(n, -1)
    places = np.bincount(host, minlength=n_hosts)
    used = np.flatnonzero(places)
    steps = Steps(
        missing=np.zeros(n, np.int64),
        delay=launch - launch.min(),
        ready=zero,
        tail=zero,
        counted=one,
        first_task=np.arange(n + 1),
        first_late=np.arange(1, n + 1),
        follower_start=np.zeros(n + 1, np.int64),
        follower=np.zeros(0, np.int64),
        job=order,
        recorded=launch,
    )
    work = Work(
        step=order,
        duration=zero,
        counts=one > 0,
        next_attempt=none,
        next_at_launch=none > 0,
        next_wait=zero,
        host=host,
    )
    slots = Slots(
        when=np.zeros(len(used)),
        change=places[used],
        when_idle=np.zeros(len(used), bool),
        app=np.zeros(len(used), np.int64),
        host=used,
        handover=np.zeros(1),
        hosts=n_hosts,
    )
    shares = _one_pool(order)
    user_start = np.zeros(DEVICES * n_hosts + 1, np.int64)
    np.cumsum(np.repeat(places + 1, DEVICES), out=user_start[1:])
    devices = Devices(
        alone=demands.alone,
        use=demands.use,
        capacity=demands.capacity.ravel(),
        user_start=user_start,
        rounds=demands.way.rounds,
        proportional=demands.way.proportional,
        slowing=np.tile([demands.way.slowing, 0.0, 0.0], n_hosts),
        world=np.zeros(n, np.int64),
    )
    return run(steps, work, slots, shares, devices)


def _one_pool(order: Ints) -> Shares:
    """All tasks in one pool under FIFO, in an order."""
    nothing = np.zeros(0, np.int64)
    return Shares(
        fair=np.array([False]),
        pool_app=np.zeros(1, np.int64),
        first_pool=np.array([0, 1]),
        pool=np.zeros(len(order), np.int64),
        by_stage=order,
        by_name=order,
        pool_fair=np.array([False]),
        pool_weight=np.ones(1),
        pool_min_share=np.zeros(1),
        pool_by_name=np.zeros(1, np.int64),
        cap_of=np.full(len(order), -1),
        cap=nothing,
        cap_share=np.zeros(0),
        cap_strict=np.zeros(0, bool),
    )


def fit_tasks(tables: Tables, demands: TaskDemands) -> TaskDemands:
    """Fit the time alone of each task so that devices of these capacities give recorded waits."""
    launches, rows = replayable(tables, demands)
    part = rows_of(demands, rows)
    best, least = part, np.inf
    for step in range(STEPS + 1):
        spent = open_loop(part, launches.of(rows)).spent
        off = np.abs(_log_error(spent, part.spent))
        loss = float((off * part.spent).sum() / max(part.spent.sum(), 1.0))
        if loss < least:
            best, least = part, loss
        if step < STEPS:
            ratio = np.where(
                (part.spent > 0) & (spent > 0), share_of(part.spent, np.maximum(spent, 1e-6)), 1.0
            )
            ratio[:, WAIT] = 1.0
            # A task is never alone for longer than it took, nor faster than the device.
            alone = np.minimum(part.alone * ratio**POWER, part.spent)
            part = replace(part, alone=alone, use=share_of(part.alone * part.use, alone))
    alone, use = demands.alone.copy(), demands.use.copy()
    alone[rows], use[rows] = best.alone, best.use
    return replace(demands, alone=alone, use=use)


def replayable(tables: Tables, demands: TaskDemands) -> tuple[Launches, Ints]:
    """All launches, and the rows of the tasks that started at a known time and place."""
    launch = tables.tasks["launch_ms"].to_numpy(np.float64)
    host = tables.tasks["host"].to_numpy(np.int64)
    known = np.isfinite(launch) & (host >= 0) & (demands.spent.sum(axis=1) > 0)
    return Launches(launch, host, len(tables.hosts)), np.flatnonzero(known)


def keep_outside_queue(
    demands: TaskDemands, launches: Launches, rows: Ints, steps: int = OUTSIDE_ROUNDS
) -> TaskDemands:
    """Keep the part of measured waits for processors that the recorded tasks do not explain.

    Compilers and collectors of the JVM, the driver and other programs use processors, too. One
    share for each host says how much of the waits there is theirs; an intervention leaves it.
    """
    spent, alone = demands.spent[rows, COMPUTE], demands.alone[rows, COMPUTE]
    ran = launches.of(rows)
    on, n_hosts = ran.host, ran.n_hosts
    for _ in range(steps):
        part = rows_of(demands, rows)
        replayed = open_loop(part, ran).spent[:, COMPUTE]
        queue = sum_by(on, spent - alone, n_hosts)
        missing = sum_by(on, spent - replayed, n_hosts)
        kept = demands.alone[rows, COMPUTE] - alone
        outside = np.maximum(missing + sum_by(on, kept, n_hosts), 0.0)
        share = np.minimum(share_of(outside, queue), 1.0)
        few = outside < LEAST_OUTSIDE * sum_by(on, spent, n_hosts)
        share[few & ~(demands.beside >= SEEN)] = 0.0
        now = alone + share[on] * (spent - alone)
        ours, use = demands.alone.copy(), demands.use.copy()
        use[rows, COMPUTE] = share_of(use[rows, COMPUTE] * ours[rows, COMPUTE], now)
        ours[rows, COMPUTE] = now
        demands = replace(demands, alone=ours, use=use)
    return demands


def rows_of(demands: TaskDemands, rows: Ints) -> TaskDemands:
    """Return the demands of some tasks."""
    return replace(
        demands,
        spent=demands.spent[rows],
        alone=demands.alone[rows],
        use=demands.use[rows],
        gc=demands.gc[rows],
        estimated=demands.estimated[rows],
        python=demands.python[rows],
    )


def _log_error(spent: Floats, recorded: Floats) -> Floats:
    return np.where(
        recorded >= LEAST_MS, np.log(np.maximum(spent, 0.1) / np.maximum(recorded, 0.1)), 0.0
    )
