"""Estimates the capacity of a device, fair shares of it, and own rates of stages.

Contention is what varies with load. A task of stage s on host h moves data at the speed::

    v = f_h · min(r_s, share)

r_s is the stage's own rate, the share its max–min fair part of the device's capacity C, and f_h the
speed of the host relative to the others. A grid of capacities is compared with a device that limits
nobody. In both, own rates of stages may be alike: stages that move data at one speed under one load
say nothing about C.

A device of capacity C is shared max–min fairly: tasks slower than the fair share move data at their
own speed, and the others divide what is left equally.

The own rate of a stage is the speed of its tasks in a device when nobody else uses it: its format,
decoding and code. A task moves data at the lower of own rate and fair share. Every stage has the
same grid of possible own rates. A rate is as likely as the errors that it leaves are small:
Student's t over the tasks of a stage, because the noise of a stage is near that of all stages but
not equal to it, with an offset common to the stage's tasks, because shares are averages over lives.
"""

from __future__ import annotations

import itertools
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
