"""Integrate the use of resources by all tasks over each task's life, by a sweep over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from iqcar.blame.sweep import SOURCE_ENDS, SOURCE_STARTS, TARGET_ENDS, TARGET_STARTS
from iqcar.tables.compiled import count_steps, kernel

if TYPE_CHECKING:
    from iqcar.tables.arrays import Flags, Floats, Schedule


def usage_during(events: Schedule, rate: Floats, is_target: Flags) -> Floats:
    """Integrate the total rate of all sources in its domain over each target's interval.

    Parameters
    ----------
    events : Schedule
    rate : ndarray of shape (n_tasks,)
        Rate as a source, ≥ 0.
    is_target : ndarray of shape (n_tasks,), bool

    Returns
    -------
    ndarray of shape (n_tasks,)
        ``Σ_sources overlap · rate``, 0 for tasks that are no target. O(events).
    """
    return _integrate(events, rate, np.ones(len(rate)), np.array([np.inf]), is_target)[:, 0]


def usage_below(events: Schedule, speed: Floats, busy: Floats, levels: Floats) -> Floats:
    """Integrate what all tasks move in a device during each task, if none was faster than a level.

    Parameters
    ----------
    events : Schedule
    speed : ndarray of shape (n_tasks,)
        Speed of each task while it is in the device, ≥ 0.
    busy : ndarray of shape (n_tasks,)
        Share of its time that each task is in the device.
    levels : ndarray of shape (n_levels,), > 0

    Returns
    -------
    ndarray of shape (n_tasks, n_levels)
        ``Σ_sources overlap · busy · min(speed, level)``, the task's own part included.
        O(events · n_levels).
    """
    return _integrate(events, speed, busy, levels, np.ones(len(speed), dtype=bool))


def _integrate(
    events: Schedule, speed: Floats, busy: Floats, levels: Floats, is_target: Flags
) -> Floats:
    count_steps(__name__, len(events.task) * len(levels))
    row = events.row
    result = np.zeros((len(speed), len(levels)))
    _usage_during(*events, speed[row], busy[row], levels, is_target[row], result)
    return result


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
    result: Any,
) -> None:
    """Integrate the rates over each target, with each running integral as a sum of two doubles.

    The integral grows over the whole log, and a target takes the difference over milliseconds: with
    one double, the result of a short task late in a long log would be rounding error. The integrals
    at the starts of targets are kept while these run, in places that others take over.
    """
    width = len(levels)
    at_start = np.zeros((16, width, 2))
    free, n_free, n_used = np.zeros(len(speed), np.int32), 0, 0
    place = np.full(len(speed), -1, np.int32)
    total, rest, rate = np.zeros(width), np.zeros(width), np.zeros(width)
    for d in range(len(domain_start) - 1):
        total[:], rest[:], rate[:], active, now = 0.0, 0.0, 0.0, 0, 0.0
        for e in range(domain_start[d], domain_start[d + 1]):
            i, kinds, passed = task[e], what[e], when[e] - now
            now = when[e]
            for k in range(width):
                step = rate[k] * passed
                moved = total[k] + step
                gone = moved - total[k]
                rest[k] += (total[k] - (moved - gone)) + (step - gone)
                total[k] = moved
            if is_target[i]:
                if kinds & TARGET_ENDS and place[i] >= 0:
                    p = place[i]
                    for k in range(width):
                        since = (total[k] - at_start[p, k, 0]) + (rest[k] - at_start[p, k, 1])
                        result[row[i], k] = max(since, 0.0)
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
                    at_start[p, :, 0] = total
                    at_start[p, :, 1] = rest
            if speed[i] > 0.0 and busy[i] > 0.0:
                if kinds & SOURCE_STARTS:
                    active += 1
                    for k in range(width):
                        rate[k] += busy[i] * min(speed[i], levels[k])
                if kinds & SOURCE_ENDS:
                    active -= 1
                    # Exactly 0 without active sources: rounding must not become blame.
                    for k in range(width):
                        less = rate[k] - busy[i] * min(speed[i], levels[k])
                        rate[k] = less if active > 0 else 0.0
