"""Estimates what every stage could have done in each device, and what its tasks lost there."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pandas as pd
from threadpoolctl import ThreadpoolController

from iqcar.enums import REQUESTS, DemandEvidence, Request
from iqcar.model.demand.contention import (
    ENOUGH_BYTES,
    ENOUGH_MS,
    Contention,
    StageRates,
    contention,
    usable,
)
from iqcar.model.demand.device import Device, fit_device
from iqcar.model.demand.known import Known, Learned, pair_codes
from iqcar.model.demand.load import Load, joined
from iqcar.tables import Column, TableSpec
from iqcar.tables.arrays import Ints

PRIOR, INFERRED, HISTORY, EXPERIMENT = range(len(DemandEvidence))
_EVIDENCE = "Position of `DemandEvidence`: " + ", ".join(
    f"{code}: {kind}" for code, kind in enumerate(DemandEvidence)
)
MIDDLE = 1.2816
"""Standard deviations of the bounds of the middle 80 %."""

OWN_RATES = TableSpec(
    "own_rates",
    "One row per stage and request: the speed of its tasks when nobody else uses the device.",
    (
        Column("stage", "int32", "row", "The stage."),
        Column("request", "int8", "code", "Position of the request in `REQUESTS`."),
        Column("tasks", "int64", "count", "Tasks that it is estimated from."),
        Column("own_rate", "float64", "units per ms", "Median of the probable own rates."),
        Column("low", "float64", "units per ms", "Lower bound of the middle 80 % of them."),
        Column("high", "float64", "units per ms", "Upper bound of the middle 80 %."),
        Column("identified", "bool", "", "Whether the data tell the rate."),
        Column("evidence", "int8", "code", f"{_EVIDENCE}."),
    ),
)
"""Units are bytes; for the processor ms of CPU time, so that rates are cores."""

CAPACITIES = TableSpec(
    "capacities",
    "One row per host and request: what its device can do.",
    (
        Column("host", "int32", "row", "The machine."),
        Column("request", "int8", "code", "Position of the request in `REQUESTS`."),
        Column("capacity", "float64", "units per ms", "Capacity, else the highest speed seen."),
        Column("identified", "bool", "", "Whether it is a capacity; else it can be any higher."),
        Column("contended", "float64", "", "Probability that a task waited for another there."),
        Column("relative_speed", "float64", "", "Speed of the host relative to the others."),
        Column("noise", "float64", "", "Standard deviation of log speeds within a stage."),
        Column("tasks", "int64", "count", "Tasks that it is estimated from."),
        Column("evidence", "int8", "code", f"{_EVIDENCE}."),
    ),
)


DISK = (Request.IO_READ, Request.IO_WRITE)
"""Requests of one device, which has one capacity for both or two: the data choose."""
ONE_CORE = 1.0
"""Highest own rate of a task at the processor."""
LEAST = {Request.RUN_QUEUE: ENOUGH_MS}
"""Least data of a task whose speed means something, where that is not bytes."""


@dataclass(frozen=True)
class Demand:
    """What tasks could have done in each device, by request; no entry where nothing is known.

    contention: of all tasks: 0 where nothing is known.
    known: what earlier runs told.
    learned: what replays say of own rates and capacities.
    """

    devices: dict[Request, Device] = field(default_factory=dict)
    contention: dict[Request, Contention] = field(default_factory=dict)
    rates: dict[Request, StageRates] = field(default_factory=dict)
    known: Known = field(default_factory=Known)
    learned: Learned = field(default_factory=Learned)

    def capacities(self) -> pd.DataFrame:
        """Return what the device of each host can do, as a frame of :data:`CAPACITIES`."""
        parts = [
            {
                "host": np.arange(len(device.slower)),
                "request": np.full(len(device.slower), REQUESTS.index(request)),
                "capacity": device.per_host,
                "identified": np.full(len(device.slower), device.identified),
                "contended": np.full(len(device.slower), device.contended),
                "relative_speed": np.exp(device.slower),
                "noise": np.full(len(device.slower), device.noise),
                "tasks": np.full(len(device.slower), device.tasks),
                "evidence": np.full(len(device.slower), INFERRED if device.identified else PRIOR),
            }
            for request, device in self.devices.items()
        ]
        if not parts:
            return CAPACITIES.empty()
        columns, known = _stacked(parts), self.learned.recalled.capacities
        at, row = _places(columns["host"], columns["request"], known.host, known.request)
        columns["capacity"][at] = np.exp(known.log_capacity[row])
        measured = np.isin(pair_codes(known.host, known.request), self.known.measured_capacities)
        columns["identified"][at] = True
        columns["evidence"][at] = np.where(measured[row], EXPERIMENT, HISTORY)
        return CAPACITIES.frame(columns)

    def own_rates(self) -> pd.DataFrame:
        """Return the own rates of stages, as a frame of :data:`OWN_RATES`."""
        parts = [
            {
                "stage": rates.stage,
                "request": np.full(len(rates.stage), REQUESTS.index(request)),
                "tasks": rates.tasks,
                "own_rate": rates.rate,
                "low": rates.low,
                "high": rates.high,
                "identified": rates.identified,
                "evidence": np.where(rates.identified, INFERRED, PRIOR),
            }
            for request, rates in self.rates.items()
        ]
        if not parts:
            return OWN_RATES.empty()
        columns, known = _stacked(parts), self.learned.recalled.rates
        at, row = _places(columns["stage"], columns["request"], known.stage, known.request)
        off = MIDDLE * np.sqrt(known.variance[row])
        for name, sign in (("low", -1.0), ("own_rate", 0.0), ("high", 1.0)):
            columns[name][at] = np.exp(known.log_rate[row] + sign * off)
        measured = np.isin(pair_codes(known.stage, known.request), self.known.measured_rates)
        columns["identified"][at] = True
        columns["evidence"][at] = np.where(measured[row], EXPERIMENT, HISTORY)
        return OWN_RATES.frame(columns)


def _places(one: Ints, request: Ints, of: Ints, of_request: Ints) -> tuple[Ints, Ints]:
    """Return rows of the first pairs that are among the second ones, and rows of those."""
    n = len(REQUESTS)
    _, at, row = np.intersect1d(one * n + request, of * n + of_request, return_indices=True)
    return at, row


def _stacked(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def fit_devices(loads: dict[Request, Load], n_hosts: int) -> dict[Request, Device]:
    """Estimate every device that enough tasks used.

    loads: from :func:`iqcar.causes.blame.loads.find_loads`.
    """
    samples = {
        request: load.sample(usable(load, LEAST.get(request, ENOUGH_BYTES)))
        for request, load in loads.items()
    }
    devices = {}
    # Its products of small matrices take up to ten times as long on several threads.
    with _libraries().limit(limits=1, user_api="blas"):
        for request, load in samples.items():
            most = ONE_CORE if request is Request.RUN_QUEUE else np.inf
            device = fit_device(load, n_hosts, most)
            if device is not None:
                devices[request] = device
        disks = [samples[one] for one in DISK if one in samples and len(samples[one].data)]
        one_disk = fit_device(joined(disks), n_hosts) if len(disks) == len(DISK) else None
        apart = sum(devices[one].evidence for one in DISK if one in devices)
        if one_disk is not None and one_disk.evidence >= apart:
            devices |= dict.fromkeys(DISK, one_disk)
    return devices


@cache
def _libraries() -> ThreadpoolController:
    """Find NumPy's library of linear algebra; it takes some ms, so once per process."""
    return ThreadpoolController()


def estimate_demand(loads: dict[Request, Load], devices: dict[Request, Device]) -> Demand:
    """Compute what every task lost in the devices, and the own rates of stages.

    loads: from :func:`iqcar.causes.blame.loads.find_loads`.
    devices: from :func:`fit_devices`, of these tasks or of more on the same hosts.
    """
    found = Demand(devices)
    for request in (one for one in loads if one in devices):
        device, load = devices[request], loads[request]
        rows = usable(load, LEAST.get(request, ENOUGH_BYTES))
        some, found.rates[request] = contention(load, device, rows)
        whole = np.zeros((len(some), len(load.data)))
        whole[:, rows] = some
        found.contention[request] = Contention(*whole)
    return found
