"""Replays events: tasks get slots as Spark's TaskSchedulerImpl hands them out.

A task then takes as long as it took, or, where devices are shared, as long as it needs in the disk,
the network and the processors of its host beside the tasks that use them at that moment, after it
got execution memory where that is shared, too. Executors come and go as recorded, or as the queues
of a cluster manager hand them out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iqcar.base.kernels import compiled
from iqcar.replay.loop import event_kernel
from iqcar.replay.loop.cluster_state import Cluster, Grants, no_cluster, no_grants
from iqcar.replay.loop.device_sharing import PHASES, Progress, free_memory, no_users
from iqcar.replay.loop.event_heap import Future
from iqcar.replay.loop.loop_input import Run, no_devices
from iqcar.replay.loop.slot_offers import PLACE, Caps, Free, Order, Queues

if TYPE_CHECKING:
    from iqcar.replay.loop.loop_input import Devices, Shares, Slots, Steps, Work


def run(
    steps: Steps,
    work: Work,
    slots: Slots,
    shares: Shares,
    devices: Devices | None = None,
    *,
    cluster: Cluster | None = None,
) -> Run:
    """Replay one application, or several that share hosts.

    devices: By default nothing but slots is shared: every task takes ``work.duration``.
    cluster: Hands out executors, instead of ``slots``, whose hosts then stand for the executors of
        each application. By default they come and go as ``slots`` says. Not with devices.
    """
    devices, cluster = devices or no_devices(slots.hosts), cluster or no_cluster()
    n_steps, n_tasks, n_pools = len(steps.delay), len(work.duration), len(shares.pool_weight)
    n_apps, n_pairs, shared = len(shares.fair), len(devices.capacity), len(devices.alone) > 0
    found = Run(
        released=np.full(n_steps, np.nan), done=np.full(n_steps, np.nan),
        launched=np.full(n_tasks, np.nan), ended=np.full(n_tasks, np.nan),
        spent=np.zeros((n_tasks if shared else 0, PHASES)), host=np.full(n_tasks, -1),
        lacked_memory=np.zeros(len(devices.memory)),
    )  # fmt: skip
    grants = no_grants(cluster, shares.pool_app[shares.pool], slots.hosts, n_tasks)
    future = _no_events(n_steps, n_tasks, len(slots.when), grants)
    # Attempts that came back lie on a stack, as in Spark: they go before what was never tried.
    sets = event_kernel.Sets(
        missing=steps.missing.copy(), counted=steps.counted.copy(),
        cursor=steps.first_task[:-1].copy(), is_ready=np.zeros(n_steps, np.bool_),
        returned=np.full(n_steps, -1), below=np.full(n_tasks, -1),
        pending=np.zeros(n_steps, np.int64),
    )  # fmt: skip
    # Slots of each application, in all and on each host.
    here = np.zeros((n_apps, slots.hosts, 4), np.int64)
    here[:, :, PLACE] = -1
    free = Free(np.zeros((n_apps, 6), np.int64), here, np.zeros((n_apps, slots.hosts), np.int64))
    # Steps with pending tasks, the one to be served first on top: a heap per pool.
    app = shares.pool_app[shares.pool]
    queue = np.where(shares.fair[app], shares.pool, shares.first_pool[app])
    first = np.zeros(n_pools + 1, np.int64)
    first[1:] = np.cumsum(np.bincount(queue, minlength=n_pools))
    waiting = Queues(
        queue,
        first,
        np.zeros(n_pools, np.int64),
        *(np.full(n_steps, -1) for _ in range(2)),
        # One round can pick a task set twice: up to its cap, and for slots that nobody wants.
        *(np.empty(2 * n_steps, np.int64) for _ in range(2)),
    )
    of_pools = np.zeros(n_pools, np.int64)
    order = Order(np.full(n_steps, -1), of_pools, np.zeros(n_steps, np.int64))
    # Task sets at their cap are set aside in a list per cap.
    caps = Caps(
        np.zeros(len(shares.cap), np.int64),
        np.full(len(shares.cap), -1),
        np.full(n_steps, -1),
        np.zeros(n_steps, np.bool_),
    )
    # What tasks are at, and who uses each device of each host.
    n = n_tasks if shared else 0
    progress = Progress(np.zeros(n, np.int64), np.zeros(n), found.host, np.ones(n))
    users = no_users(devices.user_start, n_pairs, n)
    memory = free_memory(len(devices.memory_capacity), len(devices.memory))
    given = (steps, work, slots, shares, devices, cluster, grants)
    play = compiled(event_kernel.play)
    play(*given, found, future, sets, free, waiting, order, caps, progress, users, memory)
    return found._replace(short=users.short.reshape(n, PHASES))


def _no_events(steps: int, tasks: int, changes: int, grants: Grants) -> Future:
    """Return a heap with room for all events that can lie in it at once."""
    room = 2 * steps + 3 * tasks + changes + 1
    room += 2 * (grants.there.size + len(grants.old_ends)) + 3 * len(grants.held)
    room += 2 * len(grants.used) + 2
    return Future(np.empty(room), np.empty(room, np.int64), np.zeros(1, np.int64))
