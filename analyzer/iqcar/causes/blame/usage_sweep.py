"""Integrates the use of a resource by others over the life of each task, in a sweep over time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from iqcar.causes.blame.sweep import SOURCE_ENDS, SOURCE_STARTS, TARGET_ENDS, TARGET_STARTS
from iqcar.tables.arrays import Flags, Floats, Ints, Schedule
from iqcar.tables.compiled import count_steps, kernel


class Others(NamedTuple):
    """What the other tasks of its domain did in a device during each task, per ms of its life.

    tasks, siblings: (n_tasks,) mean number of other tasks in the device, and of those of the same
        owner.
    taken: (n_tasks, n_levels) what the others would move if none was faster than the level.
    """

    tasks: Floats
    siblings: Floats
    taken: Floats


def usage_during(events: Schedule, rate: Floats, is_target: Flags) -> Floats:
    """Integrate the total rate of all sources in its domain over each target's interval.

    Shape (n_tasks,). ``Σ_sources overlap · rate``, 0 for tasks that are no target. O(events).

    rate: (n_tasks,) rate as a source, ≥ 0.
    is_target: (n_tasks,).
    """
    count_steps(__name__, len(events.task))
    n, row, nobody = len(rate), events.row, np.zeros(0, np.int64)
    total, ones = np.zeros(n), np.ones(len(row))
    columns = (ones, rate[row], is_target[row], 0.0 * ones, ones, nobody)
    _usage_during(*events, *columns, np.zeros(0), total, np.zeros(0), np.zeros((n, 0)))
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
    count_steps(__name__, len(events.task) * (len(levels) + 2))
    n, row = len(speed), events.row
    found = Others(np.zeros(n), np.zeros(n), np.zeros((n, len(levels))))
    columns = speed[row], busy[row], np.ones(len(row), bool), (busy * span)[row], life[row]
    _usage_during(*events, *columns, owner[row], levels, *found)
    return found


TOTAL, REST, RATE = range(3)
"""Rows of sums: the integral as two numbers, and the rate now."""


@kernel()
def _advance(sums: Any, passed: float) -> None:
    """Add to each integral what its rate makes in some time; the rounding error is kept apart."""
    for k in range(sums.shape[1]):
        step = sums[RATE, k] * passed
        total = sums[TOTAL, k]
        moved = total + step
        gone = moved - total
        sums[REST, k] += (total - (moved - gone)) + (step - gone)
        sums[TOTAL, k] = moved


@kernel()
def _usage_during(
    row: Any,
    task: Any,
    what: Any,
    when: Any,
    domain_start: Any,
    speed: Any,
    busy: Any,
    is_target: Any,
    inside: Any,
    life: Any,
    owner: Any,
    levels: Any,
    tasks: Any,
    siblings: Any,
    taken: Any,
) -> None:
    """Integrate the rates over each target, less what the target itself moved, per ms of its life.

    Column 0 of the sums adds up ``busy``, the others what is moved if none is faster than a level;
    the sums of owners add up ``busy`` of their tasks, if there are owners.

    Each running integral is a sum of two doubles: it grows over the whole log, and a target takes
    the difference over milliseconds. With one double, the result of a short task late in a long log
    would be rounding error. The integrals at the starts of targets are kept while these run, in
    places that others take over. The integral of an owner is brought up to date at its own events
    only.
    """
    width = len(levels) + 1
    owners = owner.max() + 1 if len(owner) > 0 else 0
    sums, of_owner = np.zeros((3, width)), np.zeros((owners, 3, 1))
    at_start = np.zeros((16, 2, width + 1))
    free, n_free, n_used = np.zeros(len(speed), np.int32), 0, 0
    place = np.full(len(speed), -1, np.int32)
    domain, since = np.full(owners, -1, np.int32), np.zeros(owners)
    active_of = np.zeros(owners, np.int32)
    for d in range(len(domain_start) - 1):
        now, active, moving = 0.0, 0, 0
        sums[:] = 0.0
        for e in range(domain_start[d], domain_start[d + 1]):
            i, kinds = task[e], what[e]
            _advance(sums, when[e] - now)
            now = when[e]
            o = -1
            if owners > 0:
                o = owner[i]
                if domain[o] != d:
                    domain[o], active_of[o], since[o] = d, 0, now
                    of_owner[o] = 0.0
                _advance(of_owner[o], now - since[o])
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
                        used = (of_owner[o, TOTAL, 0] - at_start[p, TOTAL, width]) + (
                            of_owner[o, REST, 0] - at_start[p, REST, width]
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
                        if p == len(at_start):
                            at_start = np.concatenate((at_start, np.zeros_like(at_start)))
                    place[i] = p
                    for part in (TOTAL, REST):
                        for k in range(width):
                            at_start[p, part, k] = sums[part, k]
                        if o >= 0:
                            at_start[p, part, width] = of_owner[o, part, 0]
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
                        of_owner[o, RATE, 0] += busy[i]
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
                        less = of_owner[o, RATE, 0] - busy[i]
                        of_owner[o, RATE, 0] = less if active_of[o] > 0 else 0.0
