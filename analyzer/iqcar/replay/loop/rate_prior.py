"""Says what own rates and capacities are likely before the data, of all stages or by earlier runs.

Own rates have one prior, whose mean is that of the rates which the data tell, and of the capacity.
A stage that an earlier run told has a prior of its own, with a tail: what changed much says little.
The stages of a query share causes, and count as one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iqcar.enums import REQUESTS, Request
from iqcar.model.demand.estimate import Known
from iqcar.replay.loop.device_sharing import DEVICE
from iqcar.replay.loop.task_demands import COMPUTE, PROCESSOR, REQUEST
from iqcar.tables.arrays import Flags, Floats, Ints

REQUESTS_OF = {**REQUEST, COMPUTE: Request.RUN_QUEUE}
"""Request of each phase in a device."""
SPREAD = 1.0
"""Standard deviation, in log, of the own rates of stages before the data."""
TOLD = 4.0
"""How firmly the mean of own rates is tied to what the data tell of each."""
CAPACITY_TELLS = 0.25
"""How many stages whose own rates are told the capacity counts as in their mean."""
CAPACITY_SPREAD = 0.5
"""Standard deviation, in log, of a capacity about its first estimate."""
DRIFT = 0.15
"""Standard deviation, in log, by which an own rate or a capacity changes from run to run."""
TAIL = 4.0
"""Degrees of freedom of Student's t of what earlier runs told."""


@dataclass(frozen=True)
class RatePrior:
    """The prior of the own rates of some keys, and of capacities.

    device, phase: (n_keys,).
    known: (n_keys,) whether an earlier run told it.
    mean, variance: (n_keys,) of what it told, and its drift since then; elsewhere 0 and that of
        all stages.
    count: (n_keys,) as how many each known one counts.
    capacity: mean and variance of the log capacity of devices that an earlier run told.
    """

    device: Ints
    phase: Ints
    known: Flags
    mean: Floats
    variance: Floats
    count: Floats
    capacity: dict[int, tuple[float, float]]

    @classmethod
    def of(cls, keys: Ints, known: Known, slower: dict[int, Floats]) -> RatePrior:
        """Return the prior of keys, ``stage · 5 + phase``.

        slower: speeds of hosts relative to the others, by device.
        """
        phase_of = keys % len(DEVICE)
        device = DEVICE[phase_of]
        told, query = np.full(len(keys), np.nan), np.zeros(len(keys), np.int64)
        variance, rates = np.full(len(keys), SPREAD**2), known.rates
        for phase, request in REQUESTS_OF.items():
            mine = np.flatnonzero(rates.request == REQUESTS.index(request))
            place = np.searchsorted(keys, rates.stage[mine] * len(DEVICE) + phase)
            at = np.minimum(place, len(keys) - 1)
            if len(keys):
                fits = keys[at] == rates.stage[mine] * len(DEVICE) + phase
                at, mine = at[fits], mine[fits]
                told[at], query[at] = rates.log_rate[mine], rates.query[mine]
                variance[at] = rates.variance[mine] + DRIFT**2
        is_known = np.isfinite(told)
        _, group = np.unique(query * len(DEVICE) + device, return_inverse=True)
        many = np.bincount(group, is_known)[group]
        count = np.where(is_known, 1.0 / np.maximum(many, 1.0), 1.0)
        mean = np.where(is_known, told, 0.0)
        return cls(
            device=device, phase=phase_of, known=is_known, mean=mean, variance=variance,
            count=count, capacity=_capacities(known, slower),
        )  # fmt: skip

    def instead_of(self, log_rate: Floats) -> Floats:
        """Put own rates that an earlier run told in the place of others."""
        return np.where(self.known, self.mean, log_rate)

    def means(self, told: Floats, log_rate: Floats, capacity: dict[int, float]) -> Floats:
        """Mean of the prior of each key: of the rates of its phase that the data tell.

        The mean of its device, which reads and writes may have in common, counts as one more.

        told: (n_keys,) how firmly the data tell each: 1 / variance.
        """
        mean = np.empty(len(log_rate))
        told = np.where(self.known, told + 1.0 / self.variance, told)
        weight = told / (told + TOLD / SPREAD**2)
        for device in np.unique(self.device).tolist():
            mine = self.device == device
            at, sure = (weight[mine] * log_rate[mine]).sum(), weight[mine].sum()
            if device in capacity:
                top = 0.0 if device == PROCESSOR else capacity[device]
                at, sure = at + CAPACITY_TELLS * top, sure + CAPACITY_TELLS
            of_device = at / max(sure, 1e-9)
            for phase in np.unique(self.phase[mine]):
                like = mine & (self.phase == phase)
                at = (weight[like] * log_rate[like]).sum() + of_device
                mean[like] = at / (weight[like].sum() + 1.0)
        return np.where(self.known, self.mean, mean)

    def penalty(self, off: Floats, capacity: dict[int, float]) -> tuple[float, float]:
        """Return minus the log prior, and the part of it that earlier runs told.

        off: (n_keys,) own rates less the means of their priors.
        """
        rest = 0.5 * float((off[~self.known] ** 2).sum()) / SPREAD**2
        tail = (TAIL + 1.0) / 2.0 * np.log1p(off**2 / self.variance / TAIL)
        told = float((self.count * tail)[self.known].sum())
        for device, (mean, variance) in self.capacity.items():
            if device in capacity:
                told += (
                    (TAIL + 1.0) / 2.0 * np.log1p((capacity[device] - mean) ** 2 / variance / TAIL)
                )
        return rest + told, told

    def pull(self, off: Floats) -> Floats:
        """Return how firmly each own rate is tied to its mean: 1 / variance."""
        tail = (TAIL + 1.0) / (TAIL + off**2 / self.variance)
        return np.where(self.known, self.count * tail, 1.0) / self.variance

    def of_capacity(self, device: int, first: float, now: float) -> tuple[float, float]:
        """Return the mean of the prior of a capacity, and how firmly it is tied to that."""
        if device not in self.capacity:
            return first, CAPACITY_SPREAD**-2
        mean, variance = self.capacity[device]
        return mean, (TAIL + 1.0) / (TAIL + (now - mean) ** 2 / variance) / variance


def _capacities(known: Known, slower: dict[int, Floats]) -> dict[int, tuple[float, float]]:
    """Mean and variance of the log capacity of each device, over its hosts that are known."""
    found, told = {}, known.capacities
    for phase, request in REQUESTS_OF.items():
        device = int(DEVICE[phase])
        mine = told.request == REQUESTS.index(request)
        if device in found or device not in slower or not mine.any():
            continue
        of_host = told.log_capacity[mine] - np.log(slower[device][told.host[mine]])
        weight = 1.0 / (told.variance[mine] + DRIFT**2)
        # Hosts of one run share its errors: many of them are no surer than one.
        found[device] = float(np.average(of_host, weights=weight)), float(1.0 / weight.max())
    return found
