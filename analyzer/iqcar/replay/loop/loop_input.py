"""Declares what the replay's event loop takes, steps, tasks, slots and shares, and what it finds.

Columns are ndarrays with one row per step, task, change of slots, or pool; times are in ms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from iqcar.tables.arrays import Flags, Floats, FloatTable, Ints


class Steps(NamedTuple):
    """Task sets (stage attempts) and moments (a job's start, a query's end ...) with their order.

    A step is released ``delay`` after the last of those it follows is done; its tasks can be
    launched ``ready`` later, and it is done ``tail`` after the last task that counts has ended.
    """

    missing: Ints
    """How many steps each follows."""
    delay: Floats
    ready: Floats
    tail: Floats
    counted: Ints
    """Tasks that it waits for; others hold slots, but it does not wait for them."""
    first_task: Ints
    """Position of each step's first task, and one more."""
    first_late: Ints
    """Position of its first task that is not there from the beginning: a further attempt."""
    follower_start: Ints
    follower: Ints
    """Who follows each step, as one list."""
    job: Ints
    """Step that starts the job of each task set, or itself: Spark numbers jobs as they start."""
    recorded: Floats
    """When it was released in the recorded run: tells whom to free where a damaged log has steps
    that wait for each other."""


class Work(NamedTuple):
    """Tasks, by step and then in the order in which they are to be launched."""

    step: Ints
    duration: Floats
    counts: Flags
    next_attempt: Ints
    """Next attempt of the same partition; −1 if none."""
    next_at_launch: Flags
    """Whether that comes some time after the launch (a speculative copy), not at the end."""
    next_wait: Floats
    host: Ints
    """Where each is to run if a slot is free there; −1 if anywhere."""


class Slots(NamedTuple):
    """When slots come and go."""

    when: Floats
    change: Ints
    """Slots that come, or go (negative)."""
    when_idle: Flags
    """Whether they only go when nothing waits for a slot."""
    app: Ints
    """Application that each change is of."""
    host: Ints
    handover: Floats
    """Time of each application from a task's end to the next launch in its slot. Below 0 where
    Spark hands the slot on before it has booked the end."""
    hosts: int = 1
    seed: int = 0
    """Decides which of the free hosts takes a task whose own is not free."""

    def anywhere(self) -> Slots:
        """Return the same slots as if all were on one host."""
        return self._replace(host=np.zeros(len(self.host), np.int64), hosts=1)


class Shares(NamedTuple):
    """Who goes first: each application's scheduler mode, and the pool of each step."""

    fair: Flags
    pool_app: Ints
    """Application of each pool, ascending."""
    first_pool: Ints
    """Position of each application's first pool, and one more."""
    pool: Ints
    by_stage: Ints
    """Rank of each step by stage id and attempt, which orders the task sets of a job."""
    by_name: Ints
    """Rank of each step by the name of its task set, which decides ties in a FAIR pool."""
    pool_fair: Flags
    pool_weight: Floats
    pool_min_share: Floats
    pool_by_name: Ints
    cap_of: Ints
    """Which cap each step's tasks count towards; −1 if none. Steps of one cap are of one
    application."""
    cap: Ints
    """Most tasks that run at once under each cap."""
    cap_share: Floats
    """The same as a share of the slots that the application is offered at that moment, at least
    one task; 1: no further limit."""
    cap_strict: Flags
    """Whether slots that nobody else wants stand free rather than go to tasks at the cap."""


class Devices(NamedTuple):
    """What tasks need in the devices of their hosts, and what these can do.

    A task goes ``rounds`` times through five phases: it reads, fetches, computes, waits for what
    is not shared, and writes.
    """

    alone: FloatTable
    """(tasks, 5) ms in each phase if nobody else used the device; no rows: nothing is shared."""
    use: FloatTable
    """(tasks, 5) what it takes of the device then: bytes per ms, or cores."""
    capacity: Floats
    """(hosts · 3,) bytes per ms or cores of each host's disk, network and processors."""
    user_start: Ints
    """(hosts · 3 + 1,) where the places of each device begin: as many as its host has slots."""
    rounds: int
    proportional: bool
    """Whether a device that is short slows all by one factor, instead of max–min fairly."""
    slowing: Floats
    """(hosts · 3,) part of its capacity that each device loses with each further user."""
    world: Ints
    """(tasks,) number of the first of the hosts that each task can run on: tasks of other worlds
    use other devices."""
    memory: Floats = np.zeros(0)
    """(tasks,) bytes of execution memory that each wants; no rows: memory is not shared."""
    memory_capacity: Floats = np.zeros(0)
    """(applications · hosts,) bytes of each application on each host."""


def no_devices(hosts: int) -> Devices:
    """Return the devices of a run in which nothing but slots is shared."""
    nothing = np.zeros((0, 5))
    return Devices(
        alone=nothing, use=nothing, capacity=np.zeros(3 * hosts),
        user_start=np.zeros(3 * hosts + 1, np.int64), rounds=1, proportional=False, 
        slowing=np.zeros(3 * hosts), world=np.zeros(0, np.int64),
    )  # fmt: skip


class Run(NamedTuple):
    """What happened, on the clock of the input; NaN for what never happened for want of slots.

    released, done: (n_steps,), ms.
    launched, ended: (n_tasks,), ms.
    spent: (n_tasks, 5) or (0, 5), ms; time of each task in each phase, where devices are shared.
    host: (n_tasks,), int64; where each task ran; −1 if it did not.
    lacked_memory: (n_tasks,) or (0,), ms; time that each task waited for execution memory, where
        that is shared.
    short: (n_tasks, 5) or (0, 5); how short of its device each task was in each phase.
    """

    released: Floats
    done: Floats
    launched: Floats
    ended: Floats
    spent: FloatTable
    host: Ints
    lacked_memory: Floats
    short: FloatTable = np.zeros((0, 5))
