"""Estimates what every stage could have done in each device, and what its tasks lost there.

A task of own rate r whose fair share of the capacity C was less moved data at the share instead of
at ``min(r, C)``: it lost ``1 − share / min(r, C)`` of its time. r is known by probabilities, so the
loss is an expectation. Where load hardly varied, or noise hides what it did, little is said to be
lost: then the shares of sources are known, but not the amount.

A stage is that of an earlier run if its query has the same fingerprint, and it is the n-th of the
query's stages that do the same. Values are natural logarithms of data units per ms.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from threadpoolctl import ThreadpoolController

from iqcar.enums import REQUESTS, DemandEvidence, Request, Resource
from iqcar.model.demand.device import Device, Load, OwnRates, fit_device, joined
from iqcar.tables import Column, Tables, TableSpec, texts
from iqcar.tables.arrays import Flags, Floats, Ints, distinct, share_of

OTHER_HOSTS = 0.3
"""Standard deviation, in log, that an own rate has more on hosts of which none is known."""
BOUNDS = (-12.0, 30.0)
"""Logarithms of what a device or task can be: bytes per ms, or cores."""
CONTRADICTED = (
    "nothing of the {} was used: most queries whose own rates this run tells had others in it"
)
"""Said of the store, or of the file of curves."""
STAGE_KEY = ["fingerprint", "stage", "position", "request"]
HOST_KEY = ["host", "request"]


class KnownRates(NamedTuple):
    """Own rates of stages: rows of the stage and of its query, position of the request."""

    stage: Ints
    query: Ints
    request: Ints
    log_rate: Floats
    variance: Floats

    def where(self, rows: Flags) -> KnownRates:
        """Return some of them."""
        stage, query, request, log_rate, variance = self
        return KnownRates(stage[rows], query[rows], request[rows], log_rate[rows], variance[rows])


class KnownCapacities(NamedTuple):
    """Capacities of devices: row of the host, position of the request."""

    host: Ints
    request: Ints
    log_capacity: Floats
    variance: Floats


_NO_ROWS, _NOTHING = np.zeros(0, np.int64), np.zeros(0)
_NO_RATES = KnownRates(_NO_ROWS, _NO_ROWS, _NO_ROWS, _NOTHING, _NOTHING)
_NO_CAPACITIES = KnownCapacities(_NO_ROWS, _NO_ROWS, _NOTHING, _NOTHING)


@dataclass(frozen=True)
class Known:
    """What is known of the stages and hosts of some tables.

    measured_rates, measured_capacities: pairs of stage, or host, and request that an experiment
        told, as :func:`pair_codes`; earlier runs told the others.
    """

    rates: KnownRates = _NO_RATES
    capacities: KnownCapacities = _NO_CAPACITIES
    measured_rates: Ints = field(default_factory=lambda: _NO_ROWS)
    measured_capacities: Ints = field(default_factory=lambda: _NO_ROWS)

    def __bool__(self) -> bool:
        return bool(len(self.rates.stage) or len(self.capacities.host))

    def over(self, other: Known) -> Known:
        """Return what an experiment told here, and what is known besides."""
        rates, capacities = self.rates, self.capacities
        codes = pair_codes(rates.stage, rates.request)
        hosts = pair_codes(capacities.host, capacities.request)
        rest = other.rates.where(
            ~np.isin(pair_codes(other.rates.stage, other.rates.request), codes)
        )
        kept = ~np.isin(pair_codes(other.capacities.host, other.capacities.request), hosts)
        both = KnownRates(
            np.append(rates.stage, rest.stage), np.append(rates.query, rest.query),
            np.append(rates.request, rest.request), np.append(rates.log_rate, rest.log_rate),
            np.append(rates.variance, rest.variance),
        )  # fmt: skip
        besides = other.capacities
        devices = KnownCapacities(
            np.append(capacities.host, besides.host[kept]),
            np.append(capacities.request, besides.request[kept]),
            np.append(capacities.log_capacity, besides.log_capacity[kept]),
            np.append(capacities.variance, besides.variance[kept]),
        )
        return Known(both, devices, codes, hosts)


def pair_codes(row: Ints, request: Ints) -> Ints:
    """Return one number per stage, or host, and request."""
    return row * len(REQUESTS) + request


@dataclass(frozen=True)
class Learned:
    """What a fit to a run tells.

    told: what the run's own tasks tell.
    recalled: own rates and capacities that earlier runs decided; means and variances afterwards.
    refused: whether the run contradicts what earlier runs told, so that nothing of it was used.
    """

    told: Known = field(default_factory=Known)
    recalled: Known = field(default_factory=Known)
    refused: bool = False


@dataclass(frozen=True)
class Recalled:
    """What a store holds of the recurring queries and hosts of some runs, earlier runs merged.

    rates: columns `STAGE_KEY`, ``log_value`` and ``variance``; capacities: `HOST_KEY` and these.
    same_hosts: whether the store knows any of the hosts.
    doubts: what was ignored, in sentences.
    """

    rates: pd.DataFrame
    capacities: pd.DataFrame
    same_hosts: bool
    doubts: tuple[str, ...] = ()

    def of(self, tables: Tables) -> Known:
        """Return what is known of the stages and hosts of some tables."""
        stages = stage_keys(tables).merge(_numbered(self.rates), on=STAGE_KEY[:3])
        names = pd.DataFrame({"host": texts(tables.hosts, "host")}).reset_index(names="row")
        hosts = names.merge(_numbered(self.capacities), on="host")
        variance = stages["variance"].to_numpy(np.float64)
        if not self.same_hosts:
            variance = variance + OTHER_HOSTS**2

        def rows(frame: pd.DataFrame, name: str) -> Ints:
            numbers: Ints = frame[name].to_numpy(np.int64)
            return numbers

        return Known(
            KnownRates(
                rows(stages, "row"), rows(stages, "query"), rows(stages, "request"),
                stages["log_value"].to_numpy(np.float64), variance,
            ),
            KnownCapacities(
                rows(hosts, "row"), rows(hosts, "request"),
                hosts["log_value"].to_numpy(np.float64), hosts["variance"].to_numpy(np.float64),
            ),
        )  # fmt: skip


def _numbered(frame: pd.DataFrame) -> pd.DataFrame:
    """Name requests by their positions; leave out those of another version."""
    number = frame["request"].map({str(request): n for n, request in enumerate(REQUESTS)})
    return frame.assign(request=number).dropna(subset="request").astype({"request": np.int64})


def stage_keys(tables: Tables) -> pd.DataFrame:
    """Return what tells a stage in every run: ``row``, ``query``, ``fingerprint``, ``stage`` and
    ``position``, of stages that belong to a query with a fingerprint.
    """
    stages = tables.stages
    label, site = texts(stages, "label"), texts(stages, "name")
    query = stages["query"].to_numpy(np.int64)
    prints = np.array([*texts(tables.queries, "fingerprint"), ""], object)
    found = pd.DataFrame(
        {
            "row": np.arange(len(stages)),
            "query": query,
            "fingerprint": prints[query],
            "stage": [own or named for own, named in zip(label, site, strict=True)],
            "id": stages["stage_id"].to_numpy(np.int64),
        }
    )
    found = found[(query >= 0) & (found["fingerprint"] != "").to_numpy()]
    found["position"] = found.groupby(["query", "stage"])["id"].rank("dense").astype(np.int64) - 1
    return found.drop(columns="id")


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

    loads: from :func:`iqcar.causes.blame.attribute.find_loads`.
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

    loads: from :func:`iqcar.causes.blame.attribute.find_loads`.
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


@dataclass(frozen=True)
class OthersCost:
    """What others cost each query.

    lost_ms: (n_queries,), ms; elapsed time that the query would not have taken alone; NaN where no
        replay tells.
    low_ms, high_ms: (n_queries,), ms; bounds of the middle 80 % of what is likely.
    decided_by: for each query, the resource whose use would narrow its range most if it were
        recorded; None where all that is used is recorded.
    to_others: (n_tasks,) by request; part of what each task lost to tasks that it would not have
        lost alone, 0 to 1; NaN where no replay tells.
    to_tasks: (n_tasks,) by request; share of its time in a device that each task lost to tasks; NaN
        where no replay tells.
    from_disk: rows of stages that read from disks, if these were short; others read from elsewhere,
        such as the page cache. Empty where they were not.
    """

    lost_ms: Floats
    low_ms: Floats
    high_ms: Floats
    decided_by: tuple[Resource | None, ...] = ()
    to_others: dict[Request, Floats] = field(default_factory=dict)
    to_tasks: dict[Request, Floats] = field(default_factory=dict)
    from_disk: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
