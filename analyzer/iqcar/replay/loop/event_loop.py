"""Replays events: tasks get slots as Spark's TaskSchedulerImpl hands them out.

A task then takes as long as it took, or, where devices are shared, as long as it needs in the disk,
the network and the processors of its host beside the tasks that use them at that moment, after it
got execution memory where that is shared, too.

At one moment devices come first, then executors change, tasks end, slots become free, attempts
become available, and steps are released, become ready and are done; within each kind in the order
of their numbers. So the outcome depends on what is replayed, never on the order of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from iqcar.replay.loop.device_sharing import (
    PHASES,
    Progress,
    ask_memory,
    first_phase,
    free_memory,
    give_back_memory,
    leave,
    next_phase,
    next_with_memory,
    no_users,
)
from iqcar.replay.loop.event_heap import NO_REFERENCES, pop, push
from iqcar.replay.loop.loop_input import no_devices
from iqcar.replay.loop.slot_offers import (
    ACTIVE,
    FREE_HOSTS,
    FREE_SLOTS,
    FREE_THERE,
    NOT_ADDED,
    OFFERED,
    PLACE,
    POSTPONED,
    POSTPONED_THERE,
    change_executors,
    first_aside,
    give_back,
    goes_before,
    limit_of,
    make_free,
    one_free,
    settle,
    take_out,
    take_out_all,
)
from iqcar.tables.arrays import Floats, Ints
from iqcar.tables.compiled import count_steps, kernel

if TYPE_CHECKING:
    from iqcar.replay.loop.loop_input import Devices, Shares, Slots, Steps, Work

EXECUTORS, END, FREE, AVAILABLE, RELEASED, READY, DONE, WAITED = range(8)
"""Kinds of events, in the order in which they happen at one moment. WAITED: a task has waited for
what is no shared device."""
KIND = 1 << 40
"""An event is its kind times this, plus its number."""


class Run(NamedTuple):
    """What happened, on the clock of the input; NaN for what never happened for want of slots.

    released, done: (n_steps,), ms.
    launched, ended: (n_tasks,), ms.
    spent: (n_tasks, 5) or (0, 5), ms; time of each task in each phase, where devices are shared.
    host: (n_tasks,), int64; where each task ran; −1 if it did not.
    lacked_memory: (n_tasks,) or (0,), ms; time that each task waited for execution memory, where
        that is shared.
    """

    released: Floats
    done: Floats
    launched: Floats
    ended: Floats
    spent: Floats
    host: Ints
    lacked_memory: Floats
    short: Floats = np.zeros((0, PHASES))


def run(
    steps: Steps, work: Work, slots: Slots, shares: Shares, devices: Devices | None = None
) -> Run:
    """Replay one application, or several that share hosts.

    devices: By default nothing but slots is shared: every task takes ``work.duration``.
    """
    devices = devices or no_devices(slots.hosts)
    n_steps, n_tasks, n_pools = len(steps.delay), len(work.duration), len(shares.pool_weight)
    n_apps, n_pairs, shared = len(shares.fair), len(devices.capacity), len(devices.alone) > 0
    per_task = 3 + 2 * PHASES * devices.rounds if shared else 3
    count_steps(__name__, 2 * n_steps + per_task * n_tasks + len(slots.when))
    found = Run(
        released=np.full(n_steps, np.nan), done=np.full(n_steps, np.nan),
        launched=np.full(n_tasks, np.nan), ended=np.full(n_tasks, np.nan),
        spent=np.zeros((n_tasks if shared else 0, PHASES)), host=np.full(n_tasks, -1),
        lacked_memory=np.zeros(len(devices.memory)),
    )  # fmt: skip
    room = 2 * n_steps + 3 * n_tasks + len(slots.when) + 1
    future = (np.empty(room), np.empty(room, np.int64), np.zeros(1, np.int64))
    # Attempts that came back lie on a stack, as in Spark: they go before what was never tried.
    sets = (
        steps.missing.copy(),
        steps.counted.copy(),
        steps.first_task[:-1].copy(),
        np.zeros(n_steps, np.bool_),
        np.full(n_steps, -1),
        np.full(n_tasks, -1),
        np.zeros(n_steps, np.int64),
    )
    # Slots of each application, in all and on each host.
    here = np.zeros((n_apps, slots.hosts, 4), np.int64)
    here[:, :, PLACE] = -1
    free = (np.zeros((n_apps, 6), np.int64), here, np.zeros((n_apps, slots.hosts), np.int64))
    # Steps with pending tasks, the one to be served first on top: a heap per pool.
    app = shares.pool_app[shares.pool]
    queue = np.where(shares.fair[app], shares.pool, shares.first_pool[app])
    first = np.zeros(n_pools + 1, np.int64)
    first[1:] = np.cumsum(np.bincount(queue, minlength=n_pools))
    waiting = (
        queue,
        first,
        np.zeros(n_pools, np.int64),
        *(np.full(n_steps, -1) for _ in range(2)),
        # One round can pick a task set twice: up to its cap, and for slots that nobody wants.
        *(np.empty(2 * n_steps, np.int64) for _ in range(2)),
    )
    of_pools = np.zeros(n_pools, np.int64)
    order = (shares, np.full(n_steps, -1), of_pools, np.zeros(n_steps, np.int64))
    # Task sets at their cap are set aside in a list per cap.
    caps = (
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
    given = (steps, work, slots, shares, devices)
    _loop(*given, found, future, sets, free, waiting, order, caps, progress, users, memory)
    return found._replace(short=users.short.reshape(n, PHASES))


@kernel(**NO_REFERENCES)
def _go_on(i: int, now: float, lasts: float, future: Any) -> None:
    """Note when a task's phase is over: after some time, where no device tells; 0: it has ended."""
    times, events, size = future
    if lasts > 0.0:
        push(times, events, size, now + lasts, WAITED * KIND + i)
    elif lasts == 0.0:
        push(times, events, size, now, END * KIND + i)


@kernel(nogil=True, **NO_REFERENCES)
def _loop(
    steps: Any, work: Any, slots: Any, shares: Any, devices: Any, found: Any, future: Any,
    sets: Any, free: Any, queues: Any, order: Any, caps: Any, progress: Any, users: Any,
    memory: Any,
) -> None:  # fmt: skip
    """Handle one event after another; writes what happened into ``found``."""
    n_steps, shared, holds = len(steps.delay), len(devices.alone) > 0, len(devices.memory) > 0
    released, done, launched, ended, spent, host, lacked, _ = found
    times, events, size = future
    missing, counted, cursor, is_ready, returned, below, pending = sets
    state, here, hosts = free
    queue, first, waiting, heap, place, picked, taken = queues
    _, by_job, pool_running, running = order
    capped, aside, next_aside, is_aside = caps
    phase, since = progress.phase, progress.since
    due, device_order = users.due, users.order
    jobs = 0
    for x in range(len(slots.when)):
        push(times, events, size, slots.when[x], EXECUTORS * KIND + x)
        if slots.change[x] >= 0:
            state[slots.app[x], NOT_ADDED] += 1
    for s in range(n_steps):
        if missing[s] == 0:
            push(times, events, size, steps.delay[s], RELEASED * KIND + s)
    finished, now = 0, 0.0
    while finished < n_steps:
        if shared and due[device_order[0]] < np.inf:
            p = device_order[0]
            if size[0] == 0 or due[p] <= times[0]:
                now = due[p]
                i = leave(p, now, users, devices)
                spent[i, (phase[i] - 1) % PHASES] += now - since[i]
                _go_on(i, now, next_phase(i, now, progress, users, devices), future)
                continue
        if size[0] == 0:
            stuck, active = -1, 0
            for a in range(len(state)):
                active += state[a, ACTIVE]
            if active == 0:
                for s in range(n_steps):
                    if missing[s] > 0 and (stuck < 0 or steps.recorded[s] < steps.recorded[stuck]):
                        stuck = s
            if stuck < 0:
                break
            missing[stuck] = 0
            push(times, events, size, now, RELEASED * KIND + stuck)
        now, event = pop(times, events, size)
        kind, number = event // KIND, event % KIND
        offer = False
        added = -1
        a = 0
        if kind == WAITED:
            spent[number, (phase[number] - 1) % PHASES] += now - since[number]
            _go_on(number, now, next_phase(number, now, progress, users, devices), future)
            continue
        if kind == EXECUTORS:
            a = slots.app[number]
            change, idle = slots.change[number], slots.when_idle[number]
            change_executors(state[a], here[a], hosts[a], slots.host[number], change, idle)
            offer = True
        elif kind == END:
            ended[number] = now
            s = work.step[number]
            next_attempt = work.next_attempt[number]
            if holds and devices.memory[number] > 0.0:
                pool = shares.pool_app[shares.pool[s]] * slots.hosts + host[number]
                give_back_memory(number, pool, memory)
                i = next_with_memory(pool, memory, devices)
                while i >= 0:
                    lacked[i] = now - since[i]
                    _go_on(i, now, first_phase(i, now, progress, users, devices), future)
                    i = next_with_memory(pool, memory, devices)
            # A slot is handed on before its task is booked: a retry comes after that.
            if next_attempt >= 0 and not work.next_at_launch[number]:
                push(
                    times,
                    events,
                    size,
                    now + work.next_wait[number],
                    AVAILABLE * KIND + next_attempt,
                )
            if work.counts[number]:
                counted[s] -= 1
                if counted[s] == 0:
                    push(times, events, size, now + steps.tail[s], DONE * KIND + s)
            handover = slots.handover[shares.pool_app[shares.pool[s]]]
            if shared and handover > 0.0:
                push(times, events, size, now + handover, FREE * KIND + number)
        elif kind == AVAILABLE:
            s = work.step[number]
            below[number] = returned[s]
            returned[s] = number
            pending[s] += 1
            added = s
        elif kind == RELEASED:
            released[number] = now
            if by_job[steps.job[number]] < 0:
                by_job[steps.job[number]] = jobs * n_steps
                jobs += 1
            if steps.job[number] != number:
                by_job[number] = by_job[steps.job[number]] + shares.by_stage[number]
            if steps.counted[number] == 0:
                push(times, events, size, now + steps.tail[number], DONE * KIND + number)
            if steps.first_task[number + 1] > steps.first_task[number]:
                push(times, events, size, now + steps.ready[number], READY * KIND + number)
        elif kind == READY:
            is_ready[number] = True
            pending[number] += steps.first_late[number] - steps.first_task[number]
            added = number
        elif kind == DONE:
            done[number] = now
            finished += 1
            for f in range(steps.follower_start[number], steps.follower_start[number + 1]):
                s = steps.follower[f]
                missing[s] -= 1
                if missing[s] == 0:
                    push(times, events, size, now + steps.delay[s], RELEASED * KIND + s)

        # TaskSchedulerImpl.statusUpdate: a task counts as running until its slot is free.
        back = -1
        if kind in (FREE, END):
            s = work.step[number]
            a = shares.pool_app[shares.pool[s]]
            handover = slots.handover[a]
            if kind == FREE or handover == 0.0 or (shared and handover < 0.0):
                running[s] -= 1
                pool_running[shares.pool[s]] -= 1
                if place[s] >= 0:
                    settle(heap, first[queue[s]], waiting[queue[s]], place[s], place, order)
                one_free(state[a], here[a], hosts[a], host[number])
                offer = True
                if shares.cap_of[s] >= 0:
                    capped[shares.cap_of[s]] -= 1
                    back = aside[shares.cap_of[s]]
                    aside[shares.cap_of[s]] = -1
        if kind == EXECUTORS:
            back = take_out_all(a, back, aside, next_aside, shares)
        if added >= 0 and is_ready[added] and pending[added] > 0:
            a = shares.pool_app[shares.pool[added]]
            offer = True
            if place[added] < 0 and not is_aside[added]:
                next_aside[added] = back
                back = added
        while back >= 0:
            s, back = back, next_aside[back]
            next_aside[s], is_aside[s] = -1, False
            q = queue[s]
            heap[first[q] + waiting[q]] = s
            waiting[q] += 1
            state[a, ACTIVE] += 1
            settle(heap, first[q], waiting[q], waiting[q] - 1, place, order)
        # One round of offers: Spark sorts the task sets once, then serves them in that order.
        picks = 0
        while offer and state[a, FREE_SLOTS] > 0:
            s = -1
            for q in range(shares.first_pool[a], shares.first_pool[a + 1]):
                if waiting[q] > 0 and (s < 0 or goes_before(heap[first[q]], s, *order)):
                    s = heap[first[q]]
            lent = s < 0
            if lent:
                s = first_aside(a, aside, next_aside, order)
                if s < 0:
                    break
            k = min(state[a, FREE_SLOTS], pending[s])
            cap, limit = shares.cap_of[s], 0
            if cap >= 0:
                limit = limit_of(cap, shares, state[a, OFFERED])
                if not lent:
                    k = min(k, max(limit - capped[cap], 0))
                capped[cap] += k
            for _ in range(k):
                if returned[s] >= 0:
                    i = returned[s]
                    returned[s] = below[i]
                else:
                    i = cursor[s]
                    cursor[s] += 1
                launched[i] = now
                h = work.host[i] if slots.hosts > 1 else 0
                if h < 0 or here[a, h, FREE_THERE] <= 0:
                    h = hosts[a, (i * 7919 + slots.seed * 104729) % state[a, FREE_HOSTS]]
                host[i] = h
                make_free(state[a], here[a], hosts[a], h, -1)
                if shared:
                    since[i] = now
                    wants = holds and devices.memory[i] > 0.0
                    if not wants or ask_memory(i, a * slots.hosts + h, memory, devices):
                        _go_on(i, now, first_phase(i, now, progress, users, devices), future)
                else:
                    push(times, events, size, now + work.duration[i], END * KIND + i)
                    if slots.handover[a] != 0.0:
                        held = max(work.duration[i] + slots.handover[a], 0.0)
                        push(times, events, size, now + held, FREE * KIND + i)
                if work.next_attempt[i] >= 0 and work.next_at_launch[i]:
                    at = now + work.next_wait[i]
                    push(times, events, size, at, AVAILABLE * KIND + work.next_attempt[i])
            pending[s] -= k
            if lent:
                if pending[s] == 0:
                    take_out(s, cap, aside, next_aside)
                    is_aside[s] = False
            elif pending[s] == 0 or (cap >= 0 and capped[cap] >= limit):
                q = queue[s]
                state[a, ACTIVE] -= 1
                waiting[q] -= 1
                place[s] = -1
                heap[first[q]] = heap[first[q] + waiting[q]]
                if waiting[q] > 0:
                    settle(heap, first[q], waiting[q], 0, place, order)
                if pending[s] > 0:
                    next_aside[s], is_aside[s] = aside[cap], True
                    aside[cap] = s
            picked[picks] = s
            taken[picks] = k
            picks += 1
        for p in range(picks):
            running[picked[p]] += taken[p]
            pool_running[shares.pool[picked[p]]] += taken[p]
        # Only the last one picked can have tasks left.
        if picks > 0 and place[picked[picks - 1]] >= 0:
            s = picked[picks - 1]
            settle(heap, first[queue[s]], waiting[queue[s]], place[s], place, order)
        if state[a, POSTPONED] > 0 and state[a, ACTIVE] == 0:
            for h in range(slots.hosts):
                if here[a, h, POSTPONED_THERE] > 0:
                    give_back(state[a], here[a], hosts[a], h, here[a, h, POSTPONED_THERE])
                    here[a, h, POSTPONED_THERE] = 0
            state[a, POSTPONED] = 0
