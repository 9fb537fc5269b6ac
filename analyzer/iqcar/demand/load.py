"""The load of a device during each task, and the fair share of the device that it leaves the task.

A device of capacity C is shared max–min fairly: tasks slower than the fair share move data at their
own speed, and the others divide what is left equally.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iqcar.tables.arrays import share_of, sum_by

if TYPE_CHECKING:
    from iqcar.tables.arrays import Floats, Ints

TASKS_OF_STAGE = 64
"""Tasks of each stage that the capacity is estimated from; more say little that is new."""
MOST_STAGES = 1000
"""Stages that the capacity is estimated from: those that spent most time in the device."""


class Load(NamedTuple):
    """What each task moved in a device, and what others did there during it.

    Attributes
    ----------
    data : ndarray of shape (n_tasks,), bytes
        Data moved; ms of CPU time where the device is the processor, so that speeds are cores.
    wait_ms : ndarray of shape (n_tasks,), ms
        Time spent in the device.
    others : ndarray of shape (n_tasks,)
        Mean number of other tasks in the device.
    levels : ndarray of shape (n_tasks, n_levels), data units per ms
        Ascending speeds; all rows are alike for tasks of one analysis.
    taken : ndarray of shape (n_tasks, n_levels), data units per ms
        What the others would move if none was faster than the level.
    host, stage : ndarray of shape (n_tasks,), int64
        Row of host and stage.
    """

    data: Floats
    wait_ms: Floats
    others: Floats
    levels: Floats
    taken: Floats
    host: Ints
    stage: Ints

    def some(self, rows: Ints) -> Load:
        """Return the load of some tasks."""
        return Load(*(column[rows] for column in self))

    def sample(self) -> Load:
        """Return the load of a bounded number of tasks, whatever their order was.

        Of each stage, tasks spread evenly over the range of load: where it varies is where
        contention shows.
        """
        names, stage = np.unique(self.stage, return_inverse=True)
        most = np.argsort(-sum_by(stage, self.wait_ms, len(names)), kind="stable")[:MOST_STAGES]
        chosen = np.zeros(len(names), bool)
        chosen[most] = True
        order = np.lexsort((self.wait_ms, self.data, self.others, stage))
        size = np.bincount(stage, minlength=len(names))
        place = np.arange(len(order)) - np.repeat(np.cumsum(size) - size, size)
        size = size[stage[order]]
        kept = np.minimum(size, TASKS_OF_STAGE)
        even = (place * kept) // size != ((place - 1) * kept) // size
        return self.some(order[even & chosen[stage[order]]])

    def log_speed(self) -> Floats:
        """Return the natural logarithm of each task's speed while it was in the device."""
        speed: Floats = np.log(self.data / self.wait_ms)
        return speed

    def log_fair_share(self, capacity: Floats) -> Floats:
        """Return the logarithm of each task's fair share of a device.

        The share λ solves ``λ + Σ_others min(speed, λ) = C``; the sum is interpolated between
        levels.

        Parameters
        ----------
        capacity : ndarray of shape (n_tasks,), data units per ms
            C of each task's host.
        """
        total = self.levels + self.taken
        above = (total < capacity[:, None]).sum(axis=1)
        last = total.shape[1] - 1
        row, high, low = np.arange(len(total)), np.minimum(above, last), np.maximum(above - 1, 0)
        low_level = np.where(above > 0, self.levels[row, low], 0.0)
        low_total = np.where(above > 0, total[row, low], 0.0)
        slope = share_of(self.levels[row, high] - low_level, total[row, high] - low_total)
        between = low_level + (capacity - low_total) * slope
        share = np.where(above > last, capacity - self.taken[:, last], between)
        logarithm: Floats = np.log(share)
        return logarithm
