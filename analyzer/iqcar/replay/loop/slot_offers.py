"""Decides which task set is offered slots first, as Spark does; counts free slots and caps."""

from __future__ import annotations

from typing import NamedTuple

from iqcar.replay.loop.loop_input import Shares
from iqcar.tables.arrays import Flags, IntCube, Ints, IntTable

FREE_SLOTS, ACTIVE, OFFERED, POSTPONED, NOT_ADDED, FREE_HOSTS = range(6)
"""State of an application: slots free; task sets with pending tasks; slots offered; slots to give
back when nothing waits; executors to come; hosts with free slots."""
FREE_THERE, OWED, POSTPONED_THERE, PLACE = range(4)
"""State of an application on a host: slots free; slots to give back when they become free; slots to
give back when nothing waits; position in the list of hosts with free slots, −1 if none is free."""


class Free(NamedTuple):
    """Slots of each application, in all and on each host, and its hosts with free slots."""

    state: IntTable
    here: IntCube
    hosts: IntTable


class Queues(NamedTuple):
    """Steps with pending tasks, the one to be served first on top: a heap per pool."""

    queue: Ints
    first: Ints
    waiting: Ints
    heap: Ints
    place: Ints
    picked: Ints
    taken: Ints


class Order(NamedTuple):
    """What decides who goes first."""

    by_job: Ints
    pool_running: Ints
    running: Ints


class Caps(NamedTuple):
    """Tasks that run under each cap, and lists of steps that are set aside."""

    capped: Ints
    aside: Ints
    next_aside: Ints
    is_aside: Flags


def goes_before(a: int, b: int, shares: Shares, order: Order) -> bool:
    """Spark's SchedulingAlgorithm: whether step ``a`` is offered slots before step ``b``."""
    by_job = order.by_job
    pool_running, running = order.pool_running, order.running
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


def settle(queues: Queues, start: int, size: int, at: int, shares: Shares, order: Order) -> None:
    """Bring one step to where it belongs in its pool's heap; all others are where they belong."""
    heap, place = queues.heap, queues.place
    s = heap[start + at]
    while at > 0:
        above = (at - 1) >> 1
        if not goes_before(s, heap[start + above], shares, order):
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
            if goes_before(other, first, shares, order):
                below, first = below + 1, other
        if not goes_before(first, s, shares, order):
            break
        heap[start + at] = first
        place[first] = at
        at = below
    heap[start + at] = s
    place[s] = at


def make_free(free: Free, a: int, host: int, slots: int) -> None:
    """Make slots of an application free on a host; a negative number takes them."""
    free.state[a, FREE_SLOTS] += slots
    free.here[a, host, FREE_THERE] += slots
    if free.here[a, host, FREE_THERE] > 0:
        if free.here[a, host, PLACE] < 0:
            free.here[a, host, PLACE] = free.state[a, FREE_HOSTS]
            free.hosts[a, free.state[a, FREE_HOSTS]] = host
            free.state[a, FREE_HOSTS] += 1
    elif free.here[a, host, PLACE] >= 0:
        free.state[a, FREE_HOSTS] -= 1
        last = free.hosts[a, free.state[a, FREE_HOSTS]]
        free.hosts[a, free.here[a, host, PLACE]] = last
        free.here[a, last, PLACE] = free.here[a, host, PLACE]
        free.here[a, host, PLACE] = -1


def give_back(free: Free, a: int, host: int, slots: int) -> None:
    """Take slots away: free ones at once, the others when their tasks end."""
    at_once = min(slots, free.here[a, host, FREE_THERE])
    free.state[a, OFFERED] -= slots
    free.here[a, host, OWED] += slots - at_once
    make_free(free, a, host, -at_once)


def one_free(free: Free, a: int, host: int) -> None:
    """Make the slot of a task that ended free, or give it back where one is owed."""
    if free.here[a, host, OWED] > 0:
        free.here[a, host, OWED] -= 1
    else:
        make_free(free, a, host, 1)


def change_executors(free: Free, a: int, host: int, change: int, when_idle: bool) -> None:
    """Add the slots of an executor that comes, or take those of one that goes."""
    if change >= 0:
        free.state[a, NOT_ADDED] -= 1
        free.state[a, OFFERED] += change
        paid = min(change, free.here[a, host, OWED])
        free.here[a, host, OWED] -= paid
        make_free(free, a, host, change - paid)
        return
    going = -change
    if (
        free.state[a, OFFERED] - free.state[a, POSTPONED] - going < 1
        and free.state[a, NOT_ADDED] == 0
    ):
        return  # The last slots stay: in another order of work they are needed for longer.
    if when_idle and free.state[a, ACTIVE] > 0:
        free.state[a, POSTPONED] += going
        free.here[a, host, POSTPONED_THERE] += going
    else:
        give_back(free, a, host, going)


ROUNDING = 1e-9
"""A share of the slots that is a whole number but for this is that number: 0.29 of 100 is 29."""


def limit_of(cap: int, shares: Shares, offered: int) -> int:
    """Most tasks under a cap at this moment: a share of the slots is one task at least."""
    most = shares.cap[cap]
    if shares.cap_share[cap] < 1.0:
        most = min(most, max(int(shares.cap_share[cap] * offered + ROUNDING), 1))
    return int(most)


def first_aside(a: int, caps: Caps, shares: Shares, order: Order) -> int:
    """Step of an application at a cap that is not strict that goes before the others; −1: none."""
    aside, next_aside = caps.aside, caps.next_aside
    found = -1
    for cap in range(len(caps.aside)):
        s = aside[cap]
        if s < 0 or shares.cap_strict[cap] or shares.pool_app[shares.pool[s]] != a:
            continue
        while s >= 0:
            if found < 0 or goes_before(s, found, shares, order):
                found = s
            s = next_aside[s]
    return int(found)


def take_out(s: int, cap: int, caps: Caps) -> None:
    """Take a step out of the list of those that its cap has set aside."""
    aside, next_aside = caps.aside, caps.next_aside
    if aside[cap] == s:
        aside[cap] = next_aside[s]
    else:
        at = aside[cap]
        while next_aside[at] != s:
            at = next_aside[at]
        next_aside[at] = next_aside[s]
    next_aside[s] = -1


def take_out_all(a: int, back: int, caps: Caps, shares: Shares) -> int:
    """Put all that an application has set aside before a list of steps: slots changed, and shares.

    Returns the first of the list.
    """
    aside, next_aside = caps.aside, caps.next_aside
    for cap in range(len(caps.aside)):
        s = aside[cap]
        if s >= 0 and shares.pool_app[shares.pool[s]] == a:
            aside[cap] = -1
            while s >= 0:
                after = next_aside[s]
                next_aside[s] = back
                back, s = s, after
    return int(back)
