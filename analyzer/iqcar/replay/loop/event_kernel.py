"""Handles the events of a replay one after another; what it takes and finds is laid out before.

At one moment devices come first, then executors change, tasks end, slots become free, attempts
become available, and steps are released, become ready and are done, then what a cluster manager
does; within each kind in the order of their numbers. So the outcome depends on what is replayed,
never on the order of rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from iqcar.replay.loop.cluster_grants import (
    ARRIVED,
    FINISHED,
    HERE,
    ROUND,
    STARTED,
    ask_round,
    hand_out,
    handle,
    return_executor,
    roomiest,
    starved,
    to_take,
    watch_idle,
)
from iqcar.replay.loop.cluster_state import Cluster, Grants
from iqcar.replay.loop.device_sharing import (
    PHASES,
    DeviceUsers,
    Memory,
    Progress,
    ask_memory,
    first_phase,
    give_back_memory,
    leave,
    next_phase,
    next_with_memory,
)
from iqcar.replay.loop.event_heap import Future, pop, push
from iqcar.replay.loop.loop_input import Devices, Run, Shares, Slots, Steps, Work
from iqcar.replay.loop.slot_offers import (
    ACTIVE,
    FREE_HOSTS,
    FREE_SLOTS,
    FREE_THERE,
    NOT_ADDED,
    OFFERED,
    POSTPONED,
    POSTPONED_THERE,
    Caps,
    Free,
    Order,
    Queues,
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
from iqcar.tables.arrays import Flags, Ints

EXECUTORS, END, FREE, AVAILABLE, RELEASED, READY, DONE, WAITED = range(8)
"""Kinds of events, in the order in which they happen at one moment. WAITED: a task has waited for
what is no shared device."""
KIND = 1 << 40
"""An event is its kind times this, plus its number."""


class Sets(NamedTuple):
    """What each step, and each task, is at. Attempts that came back lie on a stack."""

    missing: Ints
    counted: Ints
    cursor: Ints
    is_ready: Flags
    returned: Ints
    below: Ints
    pending: Ints


def _go_on(i: int, now: float, lasts: float, future: Future) -> None:
    """Note when a task's phase is over: after some time, where no device tells; 0: it has ended."""
    if lasts > 0.0:
        push(future, now + lasts, WAITED * KIND + i)
    elif lasts == 0.0:
        push(future, now, END * KIND + i)


def play(
    steps: Steps, work: Work, slots: Slots, shares: Shares, devices: Devices, cluster: Cluster,
    grants: Grants, found: Run, future: Future, sets: Sets, free: Free, queues: Queues,
    order: Order, caps: Caps, progress: Progress, users: DeviceUsers, memory: Memory,
) -> None:  # fmt: skip
    """Handle one event after another; writes what happened into ``found``."""
    n_steps, shared, holds = len(steps.delay), len(devices.alone) > 0, len(devices.memory) > 0
    granted = cluster.capacity > 0
    released, done, launched, ended = found.released, found.done, found.launched, found.ended
    host, lacked = found.host, found.lacked_memory
    times, size = future.times, future.size
    missing, counted, cursor = sets.missing, sets.counted, sets.cursor
    is_ready, returned = sets.is_ready, sets.returned
    below, pending = sets.below, sets.pending
    queue, first, waiting = queues.queue, queues.first, queues.waiting
    heap, place, picked, taken = queues.heap, queues.place, queues.picked, queues.taken
    by_job, pool_running, running = order.by_job, order.pool_running, order.running
    capped, aside = caps.capped, caps.aside
    next_aside, is_aside = caps.next_aside, caps.is_aside
    phase, since = progress.phase, progress.since
    due, device_order = users.due, users.order
    jobs = 0
    for x in range(len(slots.when)):
        push(future, slots.when[x], EXECUTORS * KIND + x)
        if slots.change[x] >= 0:
            free.state[slots.app[x], NOT_ADDED] += 1
    for s in range(n_steps):
        if missing[s] == 0:
            push(future, steps.delay[s], RELEASED * KIND + s)
    if granted:
        for a in range(free.state.shape[0]):
            push(future, cluster.starts[a], STARTED * KIND + a)
    finished, now = 0, 0.0
    while finished < n_steps:
        if shared and due[device_order[0]] < np.inf:
            p = device_order[0]
            if size[0] == 0 or due[p] <= times[0]:
                now = due[p]
                i = leave(p, now, users, devices)
                found.spent[i, (phase[i] - 1) % PHASES] += now - since[i]
                _go_on(i, now, next_phase(i, now, progress, users, devices), future)
                continue
        if size[0] == 0:
            stuck, active = -1, 0
            for a in range(free.state.shape[0]):
                active += free.state[a, ACTIVE]
            if active == 0:
                for s in range(n_steps):
                    if missing[s] > 0 and (stuck < 0 or steps.recorded[s] < steps.recorded[stuck]):
                        stuck = s
            if stuck < 0:
                break
            missing[stuck] = 0
            push(future, now, RELEASED * KIND + stuck)
        now = times[0]
        event = pop(future)
        kind, number = event // KIND, event % KIND
        offer = False
        added = -1
        a = 0
        if kind == WAITED:
            found.spent[number, (phase[number] - 1) % PHASES] += now - since[number]
            _go_on(number, now, next_phase(number, now, progress, users, devices), future)
            continue
        if kind >= ARRIVED and kind != ROUND:
            given = handle(kind, number, now, free, cluster, grants, future)
            if given < 0:
                continue
            a, offer = given, True
        elif kind == ROUND:
            if number > 0:
                grants.looked[number - 1] = False
            hand_out(now, free, cluster, grants, future)
            while cluster.preempts_after < np.inf and grants.total[2] < len(work.duration):
                needy = starved(now, free, cluster, grants, future)
                if needy < 0:
                    break
                while cluster.capacity - grants.total[0] < cluster.size[needy]:
                    victim = to_take(free, cluster, grants)
                    if victim < 0:  # It waits once more: nobody has that much to give back.
                        grants.hungry[cluster.queue[needy]] = now
                        break
                    a, h = victim // slots.hosts, victim % slots.hosts
                    return_executor(a, h, free, cluster, grants)
                    for i in range(len(found.launched)):
                        s = work.step[i]
                        mine = grants.busy[i] and host[i] == h
                        if not mine or shares.pool_app[shares.pool[s]] != a:
                            continue
                        if np.isnan(ended[i]):  # It waits to be run again.
                            grants.old_ends[i] += 1
                            push(future, now, AVAILABLE * KIND + i)
                            grants.total[2] += 1
                            grants.again[i] = True
                        grants.old_frees[i] += slots.handover[a] != 0.0
                        grants.busy[i] = False
                        running[s] -= 1
                        pool_running[shares.pool[s]] -= 1
                        if place[s] >= 0:
                            q = queue[s]
                            settle(queues, first[q], waiting[q], place[s], shares, order)
                        if shares.cap_of[s] >= 0:
                            capped[shares.cap_of[s]] -= 1
                hand_out(now, free, cluster, grants, future)
            continue
        elif kind == EXECUTORS:
            a = slots.app[number]
            change, idle = slots.change[number], slots.when_idle[number]
            change_executors(free, a, slots.host[number], change, idle)
            offer = True
        elif kind == END:
            if granted and grants.old_ends[number] > 0:
                grants.old_ends[number] -= 1
                continue
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
                again = now + work.next_wait[number]
                push(future, again, AVAILABLE * KIND + next_attempt)
            if work.counts[number]:
                counted[s] -= 1
                if counted[s] == 0:
                    push(future, now + steps.tail[s], DONE * KIND + s)
            handover = slots.handover[shares.pool_app[shares.pool[s]]]
            if shared and handover > 0.0:
                push(future, now + handover, FREE * KIND + number)
        elif kind == AVAILABLE:
            s = work.step[number]
            below[number] = returned[s]
            returned[s] = number
            pending[s] += 1
            added = s
            if granted:
                grants.wants[shares.pool_app[shares.pool[s]]] += 1
                ask_round(now, grants, future)
        elif kind == RELEASED:
            released[number] = now
            if by_job[steps.job[number]] < 0:
                by_job[steps.job[number]] = jobs * n_steps
                jobs += 1
            if steps.job[number] != number:
                by_job[number] = by_job[steps.job[number]] + shares.by_stage[number]
            if steps.counted[number] == 0:
                push(future, now + steps.tail[number], DONE * KIND + number)
            if steps.first_task[number + 1] > steps.first_task[number]:
                push(future, now + steps.ready[number], READY * KIND + number)
        elif kind == READY:
            is_ready[number] = True
            pending[number] += steps.first_late[number] - steps.first_task[number]
            added = number
            if granted:
                of_app = shares.pool_app[shares.pool[number]]
                grants.wants[of_app] += steps.first_late[number] - steps.first_task[number]
                ask_round(now, grants, future)
        elif kind == DONE:
            done[number] = now
            finished += 1
            if granted:
                of_app = shares.pool_app[shares.pool[number]]
                grants.left[of_app] -= 1
                if grants.left[of_app] == 0:
                    at = now + cluster.tail[of_app]
                    push(future, at, FINISHED * KIND + of_app)
            for f in range(steps.follower_start[number], steps.follower_start[number + 1]):
                s = steps.follower[f]
                missing[s] -= 1
                if missing[s] == 0:
                    push(future, now + steps.delay[s], RELEASED * KIND + s)

        # TaskSchedulerImpl.statusUpdate: a task counts as running until its slot is free.
        back = -1
        if granted and kind == FREE and grants.old_frees[number] > 0:
            grants.old_frees[number] -= 1
            continue
        if kind in (FREE, END):
            s = work.step[number]
            a = shares.pool_app[shares.pool[s]]
            handover = slots.handover[a]
            if kind == FREE or handover == 0.0 or (shared and handover < 0.0):
                running[s] -= 1
                pool_running[shares.pool[s]] -= 1
                if place[s] >= 0:
                    settle(queues, first[queue[s]], waiting[queue[s]], place[s], shares, order)
                if not granted or grants.there[a, host[number]] == HERE:
                    one_free(free, a, host[number])
                if granted:
                    grants.busy[number] = False
                    ask_round(now, grants, future)
                offer = True
                if shares.cap_of[s] >= 0:
                    capped[shares.cap_of[s]] -= 1
                    back = aside[shares.cap_of[s]]
                    aside[shares.cap_of[s]] = -1
        if kind in (EXECUTORS, ARRIVED):
            back = take_out_all(a, back, caps, shares)
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
            free.state[a, ACTIVE] += 1
            settle(queues, first[q], waiting[q], waiting[q] - 1, shares, order)
        # One round of offers: Spark sorts the task sets once, then serves them in that order.
        picks = 0
        while offer and free.state[a, FREE_SLOTS] > 0:
            s = -1
            for q in range(shares.first_pool[a], shares.first_pool[a + 1]):
                if waiting[q] > 0 and (s < 0 or goes_before(heap[first[q]], s, shares, order)):
                    s = heap[first[q]]
            lent = s < 0
            if lent:
                s = first_aside(a, caps, shares, order)
                if s < 0:
                    break
            k = min(free.state[a, FREE_SLOTS], pending[s])
            cap, limit = shares.cap_of[s], 0
            if cap >= 0:
                limit = limit_of(cap, shares, free.state[a, OFFERED])
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
                if granted:
                    h = roomiest(free, a)
                elif h < 0 or free.here[a, h, FREE_THERE] <= 0:
                    h = free.hosts[a, (i * 7919 + slots.seed * 104729) % free.state[a, FREE_HOSTS]]
                host[i] = h
                make_free(free, a, h, -1)
                if shared:
                    since[i] = now
                    wants = holds and devices.memory[i] > 0.0
                    if not wants or ask_memory(i, a * slots.hosts + h, memory, devices):
                        _go_on(i, now, first_phase(i, now, progress, users, devices), future)
                else:
                    push(future, now + work.duration[i], END * KIND + i)
                    if slots.handover[a] != 0.0:
                        held = max(work.duration[i] + slots.handover[a], 0.0)
                        push(future, now + held, FREE * KIND + i)
                copied = work.next_attempt[i] >= 0 and work.next_at_launch[i]
                if granted:
                    grants.busy[i], copied = True, copied and not grants.again[i]
                if copied:
                    at = now + work.next_wait[i]
                    push(future, at, AVAILABLE * KIND + work.next_attempt[i])
            pending[s] -= k
            if granted:
                grants.wants[a] -= k
            if lent:
                if pending[s] == 0:
                    take_out(s, cap, caps)
                    is_aside[s] = False
            elif pending[s] == 0 or (cap >= 0 and capped[cap] >= limit):
                q = queue[s]
                free.state[a, ACTIVE] -= 1
                waiting[q] -= 1
                place[s] = -1
                heap[first[q]] = heap[first[q] + waiting[q]]
                if waiting[q] > 0:
                    settle(queues, first[q], waiting[q], 0, shares, order)
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
            settle(queues, first[queue[s]], waiting[queue[s]], place[s], shares, order)
        if free.state[a, POSTPONED] > 0 and free.state[a, ACTIVE] == 0:
            for h in range(slots.hosts):
                if free.here[a, h, POSTPONED_THERE] > 0:
                    give_back(free, a, h, free.here[a, h, POSTPONED_THERE])
                    free.here[a, h, POSTPONED_THERE] = 0
            free.state[a, POSTPONED] = 0
        if granted and kind in (FREE, END):
            watch_idle(a, host[number], now, free, cluster, grants, future)
