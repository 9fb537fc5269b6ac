"""Shares disks, networks, processors and memory of hosts among the tasks that use them now."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from iqcar.replay.loop.loop_input import Devices
from iqcar.tables.arrays import Floats, Ints

PHASES = 5
"""Phases of a task in each round: read, fetch, compute, wait for what is not shared, write."""
NO_DEVICE = -1
DEVICES = 3
"""Shared devices of a host: its disk, its network, its processors."""
WAITS = 3
DEVICE = np.array([0, 1, 2, NO_DEVICE, 0])
"""Device of each phase."""
ENOUGH = 1e-9
"""Change of the fair share, relative, from which it is refined further."""
SLACK = 1e-9
"""Share of its part that a task may lack: sums of what others hold are not exact."""


class Progress(NamedTuple):
    """What each task is at; one row per task."""

    phase: Ints
    since: Floats
    """When its phase began, in ms."""
    host: Ints
    part: Floats
    """Part of its time in each phase that it spends there in one round."""


class DeviceUsers(NamedTuple):
    """Who uses each device of each host now: a row per place of a user, then a row per device."""

    phase: Ints
    """Row of the user in ``short``: its task times the phases, plus its phase."""
    left: Floats
    """Time that each user would still need alone, in ms."""
    want: Floats
    inverse: Floats
    """1 / want."""
    size: Ints
    """Users of each device."""
    start: Ints
    """Its first place; one row more."""
    clock: Floats
    """Until when ``left`` is up to date, in ms."""
    due: Floats
    """When the first user is done, in ms; inf without any."""
    first_out: Ints
    """Place of that user."""
    total: Floats
    """What all users want."""
    level: Floats
    """The fair share; inf where the device is enough for all."""
    order: Ints
    """A heap of devices by ``due``."""
    place: Ints
    """Where each device is in that heap."""
    short: Floats
    """(tasks · 5,) time of each task in each phase in which it got less than it wants, in ms."""


class Memory(NamedTuple):
    """Execution memory: bytes that each task holds, and who stands in line at each pool."""

    held: Floats
    in_use: Floats
    wanting: Ints
    first: Ints
    last: Ints
    """First and last in the line of each pool; −1 if nobody stands there."""
    behind: Ints
    """Who stands behind each task; −1 if nobody."""


def no_users(start: Ints, devices: int, tasks: int) -> DeviceUsers:
    """Return devices that nobody uses yet; ``start`` as in :class:`DeviceUsers`."""
    places = int(start[-1])
    return DeviceUsers(
        phase=np.empty(places, np.int64),
        left=np.empty(places),
        want=np.empty(places),
        inverse=np.empty(places),
        size=np.zeros(devices, np.int64),
        start=start,
        clock=np.zeros(devices),
        due=np.full(devices, np.inf),
        first_out=np.zeros(devices, np.int64),
        total=np.zeros(devices),
        level=np.full(devices, np.inf),
        order=np.arange(devices),
        place=np.arange(devices),
        short=np.zeros(tasks * PHASES),
    )


def free_memory(pools: int, tasks: int) -> Memory:
    """Return memory of which nobody holds any yet."""
    nobody = np.full(pools, -1)
    return Memory(
        held=np.zeros(tasks),
        in_use=np.zeros(pools),
        wanting=np.zeros(pools, np.int64),
        first=nobody,
        last=nobody.copy(),
        behind=np.full(tasks, -1),
    )


def _settle_device(p: int, users: DeviceUsers) -> None:
    """Bring a device to where it belongs in the heap of devices: who is done first is on top."""
    due, order, place = users.due, users.order, users.place
    at, time = place[p], due[p]
    while at > 0:
        above = order[(at - 1) >> 1]
        if due[above] < time or (due[above] == time and above < p):
            break
        order[at], place[above] = above, at
        at = (at - 1) >> 1
    while True:
        below = 2 * at + 1
        if below >= len(users.order):
            break
        one = order[below]
        if below + 1 < len(users.order):
            other = order[below + 1]
            if due[other] < due[one] or (due[other] == due[one] and other < one):
                below, one = below + 1, other
        if time < due[one] or (time == due[one] and p < one):
            break
        order[at], place[one] = one, at
        at = below
    order[at], place[p] = p, at


def _advance(p: int, now: float, users: DeviceUsers, devices: Devices) -> None:
    """Let those who use a device move on until now."""
    left, inverse, size, start, clock = (
        users.left,
        users.inverse,
        users.size,
        users.start,
        users.clock,
    )
    phase, short = users.phase, users.short
    passed, share = now - clock[p], users.level[p]
    clock[p] = now
    first, last = start[p], start[p] + size[p]
    if share == np.inf:
        for k in range(first, last):
            left[k] -= passed
    elif devices.proportional:
        for k in range(first, last):
            left[k] -= passed * share
            short[phase[k]] += passed
    else:
        for k in range(first, last):
            part = share * inverse[k]
            if part < 1.0:
                left[k] -= passed * part
                short[phase[k]] += passed
            else:
                left[k] -= passed


def _share_out(p: int, now: float, users: DeviceUsers, devices: Devices) -> None:
    """Divide a device among those who use it now, and find out who is done first.

    Max–min: who wants less than the fair share gets what it wants, the others divide the rest. The
    fair share is where the sum of min(want, share) reaches the capacity: Newton's steps on that
    concave sum, from the share before. In proportion: all get the same part of what they want.
    """
    left, want, size, start, level = users.left, users.want, users.size, users.start, users.level
    clock, due = users.clock, users.due
    first, last = start[p], start[p] + size[p]
    capacity = devices.capacity[p] / (1.0 + devices.slowing[p] * max(size[p] - 1, 0))
    asked = 0.0
    for k in range(first, last):
        asked += want[k]
    users.total[p] = asked
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
    users.first_out[p] = sooner
    due[p] = clock[p] + soonest if soonest > now - clock[p] else now
    _settle_device(p, users)


def _enter(
    p: int, now: float, i: int, lasts: float, use: float, users: DeviceUsers, devices: Devices
) -> None:
    """Let a task begin to use a device."""
    left, size, clock, due, total = users.left, users.size, users.clock, users.due, users.total
    level = users.level
    k = users.start[p] + size[p]
    if size[p] == 0:
        clock[p], total[p], level[p] = now, 0.0, np.inf
    # Where nobody is short of anything, nobody notices.
    most = devices.capacity[p] / (1.0 + devices.slowing[p] * size[p])
    enough = level[p] == np.inf and total[p] + use <= most
    if not enough:
        _advance(p, now, users, devices)
    size[p] += 1
    users.phase[k], left[k], users.want[k] = i, lasts + (now - clock[p]), use
    users.inverse[k] = 1.0 / use if use > 0.0 else np.inf
    if not enough:
        _share_out(p, now, users, devices)
        return
    total[p] += use
    if clock[p] + left[k] < due[p]:
        due[p], users.first_out[p] = clock[p] + left[k], k
        _settle_device(p, users)


def leave(p: int, now: float, users: DeviceUsers, devices: Devices) -> int:
    """Let the one who is done leave a device."""
    phase, left, want, inverse = users.phase, users.left, users.want, users.inverse
    users.size[p] -= 1
    k, last = users.first_out[p], users.start[p] + users.size[p]
    i = phase[k] // PHASES
    if users.level[p] < np.inf:
        users.size[p] += 1
        _advance(p, now, users, devices)
        users.size[p] -= 1
    phase[k], left[k], want[k] = phase[last], left[last], want[last]
    inverse[k] = inverse[last]
    _share_out(p, now, users, devices)
    return int(i)


def next_phase(
    i: int, now: float, progress: Progress, users: DeviceUsers, devices: Devices
) -> float:
    """Begin the next phase of a task; returns how long it lasts, −1 where a device tells."""
    phase, since, host, part = progress.phase, progress.since, progress.host, progress.part
    n = PHASES * devices.rounds
    since[i] = now
    while phase[i] < n:
        which = phase[i] % PHASES
        phase[i] += 1
        lasts = devices.alone[i, which] * part[i]
        if lasts <= 0.0:
            continue
        if which == WAITS:
            return float(lasts)
        p = (devices.world[i] + host[i]) * DEVICES + which % (PHASES - 1)
        _enter(p, now, i * PHASES + which, lasts, devices.use[i, which], users, devices)
        return -1.0
    return 0.0


def first_phase(
    i: int, now: float, progress: Progress, users: DeviceUsers, devices: Devices
) -> float:
    """Begin the first phase; a task that has one kind of phase goes through it once."""
    kinds = 0
    for which in range(PHASES):
        if devices.alone[i, which] > 0.0:
            kinds += 1
    phase, part = progress.phase, progress.part
    part[i] = 1.0 / devices.rounds
    if kinds <= 1:
        phase[i], part[i] = PHASES * (devices.rounds - 1), 1.0
    return next_phase(i, now, progress, users, devices)


def give_memory(i: int, pool: int, memory: Memory, devices: Devices) -> bool:
    """Let a task hold what it gets; False if it has to wait."""
    held, in_use, wanting = memory.held, memory.in_use, memory.wanting
    total = devices.memory_capacity[pool]
    part = total / wanting[pool]
    least = min(devices.memory[i], 0.5 * part)
    left = total - in_use[pool]
    if left < least * (1.0 - SLACK):
        return False
    held[i] = min(devices.memory[i], part, left)
    in_use[pool] += held[i]
    return True


def ask_memory(i: int, pool: int, memory: Memory, devices: Devices) -> bool:
    """Let a task that begins ask; one that has to wait stands in line."""
    first, last, behind = memory.first, memory.last, memory.behind
    memory.wanting[pool] += 1
    if give_memory(i, pool, memory, devices):
        return True
    if first[pool] < 0:
        first[pool] = i
    else:
        behind[last[pool]] = i
    last[pool] = i
    return False


def give_back_memory(i: int, pool: int, memory: Memory) -> None:
    """Take what a task held when it ends."""
    held, in_use, wanting = memory.held, memory.in_use, memory.wanting
    in_use[pool] -= held[i]
    wanting[pool] -= 1
    if wanting[pool] == 0:
        in_use[pool] = 0.0


def next_with_memory(pool: int, memory: Memory, devices: Devices) -> int:
    """Take the first out of line who gets memory now; −1 if nobody does."""
    first, last, behind = memory.first, memory.last, memory.behind
    before, i = -1, first[pool]
    while i >= 0:
        if give_memory(i, pool, memory, devices):
            if before < 0:
                first[pool] = behind[i]
            else:
                behind[before] = behind[i]
            if last[pool] == i:
                last[pool] = before
            behind[i] = -1
            return int(i)
        before, i = i, behind[i]
    return -1
