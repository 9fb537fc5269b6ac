"""Computes the fair share of a device that its load during a task leaves the task.

A device of capacity C is shared max–min fairly: tasks slower than the fair share move data at their
own speed, and the others divide what is left equally.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iqcar.tables.arrays import Floats, Ints, distinct, share_of, sum_by

TASKS_OF_STAGE = 48
"""About how many tasks of each stage a device is estimated from; more tell little that is new."""
AT_ONCE = 2**14
"""Tasks whose shares are computed together: their arrays fit into caches."""
MOST_STAGES = 100
"""Stages that the capacity is estimated from: those that spent most time in the device."""


class Load(NamedTuple):
    """What each task moved in a device, and what others did there during it.

    data: (n_tasks,), bytes; data moved; ms of CPU time where the device is the processor, so that
        speeds are cores.
    wait_ms: (n_tasks,), ms; time spent in the device.
    others: (n_tasks,) mean number of other tasks in the device.
    own: (n_tasks,) mean number of other tasks of the same query there.
    busy: (n_tasks,) share of its life that the task spent there.
    levels: (n_levels,) or (n_tasks, n_levels), data units per ms; ascending speeds, of all tasks or
        of each.
    taken: (n_tasks, n_levels), data units per ms; what the others would move if none was faster
        than the level.
    host, stage: (n_tasks,) row of host and stage.
    launch: (n_tasks,), ms; it tells tasks apart that did the same.
    """

    data: Floats
    wait_ms: Floats
    others: Floats
    own: Floats
    busy: Floats
    levels: Floats
    taken: Floats
    host: Ints
    stage: Ints
    launch: Floats

    def some(self, rows: Ints) -> Load:
        """Return the load of some tasks."""
        levels = self.levels if self.levels.ndim == 1 else self.levels[rows]
        columns: list[NDArray[Any]] = [
            levels if column is self.levels else column[rows] for column in self
        ]
        return Load(*columns)

    def sample(self, rows: Ints) -> Load:
        """Return the load of a bounded number of these tasks, whatever their order was.

        A hash of data, wait and launch of each task decides; a sample of a sample is the sample.
        """
        names, stage = distinct(self.stage[rows])
        size = np.bincount(stage, minlength=len(names))
        place = _hash(self.data[rows], self.wait_ms[rows], self.launch[rows])
        picked = np.flatnonzero(place * size[stage] < TASKS_OF_STAGE)
        rows, stage = rows[picked], stage[picked]
        spent = sum_by(stage, self.wait_ms[rows], len(names))
        chosen = np.zeros(len(names), bool)
        chosen[np.argsort(-spent, kind="stable")[:MOST_STAGES]] = True
        return self.some(rows[chosen[stage]])

    def log_speed(self) -> Floats:
        """Return the natural logarithm of each task's speed while it was in the device."""
        return np.log(self.data / self.wait_ms)

    def without_shares(self, rows: Ints) -> Load:
        """Return the load of some tasks without ``taken``: a copy of the largest array is saved."""
        return self._replace(levels=self.levels[..., :0], taken=self.taken[:, :0]).some(rows)

    def log_fair_share(self, capacity: Floats, rows: Ints | None = None) -> Floats:
        """Return the logarithm of each task's fair share of a device.

        The share λ solves ``λ + Σ_others min(speed, λ) = C``; the sum is interpolated between
        levels.

        capacity: (n_rows,), data units per ms; C of each task's host.
        rows: (n_rows,) tasks to compute it for; by default all.
        """
        levels = np.broadcast_to(self.levels, self.taken.shape)
        share = np.empty(len(capacity))
        for start in range(0, len(share), AT_ONCE):
            some = slice(start, start + AT_ONCE)
            at = some if rows is None else rows[some]
            share[some] = _fair_share(levels[at], self.taken[at], capacity[some])
        return np.log(share, out=share)


def joined(loads: Sequence[Load]) -> Load:
    """Join what tasks did in several ways with one device: each way has stages of its own."""
    many = len(loads)
    stages = [many * load.stage + way for way, load in enumerate(loads)]
    levels = [np.broadcast_to(load.levels, load.taken.shape) for load in loads]
    columns = [
        np.concatenate(column) if name != "levels" else column[0]
        for name, column in zip(Load._fields, zip(*loads, strict=True), strict=True)
    ]
    return Load(*columns)._replace(stage=np.concatenate(stages), levels=np.concatenate(levels))


def _fair_share(levels: Floats, taken: Floats, capacity: Floats) -> Floats:
    """Return the share λ of some tasks for which all of them together move the capacity."""
    total = levels + taken
    above = (total < capacity[:, None]).sum(axis=1)
    last = total.shape[1] - 1
    row, high, low = np.arange(len(total)), np.minimum(above, last), np.maximum(above - 1, 0)
    low_level = np.where(above > 0, levels[row, low], 0.0)
    low_total = np.where(above > 0, total[row, low], 0.0)
    slope = share_of(levels[row, high] - low_level, total[row, high] - low_total)
    between = low_level + (capacity - low_total) * slope
    return np.where(above > last, capacity - taken[:, last], between)


def _hash(*columns: Floats) -> Floats:
    """Return a number from 0 to 1 for each row of numbers (Fibonacci hashing of their bits)."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    mixed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        mixed ^= np.ascontiguousarray(column).view(np.uint64) + (mixed >> np.uint64(29))
        mixed *= golden
        mixed ^= mixed >> np.uint64(32)
    number: Floats = (mixed * golden >> np.uint64(11)).astype(np.float64) / 2.0**53
    return number
