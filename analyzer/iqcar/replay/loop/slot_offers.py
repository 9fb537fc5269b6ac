"""Decides which task set is offered slots first, as Spark does; counts free slots and caps."""

from __future__ import annotations

from typing import Any

from iqcar.replay.loop.event_heap import NO_REFERENCES
from iqcar.tables.compiled import kernel

FREE_SLOTS, ACTIVE, OFFERED, POSTPONED, NOT_ADDED, FREE_HOSTS = range(6)
"""State of an application: slots free; task sets with pending tasks; slots offered; slots to give
back when nothing waits; executors to come; hosts with free slots."""
FREE_THERE, OWED, POSTPONED_THERE, PLACE = range(4)
"""State of an application on a host: slots free; slots to give back when they become free; slots to
give back when nothing waits; position in the list of hosts with free slots, −1 if none is free."""


@kernel(**NO_REFERENCES)
def goes_before(a: int, b: int, shares: Any, by_job: Any, pool_running: Any, running: Any) -> bool:
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
def settle(heap: Any, start: int, size: int, at: int, place: Any, order: Any) -> None:
    """Bring one step to where it belongs in its pool's heap; all others are where they belong."""
    s = heap[start + at]
    while at > 0:
        above = (at - 1) >> 1
        if not goes_before(s, heap[start + above], *order):
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
            if goes_before(other, first, *order):
                below, first = below + 1, other
        if not goes_before(first, s, *order):
            break
        heap[start + at] = first
        place[first] = at
        at = below
    heap[start + at] = s
    place[s] = at


@kernel(**NO_REFERENCES)
def make_free(app: Any, here: Any, hosts: Any, host: int, slots: int) -> None:
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
def give_back(app: Any, here: Any, hosts: Any, host: int, slots: int) -> None:
    """Take slots away: free ones at once, the others when their tasks end."""
    at_once = min(slots, here[host, FREE_THERE])
    app[OFFERED] -= slots
    here[host, OWED] += slots - at_once
    make_free(app, here, hosts, host, -at_once)


@kernel(**NO_REFERENCES)
def one_free(app: Any, here: Any, hosts: Any, host: int) -> None:
    """Make the slot of a task that ended free, or give it back where one is owed."""
    if here[host, OWED] > 0:
        here[host, OWED] -= 1
    else:
        make_free(app, here, hosts, host, 1)


@kernel(**NO_REFERENCES)
def change_executors(
    app: Any, here: Any, hosts: Any, host: int, change: int, when_idle: bool
) -> None:
    """Add the slots of an executor that comes, or take those of one that goes."""
    if change >= 0:
        app[NOT_ADDED] -= 1
        app[OFFERED] += change
        paid = min(change, here[host, OWED])
        here[host, OWED] -= paid
        make_free(app, here, hosts, host, change - paid)
        return
    going = -change
    if app[OFFERED] - app[POSTPONED] - going < 1 and app[NOT_ADDED] == 0:
        return  # The last slots stay: in another order of work they are needed for longer.
    if when_idle and app[ACTIVE] > 0:
        app[POSTPONED] += going
        here[host, POSTPONED_THERE] += going
    else:
        give_back(app, here, hosts, host, going)


ROUNDING = 1e-9
"""A share of the slots that is a whole number but for this is that number: 0.29 of 100 is 29."""


@kernel(**NO_REFERENCES)
def limit_of(cap: int, shares: Any, offered: int) -> int:
    """Most tasks under a cap at this moment: a share of the slots is one task at least."""
    most = shares.cap[cap]
    if shares.cap_share[cap] < 1.0:
        most = min(most, max(int(shares.cap_share[cap] * offered + ROUNDING), 1))
    return int(most)


@kernel(**NO_REFERENCES)
def first_aside(a: int, aside: Any, next_aside: Any, order: Any) -> int:
    """Step of an application at a cap that is not strict that goes before the others; −1: none."""
    shares = order[0]
    found = -1
    for cap in range(len(aside)):
        s = aside[cap]
        if s < 0 or shares.cap_strict[cap] or shares.pool_app[shares.pool[s]] != a:
            continue
        while s >= 0:
            if found < 0 or goes_before(s, found, *order):
                found = s
            s = next_aside[s]
    return int(found)


@kernel(**NO_REFERENCES)
def take_out(s: int, cap: int, aside: Any, next_aside: Any) -> None:
    """Take a step out of the list of those that its cap has set aside."""
    if aside[cap] == s:
        aside[cap] = next_aside[s]
    else:
        at = aside[cap]
        while next_aside[at] != s:
            at = next_aside[at]
        next_aside[at] = next_aside[s]
    next_aside[s] = -1


@kernel(**NO_REFERENCES)
def take_out_all(a: int, back: int, aside: Any, next_aside: Any, shares: Any) -> int:
    """Put all that an application has set aside before a list of steps: slots changed, and shares.

    Returns the first of the list.
    """
    for cap in range(len(aside)):
        s = aside[cap]
        if s >= 0 and shares.pool_app[shares.pool[s]] == a:
            aside[cap] = -1
            while s >= 0:
                after = next_aside[s]
                next_aside[s] = back
                back, s = s, after
    return int(back)
