"""Integrates the use of a resource by others over the life of each task, in a sweep over time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from iqcar.base.kernels import compiled
from iqcar.causes.blame.sweep import SOURCE_ENDS, SOURCE_STARTS, TARGET_ENDS, TARGET_STARTS
from iqcar.tables.arrays import (
    Bytes,
    Flags,
    FloatCube,
    Floats,
    FloatTable,
    Ints,
    Ints32,
    Schedule,
)


class Others(NamedTuple):
    """What the other tasks of its domain did in a device during each task, per ms of its life.

    tasks, siblings: (n_tasks,) mean number of other tasks in the device, and of those of the same
        owner.
    taken: (n_tasks, n_levels) what the others would move if none was faster than the level.
    """

    tasks: Floats
    siblings: Floats
    taken: FloatTable


def usage_during(events: Schedule, rate: Floats, is_target: Flags) -> Floats:
    """Integrate the total rate of all sources in its domain over each target's interval.

    Shape (n_tasks,). ``Σ_sources overlap · rate``, 0 for tasks that are no target. O(events).

    rate: (n_tasks,) rate as a source, ≥ 0.
    is_target: (n_tasks,).
    """
    n, row, nobody = len(rate), events.row, np.zeros(0, np.int64)
    total, ones = np.zeros(n), np.ones(len(row))
    uses = Uses(
        *events, speed=ones, busy=rate[row], is_target=is_target[row], inside=0.0 * ones,
        life=ones, owner=nobody, levels=np.zeros(0),
    )  # fmt: skip
    _integrate(uses, Others(total, np.zeros(0), np.zeros((n, 0))))
    return total


def mean_of_others(
    events: Schedule,
    speed: Floats,
    busy: Floats,
    span: Floats,
    life: Floats,
    levels: Floats,
    owner: Ints,
) -> Others:
    """Return what the others did in a device during each task.

    ``Σ_others overlap · busy / life``, the same for others of one owner, and ``Σ_others overlap ·
    busy · min(speed, level) / life``. O(events · n_levels).

    speed: (n_tasks,) speed of each task while it is in the device, ≥ 0.
    busy: (n_tasks,) share of its time that each task is in the device.
    span, life: (n_tasks,), ms; duration of each task, and the time over which the mean is taken, >
        0.
    levels: (n_levels,), > 0.
    owner: (n_tasks,) number ≥ 0 of the owner of each task.
    """
    n, row = len(speed), events.row
    found = Others(np.zeros(n), np.zeros(n), np.zeros((n, len(levels))))
    uses = Uses(
        *events, speed=speed[row], busy=busy[row], is_target=np.ones(len(row), np.bool_),
        inside=(busy * span)[row], life=life[row], owner=owner[row], levels=levels,
    )  # fmt: skip
    _integrate(uses, found)
    return found


class Uses(NamedTuple):
    """Events, as in :class:`~iqcar.tables.arrays.Schedule`, and a column per scheduled task."""

    row: Ints
    task: Ints32
    what: Bytes
    when: Floats
    domain_start: Ints
    speed: Floats
    busy: Floats
    is_target: Flags
    inside: Floats
    life: Floats
    owner: Ints
    levels: Floats


class Sums(NamedTuple):
    """Integrals up to now, and those at the starts of targets that run.

    sums: (3, n_levels + 1), the rows below; of_owner: (3, n_owners) of the tasks of each owner.
    at_start: (places, 2, n_levels + 2) what both were when the target in each place began.
    place: of each task; free: places that targets have left.
    domain, since, active_of: of each owner.
    """

    sums: FloatTable
    of_owner: FloatTable
    at_start: FloatCube
    free: Ints
    place: Ints
    domain: Ints
    since: Floats
    active_of: Ints


def _integrate(uses: Uses, found: Others) -> None:
    """Lay out the integrals, and fill in what is found."""
    n, width = len(uses.speed), len(uses.levels) + 1
    owners = int(uses.owner.max()) + 1 if len(uses.owner) else 0
    free, place = np.zeros(n, np.int64), np.full(n, -1, np.int64)
    sums = Sums(
        sums=np.zeros((3, width)), of_owner=np.zeros((3, owners)),
        at_start=np.zeros((0, 2, width + 1)), free=free, place=place,
        domain=np.full(owners, -1, np.int64), since=np.zeros(owners),
        active_of=np.zeros(owners, np.int64),
    )  # fmt: skip
    places = compiled(places_needed)(uses, sums)
    place[:] = -1
    compiled(integrate)(uses, sums._replace(at_start=np.zeros((places, 2, width + 1))), found)


TOTAL, REST, RATE = range(3)
"""Rows of sums: the integral as two numbers, and the rate now."""


def _move(sums: FloatTable, k: int, passed: float) -> None:
    """Add to an integral what its rate makes in some time; the rounding error is kept apart."""
    step = sums[RATE, k] * passed
    total = sums[TOTAL, k]
    moved = total + step
    gone = moved - total
    sums[REST, k] += (total - (moved - gone)) + (step - gone)
    sums[TOTAL, k] = moved


def places_needed(uses: Uses, sums: Sums) -> int:
    """Count the places that :func:`integrate` takes, which are those of targets at one time."""
    task, what, is_target, place = uses.task, uses.what, uses.is_target, sums.place
    running, most = 0, 0
    for e in range(len(uses.task)):
        i = task[e]
        if is_target[i]:
            if what[e] & TARGET_ENDS and place[i] >= 0:
                place[i] = -1
                running -= 1
            if what[e] & TARGET_STARTS:
                place[i] = 0
                running += 1
                most = max(most, running)
    return most


def integrate(uses: Uses, state: Sums, found: Others) -> None:
    """Integrate the rates over each target, less what the target itself moved, per ms of its life.

    Column 0 of the sums adds up ``busy``, the others what is moved if none is faster than a level;
    the sums of owners add up ``busy`` of their tasks, if there are owners.

    Each running integral is a sum of two doubles: it grows over the whole log, and a target takes
    the difference over milliseconds. With one double, the result of a short task late in a long log
    would be rounding error. The integrals at the starts of targets are kept while these run, in
    places that others take over. The integral of an owner is brought up to date at its own events
    only.
    """
    row, task, what, when = uses.row, uses.task, uses.what, uses.when
    domain_start, speed, busy, is_target = uses.domain_start, uses.speed, uses.busy, uses.is_target
    inside, life, owner, levels = uses.inside, uses.life, uses.owner, uses.levels
    tasks, siblings, taken = found.tasks, found.siblings, found.taken
    sums, of_owner, at_start = state.sums, state.of_owner, state.at_start
    free, place = state.free, state.place
    domain, since, active_of = state.domain, state.since, state.active_of
    width, owners, n_free, n_used = len(uses.levels) + 1, len(uses.owner), 0, 0
    for d in range(len(uses.domain_start) - 1):
        now, active, moving = 0.0, 0, 0
        for k in range(width):
            sums[TOTAL, k], sums[REST, k], sums[RATE, k] = 0.0, 0.0, 0.0
        for e in range(domain_start[d], domain_start[d + 1]):
            i, kinds = task[e], what[e]
            for k in range(width):
                _move(sums, k, when[e] - now)
            now = when[e]
            o = -1
            if owners > 0:
                o = owner[i]
                if domain[o] != d:
                    domain[o], active_of[o], since[o] = d, 0, now
                    of_owner[TOTAL, o], of_owner[REST, o], of_owner[RATE, o] = 0.0, 0.0, 0.0
                _move(of_owner, o, now - since[o])
                since[o] = now
            if is_target[i]:
                if kinds & TARGET_ENDS and place[i] >= 0:
                    p, r = place[i], row[i]
                    used = (sums[TOTAL, 0] - at_start[p, TOTAL, 0]) + (
                        sums[REST, 0] - at_start[p, REST, 0]
                    )
                    tasks[r] = max(used - inside[i], 0.0) / life[i]
                    for k in range(1, width):
                        used = (sums[TOTAL, k] - at_start[p, TOTAL, k]) + (
                            sums[REST, k] - at_start[p, REST, k]
                        )
                        others = used - min(speed[i], levels[k - 1]) * inside[i]
                        taken[r, k - 1] = max(others, 0.0) / life[i]
                    if o >= 0:
                        used = (of_owner[TOTAL, o] - at_start[p, TOTAL, width]) + (
                            of_owner[REST, o] - at_start[p, REST, width]
                        )
                        siblings[r] = max(used - inside[i], 0.0) / life[i]
                    free[n_free], place[i] = p, -1
                    n_free += 1
                if kinds & TARGET_STARTS:
                    if n_free > 0:
                        n_free -= 1
                        p = free[n_free]
                    else:
                        p = n_used
                        n_used += 1
                    place[i] = p
                    for k in range(width):
                        at_start[p, TOTAL, k] = sums[TOTAL, k]
                        at_start[p, REST, k] = sums[REST, k]
                    if o >= 0:
                        at_start[p, TOTAL, width] = of_owner[TOTAL, o]
                        at_start[p, REST, width] = of_owner[REST, o]
            if busy[i] > 0.0:
                moves = speed[i] > 0.0
                if kinds & SOURCE_STARTS:
                    active += 1
                    sums[RATE, 0] += busy[i]
                    if moves:
                        moving += 1
                        for k in range(1, width):
                            sums[RATE, k] += busy[i] * min(speed[i], levels[k - 1])
                    if o >= 0:
                        active_of[o] += 1
                        of_owner[RATE, o] += busy[i]
                if kinds & SOURCE_ENDS:
                    # Exactly 0 without active sources: rounding must not become blame.
                    active -= 1
                    sums[RATE, 0] = sums[RATE, 0] - busy[i] if active > 0 else 0.0
                    if moves:
                        moving -= 1
                        for k in range(1, width):
                            less = sums[RATE, k] - busy[i] * min(speed[i], levels[k - 1])
                            sums[RATE, k] = less if moving > 0 else 0.0
                    if o >= 0:
                        active_of[o] -= 1
                        less = of_owner[RATE, o] - busy[i]
                        of_owner[RATE, o] = less if active_of[o] > 0 else 0.0
