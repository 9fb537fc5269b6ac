"""Computes probabilities of a stage's own rate from speeds of its tasks and their fair shares.

The own rate of a stage is the speed of its tasks in a device when nobody else uses it: its format,
decoding and code. A task moves data at the lower of own rate and fair share. Every stage has the
same grid of possible own rates. A rate is as likely as the errors that it leaves are small:
Student's t over the tasks of a stage, because the noise of a stage is near that of all stages but
not equal to it, with an offset common to the stage's tasks, because shares are averages over lives.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from iqcar.tables.arrays import Floats, Ints, share_of, sum_by

STEP, MOST_RATES = 0.08, 96
"""Distance of the grid's rates in log where that takes at most this many, else more."""
ABOVE = 2.0
"""How far the grid reaches above the highest speed of a device, in log: faster is as good as it."""
NOISE_TASKS = 4.0
"""How firmly the noise of a stage is tied to that of all: as by this many tasks more."""
ALIKE_TASKS = 32.0
"""Tasks of one stage share causes: n of them count as n / (1 + n / this)."""
OFFSET = 0.15
"""Standard deviation, in log, of the error that all tasks of a stage have in common."""
FREE = 0.05
"""Probability that a stage does not use the device that it seems to use (page cache)."""


class Grid(NamedTuple):
    """Possible own rates: ``rates[k] = lowest + k · step``, as natural logarithms.

    ``prior`` is the probability of each before the data.
    """

    lowest: float
    step: float
    rates: Floats
    prior: Floats

    @classmethod
    def over(cls, lowest: float, highest: float, at_highest: float = 0.0) -> Grid:
        """Return the grid that covers a range of logarithms.

        All rates are equally likely, but for a probability of the highest.
        """
        step = max(STEP, (highest - lowest) / MOST_RATES)
        count = int(np.ceil((highest - lowest) / step)) + 1
        rates: Floats = np.subtract(highest, step * np.arange(count)[::-1])
        prior = np.full(count, (1.0 - at_highest) / count)
        prior[-1] += at_highest
        return cls(float(rates[0]), step, rates, prior)

    def filling(self, chance: float) -> Floats:
        """Return the prior of a stage whose own rate is the highest with this probability more."""
        prior = self.prior * (1.0 - chance)
        prior[-1] += chance
        return prior

    def first_above(self, log_share: Floats) -> Ints:
        """Return the position of the lowest rate that is at least the share; n_rates if none is."""
        position = np.ceil((log_share - self.lowest) / self.step)
        return np.clip(position, 0, len(self.rates)).astype(np.int64)


class Errors(NamedTuple):
    """Errors of each stage for each own rate, of shape (n_stages, n_rates), and its tasks.

    squares, total: (n_stages, n_rates) sum of squared errors and sum of errors, in log speed.
    tasks: (n_stages,).
    """

    squares: Floats
    total: Floats
    tasks: Floats

    def log_likelihood(self, noise: float) -> Floats:
        """Return the logarithm of the likelihood of each rate, but for a constant of the stage.

        noise: standard deviation of log speeds within a stage.
        """
        ratio = (noise / OFFSET) ** 2
        squares = self.squares - self.total**2 / (self.tasks + ratio)[:, None]
        count = self.tasks / (1.0 + self.tasks / ALIKE_TASKS)
        squares = np.maximum(squares, 0.0) * share_of(count, self.tasks)[:, None]
        fit = np.log1p(squares / (NOISE_TASKS * noise**2)) * (count + NOISE_TASKS)[:, None] / 2
        width: Floats = count * np.log(noise) + 0.5 * np.log1p(self.tasks / ratio)
        return np.subtract(-width[:, None], fit)


def errors_of(
    log_speed: Floats, stage: Ints, n_stages: int, grid: Grid, log_share: Floats | None = None
) -> Errors:
    """Sum the errors ``log speed − min(own rate, log share)`` for every stage and own rate.

    In O(n_tasks + n_stages · n_rates): tasks are counted by the first rate above their share, and
    the counts are summed along the rates.

    log_speed: (n_tasks,).
    stage: (n_tasks,).
    log_share: (n_tasks,) by default nobody shares the device.
    """
    width = len(grid.rates) + 1
    if log_share is None:
        first, gap = np.full(len(stage), width - 1), np.zeros(len(stage))
    else:
        first, gap = grid.first_above(log_share), log_speed - log_share
    cell = stage * width + first

    def limited_by_share(values: Floats) -> Floats:
        summed = sum_by(cell, values, n_stages * width).reshape(n_stages, width)
        return summed.cumsum(axis=1)[:, :-1]

    def limited_by_rate(values: Floats) -> Floats:
        return sum_by(stage, values, n_stages)[:, None] - limited_by_share(values)

    ones = np.ones(len(stage))
    tasks, speed = limited_by_rate(ones), limited_by_rate(log_speed)
    own = limited_by_rate(log_speed**2) - 2 * grid.rates * speed + grid.rates**2 * tasks
    return Errors(
        np.maximum(limited_by_share(gap * gap) + own, 0.0),
        limited_by_share(gap) + speed - grid.rates * tasks,
        sum_by(stage, ones, n_stages),
    )


class OwnRates(NamedTuple):
    """Probabilities of the own rates of stages in a device that is contended.

    shared: (n_stages, n_rates) probability of each own rate of a stage whose tasks share the
        device.
    free: (n_stages, n_rates) the same for a stage that the device does not limit; both together sum
        to 1.
    """

    shared: Floats
    free: Floats


def own_rates(shared: Errors, free: Errors, noise: float, prior: Floats) -> OwnRates:
    """Compute the probabilities of own rates.

    shared, free: with and without the fair share.
    noise: standard deviation of log speeds within a stage.
    prior: (n_rates,) probabilities before the data.
    """
    logs = np.stack(
        [shared.log_likelihood(noise) + np.log1p(-FREE), free.log_likelihood(noise) + np.log(FREE)]
    )
    chance = np.exp(logs - logs.max(axis=(0, 2), keepdims=True)) * prior
    chance /= chance.sum(axis=(0, 2), keepdims=True)
    return OwnRates(chance[0], chance[1])
