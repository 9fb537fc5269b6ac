"""Caps on the tasks that run at once, and task sets that are set aside because they are at one."""

from __future__ import annotations

from typing import Any

from iqcar.replay.loop.event_heap import NO_REFERENCES
from iqcar.replay.loop.slot_offers import goes_before
from iqcar.tables.compiled import kernel

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
