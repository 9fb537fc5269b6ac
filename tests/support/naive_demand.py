"""Demand straight from the formulas, one pair of tasks at a time: iqcar.model.demand's reference.

Load (others, and what they would take at each level), the fair share by filling up to a level, the
likelihood of every own rate task by task, the expected loss, and the comparison of capacities.
Constants come from the package; its arrays, sweeps and running sums do not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from iqcar.causes.blame.attribute import OCTAVES, SPEEDS
from iqcar.model.demand import device as device_model
from iqcar.model.demand.device import (
    ABOVE,
    ALIKE_TASKS,
    FREE,
    MOST_RATES,
    NOISE_TASKS,
    OFFSET,
    STEP,
    Device,
)
from iqcar.model.demand.estimate import ENOUGH_BYTES, ENOUGH_MS, NEGLIGIBLE, ROUNDS


@dataclass
class Use:
    """What one task moved in one device, its life, and (found by :func:`fill_in`) the others."""

    data: float
    wait: float
    launch: float
    finish: float
    host: int
    stage: int
    others: float = 0.0
    levels: tuple[float, ...] = ()
    taken: tuple[float, ...] = ()
    owner: int = 0
    own: float = 0.0
    busy: float = 1.0

    @property
    def life(self) -> float:
        return max(self.finish - self.launch, 1.0) if self.timed else 1.0

    @property
    def timed(self) -> bool:
        return math.isfinite(self.launch) and math.isfinite(self.finish)

    @property
    def speed(self) -> float:
        return self.data / self.wait if self.wait > 0 else 0.0

    @property
    def log_speed(self) -> float:
        return math.log(self.speed)


def quantile(values: Sequence[float], q: float) -> float:
    """The quantile between the two values nearest to it."""
    ordered = sorted(values)
    at = q * (len(ordered) - 1)
    low = min(math.floor(at), len(ordered) - 1)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def joined(pieces: list[Use]) -> Use:
    """A task of its pieces: what is known of the others, weighted by the pieces' time in there."""
    first, wait = pieces[0], sum(piece.wait for piece in pieces)
    one = Use(
        sum(piece.data for piece in pieces), wait, first.launch, pieces[-1].finish, first.host,
        first.stage, levels=first.levels,
    )  # fmt: skip
    weights = [piece.wait / wait if wait > 0 else 0.0 for piece in pieces]
    if len(pieces) == 1:
        weights = [1.0]
    one.others = sum(w * piece.others for w, piece in zip(weights, pieces, strict=True))
    one.own = sum(w * piece.own for w, piece in zip(weights, pieces, strict=True))
    one.busy = min(wait / one.life, 1.0)
    one.taken = tuple(
        sum(w * piece.taken[k] for w, piece in zip(weights, pieces, strict=True))
        for k in range(len(first.levels))
    )
    return one


def fill_in(uses: list[Use], band: tuple[float, float] = SPEEDS) -> None:
    """Find others, levels and taken of every task, pair by pair."""
    moving = [use.speed for use in uses if use.speed > 0]
    levels = (1.0,)
    if moving:
        low, high = (math.log2(min(max(v, band[0]), band[1])) for v in (min(moving), max(moving)))
        first, last = math.floor(low / OCTAVES), math.ceil(high / OCTAVES)
        levels = tuple(2.0 ** (k * OCTAVES) for k in range(first, last + 1))
    for one in uses:
        one.levels, one.others, one.own, taken = levels, 0.0, 0.0, [0.0] * len(levels)
        for other in uses:
            if other is one or not (one.timed and other.timed) or not one.host == other.host >= 0:
                continue
            overlap = min(one.finish, other.finish) - max(one.launch, other.launch)
            busy = max(overlap, 0.0) / one.life * min(other.wait / other.life, 1.0)
            one.others += busy
            one.own += busy if other.owner == one.owner else 0.0
            for k, level in enumerate(levels):
                taken[k] += busy * min(other.speed, level)
        one.taken = tuple(taken)


def usable(use: Use, least: float = ENOUGH_BYTES) -> bool:
    return use.data >= least and use.wait >= ENOUGH_MS and use.stage >= 0 and use.host >= 0


def fair_share(use: Use, capacity: float) -> float:
    """λ with λ + what the others take at λ = C, by halving."""
    known = [(0.0, 0.0), *zip(use.levels, use.taken, strict=True)]

    def others_take(level: float) -> float:
        for (a, at_a), (b, at_b) in itertools.pairwise(known):
            if level <= b:
                return at_a + (level - a) * (at_b - at_a) / (b - a)
        return known[-1][1]

    low, high = 0.0, capacity
    for _ in range(90):
        middle = (low + high) / 2
        if middle + others_take(middle) < capacity:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def log_likelihood(errors: Sequence[float], noise: float) -> float:
    """Student's t over the tasks of a stage with an offset in common."""
    n = len(errors)
    ratio = (noise / OFFSET) ** 2
    squares = max(sum(e * e for e in errors) - sum(errors) ** 2 / (n + ratio), 0.0)
    count = n / (1.0 + n / ALIKE_TASKS)
    fit = (count + NOISE_TASKS) / 2 * math.log1p(squares * count / n / (NOISE_TASKS * noise**2))
    return -fit - count * math.log(noise) - 0.5 * math.log1p(n / ratio)


def log_sum(values: Sequence[float]) -> float:
    top = max(values)
    return top + math.log(sum(math.exp(v - top) for v in values))


def log_share(use: Use, device: Device) -> float:
    """Logarithm of the fair share, relative to the speed of the host."""
    slower = float(device.slower[use.host])
    return math.log(fair_share(use, math.exp(device.log_capacity + slower))) - slower


def own_rate_chances(
    uses: Sequence[Use], device: Device, share_of: dict[int, float]
) -> dict[int, tuple[list[float], list[float]]]:
    """Per stage, the probability of each own rate, and of each where the device is not shared."""
    rates = device.grid.rates.tolist()
    prior = [before * (1 - device_model.FILLS) for before in device.grid.prior.tolist()]
    prior[-1] += device_model.FILLS
    found = {}
    for stage in sorted({use.stage for use in uses}):
        mine = [use for use in uses if use.stage == stage]
        speeds = [use.log_speed - float(device.slower[use.host]) for use in mine]
        shares = [share_of[id(use)] for use in mine]
        logs = []
        for rate, before in zip(rates, prior, strict=True):
            shared = [v - min(rate, s) for v, s in zip(speeds, shares, strict=True)]
            free = [v - rate for v in speeds]
            logs.append(math.log(before * (1 - FREE)) + log_likelihood(shared, device.noise))
            logs.append(math.log(before * FREE) + log_likelihood(free, device.noise))
        total = log_sum(logs)
        chances = [math.exp(value - total) for value in logs]
        found[stage] = chances[0::2], chances[1::2]
    return found


def shared(uses: Sequence[Use], device: Device, least: float = ENOUGH_BYTES) -> dict[int, float]:
    """Per stage, the probability that its tasks share the device."""
    some = [use for use in uses if usable(use, least)]
    chances = own_rate_chances(some, device, {id(use): log_share(use, device) for use in some})
    return {stage: sum(rates) for stage, (rates, _) in chances.items()}


def losses(
    uses: Sequence[Use], device: Device, least: float = ENOUGH_BYTES
) -> list[tuple[float, float, float]]:
    """Per task, the shares of its time lost to tasks, to those of others, to a slow host."""
    shares = {id(use): log_share(use, device) for use in uses if usable(use, least)}
    chances = own_rate_chances([use for use in uses if id(use) in shares], device, shares)
    contended = device.contended if device.contended >= NEGLIGIBLE else 0.0
    found = []
    for use in uses:
        if id(use) not in shares:
            found.append((0.0, 0.0, 0.0))
            continue
        rates = dict(zip(device.grid.rates.tolist(), chances[use.stage][0], strict=True))
        share, others = shares[id(use)], 0.0
        lost = _expected(rates, share, device.log_capacity) * contended
        for _ in range(ROUNDS):
            # Alone it would be in the device for this share of its life.
            busy = use.busy * (1.0 - others) / (1.0 - use.busy * others) if others < 1 else 0.0
            own = use.own * busy / use.busy if use.busy > 0 else 0.0
            most = device.log_capacity - math.log1p(own)
            others = min(_expected(rates, share, most) * contended, lost)
        slow = 1.0 - math.exp(min(float(device.slower[use.host]), 0.0))
        found.append((lost, others, slow))
    return found


def _expected(rates: dict[float, float], share: float, most: float) -> float:
    """Expected loss of a task that had a share of the device, and could have had ``most``."""
    most = max(most, share)
    parts = (p * (1.0 - math.exp(share - min(r, most))) for r, p in rates.items() if r > share)
    return min(max(sum(parts), 0.0), 1.0)


# --- the estimate of a device where all tasks are on one host


def fit_one_host(uses: Sequence[Use]) -> tuple[float, float, float]:
    """Most likely log capacity given contention, probability of contention, noise."""
    speeds = [use.log_speed for use in uses]
    alone = [v + math.log1p(use.others) for v, use in zip(speeds, uses, strict=True)]
    rates = _rates(quantile(speeds, 0.005) - device_model.MARGIN, max(alone) + ABOVE)
    priors = _priors(rates)
    low, high = quantile(alone, 0.02), max(alone) + 0.1
    steps = device_model.CAPACITIES - 1
    capacities = [low + (high - low) * k / steps for k in range(steps + 1)]
    stages = [
        [use for use in uses if use.stage == stage] for stage in sorted({u.stage for u in uses})
    ]
    quiet: dict[tuple[float, int], float] = {}
    loud: dict[tuple[float, float, int], float] = {}
    for noise in device_model.NOISES:
        free = [
            _averaged([log_likelihood([u.log_speed - r for u in s], noise) for r in rates], priors)
            for s in stages
        ]
        for p, (_, log_prior) in enumerate(priors):
            quiet[noise, p] = sum(f[p] for f in free) + log_prior
            quiet[noise, p] += math.log(1 - device_model.CONTENDED)
        for capacity in capacities:
            total = [log_prior for _, log_prior in priors]
            for s, unshared in zip(stages, free, strict=True):
                shares = [math.log(fair_share(use, math.exp(capacity))) for use in s]
                shared = _averaged(
                    [
                        log_likelihood(
                            [u.log_speed - min(r, h) for u, h in zip(s, shares, strict=True)],
                            noise,
                        )
                        for r in rates
                    ],
                    priors,
                )
                for p in range(len(priors)):
                    both = shared[p] + math.log(1 - FREE), unshared[p] + math.log(FREE)
                    total[p] += log_sum(both)
            for p, value in enumerate(total):
                before = math.log(device_model.CONTENDED / len(capacities))
                before += min(math.log((high - low) / (rates[-1] - rates[0])), 0.0)
                loud[capacity, noise, p] = value + before
    contended = 1 / (1 + math.exp(log_sum(list(quiet.values())) - log_sum(list(loud.values()))))
    capacity, noise, _ = max(loud, key=lambda key: loud[key])
    if contended < 0.5:
        noise = max(quiet, key=lambda key: quiet[key])[0]
    return capacity, contended, noise


def _rates(lowest: float, highest: float) -> list[float]:
    step = max(STEP, (highest - lowest) / MOST_RATES)
    count = math.ceil((highest - lowest) / step) + 1
    return [highest - step * k for k in range(count)][::-1]


def _priors(rates: list[float]) -> list[tuple[list[float], float]]:
    """Probabilities of rates and log probability: all alike likely, or near one mean."""
    flat = [1 / len(rates)] * len(rates)
    means = rates[:: device_model.MEANS_APART]
    found = [(flat, math.log(0.5))]
    count = len(means) * len(device_model.ALIKE) * len(device_model.UNALIKE)
    for spread in device_model.ALIKE:
        for unalike in device_model.UNALIKE:
            for mean in means:
                bell = [math.exp(-0.5 * ((r - mean) / spread) ** 2) for r in rates]
                near = [
                    (1 - unalike) * b / sum(bell) + unalike * f
                    for b, f in zip(bell, flat, strict=True)
                ]
                found.append((near, math.log(0.5 / count)))
    return found


def _averaged(logs: list[float], priors: list[tuple[list[float], float]]) -> list[float]:
    top = max(logs)
    scaled = [math.exp(value - top) for value in logs]
    return [
        top + math.log(sum(a * b for a, b in zip(scaled, prior, strict=True)))
        for prior, _ in priors
    ]
