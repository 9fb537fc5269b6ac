"""Declares a shared cluster as the event loop takes it, and what its applications hold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from iqcar.tables.arrays import Flags, FlagTable, Floats, FloatTable, Ints, IntTable


class Cluster(NamedTuple):
    """A cluster in units of one core, its queues, and what applications ask of it.

    By application, in the order of their starts:

    queue, user: positions.
    starts: ms.
    asks: ms from which on it asks for executors.
    tail: ms from its last step to its end.
    master: units that it takes itself while it runs.
    size: units of one executor.
    slots: tasks at once of one executor.
    least, most: executors; of one that asks for a fixed number, both are that.
    idle: ms after which it gives an idle executor back; infinite: at its end.
    start_up: ms from a grant to the first task.

    By queue:

    guaranteed: units, or a weight where ``fair``.
    maximum: units.
    user_factor, user_least: see :class:`~iqcar.rules.queue_files.LeafQueue`.
    priority: the higher first.
    evenly: whether its applications share it, instead of one after the other.
    gives_back: whether executors can be taken from it.

    Of all:

    capacity: units; 0: executors come and go as recorded.
    fair: whether queues are ordered by weights alone.
    preempts_after: ms.
    """

    queue: Ints
    user: Ints
    starts: Floats
    asks: Floats
    tail: Floats
    master: Ints
    size: Ints
    slots: Ints
    least: Ints
    most: Ints
    idle: Floats
    start_up: Floats
    guaranteed: Floats
    maximum: Floats
    user_factor: Floats
    user_least: Floats
    priority: Ints
    evenly: Flags
    gives_back: Flags
    capacity: int = 0
    fair: bool = False
    preempts_after: float = np.inf


class Grants(NamedTuple):
    """What applications hold at a moment.

    held, wants, at, left: by application: executors, also those that start; tasks that wait;
        what it is at; steps to do.
    used: units by queue; ``used_by``: by queue and user.
    there, due, watched, serial: by application and executor: what it is at; when it arrives, or has
        been idle for long; whether an event looks after that; which came later.
    hungry: ms by queue since when it lacks what it is guaranteed; infinite if it does not.
    looked: by queue, whether an event looks after that.
    total: units in use; executors granted so far; tasks killed so far.
    round_at: ms of the round that is to come; NaN if none is.
    old_ends, old_frees, again, busy: by task: events of launches that were killed; whether one
        was; whether it holds a slot.
    asking: scratch, by user.
    """

    held: Ints
    wants: Ints
    at: Ints
    left: Ints
    used: Ints
    used_by: IntTable
    there: IntTable
    due: FloatTable
    watched: FlagTable
    serial: IntTable
    hungry: Floats
    looked: Flags
    total: Ints
    round_at: Floats
    old_ends: Ints
    old_frees: Ints
    again: Flags
    busy: Flags
    asking: Flags


def no_cluster() -> Cluster:
    """Return the cluster of a run whose executors come and go as recorded."""
    ints, floats, flags = np.zeros(0, np.int64), np.zeros(0), np.zeros(0, bool)
    return Cluster(
        queue=ints, user=ints, starts=floats, asks=floats, tail=floats, master=ints, size=ints,
        slots=ints, least=ints, most=ints, idle=floats, start_up=floats, guaranteed=floats,
        maximum=floats, user_factor=floats, user_least=floats, priority=ints, evenly=flags,
        gives_back=flags,
    )  # fmt: skip


def no_grants(cluster: Cluster, step_app: Ints, hosts: int, tasks: int) -> Grants:
    """Return the state before anything was granted.

    step_app: (n_steps,) application of each step.
    """
    on = cluster.capacity > 0
    apps = len(cluster.queue)
    users = int(cluster.user.max(initial=0)) + 1
    queues, places, killed = len(cluster.guaranteed), hosts if on else 0, tasks if on else 0
    ints, each = np.int64, (apps, places)
    return Grants(
        held=np.zeros(apps, ints), wants=np.zeros(apps, ints), at=np.zeros(apps, ints),
        left=np.bincount(step_app, minlength=apps) if on else np.zeros(0, ints),
        used=np.zeros(queues, ints), used_by=np.zeros((queues, users), ints),
        there=np.zeros(each, ints), due=np.zeros(each), watched=np.zeros(each, bool),
        serial=np.zeros(each, ints), hungry=np.full(queues, np.inf), looked=np.zeros(queues, bool),
        total=np.zeros(3, ints), round_at=np.full(1, np.nan), old_ends=np.zeros(killed, ints),
        old_frees=np.zeros(killed, ints), again=np.zeros(killed, bool),
        busy=np.zeros(killed, bool), asking=np.zeros(users, bool),
    )  # fmt: skip
