"""The event loop of the replay: tasks get slots as Spark's TaskSchedulerImpl hands them out.

A task then takes as long as it took, or, where devices are shared, as long as it needs in the disk,
the network and the processors of its host beside the tasks that use them at that moment.

At one moment devices come first, then executors change, tasks end, slots become free, attempts
become available, and steps are released, become ready and are done; within each kind in the order
of their numbers. So the outcome depends on what is replayed, never on the order of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from iqcar.replay.loop_input import no_devices
from iqcar.tables.compiled import count_steps, kernel

if TYPE_CHECKING:
    from iqcar.replay.loop_input import Devices, Shares, Slots, Steps, Work
    from iqcar.tables.arrays import Floats, Ints

EXECUTORS, END, FREE, AVAILABLE, RELEASED, READY, DONE, WAITED = range(8)
"""Kinds of events, in the order in which they happen at one moment. WAITED: a task has waited for
what is no shared device."""
KIND = 1 << 40
"""An event is its kind times this, plus its number."""
FREE_SLOTS, ACTIVE, OFFERED, POSTPONED, NOT_ADDED, FREE_HOSTS = range(6)
"""State of an application: slots free; task sets with pending tasks; slots offered; slots to give
back when nothing waits; executors to come; hosts with free slots."""
FREE_THERE, OWED, POSTPONED_THERE, PLACE = range(4)
"""State of an application on a host: slots free; slots to give back when they become free; slots to
give back when nothing waits; position in the list of hosts with free slots, −1 if none is free."""
PHASES = 5
"""Phases of a task in each round: read, fetch, compute, wait for what is not shared, write."""
NO_DEVICE = -1
DEVICES = 3
"""Shared devices of a host: its disk, its network, its processors."""
DEVICE = np.array([0, 1, 2, NO_DEVICE, 0])
"""Device of each phase."""
NO_REFERENCES = {"_nrt": False}
"""numba counts references to arrays atomically, which took most of the time; kernels that allocate
nothing need no count."""
ROUNDING = 1e-9
"""A share of the slots that is a whole number but for this is that number: 0.29 of 100 is 29."""
ENOUGH = 1e-9
"""Change of the fair share, relative, from which it is refined further."""


class Run(NamedTuple):
    """What happened, on the clock of the input; NaN for what never happened for want of slots.

    Attributes
    ----------
    released, done : ndarray of shape (n_steps,), ms
    launched, ended : ndarray of shape (n_tasks,), ms
    spent : ndarray of shape (n_tasks, 5) or (0, 5), ms
        Time of each task in each phase, where devices are shared.
    host : ndarray of shape (n_tasks,), int64
        Where each task ran; −1 if it did not.
    """

    released: Floats
    done: Floats
    launched: Floats
    ended: Floats
    spent: Floats
    host: Ints


def run(
    steps: Steps, work: Work, slots: Slots, shares: Shares, devices: Devices | None = None
) -> Run:
    """Replay one application, or several that share hosts.

    Parameters
    ----------
    steps, work, slots, shares
    devices : Devices, optional
        By default nothing but slots is shared: every task takes ``work.duration``.

    Returns
    -------
    Run
    """
    devices = devices or no_devices(slots.hosts)
    n_steps, n_tasks, n_pools = len(steps.delay), len(work.duration), len(shares.pool_weight)
    n_apps, n_pairs, shared = len(shares.fair), len(devices.capacity), len(devices.alone) > 0
    per_task = 3 + 2 * PHASES * devices.rounds if shared else 3
    count_steps(__name__, 2 * n_steps + per_task * n_tasks + len(slots.when))
    found = Run(
        np.full(n_steps, np.nan),
        np.full(n_steps, np.nan),
        np.full(n_tasks, np.nan),
        np.full(n_tasks, np.nan),
        np.zeros((n_tasks if shared else 0, PHASES)),
        np.full(n_tasks, -1),
    )
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
    order = (
        shares,
        np.full(n_steps, -1),
        np.zeros(n_pools, np.int64),
        np.zeros(n_steps, np.int64),
    )
    # Task sets at their cap are set aside in a list per cap.
    caps = (
        np.zeros(len(shares.cap), np.int64),
        np.full(len(shares.cap), -1),
        np.full(n_steps, -1),
        np.zeros(n_steps, np.bool_),
    )
    # What tasks are at, and who uses each device of each host.
    n = n_tasks if shared else 0
    progress = (np.zeros(n, np.int64), np.zeros(n), found.host, np.ones(n))
    seats = int(devices.seats[-1])
    pools = (
        np.empty(seats, np.int64),
        *(np.empty(seats) for _ in range(3)),
        np.zeros(n_pairs, np.int64),
        devices.seats,
        np.zeros(n_pairs),
        np.full(n_pairs, np.inf),
        np.zeros(n_pairs, np.int64),
        np.zeros(n_pairs),
        np.full(n_pairs, np.inf),
        *(np.arange(n_pairs) for _ in range(2)),
    )
    given = (steps, work, slots, shares, devices)
    _loop(*given, found, future, sets, free, waiting, order, caps, progress, pools)
    return found


@kernel(**NO_REFERENCES)
def _push(times: Any, events: Any, size: Any, time: float, event: int) -> None:
    """Add an event to the heap."""
    at = size[0]
    size[0] += 1
    while at > 0:
        above = (at - 1) >> 1
        if times[above] < time or (times[above] == time and events[above] <= event):
            break
        times[at] = times[above]
        events[at] = events[above]
        at = above
    times[at] = time
    events[at] = event


@kernel(**NO_REFERENCES)
def _pop(times: Any, events: Any, size: Any) -> tuple[float, int]:
    """Take the earliest event off the heap."""
    first_time, first_event = times[0], events[0]
    size[0] -= 1
    last = size[0]
    time, event = times[last], events[last]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= last:
            break
        right = below + 1
        if right < last and (
            times[right] < times[below]
            or (times[right] == times[below] and events[right] < events[below])
        ):
            below = right
        if time < times[below] or (time == times[below] and event <= events[below]):
            break
        times[at] = times[below]
        events[at] = events[below]
        at = below
    times[at] = time
    events[at] = event
    return first_time, first_event


@kernel(**NO_REFERENCES)
def _goes_before(a: int, b: int, shares: Any, by_job: Any, pool_running: Any, running: Any) -> bool:
    """Spark's SchedulingAlgorithm: whether step ``a`` is offered slots before step ``b``."""
    p, q = shares.pool[a], shares.pool[b]
    if not shares.fair[shares.pool_app[p]]:
        return bool(by_job[a] < by_job[b])
    if p != q:
        needy_p = pool_running[p] < shares.pool_min_share[p]
        needy_q = pool_running[q] < shares.pool_min_share[q]
        if needy_p != needy_q:
            return bool(needy_p)
        if needy_p:
            x = pool_running[p] / max(shares.pool_min_share[p], 1.0)
            y = pool_running[q] / max(shares.pool_min_share[q], 1.0)
        else:
            x = pool_running[p] / shares.pool_weight[p]
            y = pool_running[q] / shares.pool_weight[q]
        if x != y:
            return bool(x < y)
        return bool(shares.pool_by_name[p] < shares.pool_by_name[q])
    if shares.pool_fair[p]:
        if running[a] != running[b]:
            return bool(running[a] < running[b])
        return bool(shares.by_name[a] < shares.by_name[b])
    return bool(by_job[a] < by_job[b])


@kernel(**NO_REFERENCES)
def _settle(heap: Any, start: int, size: int, at: int, place: Any, order: Any) -> None:
    """Bring one step to where it belongs in its pool's heap; all others are where they belong."""
    s = heap[start + at]
    while at > 0:
        above = (at - 1) >> 1
        if not _goes_before(s, heap[start + above], *order):
            break
        heap[start + at] = heap[start + above]
        place[heap[start + at]] = at
        at = above
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        first = heap[start + below]
        if below + 1 < size:
            other = heap[start + below + 1]
            if _goes_before(other, first, *order):
                below, first = below + 1, other
        if not _goes_before(first, s, *order):
            break
        heap[start + at] = first
        place[first] = at
        at = below
    heap[start + at] = s
    place[s] = at


@kernel(**NO_REFERENCES)
def _free(app: Any, here: Any, hosts: Any, host: int, slots: int) -> None:
    """Make slots of an application free on a host; a negative number takes them."""
    app[FREE_SLOTS] += slots
    here[host, FREE_THERE] += slots
    if here[host, FREE_THERE] > 0:
        if here[host, PLACE] < 0:
            here[host, PLACE] = app[FREE_HOSTS]
            hosts[app[FREE_HOSTS]] = host
            app[FREE_HOSTS] += 1
    elif here[host, PLACE] >= 0:
        app[FREE_HOSTS] -= 1
        last = hosts[app[FREE_HOSTS]]
        hosts[here[host, PLACE]] = last
        here[last, PLACE] = here[host, PLACE]
        here[host, PLACE] = -1


@kernel(**NO_REFERENCES)
def _give_back(app: Any, here: Any, hosts: Any, host: int, slots: int) -> None:
    """Take slots away: free ones at once, the others when their tasks end."""
    at_once = min(slots, here[host, FREE_THERE])
    app[OFFERED] -= slots
    here[host, OWED] += slots - at_once
    _free(app, here, hosts, host, -at_once)


@kernel(**NO_REFERENCES)
def _one_free(app: Any, here: Any, hosts: Any, host: int) -> None:
    if here[host, OWED] > 0:
        here[host, OWED] -= 1
    else:
        _free(app, here, hosts, host, 1)


@kernel(**NO_REFERENCES)
def _change_executors(
    app: Any, here: Any, hosts: Any, host: int, change: int, when_idle: bool
) -> None:
    if change >= 0:
        app[NOT_ADDED] -= 1
        app[OFFERED] += change
        paid = min(change, here[host, OWED])
        here[host, OWED] -= paid
        _free(app, here, hosts, host, change - paid)
        return
    going = -change
    if app[OFFERED] - app[POSTPONED] - going < 1 and app[NOT_ADDED] == 0:
        return  # The last slots stay: in another order of work they are needed for longer.
    if when_idle and app[ACTIVE] > 0:
        app[POSTPONED] += going
        here[host, POSTPONED_THERE] += going
    else:
        _give_back(app, here, hosts, host, going)


@kernel(**NO_REFERENCES)
def _settle_device(p: int, due: Any, order: Any, place: Any) -> None:
    """Bring a device to where it belongs in the heap of devices: who is done first is on top."""
    at, time = place[p], due[p]
    while at > 0:
        above = order[(at - 1) >> 1]
        if due[above] < time or (due[above] == time and above < p):
            break
        order[at], place[above] = above, at
        at = (at - 1) >> 1
    while True:
        below = 2 * at + 1
        if below >= len(order):
            break
        one = order[below]
        if below + 1 < len(order):
            other = order[below + 1]
            if due[other] < due[one] or (due[other] == due[one] and other < one):
                below, one = below + 1, other
        if time < due[one] or (time == due[one] and p < one):
            break
        order[at], place[one] = one, at
        at = below
    order[at], place[p] = p, at


@kernel(**NO_REFERENCES)
def _advance(p: int, now: float, pools: Any, devices: Any) -> None:
    """Let those who use a device move on until now."""
    _, left, _, inverse, size, start, clock, _, _, _, level, _, _ = pools
    passed, share = now - clock[p], level[p]
    clock[p] = now
    first, last = start[p], start[p] + size[p]
    if share == np.inf:
        for k in range(first, last):
            left[k] -= passed
    elif devices.proportional:
        for k in range(first, last):
            left[k] -= passed * share
    else:
        for k in range(first, last):
            left[k] -= passed * min(1.0, share * inverse[k])


@kernel(**NO_REFERENCES)
def _share_out(p: int, now: float, pools: Any, devices: Any) -> None:
    """Divide a device among those who use it now, and find out who is done first.

    Max–min: who wants less than the fair share gets what it wants, the others divide the rest. The
    fair share is where the sum of min(want, share) reaches the capacity: Newton's steps on that
    concave sum, from the share before. In proportion: all get the same part of what they want.
    """
    _, left, want, _, size, start, clock, due, first_out, total, level, order, place = pools
    first, last, capacity = start[p], start[p] + size[p], devices.capacity[p]
    asked = 0.0
    for k in range(first, last):
        asked += want[k]
    total[p] = asked
    soonest, sooner = np.inf, first
    if asked <= capacity:
        level[p] = np.inf
        for k in range(first, last):
            if left[k] < soonest:
                soonest, sooner = left[k], k
    elif devices.proportional:
        level[p] = capacity / asked
        for k in range(first, last):
            if left[k] < soonest:
                soonest, sooner = left[k], k
        soonest *= asked / capacity
    else:
        share = level[p] if level[p] < np.inf else capacity / size[p]
        while True:
            slow, fast = 0.0, 0
            for k in range(first, last):
                if want[k] <= share:
                    slow += want[k]
                else:
                    fast += 1
            found = (capacity - slow) / fast if fast > 0 else capacity / size[p]
            if abs(found - share) <= ENOUGH * share:
                break
            share = found
        level[p] = share
        for k in range(first, last):
            lasts = left[k] * max(1.0, want[k] / share)
            if lasts < soonest:
                soonest, sooner = lasts, k
    first_out[p] = sooner
    due[p] = clock[p] + soonest if soonest > now - clock[p] else now
    _settle_device(p, due, order, place)


@kernel(**NO_REFERENCES)
def _enter(p: int, now: float, i: int, lasts: float, use: float, pools: Any, devices: Any) -> None:
    """Let a task begin to use a device."""
    member, left, want, inverse, size, start, clock, due, first_out, total, level, order, place = (
        pools
    )
    k = start[p] + size[p]
    if size[p] == 0:
        clock[p], total[p], level[p] = now, 0.0, np.inf
    # Where nobody is short of anything, nobody notices.
    enough = level[p] == np.inf and total[p] + use <= devices.capacity[p]
    if not enough:
        _advance(p, now, pools, devices)
    size[p] += 1
    member[k], left[k], want[k] = i, lasts + (now - clock[p]), use
    inverse[k] = 1.0 / use if use > 0.0 else np.inf
    if not enough:
        _share_out(p, now, pools, devices)
        return
    total[p] += use
    if clock[p] + left[k] < due[p]:
        due[p], first_out[p] = clock[p] + left[k], k
        _settle_device(p, due, order, place)


@kernel(**NO_REFERENCES)
def _leave(p: int, now: float, pools: Any, devices: Any) -> int:
    """Let the one who is done leave a device."""
    member, left, want, inverse, size, start = pools[:6]
    size[p] -= 1
    k, last = pools[8][p], start[p] + size[p]
    i = member[k]
    member[k], left[k], want[k] = member[last], left[last], want[last]
    inverse[k] = inverse[last]
    if pools[10][p] < np.inf:
        _advance(p, now, pools, devices)
    _share_out(p, now, pools, devices)
    return int(i)


@kernel(**NO_REFERENCES)
def _next_phase(i: int, now: float, progress: Any, pools: Any, devices: Any) -> float:
    """Begin the next phase of a task; returns how long it lasts, −1 where a device tells."""
    phase, since, host, part = progress
    n = PHASES * devices.rounds
    since[i] = now
    while phase[i] < n:
        which = phase[i] % PHASES
        phase[i] += 1
        lasts = devices.alone[i, which] * part[i]
        if lasts <= 0.0:
            continue
        if DEVICE[which] == NO_DEVICE:
            return float(lasts)
        p = host[i] * DEVICES + DEVICE[which]
        _enter(p, now, i, lasts, devices.use[i, which], pools, devices)
        return -1.0
    return 0.0


@kernel(**NO_REFERENCES)
def _first_phase(i: int, now: float, progress: Any, pools: Any, devices: Any) -> float:
    """Begin the first phase; a task that has one kind of phase goes through it once."""
    kinds = 0
    for which in range(PHASES):
        if devices.alone[i, which] > 0.0:
            kinds += 1
    phase, part = progress[0], progress[3]
    part[i] = 1.0 / devices.rounds
    if kinds <= 1:
        phase[i], part[i] = PHASES * (devices.rounds - 1), 1.0
    return _next_phase(i, now, progress, pools, devices)


@kernel(**NO_REFERENCES)
def _limit(cap: int, shares: Any, offered: int) -> int:
    """Most tasks under a cap at this moment: a share of the slots is one task at least."""
    most = shares.cap[cap]
    if shares.cap_share[cap] < 1.0:
        most = min(most, max(int(shares.cap_share[cap] * offered + ROUNDING), 1))
    return int(most)


@kernel(**NO_REFERENCES)
def _first_aside(a: int, aside: Any, next_aside: Any, order: Any) -> int:
    """Step of an application at a cap that is not strict that goes before the others; −1: none."""
    shares = order[0]
    found = -1
    for cap in range(len(aside)):
        s = aside[cap]
        if s < 0 or shares.cap_strict[cap] or shares.pool_app[shares.pool[s]] != a:
            continue
        while s >= 0:
            if found < 0 or _goes_before(s, found, *order):
                found = s
            s = next_aside[s]
    return int(found)


@kernel(**NO_REFERENCES)
def _take_out(s: int, cap: int, aside: Any, next_aside: Any) -> None:
    """Take a step out of the list of those that its cap has set aside."""
    if aside[cap] == s:
        aside[cap] = next_aside[s]
    else:
        at = aside[cap]
        while next_aside[at] != s:
            at = next_aside[at]
        next_aside[at] = next_aside[s]
    next_aside[s] = -1


@kernel(nogil=True, **NO_REFERENCES)
def _loop(
    steps: Any, work: Any, slots: Any, shares: Any, devices: Any, found: Any, future: Any,
    sets: Any, free: Any, queues: Any, order: Any, caps: Any, progress: Any, pools: Any,
) -> None:  # fmt: skip
    """Handle one event after another; writes what happened into ``found``."""
    n_steps, shared = len(steps.delay), len(devices.alone) > 0
    released, done, launched, ended, spent, host = found
    times, events, size = future
    missing, counted, cursor, is_ready, returned, below, pending = sets
    state, here, hosts = free
    queue, first, waiting, heap, place, picked, taken = queues
    _, by_job, pool_running, running = order
    capped, aside, next_aside, is_aside = caps
    phase, since = progress[0], progress[1]
    due, device_order = pools[7], pools[11]
    jobs = 0
    for x in range(len(slots.when)):
        _push(times, events, size, slots.when[x], EXECUTORS * KIND + x)
        if slots.change[x] >= 0:
            state[slots.app[x], NOT_ADDED] += 1
    for s in range(n_steps):
        if missing[s] == 0:
            _push(times, events, size, steps.delay[s], RELEASED * KIND + s)
    finished, now = 0, 0.0
    while finished < n_steps:
        if shared and due[device_order[0]] < np.inf:
            p = device_order[0]
            if size[0] == 0 or due[p] <= times[0]:
                now = due[p]
                i = _leave(p, now, pools, devices)
                spent[i, (phase[i] - 1) % PHASES] += now - since[i]
                lasts = _next_phase(i, now, progress, pools, devices)
                if lasts > 0.0:
                    _push(times, events, size, now + lasts, WAITED * KIND + i)
                elif lasts == 0.0:
                    _push(times, events, size, now, END * KIND + i)
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
            _push(times, events, size, now, RELEASED * KIND + stuck)
        now, event = _pop(times, events, size)
        kind, number = event // KIND, event % KIND
        offer = False
        added = -1
        a = 0
        if kind == WAITED:
            spent[number, (phase[number] - 1) % PHASES] += now - since[number]
            lasts = _next_phase(number, now, progress, pools, devices)
            if lasts > 0.0:
                _push(times, events, size, now + lasts, WAITED * KIND + number)
            elif lasts == 0.0:
                _push(times, events, size, now, END * KIND + number)
            continue
        if kind == EXECUTORS:
            a = slots.app[number]
            change, idle = slots.change[number], slots.when_idle[number]
            _change_executors(state[a], here[a], hosts[a], slots.host[number], change, idle)
            offer = True
        elif kind == END:
            ended[number] = now
            s = work.step[number]
            heir = work.heir[number]
            # A slot is handed on before its task is booked: a retry comes after that.
            if heir >= 0 and not work.heir_at_launch[number]:
                _push(times, events, size, now + work.heir_wait[number], AVAILABLE * KIND + heir)
            if work.counts[number]:
                counted[s] -= 1
                if counted[s] == 0:
                    _push(times, events, size, now + steps.tail[s], DONE * KIND + s)
            handover = slots.handover[shares.pool_app[shares.pool[s]]]
            if shared and handover > 0.0:
                _push(times, events, size, now + handover, FREE * KIND + number)
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
                _push(times, events, size, now + steps.tail[number], DONE * KIND + number)
            if steps.first_task[number + 1] > steps.first_task[number]:
                _push(times, events, size, now + steps.ready[number], READY * KIND + number)
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
                    _push(times, events, size, now + steps.delay[s], RELEASED * KIND + s)

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
                    _settle(heap, first[queue[s]], waiting[queue[s]], place[s], place, order)
                _one_free(state[a], here[a], hosts[a], host[number])
                offer = True
                if shares.cap_of[s] >= 0:
                    capped[shares.cap_of[s]] -= 1
                    back = aside[shares.cap_of[s]]
                    aside[shares.cap_of[s]] = -1
        if kind == EXECUTORS:
            # A share of more slots is more tasks.
            for c in range(len(aside)):
                s = aside[c]
                if s >= 0 and shares.pool_app[shares.pool[s]] == a:
                    aside[c] = -1
                    while s >= 0:
                        after = next_aside[s]
                        next_aside[s] = back
                        back, s = s, after
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
            _settle(heap, first[q], waiting[q], waiting[q] - 1, place, order)
        # One round of offers: Spark sorts the task sets once, then serves them in that order.
        picks = 0
        while offer and state[a, FREE_SLOTS] > 0:
            s = -1
            for q in range(shares.first_pool[a], shares.first_pool[a + 1]):
                if waiting[q] > 0 and (s < 0 or _goes_before(heap[first[q]], s, *order)):
                    s = heap[first[q]]
            lent = s < 0
            if lent:
                s = _first_aside(a, aside, next_aside, order)
                if s < 0:
                    break
            k = min(state[a, FREE_SLOTS], pending[s])
            cap, limit = shares.cap_of[s], 0
            if cap >= 0:
                limit = _limit(cap, shares, state[a, OFFERED])
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
                    h = hosts[a, (i * 7919 + slots.luck * 104729) % state[a, FREE_HOSTS]]
                host[i] = h
                _free(state[a], here[a], hosts[a], h, -1)
                if shared:
                    lasts = _first_phase(i, now, progress, pools, devices)
                    if lasts >= 0.0:
                        what = WAITED if lasts > 0.0 else END
                        _push(times, events, size, now + lasts, what * KIND + i)
                else:
                    _push(times, events, size, now + work.duration[i], END * KIND + i)
                    if slots.handover[a] != 0.0:
                        held = max(work.duration[i] + slots.handover[a], 0.0)
                        _push(times, events, size, now + held, FREE * KIND + i)
                if work.heir[i] >= 0 and work.heir_at_launch[i]:
                    at = now + work.heir_wait[i]
                    _push(times, events, size, at, AVAILABLE * KIND + work.heir[i])
            pending[s] -= k
            if lent:
                if pending[s] == 0:
                    _take_out(s, cap, aside, next_aside)
                    is_aside[s] = False
            elif pending[s] == 0 or (cap >= 0 and capped[cap] >= limit):
                q = queue[s]
                state[a, ACTIVE] -= 1
                waiting[q] -= 1
                place[s] = -1
                heap[first[q]] = heap[first[q] + waiting[q]]
                if waiting[q] > 0:
                    _settle(heap, first[q], waiting[q], 0, place, order)
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
            _settle(heap, first[queue[s]], waiting[queue[s]], place[s], place, order)
        if state[a, POSTPONED] > 0 and state[a, ACTIVE] == 0:
            for h in range(slots.hosts):
                if here[a, h, POSTPONED_THERE] > 0:
                    _give_back(state[a], here[a], hosts[a], h, here[a, h, POSTPONED_THERE])
                    here[a, h, POSTPONED_THERE] = 0
            state[a, POSTPONED] = 0
