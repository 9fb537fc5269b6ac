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
    rate : ndarray of shape (n_tasks,) or (n_tasks, n_rates)
        Rate as a source, ≥ 0; several rates are integrated in one sweep.
    is_target : ndarray of shape (n_tasks,), bool

    Returns
    -------
    ndarray of the shape of `rate`
        ``Σ_sources overlap · rate``, 0 for tasks that are no target. O(events · n_rates).
    """
    rates = rate if rate.ndim == 2 else rate[:, None]
    count_steps(__name__, len(events.task) * rates.shape[1])
    row = events.row
    result = np.zeros(rates.shape)
    result[row] = _usage_during(*events[1:], np.ascontiguousarray(rates[row]), is_target[row])
    return result.reshape(rate.shape)


@kernel()
def _usage_during(
    task: Any, what: Any, when: Any, domain_start: Any, rate: Any, is_target: Any
) -> Any:
    """Integrate the rates over each target, with each running integral as a sum of two doubles.

    The integral grows over the whole log, and a target takes the difference over milliseconds: with
    one double, the result of a short task late in a long log would be rounding error.
    """
    n, width = rate.shape
    at_start = np.zeros((n, width, 2))
    result = np.zeros((n, width))
    total, rest, level = np.zeros(width), np.zeros(width), np.zeros(width)
    active = np.zeros(width, np.int64)
    for d in range(len(domain_start) - 1):
        total[:], rest[:], level[:], active[:], now = 0.0, 0.0, 0.0, 0, 0.0
        for e in range(domain_start[d], domain_start[d + 1]):
            i, kinds, passed = task[e], what[e], when[e] - now
            now = when[e]
            for k in range(width):
                step = level[k] * passed
                moved = total[k] + step
                gone = moved - total[k]
                rest[k] += (total[k] - (moved - gone)) + (step - gone)
                total[k] = moved
                if is_target[i]:
                    if kinds & TARGET_ENDS:
                        since = (moved - at_start[i, k, 0]) + (rest[k] - at_start[i, k, 1])
                        result[i, k] = max(since, 0.0)
                    if kinds & TARGET_STARTS:
                        at_start[i, k, 0] = moved
                        at_start[i, k, 1] = rest[k]
                if rate[i, k] > 0.0:
                    if kinds & SOURCE_STARTS:
                        active[k] += 1
                        level[k] += rate[i, k]
                    if kinds & SOURCE_ENDS:
                        active[k] -= 1
                        # Exactly 0 without active sources: rounding must not become blame.
                        level[k] = level[k] - rate[i, k] if active[k] > 0 else 0.0
    return result
