"""Estimates the capacity of a device, and whether anybody ever waited for another in it.

Contention is what varies with load. A task of stage s on host h moves data at the speed::

    v = f_h · min(r_s, share)

r_s is the stage's own rate (:mod:`iqcar.model.demand.own_rates`), the share its max–min fair part
of the device's capacity C (:mod:`iqcar.model.demand.load`), and f_h the speed of the host relative
to the others. A grid of capacities is compared with a device that limits nobody. In both, own rates
of stages may be alike: stages that move data at one speed under one load say nothing about C.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from iqcar.model.demand.load import Load
from iqcar.model.demand.own_rates import ABOVE, FREE, Errors, Grid, OwnRates, errors_of, own_rates
from iqcar.tables.arrays import Floats, Ints, distinct, share_of, sum_by

ENOUGH_TASKS = 8
"""Tasks below which nothing is said about a device."""
MARGIN = 0.2
"""How far the grid of own rates reaches below the lowest speeds, in log."""
AT_MOST = 0.5
"""Probability that an own rate is the highest possible one, such as one core."""
FILLS = 0.5
"""Probability, before the data, that a stage's own rate fills a device that is contended."""
CAPACITIES = 32
"""Capacities on the grid."""
NUMBERS_AT_ONCE = 1 << 14
"""Numbers up to which several capacities are tried at once: so few take less time than the calls
that compute them."""
NOISES = (0.2, 0.35, 0.6)
"""Possible standard deviations of log speeds within a stage. The least is that of the shares: load
is an average over each task's life."""
CONTENDED = 0.1
"""Probability, before the data, that anybody waited for another in a device."""
ALIKE = (0.07, 0.2)
"""Possible standard deviations, in log, of the own rates of stages that are alike."""
UNALIKE = (0.05, 0.5)
"""Possible shares of the stages that are not, even where others are."""
MEANS_APART = 3
"""Steps of the grid between the possible means of own rates that are alike."""
CLEARLY_SLOWER = 0.15
"""Least difference, in log, of a host's speed from the others'."""
COST_OF_HOST = 3.0
"""Log-likelihood that a speed of its own for one host must gain."""
HOST_TASKS = 4.0
"""How firmly the speed of a host is tied to that of the others: as by this many tasks."""


class Device(NamedTuple):
    """What is known about a kind of device, such as the disks of all hosts.

    log_capacity: natural logarithm of the most likely C, given that somebody waited.
    log_fastest: natural logarithm of the highest speed that single tasks had.
    contended: probability that anybody waited for another in it.
    noise: standard deviation of log speeds within a stage.
    grid: possible own rates.
    slower: (n_hosts,) logarithm of f_h.
    tasks: tasks that the estimate is based on.
    evidence: log-likelihood of the data, but for a constant.
    """

    log_capacity: float
    log_fastest: float
    contended: float
    noise: float
    grid: Grid
    slower: Floats
    tasks: int
    evidence: float

    @property
    def identified(self) -> bool:
        """Whether the capacity is known; else at least the highest speed seen is possible."""
        return self.contended >= 0.5

    @property
    def per_host(self) -> Floats:
        """Capacity of each host in data units per ms, where known; else the highest speed seen."""
        best = self.log_capacity if self.identified else self.log_fastest
        return np.exp(best + self.slower)

    def relative(self, load: Load) -> tuple[Floats, Floats]:
        """Return log speed and log fair share of tasks, relative to the speed of their host."""
        slower = self.slower[load.host]
        return load.log_speed() - slower, self.relative_share(load)

    def relative_share(self, load: Load, rows: Ints | None = None) -> Floats:
        """Return the log fair share of some tasks, by default all, relative to their host."""
        slower = self.slower[load.host if rows is None else load.host[rows]]
        return load.log_fair_share(np.exp(self.log_capacity + slower), rows) - slower

    def own_rates_of(self, speed: Floats, share: Floats, stage: Ints, n_stages: int) -> OwnRates:
        """Return the probabilities of own rates of stages, from :meth:`relative` of their tasks."""
        return own_rates(
            errors_of(speed, stage, n_stages, self.grid, share),
            errors_of(speed, stage, n_stages, self.grid),
            self.noise,
            self.grid.filling(FILLS),
        )

    def own_rates_alone(self, load: Load, stage: Ints, n_stages: int) -> OwnRates:
        """Return the probabilities of own rates of stages in a device that limits nobody."""
        free = errors_of(load.log_speed() - self.slower[load.host], stage, n_stages, self.grid)
        logs = free.log_likelihood(self.noise)
        chance = np.exp(logs - logs.max(axis=1, keepdims=True)) * self.grid.prior
        chance /= chance.sum(axis=1, keepdims=True)
        return OwnRates(np.zeros_like(chance), chance)


def fit_device(load: Load, n_hosts: int, most: float = np.inf) -> Device | None:
    """Estimate a device from the tasks that used it.

    None if there are fewer than :data:`ENOUGH_TASKS` tasks.

    load: data and waiting time are positive.
    most: highest own rate that is possible, such as one core.
    """
    if len(load.data) < ENOUGH_TASKS:
        return None
    log_speed = load.log_speed()
    alone = log_speed + np.log1p(load.others)
    lowest, highest = float(np.quantile(log_speed, 0.005)) - MARGIN, float(alone.max()) + ABOVE
    grid = Grid.over(lowest, highest)
    if np.log(most) < highest:
        grid = Grid.over(lowest, float(np.log(most)), AT_MOST)
    even = np.linspace(np.quantile(alone, 0.02), alone.max() + 0.1, CAPACITIES)
    used = np.unique(load.host)
    best, evidence = _compared(load, np.zeros(n_hosts), even, grid)
    if len(used) > 1:
        # Contention and a slow host look alike in one another's absence: both come first once.
        tried = {best.slower.tobytes()}
        for contended in (best.contended, 0.0, 1.0):
            slower = _slower(load, best._replace(contended=contended), n_hosts, used)
            if slower.tobytes() not in tried:
                tried.add(slower.tobytes())
                other, found = _compared(load, slower, even, grid)
                if found > evidence:
                    best, evidence = other, found
    fastest = float(np.quantile(log_speed - best.slower[load.host], 0.98))
    return best._replace(log_fastest=fastest, evidence=evidence)


def _compared(load: Load, slower: Floats, even: Floats, grid: Grid) -> tuple[Device, float]:
    """Compare all capacities and noises with no contention; returns the log evidence, too."""
    names, stage = distinct(load.stage)
    log_speed = load.log_speed() - slower[load.host]
    priors, log_prior = _priors(grid)

    def likelihoods(errors: Errors) -> list[tuple[Floats, Floats]]:
        return [_averaged(errors.log_likelihood(noise), priors) for noise in NOISES]

    free = likelihoods(errors_of(log_speed, stage, len(names), grid))
    quiet = np.array([(top + np.log(part)).sum(axis=0) for top, part in free])
    quiet += log_prior + np.log1p(-CONTENDED)
    loud = np.empty((len(even), len(NOISES), len(log_prior)))
    n, tasks = len(names), np.arange(len(stage))
    at_once = max(1, NUMBERS_AT_ONCE // max(len(stage), n * len(grid.rates)))
    for at in range(0, len(even), at_once):
        some = even[at : at + at_once]
        many = len(some)  # each with stages of its own
        rows, stages = np.tile(tasks, many), (n * np.arange(many)[:, None] + stage).ravel()
        of_host = np.tile(slower[load.host], many)
        share = load.log_fair_share(np.exp(np.repeat(some, len(stage)) + of_host), rows) - of_host
        errors = errors_of(np.tile(log_speed, many), stages, many * n, grid, share)
        for noise, ((top, part), (free_top, free_part)) in enumerate(
            zip(likelihoods(errors), free, strict=True)
        ):
            alone, alone_part = np.tile(free_top, (many, 1)), np.tile(free_part, (many, 1))
            highest = np.maximum(top, alone)
            each = (1 - FREE) * np.exp(top - highest) * part
            each += FREE * np.exp(alone - highest) * alone_part
            logs = (highest + np.log(each)).reshape(many, n, -1)
            loud[at : at + many, noise] = logs.sum(axis=1) + log_prior
    # A capacity may be anywhere that an own rate may be: neither is free.
    possible = (even[-1] - even[0]) / (grid.rates[-1] - grid.rates[0])
    loud += np.log(CONTENDED / len(even)) + min(np.log(possible), 0.0)
    evidence = float(np.logaddexp(log_sum(loud), log_sum(quiet)))
    contended = float(np.exp(log_sum(loud) - evidence))
    capacity, noise = (int(at) for at in np.unravel_index(int(loud.argmax()), loud.shape)[:2])
    if contended < 0.5:
        noise = int(quiet.argmax()) // len(log_prior)
    device = Device(
        log_capacity=float(even[capacity]), log_fastest=np.nan, contended=contended,
        noise=NOISES[noise], grid=grid, slower=slower, tasks=len(load.data), evidence=np.nan,
    )  # fmt: skip
    return device, evidence - COST_OF_HOST * np.count_nonzero(slower)


def _priors(grid: Grid) -> tuple[Floats, Floats]:
    """Return possible priors of own rates, of shape (n_rates, n_priors), and their logarithms.

    The first prior is that of the grid, the others hold rates near one mean for likely.
    """
    rates = grid.rates
    means = rates[::MEANS_APART]
    flat = grid.prior[:, None]
    near = []
    for spread, unalike in itertools.product(ALIKE, UNALIKE):
        bell = np.exp(-0.5 * ((rates[:, None] - means) / spread) ** 2)
        near.append((1 - unalike) * bell / bell.sum(axis=0) + unalike * flat)
    every = np.hstack([flat, *near])
    logs = np.full(every.shape[1], np.log(0.5 / (every.shape[1] - 1)))
    logs[0] = np.log(0.5)
    return every, logs


def _averaged(logs: Floats, priors: Floats) -> tuple[Floats, Floats]:
    """Return t and p with ``p · exp(t) = Σ_k prior_k · exp(logs_k)``.

    They are of shape (n_stages, 1) and (n_stages, n_priors).
    """
    top = logs.max(axis=1, keepdims=True)
    part: Floats = np.exp(logs - top) @ priors
    return top, part


def log_sum(logs: Floats) -> float:
    """Return log Σ exp(logs) over all entries."""
    top = float(logs.max())
    return top + float(np.log(np.exp(logs - top).sum()))


def _slower(load: Load, device: Device, n_hosts: int, used: Ints) -> Floats:
    """Estimate the speed of each host from what the model leaves unexplained, stages apart."""
    names, stage = distinct(load.stage)
    n = len(names)
    speed, share = device.relative(load)
    chance = device.own_rates_of(speed, share, stage, n)
    grid = device.grid
    first = grid.first_above(share)
    above = np.zeros((n, len(grid.rates) + 1))
    above[:, :-1] = chance.shared[:, ::-1].cumsum(axis=1)[:, ::-1]
    below = np.zeros((n, len(grid.rates) + 1))
    below[:, 1:] = (chance.shared * grid.rates).cumsum(axis=1)
    shared = above[stage, first] * share + below[stage, first] + (chance.free @ grid.rates)[stage]
    mean = share_of(sum_by(stage, speed, n), np.bincount(stage, minlength=n).astype(np.float64))
    expected = device.contended * shared + (1 - device.contended) * mean[stage]
    error = speed - expected
    of_host = np.zeros(n_hosts)
    tasks = np.bincount(stage, minlength=n).astype(np.float64)
    on_host = np.bincount(load.host, minlength=n_hosts)
    for _ in range(5):  # the two effects are nearly orthogonal: stages run on all hosts
        of_stage = share_of(sum_by(stage, error - of_host[load.host], n), tasks)
        of_host = sum_by(load.host, error - of_stage[stage], n_hosts) / (on_host + HOST_TASKS)
    slower = device.slower + of_host
    slower = slower - np.quantile(slower[used], 0.5, method="higher")
    gain = on_host * slower**2 / (2 * device.noise**2)
    clearly = (np.abs(slower) > CLEARLY_SLOWER) & (gain > COST_OF_HOST)
    return np.where(clearly, slower, 0.0)
