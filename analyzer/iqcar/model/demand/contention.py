"""Estimates the share of each task's time in a device that it lost to others there.

A task of own rate r whose fair share of the capacity C was less moved data at the share instead of
at ``min(r, C)``: it lost ``1 − share / min(r, C)`` of its time. r is known by probabilities, so the
loss is an expectation. Where load hardly varied, or noise hides what it did, little is said to be
lost: then the shares of sources are known, but not the amount.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.model.demand.device import Device
from iqcar.model.demand.load import Load
from iqcar.model.demand.own_rates import OwnRates
from iqcar.tables.arrays import Flags, Floats, Ints, distinct, share_of

ENOUGH_BYTES = 65536.0
"""Bytes below which latency dominates a speed (one small block)."""
ENOUGH_MS = 2.0
"""Waits below this are rounding: Spark reports whole milliseconds."""
NEGLIGIBLE = 0.02
"""Probability of contention below which nothing is computed for single tasks: none lost more."""
UNSURE = 0.35
"""Spread of the probable own rate, as a standard deviation in log, up to which it is known."""
ALONE = 0.1
"""Other tasks in the device, on average, up to which a task is as good as alone."""
ROUNDS = 2
"""Times that the loss to others is computed, each from the one before it; more change little."""


class Contention(NamedTuple):
    """What tasks lost in a device.

    to_tasks: (n_tasks,) expected share of the time in the device that was lost to other tasks, 0 to
        1.
    to_others: (n_tasks,) the part of it that tasks of other queries cost: without them, the task
        would have lost only what tasks of its own query cost.
    to_host: (n_tasks,) share that was lost to a slow host, of what the others left.
    """

    to_tasks: Floats
    to_others: Floats
    to_host: Floats


class StageRates(NamedTuple):
    """Own rates of stages in a device.

    stage: (n,) row of the stage.
    tasks: (n,).
    rate, low, high: (n,), data units per ms; median of the probable own rates, and the bounds of
        the middle 80 %.
    identified: (n,) whether the data tell the rate; else the bounds are mostly those of the prior.
    shared: (n,) probability that the stage's tasks share the device, and do not bypass it (page
        cache); 0 where nobody is likely to have waited for another.
    seen: (n,) data units per ms; median speed of the tasks that had the device to themselves; NaN
        where none had.
    """

    stage: Ints
    tasks: Ints
    rate: Floats
    low: Floats
    high: Floats
    identified: Flags
    shared: Floats
    seen: Floats


def usable(load: Load, least: float = ENOUGH_BYTES) -> Ints:
    """Return the rows of tasks whose speeds mean something."""
    enough = (load.data >= least) & (load.wait_ms >= ENOUGH_MS)
    return np.flatnonzero(enough & (load.stage >= 0) & (load.host >= 0))


def contention(
    load: Load, device: Device, rows: Ints | None = None
) -> tuple[Contention, StageRates]:
    """Compute what tasks lost to others, and the own rates of their stages.

    device: estimated from these tasks, or from more on the same hosts.
    rows: (n_rows,) the :func:`usable` tasks; by default all are.

    What is returned:
    of these tasks.
    """
    every = load
    if rows is not None:
        load = every.without_shares(rows)
    names, stage = distinct(load.stage)
    if device.contended < NEGLIGIBLE:
        chance = device.own_rates_alone(load, stage, len(names))
        lost = others = np.zeros(len(stage))
    else:
        speed = load.log_speed() - device.slower[load.host]
        share = device.relative_share(every, rows)
        chance = device.own_rates_of(speed, share, stage, len(names))
        capacity = np.full(len(share), device.log_capacity)
        lost = _expected_loss(share, capacity, device, chance, stage) * device.contended
        # Tasks of one query are alike: without the others they would divide the device equally,
        # and be in it for less of their lives.
        others = np.zeros(len(share))
        for _ in range(ROUNDS):
            left = share_of(1.0 - others, 1.0 - load.busy * others)
            among_own = capacity - np.log1p(load.own * left)
            others = _expected_loss(share, among_own, device, chance, stage) * device.contended
            others = np.minimum(others, lost)
    slow = -np.expm1(np.minimum(device.slower[load.host], 0.0))
    rates = _stage_rates(device, chance, names, stage)
    return Contention(lost, others, slow), rates._replace(seen=_seen(load, stage, len(names)))


def _seen(load: Load, stage: Ints, stages: int) -> Floats:
    alone = load.others <= ALONE
    speeds = pd.Series(np.exp(load.log_speed()))[alone].groupby(stage[alone]).median()
    found: Floats = speeds.reindex(range(stages)).to_numpy(np.float64)
    return found


def _expected_loss(
    share: Floats, most: Floats, device: Device, chance: OwnRates, stage: Ints
) -> Floats:
    """Return Σ_r P(r) · (1 − share / min(r, most)) over the own rates r above the share.

    share, most: (n_tasks,), log data units per ms; what the task had of the device, and what it
        could have had.
    """
    grid = device.grid
    shape = (len(chance.shared), len(grid.rates) + 1)
    above, inverse = np.zeros(shape), np.zeros(shape)
    above[:, :-1] = chance.shared[:, ::-1].cumsum(axis=1)[:, ::-1]
    inverse[:, :-1] = (chance.shared * np.exp(-grid.rates))[:, ::-1].cumsum(axis=1)[:, ::-1]
    most = np.maximum(most, share)
    row = stage * shape[1]
    first, last = row + grid.first_above(share), row + grid.first_above(most)
    slower = inverse.take(first) - inverse.take(last)
    lost = above.take(first) - np.exp(share) * slower
    lost -= np.exp(share - most) * above.take(last)
    return np.clip(lost, 0.0, 1.0)


def _stage_rates(device: Device, chance: OwnRates, names: Ints, stage: Ints) -> StageRates:
    # Where nobody waited for another, every stage runs at its own rate.
    alone = chance.free / chance.free.sum(axis=1, keepdims=True)
    chances = device.contended * (chance.shared + chance.free) + (1 - device.contended) * alone
    total = chances.cumsum(axis=1)
    rates = device.grid.rates
    places = ((total < at).sum(axis=1) for at in (0.1, 0.5, 0.9))
    low, rate, high = (np.exp(rates[np.minimum(place, len(rates) - 1)]) for place in places)
    mean = chances @ rates
    spread = np.sqrt(np.maximum(chances @ rates**2 - mean**2, 0.0))
    tasks = np.bincount(stage, minlength=len(names))
    shared = chance.shared.sum(axis=1)
    return StageRates(
        stage=names, tasks=tasks, rate=rate, low=low, high=high, identified=spread <= UNSURE,
        shared=shared, seen=np.full(len(names), np.nan),
    )  # fmt: skip
