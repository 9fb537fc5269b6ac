"""Hands executors of a shared cluster to applications, as the queues of a cluster manager do.

An application asks for what its tasks need; a round of grants follows whatever changes that, or
frees executors, after all else of that moment. The CapacityScheduler serves the queue with the
smallest part of what it is guaranteed in use, the FairScheduler the one with the least for its
weight; queues never get more than their maximum, and users not more than their limit. Nodes are one
pool: an executor fits wherever that much is free.
"""

from __future__ import annotations

import numpy as np

from iqcar.replay.loop.cluster_state import Cluster, Grants
from iqcar.replay.loop.event_heap import Future, push
from iqcar.replay.loop.slot_offers import FREE_SLOTS, FREE_THERE, OFFERED, Free, make_free

ARRIVED, IDLE, STARTED, FINISHED, ROUND = range(8, 13)
"""Kinds of events after those of :mod:`iqcar.replay.loop.event_loop`: an executor registers; one
may have been idle for long; an application starts, and ends; executors are handed out."""
COMES, RUNS, ENDED = range(3)
"""What an application is at."""
GONE, STARTING, HERE = range(3)
"""What an executor is at."""
ROUNDING = 1e-6
"""Units by which products of percentages miss whole numbers."""
KIND = 1 << 40


def ask_round(now: float, g: Grants, future: Future) -> None:
    """Hand out executors once all else of this moment has happened."""
    if g.round_at[0] != now:
        g.round_at[0] = now
        push(future, now, ROUND * KIND)


def lacks(a: int, free: Free, c: Cluster, g: Grants) -> bool:
    """Whether an application asks for more executors than it holds."""
    if g.at[a] != RUNS:
        return False
    busy = free.state[a, OFFERED] - free.state[a, FREE_SLOTS]
    need = (g.wants[a] + busy + c.slots[a] - 1) // c.slots[a]
    return bool(g.held[a] < min(max(need, c.least[a]), c.most[a]))


def below_user_limit(a: int, free: Free, c: Cluster, g: Grants) -> bool:
    """LeafQueue.computeUserLimit: whether the user of an application may get one more executor."""
    q, u = c.queue[a], c.user[a]
    if c.user_factor[q] == np.inf and c.user_least[q] >= 1.0:
        return True
    for other in range(len(g.asking)):
        g.asking[other] = False
    active = 0
    for b in range(len(g.held)):
        if c.queue[b] == q and not g.asking[c.user[b]] and lacks(b, free, c, g):
            g.asking[c.user[b]] = True
            active += 1
    whole = c.guaranteed[q]
    if g.used[q] >= whole - ROUNDING:
        whole = float(g.used[q] + c.size[a])
    limit = max(whole / max(active, 1), whole * c.user_least[q])
    limit = min(limit, c.guaranteed[q] * c.user_factor[q])
    return bool(g.used_by[q, u] <= limit + ROUNDING)


def use_of(q: int, c: Cluster, g: Grants) -> float:
    """How much of what it is guaranteed a queue uses."""
    if c.guaranteed[q] > 0.0:
        return float(g.used[q] / c.guaranteed[q])
    return np.inf


def comes_first(a: int, b: int, c: Cluster, g: Grants) -> bool:
    """Whether an application is served before another one."""
    p, q = c.queue[a], c.queue[b]
    if p == q:
        if c.evenly[q] and g.held[a] * c.size[a] != g.held[b] * c.size[b]:
            return bool(g.held[a] * c.size[a] < g.held[b] * c.size[b])
        return bool(a < b)
    x, y = use_of(p, c, g), use_of(q, c, g)
    full = 1.0 - ROUNDING
    if not c.fair and (x >= full) != (y >= full):
        return bool(x < full)
    if c.priority[p] != c.priority[q]:
        return bool(c.priority[p] > c.priority[q])
    if x != y:
        return bool(x < y)
    return bool(p < q)


def next_served(free: Free, c: Cluster, g: Grants) -> int:
    """Application that gets the next executor; −1 where none that asks may get one that is free."""
    found = -1
    for a in range(len(g.held)):
        q = c.queue[a]
        if g.total[0] + c.size[a] > c.capacity or not lacks(a, free, c, g):
            continue
        if g.used[q] + c.size[a] > c.maximum[q] + ROUNDING:
            continue
        if (found < 0 or comes_first(a, found, c, g)) and below_user_limit(a, free, c, g):
            found = a
    return found


def book(a: int, units: int, c: Cluster, g: Grants) -> None:
    """Note that an application uses more, or less."""
    g.total[0] += units
    g.used[c.queue[a]] += units
    g.used_by[c.queue[a], c.user[a]] += units


def grant(a: int, now: float, c: Cluster, g: Grants, future: Future) -> None:
    """Give an application one executor, which arrives when it has started."""
    h = 0
    while g.there[a, h] != GONE:
        h += 1
    g.there[a, h] = STARTING
    g.due[a, h] = now + c.start_up[a]
    g.total[1] += 1
    g.serial[a, h] = g.total[1]
    g.held[a] += 1
    book(a, c.size[a], c, g)
    push(future, g.due[a, h], ARRIVED * KIND + a * g.there.shape[1] + h)


def return_executor(a: int, h: int, free: Free, c: Cluster, g: Grants) -> None:
    """Take an executor from an application; its tasks are not looked at."""
    if g.there[a, h] == HERE:
        free.state[a, OFFERED] -= c.slots[a]
        make_free(free, a, h, -free.here[a, h, FREE_THERE])
    g.there[a, h] = GONE
    g.held[a] -= 1
    book(a, -c.size[a], c, g)


def roomiest(free: Free, a: int) -> int:
    """Executor with the most free slots: Spark spreads tasks. Of like ones the first."""
    found = 0
    for h in range(1, free.here.shape[1]):
        if free.here[a, h, FREE_THERE] > free.here[a, found, FREE_THERE]:
            found = h
    return int(found)


def watch_idle(
    a: int, h: int, now: float, free: Free, c: Cluster, g: Grants, future: Future
) -> None:
    """Note since when an executor runs nothing."""
    if c.idle[a] == np.inf or g.there[a, h] != HERE or free.here[a, h, FREE_THERE] < c.slots[a]:
        return
    g.due[a, h] = now + c.idle[a]
    if not g.watched[a, h]:
        g.watched[a, h] = True
        event = IDLE * KIND + a * g.there.shape[1] + h
        push(future, g.due[a, h], event)


def handle(
    kind: int, number: int, now: float, free: Free, c: Cluster, g: Grants, future: Future
) -> int:
    """Handle an event of an application or an executor.

    Returns the application whose slots became more; −1: of none.
    """
    if kind == STARTED:
        apps = len(g.held)
        if number < apps:  # Its master has a place; then it asks.
            book(number, c.master[number], c, g)
            push(future, c.asks[number], STARTED * KIND + apps + number)
        elif g.at[number - apps] == COMES:
            g.at[number - apps] = RUNS
            ask_round(now, g, future)
        return -1
    if kind == FINISHED:
        for h in range(g.there.shape[1]):
            if g.there[number, h] != GONE:
                return_executor(number, h, free, c, g)
        g.at[number] = ENDED
        book(number, -c.master[number], c, g)
        ask_round(now, g, future)
        return -1
    a, h = number // g.there.shape[1], number % g.there.shape[1]
    if kind == ARRIVED:
        if g.there[a, h] != STARTING or g.due[a, h] != now:
            return -1
        g.there[a, h] = HERE
        free.state[a, OFFERED] += c.slots[a]
        make_free(free, a, h, c.slots[a])
        watch_idle(a, h, now, free, c, g, future)
        return int(a)
    # IDLE
    g.watched[a, h] = False
    if g.there[a, h] == HERE and free.here[a, h, FREE_THERE] == c.slots[a]:
        if g.due[a, h] > now:
            g.watched[a, h] = True
            push(future, g.due[a, h], IDLE * KIND + number)
        elif g.held[a] > c.least[a]:
            return_executor(a, h, free, c, g)
            ask_round(now, g, future)
    return -1


def hand_out(now: float, free: Free, c: Cluster, g: Grants, future: Future) -> None:
    """Give executors as long as one that asks may get one."""
    if g.round_at[0] == now:
        g.round_at[0] = np.nan
    a = next_served(free, c, g)
    while a >= 0:
        grant(a, now, c, g, future)
        a = next_served(free, c, g)


def entitled(q: int, free: Free, c: Cluster, g: Grants) -> float:
    """Units that a queue is guaranteed; of the FairScheduler among queues that use or want some."""
    if not c.fair:
        return float(c.guaranteed[q])
    weights = 0.0
    for p in range(len(g.used)):
        counts = p == q or g.used[p] > 0
        for a in range(len(g.held)):
            counts = counts or (c.queue[a] == p and lacks(a, free, c, g))
        if counts:
            weights += c.guaranteed[p]
    return float(c.capacity * c.guaranteed[q] / weights) if weights > 0.0 else 0.0


def starved(now: float, free: Free, c: Cluster, g: Grants, future: Future) -> int:
    """Application that asks in a queue that has lacked what it is guaranteed for long enough.

    −1 where none has.
    """
    found = -1
    for q in range(len(g.used)):
        lacking = -1
        most = min(entitled(q, free, c, g), c.maximum[q]) + ROUNDING
        for a in range(len(g.held)):
            asks = c.queue[a] == q and lacking < 0 and lacks(a, free, c, g)
            if asks and g.used[q] + c.size[a] <= most and below_user_limit(a, free, c, g):
                lacking = a
        if lacking < 0:
            g.hungry[q] = np.inf
            continue
        if g.hungry[q] == np.inf:
            g.hungry[q] = now
        if now >= g.hungry[q] + c.preempts_after:
            if found < 0:
                found = lacking
        elif not g.looked[q]:
            g.looked[q] = True
            at = g.hungry[q] + c.preempts_after
            push(future, at, ROUND * KIND + 1 + q)
    return found


def to_take(free: Free, c: Cluster, g: Grants) -> int:
    """Executor that is taken first: the latest of the latest application of the fullest queue.

    −1 where no queue holds more than it is guaranteed.
    """
    found, most = -1, 0.0
    places = g.there.shape[1]
    for a in range(len(g.held)):
        q = c.queue[a]
        over = g.used[q] - c.size[a] - entitled(q, free, c, g)
        if not c.gives_back[q] or over < -ROUNDING:
            continue
        last = -1
        for h in range(places):
            if g.there[a, h] == HERE and (last < 0 or g.serial[a, h] > g.serial[a, last]):
                last = h
        if last >= 0:
            use = g.used[q] / max(entitled(q, free, c, g), ROUNDING)
            if found < 0 or use >= most:
                found, most = a * places + last, use
    return int(found)
