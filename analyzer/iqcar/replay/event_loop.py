"""The event loop of the replay: tasks get slots as Spark's TaskSchedulerImpl hands them out.

At one moment executors change first, then tasks end, slots become free, attempts become
available, and steps are released, become ready and are done; within each kind in the order of
their numbers. So the outcome depends on what is replayed, never on the order of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from iqcar.tables.compiled import count_steps, kernel

if TYPE_CHECKING:
    from iqcar.replay.loop_input import Shares, Slots, Steps, Work
    from iqcar.tables.arrays import Floats

EXECUTORS, END, FREE, AVAILABLE, RELEASED, READY, DONE = range(7)
"""Kinds of events, in the order in which they happen at one moment."""
KIND = 1 << 40
"""An event is its kind times this, plus its number."""
FREE_SLOTS, ACTIVE, OFFERED, OWED, POSTPONED, EVENTS, NOT_ADDED = range(7)
"""Numbers of the state: slots free; task sets with pending tasks; slots offered; slots to give
back when they become free; slots to give back when nothing waits; events; executors to come."""


def run(steps: Steps, work: Work, slots: Slots, shares: Shares) -> tuple[Floats, Floats, Floats]:
    """Replay one application.

    Returns
    -------
    released, done : ndarray of float64, one per step
    launched : ndarray of float64, one per task
        On the clock of the input; NaN for what never happened because there were no slots.
    """
    count_steps(__name__, 2 * len(steps.delay) + 3 * len(work.duration) + len(slots.when))
    return _run(steps, work, slots, shares)  # type: ignore[no-any-return]


@kernel()
def _push(times: Any, events: Any, state: Any, time: float, event: int) -> None:
    """Add an event to the heap."""
    at = state[EVENTS]
    state[EVENTS] += 1
    while at > 0:
        above = (at - 1) >> 1
        if times[above] < time or (times[above] == time and events[above] <= event):
            break
        times[at] = times[above]
        events[at] = events[above]
        at = above
    times[at] = time
    events[at] = event


@kernel()
def _pop(times: Any, events: Any, state: Any) -> tuple[float, int]:
    """Take the earliest event off the heap."""
    first_time, first_event = times[0], events[0]
    state[EVENTS] -= 1
    size = state[EVENTS]
    time, event = times[size], events[size]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        right = below + 1
        if right < size and (
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


@kernel()
def _goes_before(a: int, b: int, shares: Any, by_job: Any, pool_running: Any, running: Any) -> bool:
    """Spark's SchedulingAlgorithm: whether step ``a`` is offered slots before step ``b``."""
    if not shares.fair:
        return bool(by_job[a] < by_job[b])
    p, q = shares.pool[a], shares.pool[b]
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


@kernel()
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


@kernel()
def _give_back(state: Any, slots: int) -> None:
    """Take slots away: free ones at once, the others when their tasks end."""
    at_once = min(slots, state[FREE_SLOTS])
    state[OFFERED] -= slots
    state[FREE_SLOTS] -= at_once
    state[OWED] += slots - at_once


@kernel()
def _one_free(state: Any) -> None:
    if state[OWED] > 0:
        state[OWED] -= 1
    else:
        state[FREE_SLOTS] += 1


@kernel()
def _change_executors(state: Any, change: int, when_idle: bool) -> None:
    if change >= 0:
        state[NOT_ADDED] -= 1
        state[OFFERED] += change
        paid = min(change, state[OWED])
        state[OWED] -= paid
        state[FREE_SLOTS] += change - paid
        return
    going = -change
    if state[OFFERED] - state[POSTPONED] - going < 1 and state[NOT_ADDED] == 0:
        return  # The last slots stay: in another order of work they are needed for longer.
    if when_idle and state[ACTIVE] > 0:
        state[POSTPONED] += going
    else:
        _give_back(state, going)


@kernel(nogil=True)
def _run(steps: Any, work: Any, slots: Any, shares: Any) -> Any:
    n_steps, n_tasks = len(steps.delay), len(work.duration)
    room = 2 * n_steps + 3 * n_tasks + len(slots.when) + 1
    times, events = np.empty(room), np.empty(room, np.int64)
    state = np.zeros(7, np.int64)
    released, done = np.full(n_steps, np.nan), np.full(n_steps, np.nan)
    launched = np.full(n_tasks, np.nan)
    missing, counted = steps.missing.copy(), steps.counted.copy()
    cursor = steps.first_task[:-1].copy()
    is_ready = np.zeros(n_steps, np.bool_)
    # Attempts that came back lie on a stack, as in Spark: they go before what was never tried.
    returned, below = np.full(n_steps, -1), np.full(n_tasks, -1)
    pending = np.zeros(n_steps, np.int64)
    running = np.zeros(n_steps, np.int64)
    n_pools = len(shares.pool_weight)
    pool_running = np.zeros(n_pools, np.int64)
    # Steps with pending tasks, the one to be served first on top: a heap per pool.
    queue = shares.pool if shares.fair else np.zeros(n_steps, np.int64)
    first, waiting = np.zeros(n_pools + 1, np.int64), np.zeros(n_pools, np.int64)
    first[1:] = np.cumsum(np.bincount(queue, minlength=n_pools))
    heap, place = np.empty(n_steps, np.int64), np.full(n_steps, -1)
    by_job, jobs = np.full(n_steps, -1), 0
    order = (shares, by_job, pool_running, running)
    picked, taken = np.empty(n_steps, np.int64), np.empty(n_steps, np.int64)

    for x in range(len(slots.when)):
        _push(times, events, state, slots.when[x], EXECUTORS * KIND + x)
        if slots.change[x] >= 0:
            state[NOT_ADDED] += 1
    for s in range(n_steps):
        if missing[s] == 0:
            _push(times, events, state, steps.delay[s], RELEASED * KIND + s)
    finished, now = 0, 0.0
    while finished < n_steps:
        if state[EVENTS] == 0:
            stuck = -1
            if state[ACTIVE] == 0:
                for s in range(n_steps):
                    if missing[s] > 0 and (stuck < 0 or steps.recorded[s] < steps.recorded[stuck]):
                        stuck = s
            if stuck < 0:
                break
            missing[stuck] = 0
            _push(times, events, state, now, RELEASED * KIND + stuck)
        now, event = _pop(times, events, state)
        kind, number = event // KIND, event % KIND
        offer = False
        added = -1
        if kind == EXECUTORS:
            _change_executors(state, slots.change[number], slots.when_idle[number])
            offer = True
        elif kind == END:
            s = work.step[number]
            heir = work.heir[number]
            # A slot is handed on before its task is booked: a retry comes after that.
            if heir >= 0 and not work.heir_at_launch[number]:
                _push(times, events, state, now + work.heir_wait[number], AVAILABLE * KIND + heir)
            if work.counts[number]:
                counted[s] -= 1
                if counted[s] == 0:
                    _push(times, events, state, now + steps.tail[s], DONE * KIND + s)
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
                _push(times, events, state, now + steps.tail[number], DONE * KIND + number)
            if steps.first_task[number + 1] > steps.first_task[number]:
                _push(times, events, state, now + steps.ready[number], READY * KIND + number)
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
                    _push(times, events, state, now + steps.delay[s], RELEASED * KIND + s)
        if added >= 0 and is_ready[added] and pending[added] > 0:
            if place[added] < 0:
                q = queue[added]
                heap[first[q] + waiting[q]] = added
                waiting[q] += 1
                state[ACTIVE] += 1
                _settle(heap, first[q], waiting[q], waiting[q] - 1, place, order)
            offer = True

        # TaskSchedulerImpl.statusUpdate: a task counts as running until its slot is free.
        if kind == FREE or (kind == END and slots.handover == 0.0):
            s = work.step[number]
            running[s] -= 1
            pool_running[shares.pool[s]] -= 1
            if place[s] >= 0:
                _settle(heap, first[queue[s]], waiting[queue[s]], place[s], place, order)
            _one_free(state)
            offer = True
        # One round of offers: Spark sorts the task sets once, then serves them in that order.
        picks = 0
        while offer and state[FREE_SLOTS] > 0 and state[ACTIVE] > 0:
            s = -1
            for q in range(n_pools):
                if waiting[q] > 0 and (s < 0 or _goes_before(heap[first[q]], s, *order)):
                    s = heap[first[q]]
            k = min(state[FREE_SLOTS], pending[s])
            for _ in range(k):
                if returned[s] >= 0:
                    i = returned[s]
                    returned[s] = below[i]
                else:
                    i = cursor[s]
                    cursor[s] += 1
                launched[i] = now
                _push(times, events, state, now + work.duration[i], END * KIND + i)
                if slots.handover != 0.0:
                    held = max(work.duration[i] + slots.handover, 0.0)
                    _push(times, events, state, now + held, FREE * KIND + i)
                if work.heir[i] >= 0 and work.heir_at_launch[i]:
                    at = now + work.heir_wait[i]
                    _push(times, events, state, at, AVAILABLE * KIND + work.heir[i])
            state[FREE_SLOTS] -= k
            pending[s] -= k
            if pending[s] == 0:
                q = queue[s]
                state[ACTIVE] -= 1
                waiting[q] -= 1
                place[s] = -1
                heap[first[q]] = heap[first[q] + waiting[q]]
                if waiting[q] > 0:
                    _settle(heap, first[q], waiting[q], 0, place, order)
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
        if state[POSTPONED] > 0 and state[ACTIVE] == 0:
            _give_back(state, state[POSTPONED])
            state[POSTPONED] = 0
    return released, done, launched
