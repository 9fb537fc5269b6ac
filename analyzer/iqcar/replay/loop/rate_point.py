"""Declares parameters of a fit of own rates, and how well replays with them are like the record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from iqcar.tables.arrays import Flags, Floats


class RatePoint(NamedTuple):
    """Parameters of a fit.

    log_rate: (n_keys,) own rate of each stage in each phase, in log.
    log_capacity: log capacity of each kind of device that was short.
    slower: (n_hosts,) speed of each host relative to the others, by kind of device.
    faster: log speed by kind of device; stages that are faster bypass it.
    """

    log_rate: Floats
    log_capacity: dict[int, float]
    slower: dict[int, Floats]
    faster: dict[int, float]


@dataclass(frozen=True)
class Rates:
    """A point, and how well replays with it reproduce the record.

    worth: log-posterior, but for a constant.
    told: (n_keys,) how firmly the data tell each own rate: 1 / variance.
    off: (n_keys,) each own rate less the mean of its prior.
    unlike: minus the log-probability of the point by what earlier runs told.
    error: (n_uses,) log of replayed over recorded time.
    by_rate, by_capacity: (n_uses,) parts of the time that own rates and capacities decide.
    noise: (n_uses,) standard deviation of the errors in the device of each.
    limited: (n_keys,) whether a device limits each key; what is faster bypasses it.
    """

    at: RatePoint
    worth: float
    told: Floats
    off: Floats
    unlike: float
    error: Floats
    by_rate: Floats
    by_capacity: Floats
    noise: Floats
    limited: Flags
