"""Integrate the use of resources by all tasks, or by siblings, over each task's life in a sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from iqcar.blame.sweep import SOURCE_ENDS, SOURCE_STARTS, TARGET_ENDS, TARGET_STARTS
from iqcar.tables.compiled import count_steps, kernel

if TYPE_CHECKING:
    from iqcar.tables.arrays import Flags, Floats, Ints, Schedule


def usage_during(
    events: Schedule, rate: Floats, is_target: Flags, owner: Ints | None = None
) -> Floats:
    """Integrate the total rate of all sources in its domain over each target's interval.

    Parameters
    ----------
    events : Schedule
    rate : ndarray of shape (n_tasks,)
        Rate as a source, ≥ 0.
    is_target : ndarray of shape (n_tasks,), bool
    owner : ndarray of shape (n_tasks,), int64, optional
        Number ≥ 0 of the owner of each task; only sources of the target's owner count then.

    Returns
    -------
    ndarray of shape (n_tasks,)
        ``Σ_sources overlap · rate``, 0 for tasks that are no target. O(events).
    """
    ones, level = np.ones(len(rate)), np.array([np.inf])
    nothing = np.zeros(len(rate))
    return _integrate(events, rate, ones, level, is_target, owner, nothing, ones)[:, 0]


def mean_of_others(
    events: Schedule,
    speed: Floats,
    busy: Floats,
    span: Floats,
    life: Floats,
    levels: Floats,
    owner: Ints | None = None,
) -> Floats:
    """Return what the others move in a device during each task, if none is faster than a level.

    Parameters
    ----------
    events : Schedule
    speed : ndarray of shape (n_tasks,)
        Speed of each task while it is in the device, ≥ 0.
    busy : ndarray of shape (n_tasks,)
        Share of its time that each task is in the device.
    span, life : ndarray of shape (n_tasks,), ms
        Duration of each task, and the time over which the mean is taken, > 0.
    levels : ndarray of shape (n_levels,), > 0
    owner : ndarray of shape (n_tasks,), int64, optional
        Number ≥ 0 of the owner of each task; only other tasks of its owner count then.

    Returns
    -------
    ndarray of shape (n_tasks, n_levels)
        ``Σ_others overlap · busy · min(speed, level) / life``. O(events · n_levels).
    """
    every = np.ones(len(speed), dtype=bool)
    return _integrate(events, speed, busy, levels, every, owner, busy * span, life)


def _integrate(
    events: Schedule,
    speed: Floats,
    busy: Floats,
    levels: Floats,
    is_target: Flags,
    owner: Ints | None,
    inside: Floats,
    life: Floats,
) -> Floats:
    count_steps(__name__, len(events.task) * len(levels))
    row = events.row
    result = np.zeros((len(speed), len(levels)))
    owner = np.zeros(len(row), np.int64) if owner is None else owner[row]
    sums = np.zeros((int(owner.max(initial=-1)) + 1, len(levels), 3))
    columns = (speed[row], busy[row], levels, is_target[row], inside[row], life[row])
    _usage_during(*events, *columns, owner, sums, result)
    return result


TOTAL, REST, RATE = range(3)
"""Columns of the sums of an owner: its integral as two numbers, and its rate now."""


@kernel()
def _usage_during(
    row: Any,
    task: Any,
    what: Any,
    when: Any,
    domain_start: Any,
    speed: Any,
    busy: Any,
    levels: Any,
    is_target: Any,
    inside: Any,
    life: Any,
    owner: Any,
    sums: Any,
    result: Any,
) -> None:
    """Integrate the rates over each target, less what the target itself moved, per ms of its life.

    Each running integral is a sum of two doubles: it grows over the whole log, and a target takes
    the difference over milliseconds. With one double, the result of a short task late in a long log
    would be rounding error. The integrals at the starts of targets are kept while these run, in
    places that others take over. The integral of an owner is brought up to date at its own events
    only.
    """
    width = len(levels)
    at_start = np.zeros((16, width, 2))
    free, n_free, n_used = np.zeros(len(speed), np.int32), 0, 0
    place = np.full(len(speed), -1, np.int32)
    domain = np.full(len(sums), -1, np.int32)
    active, now = np.zeros(len(sums), np.int32), np.zeros(len(sums))
    for d in range(len(domain_start) - 1):
        for e in range(domain_start[d], domain_start[d + 1]):
            i, kinds = task[e], what[e]
            o = owner[i]
            if domain[o] != d:
                domain[o], active[o], now[o] = d, 0, when[e]
                sums[o] = 0.0
            passed = when[e] - now[o]
            now[o] = when[e]
            for k in range(width):
                step = sums[o, k, RATE] * passed
                total = sums[o, k, TOTAL]
                moved = total + step
                gone = moved - total
                sums[o, k, REST] += (total - (moved - gone)) + (step - gone)
                sums[o, k, TOTAL] = moved
            if is_target[i]:
                if kinds & TARGET_ENDS and place[i] >= 0:
                    p = place[i]
                    for k in range(width):
                        since = (sums[o, k, TOTAL] - at_start[p, k, 0]) + (
                            sums[o, k, REST] - at_start[p, k, 1]
                        )
                        others = since - min(speed[i], levels[k]) * inside[i]
                        result[row[i], k] = max(others, 0.0) / life[i]
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
                    for k in range(width):
                        at_start[p, k, 0] = sums[o, k, TOTAL]
                        at_start[p, k, 1] = sums[o, k, REST]
            if speed[i] > 0.0 and busy[i] > 0.0:
                if kinds & SOURCE_STARTS:
                    active[o] += 1
                    for k in range(width):
                        sums[o, k, RATE] += busy[i] * min(speed[i], levels[k])
                if kinds & SOURCE_ENDS:
                    active[o] -= 1
                    # Exactly 0 without active sources: rounding must not become blame.
                    for k in range(width):
                        less = sums[o, k, RATE] - busy[i] * min(speed[i], levels[k])
                        sums[o, k, RATE] = less if active[o] > 0 else 0.0
