"""Disks, networks and processors of hosts, shared by the tasks that use them at a moment."""

from __future__ import annotations

from typing import Any

import numpy as np

from iqcar.replay.loop.event_heap import NO_REFERENCES
from iqcar.tables.compiled import kernel

PHASES = 5
"""Phases of a task in each round: read, fetch, compute, wait for what is not shared, write."""
NO_DEVICE = -1
DEVICES = 3
"""Shared devices of a host: its disk, its network, its processors."""
DEVICE = np.array([0, 1, 2, NO_DEVICE, 0])
"""Device of each phase."""
ENOUGH = 1e-9
"""Change of the fair share, relative, from which it is refined further."""


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
def leave(p: int, now: float, pools: Any, devices: Any) -> int:
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
def next_phase(i: int, now: float, progress: Any, pools: Any, devices: Any) -> float:
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
def first_phase(i: int, now: float, progress: Any, pools: Any, devices: Any) -> float:
    """Begin the first phase; a task that has one kind of phase goes through it once."""
    kinds = 0
    for which in range(PHASES):
        if devices.alone[i, which] > 0.0:
            kinds += 1
    phase, part = progress[0], progress[3]
    part[i] = 1.0 / devices.rounds
    if kinds <= 1:
        phase[i], part[i] = PHASES * (devices.rounds - 1), 1.0
    return next_phase(i, now, progress, pools, devices)
