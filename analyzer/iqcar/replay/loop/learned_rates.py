"""Tells what a fit learned of own rates and capacities, and what earlier runs decided.

A run tells an own rate only by tasks that were not short: in a device that was found to be short,
or with hardly any task of another query there. Where others are there and nobody seems to be
short, the tasks may still have been slowed at every moment alike.
"""

from __future__ import annotations

import numpy as np

from iqcar.enums import REQUESTS
from iqcar.model.demand.estimate import (
    ALONE,
    MIDDLE,
    Demand,
    Known,
    KnownCapacities,
    KnownRates,
    Learned,
)
from iqcar.replay.loop.device_sharing import DEVICE
from iqcar.replay.loop.rate_fit import RateFit
from iqcar.replay.loop.rate_point import Rates
from iqcar.replay.loop.rate_prior import CAPACITY_SPREAD, REQUESTS_OF
from iqcar.tables import Tables
from iqcar.tables.arrays import Floats, Ints, share_of, sum_by

OWN = 0.8
"""Part of a time in a device that own rates decide, from which on tasks were not short."""
LEAST_ERROR = 0.05
"""Standard deviation, in log, that a rate or capacity has at least."""
SURE = 0.3
"""Standard deviation, in log, up to which a rate is told."""
CONTRADICTED = 3.0
"""Standard deviations by which the run's own rates must differ from those that earlier runs told,
in most of the queries that tell, before nothing that these told is believed."""


def contradicted(fit: RateFit, found: Rates) -> bool:
    """Whether the own rates that this run tells are not those that earlier runs told."""
    n = np.bincount(fit.key).astype(np.float64)
    own = share_of(sum_by(fit.key, found.by_rate, len(n)), n)
    variance = share_of(np.ones(len(own)), found.told) + LEAST_ERROR**2
    tells = fit.prior.known & (own >= OWN) & (found.told > 0) & (variance <= SURE**2)
    far = found.off**2 > CONTRADICTED**2 * (fit.prior.variance + variance)
    count = fit.prior.count * tells
    return float(count[far].sum()) > 0.5 * float(count.sum())


def learned(fit: RateFit, found: Rates, query_of_stage: Ints) -> Learned:
    """Return what a fit tells of its own, and what it says because of earlier runs."""
    n_phases, n = len(DEVICE), len(fit.keys)
    stage, request = fit.keys // n_phases, _requests(fit.keys % n_phases)
    query = query_of_stage[stage]
    is_short = np.isin(fit.device, list(found.at.log_capacity))
    counts = is_short | (_beside(fit, query) <= ALONE)
    weight = np.where(counts, fit.alike * found.noise**-2, 0.0)
    told = sum_by(fit.key, weight * found.by_rate**2, n)
    whole = sum_by(fit.key, weight, n)
    own = share_of(sum_by(fit.key, weight * found.by_rate, n), whole)
    variance = share_of(np.ones(n), told) + LEAST_ERROR**2
    limited = found.limited | (told == whole)
    rates = KnownRates(stage, query, request, found.at.log_rate, variance)
    sure = (own >= OWN) & (told > 0) & (variance <= SURE**2) & limited
    pull = fit.prior.pull(found.off)
    decided = fit.prior.known & (pull > found.told)
    after = 1.0 / (found.told + 1.0 / fit.prior.variance)
    capacities, recalled = _capacities(fit, found)
    return Learned(
        Known(rates.where(sure & (query >= 0)), capacities),
        Known(rates._replace(variance=after).where(decided), recalled),
    )


def told_alone(tables: Tables, demand: Demand) -> KnownRates:
    """Return own rates of stages where no query ran beside another.

    What tasks did that had a device to themselves is what they can do, whatever load may explain.
    """
    parts, query = [Known().rates], tables.stages["query"].to_numpy(np.int64)
    for request, rates in demand.rates.items():
        stage, seen = rates.stage, np.isfinite(rates.seen)
        spread = np.log(rates.high / rates.low) / (2.0 * MIDDLE)
        noise = demand.devices[request].noise / np.sqrt(rates.tasks)
        every = KnownRates(
            stage, query[stage], np.full(len(stage), REQUESTS.index(request)),
            np.log(np.where(seen, rates.seen, rates.rate)),
            np.where(seen, noise, spread) ** 2 + LEAST_ERROR**2,
        )  # fmt: skip
        parts.append(every.where((rates.identified | seen) & (query[stage] >= 0)))
    return KnownRates(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _beside(fit: RateFit, query: Ints) -> Floats:
    """Mean number of tasks of other queries in the device of its host during each use."""
    start = fit.launches.launch[fit.task]
    end = start + fit.demands.spent[fit.task].sum(axis=1)
    device = fit.device * (int(fit.host.max(initial=0)) + 1) + fit.host
    own = device * (int(query.max(initial=0)) + 2) + query[fit.key] + 1
    return _mean_at_once(device, start, end) - _mean_at_once(own, start, end)


def _mean_at_once(group: Ints, start: Floats, end: Floats) -> Floats:
    """Mean number of rows of its group that are there during each row."""
    found = np.zeros(len(group))
    order = np.argsort(group, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
        for moments, sign in ((start, 1.0), (end, -1.0)):
            ascending = np.sort(moments[rows])
            total = np.append(0.0, np.cumsum(ascending))
            for when, at_end in ((end, 1.0), (start, -1.0)):
                many = np.searchsorted(ascending, when[rows])
                found[rows] += sign * at_end * (many * when[rows] - total[many])
    return share_of(found, end - start)


def _requests(phase: Ints) -> Ints:
    place = np.full(len(DEVICE), -1, np.int64)
    for one, request in REQUESTS_OF.items():
        place[one] = REQUESTS.index(request)
    return place[phase]


def _told_of_capacity(fit: RateFit, found: Rates, device: int) -> float:
    """Return how firmly the tasks tell a capacity, whatever own rates are: 1 / variance."""
    mine = fit.device == device
    part, of = found.by_capacity[mine], fit.alike[mine] * found.noise[mine] ** -2
    mixed = sum_by(fit.key[mine], of * found.by_rate[mine] * part, len(fit.keys))
    curve = found.told + 1.0 / fit.prior.variance
    return float((of * part**2).sum()) - float((mixed**2 / curve).sum())


def _capacities(fit: RateFit, found: Rates) -> tuple[KnownCapacities, KnownCapacities]:
    """Capacities of the hosts that ran something, told by tasks, and decided by earlier runs."""
    hosts = np.unique(fit.host)
    told_by, decided_by = [Known().capacities], [Known().capacities]
    for phase, request in REQUESTS_OF.items():
        device = int(DEVICE[phase])
        if device not in found.at.log_capacity or device in fit.fixed:
            continue
        value = found.at.log_capacity[device] + np.log(found.at.slower[device][hosts])
        told = max(_told_of_capacity(fit, found, device), 0.0)
        first = fit.first_capacity[device]
        _, firm = fit.prior.of_capacity(device, first, found.at.log_capacity[device])
        decided = device in fit.prior.capacity and firm > told
        variance = 1.0 / (told + firm) if decided else 1.0 / (told + CAPACITY_SPREAD**-2)
        variance += LEAST_ERROR**2
        one = KnownCapacities(
            hosts, np.full(len(hosts), REQUESTS.index(request)), value,
            np.full(len(hosts), variance),
        )  # fmt: skip
        if decided:
            decided_by.append(one)
        elif variance <= SURE**2:
            told_by.append(one)
    return _joined(told_by), _joined(decided_by)


def _joined(parts: list[KnownCapacities]) -> KnownCapacities:
    return KnownCapacities(*(np.concatenate(part) for part in zip(*parts, strict=True)))
