"""Computes the blame of every target stage on every source stage (iQCAR §4, appendix A).

For a target task tt and a source task st in the same contention domain::

    β(st→tt) = overlap / T_tt · u_st · C_h / c_tt          (eq. 6; u_st = c_st / C_h)

The target's factors come from :mod:`iqcar.causes.blame.ratp`, the source's u_st from
:mod:`iqcar.causes.blame.ratp`. A slowdown is divided into its known part, the sources'
parts (scaled down where they would exceed the rest), and the unattributed remainder (eq. 4). A
sweep over time (:mod:`iqcar.causes.blame.sweep`) computes sums over pairs of tasks without
enumerating pairs.

Paper: iQCAR | §4, appendix A | leaves it: time lost against what a task needs alone |
  tests/causes/blame/test_blame.py
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.causes.blame.blame_sources import (
    MOST_SOURCES,
    BlameShares,
    Ledger,
    SweepInput,
    name_sources,
)
from iqcar.causes.blame.demand_weights import DEMANDS, FOLDED, SOURCES, stage_losses, weigh_demands
from iqcar.causes.blame.held_blame import cached_shares, executor_sweep_input, lock_shares
from iqcar.causes.blame.ratp import (
    BYTES_REQUESTS,
    ONE_DEVICE,
    ROUNDING,
    Loss,
    data_processed,
    doubts_of,
    measure_loss,
    most_explicable,
    share_of_executors,
    used_share,
)
from iqcar.causes.blame.task_intervals import SHORTEST_MS, BlameColumns, DomainSchedules, Pieces
from iqcar.causes.blame.usage_sweep import mean_of_others, usage_during
from iqcar.enums import REQUESTS, Domain, Request, Resource
from iqcar.model.demand.device import Device, Load
from iqcar.model.demand.estimate import (
    NEGLIGIBLE,
    Contention,
    Demand,
    OthersCost,
    estimate_demand,
    fit_devices,
)
from iqcar.model.waits.columns import ESTIMATED, evidence_column
from iqcar.tables import Tables, TableSpec
from iqcar.tables.arrays import Flags, Floats, Ints, Schedule, positive_or_zero, share_of, sum_by

FACTORS = 8
"""Times that the factors of queries are refined: parts are at most 1."""


def room_of(loss: Loss) -> Floats:
    """Return the slowdown of each task that has no known cause."""
    room = loss.slowdown - loss.known
    return np.where(room > ROUNDING * loss.slowdown, room, 0.0)


def as_replayed(demand: Demand, cost: OthersCost) -> Demand:
    """Take from replays what tasks lost in devices, where these tell, and who used no disk."""
    contention = {}
    for request, found in demand.contention.items():
        lost = cost.to_tasks[request]
        lost = np.where(np.isnan(lost), found.to_tasks, lost)
        contention[request] = found._replace(to_tasks=lost)
    devices, rates, read = dict(demand.devices), dict(demand.rates), Request.IO_READ
    if len(cost.from_disk) and read in rates:
        device, of = devices[read], rates[read]
        shared = np.isin(of.stage, cost.from_disk).astype(np.float64)
        rates[read] = of._replace(shared=shared)
        devices[read] = device._replace(contended=max(device.contended, NEGLIGIBLE))
    return replace(demand, contention=contention, devices=devices, rates=rates)


def parts_of_others(
    columns: BlameColumns, waits: pd.DataFrame, demand: Demand, cost: OthersCost
) -> dict[Request, Floats]:
    """Return the part of each task's loss that others cost, so that queries lost what they did.

    A replay tells how much longer each query took, and each of its tasks; a query's loss is summed
    from its tasks by the time that their stages take. One factor a query makes the sums agree.
    """
    tables, stage = columns.tables, columns.stage
    losses = stage_losses(tables, waits, np.zeros(len(tables.stages)))
    weight = share_of(losses["elapsed_ms"].to_numpy(), losses["life_ms"].to_numpy())
    query = np.where(stage >= 0, tables.stages["query"].to_numpy(np.int64)[stage], -1)
    n, parts, lost = len(tables.queries), {}, {}
    for request, part in cost.to_others.items():
        loss = measure_loss(columns, request, demand.contention)
        explicable = np.minimum(
            room_of(loss), most_explicable(columns, loss, demand.contention.get(request))
        )
        of_tasks = loss.lost * share_of(explicable, loss.slowdown) * weight[stage]
        known = (query >= 0) & (part > 0) & (of_tasks > 0)
        parts[request] = np.where(np.isnan(part), np.nan, np.where(known, part, 0.0))
        lost[request] = of_tasks
    factor = np.ones(n)
    for _ in range(FACTORS):
        said = np.zeros(n)
        for request, part in parts.items():
            mine = np.flatnonzero(part > 0)
            of_task = lost[request][mine] * np.minimum(part[mine] * factor[query[mine]], 1.0)
            said += sum_by(query[mine], of_task, n)
        wanted = np.where(np.isfinite(cost.lost_ms), cost.lost_ms, said)
        factor = np.where(said > 0, factor * share_of(wanted, said), factor)
    known = query >= 0
    return {
        request: np.where(known, np.minimum(part * factor[np.maximum(query, 0)], 1.0), part)
        for request, part in parts.items()
    }


OCTAVES = 1
"""Octaves between the speeds at which the use by others is computed; two rank sources worse. They
are powers of two, so that logs that are read apart agree."""
SPEEDS = (2.0**4, 2.0**24)
"""Speeds in bytes per ms within which they lie: 16 KB/s to 16 GB/s."""
CORES = (2.0**-10, 1.0)
"""The same for the processor, in cores."""


def find_loads(pieces: Pieces, schedules: DomainSchedules) -> dict[Request, Load]:
    """Compute the load of the devices in which waiting is not the same as contention.

    These are disks and network, and the processor where the wait for it is estimated. One row per
    task.

    pieces: tasks, in pieces where profiles tell when they used a device.
    schedules: starts and ends of these pieces.
    """
    columns = pieces.columns
    found: dict[Request, Load] = {}
    by_device: dict[tuple[Request, ...], Load] = {}
    for request in BYTES_REQUESTS:
        device = ONE_DEVICE[request]
        if device not in by_device:
            nothing = np.zeros(len(pieces.span))
            moved = sum((positive_or_zero(data_processed(pieces, r)) for r in device), nothing)
            waited = sum((positive_or_zero(pieces.wait(r)) for r in device), nothing)
            by_device[device] = _load(pieces, schedules, moved, waited)
        found[request] = by_device[device]._replace(
            data=positive_or_zero(data_processed(columns, request)),
            wait_ms=positive_or_zero(columns.wait(request)),
        )
    estimated = is_estimated(columns)
    if estimated.any():
        cpu, wait_ms = (
            positive_or_zero(values)
            for values in (pieces.compute(), pieces.wait(Request.RUN_QUEUE))
        )
        load = _load(pieces, schedules, cpu, cpu + wait_ms, CORES)
        found[Request.RUN_QUEUE] = load._replace(data=np.where(estimated, load.data, 0.0))
    return found


def is_estimated(columns: BlameColumns) -> Flags:
    """Mark tasks whose wait for the processor is what nothing else explains."""
    flags: Flags = columns.waits[evidence_column(Request.RUN_QUEUE)].to_numpy() == ESTIMATED
    return flags


def _levels(speeds: Floats, band: tuple[float, float]) -> Floats:
    """Return the powers of two around all speeds, as far as they lie within the band."""
    low, high = np.log2(np.clip([speeds.min(initial=np.inf), speeds.max(initial=0.0)], *band))
    if low > high:
        return np.ones(1)
    powers = np.arange(np.floor(low / OCTAVES), np.ceil(high / OCTAVES) + 1) * OCTAVES
    levels: Floats = np.exp2(powers)
    return levels


def _load(
    pieces: Pieces,
    schedules: DomainSchedules,
    data: Floats,
    wait_ms: Floats,
    band: tuple[float, float] = SPEEDS,
) -> Load:
    """Compute the load of one device; each piece of a task counts by the time in the device."""
    columns, life = pieces.columns, np.maximum(pieces.span, SHORTEST_MS)
    busy = np.minimum(wait_ms / life, 1.0)
    speed = share_of(data, wait_ms)
    levels = _levels(speed[speed > 0], band)
    events = schedules.of(Request.IO_READ)
    others, siblings, taken = mean_of_others(
        events, speed, busy, span=pieces.span, life=life, levels=levels,
        owner=pieces.of_task(columns.owner()),
    )  # fmt: skip
    total_wait = pieces.total(wait_ms)
    of_life = np.minimum(share_of(total_wait, np.maximum(columns.span, SHORTEST_MS)), 1.0)
    if not pieces.undivided:
        weight = share_of(wait_ms, total_wait[pieces.task])
        others, siblings = (pieces.total(weight * tasks) for tasks in (others, siblings))
        taken = np.column_stack([pieces.total(weight * column) for column in taken.T])
    return Load(
        data=pieces.total(data), wait_ms=total_wait, others=others, own=siblings, busy=of_life,
        levels=levels, taken=taken, host=columns.host, stage=columns.stage, launch=columns.launch,
    )  # fmt: skip


@dataclass(frozen=True)
class Blame:
    """Blame of every target stage, as frames.

    demands: frame of `DEMANDS`.
    sources: frame of `SOURCES`; every demand has exactly one known and one unattributed row; the
        rows of a demand sum to the S of its tasks (``beta``) and to its lost time. A row of the
        kind REST sums the source queries that are too small to be named.
    stages: frame of `STAGE_LOSSES`.
    doubts: reasons to doubt these numbers, one sentence each.
    folded: frame of `FOLDED`; per source query, its sums in REST rows; no rows if nothing was
        folded.
    demand: own rates of stages and capacities of devices, which losses are measured against.
    cost: what others cost every query, with its range, where replays tell.
    """

    demands: pd.DataFrame
    sources: pd.DataFrame
    stages: pd.DataFrame
    doubts: tuple[str, ...]
    folded: pd.DataFrame = field(default_factory=FOLDED.empty)
    demand: Demand = field(default_factory=Demand)
    cost: OthersCost | None = None


def attribute(
    tables: Tables,
    waits: pd.DataFrame,
    devices: dict[Request, Device] | None = None,
    most_sources: int | None = MOST_SOURCES,
    critical_path: bool = False,
    demand: Demand | None = None,
    cost: OthersCost | None = None,
) -> Blame:
    """Attribute every stage's waits to the stages that held the resource meanwhile.

    tables: their queries must be identified.
    waits: from :func:`iqcar.model.waits.measure.measure_waits`, one row per row of
    ``tables.tasks``.
    devices: devices of the hosts, if estimated from more than these tables; see
        :func:`iqcar.model.demand.estimate.fit_devices`.
    most_sources: number of source queries named per target query, largest first; the others are
        summed in one REST row per demand. None names all: time and memory then grow with the square
        of the number of queries that run at once.
    critical_path: whether only stages on their query's critical path weigh.
    demand: what tasks need, if known; else estimated from the tables.
    cost: what others cost every query, if replays told; else losses are divided by the load.
    """
    columns = BlameColumns.from_tables(tables, waits)
    tasks, pieces = Pieces.one_each(columns), Pieces.from_intervals(columns)
    schedules = DomainSchedules(pieces)
    if demand is None:
        demand = _demand(tables, pieces, schedules, devices)
    if cost is not None:
        demand = as_replayed(demand, cost)
    accounts = Accounts(columns)
    to_others = {} if cost is None else parts_of_others(columns, waits, demand, cost)
    for request in REQUESTS:
        loss = measure_loss(columns, request, demand.contention)
        if not accounts.waited(loss).any():
            continue
        if request.domain is Domain.CLUSTER:
            accounts.add_executors(loss)
            continue
        if request is Request.MONITOR_BLOCKED:
            accounts.add_locks(loss)
            continue
        if request is Request.STORAGE_MEMORY:
            places = accounts.places
            accounts.add(loss, cached_shares(pieces, loss, places.group, len(places.stage)))
            continue
        parts = tasks if request.domain is Domain.APPLICATION else pieces
        found = demand.contention.get(request)
        room = np.minimum(room_of(loss), most_explicable(columns, loss, found))
        room = room * share_of_executors(parts, request)
        used = used_share(parts, request, demand)
        share = Sharing(parts, loss, schedules.of(request), accounts.places)
        accounts.add(loss, share.out(used, room, found, to_others.get(request)))
    blame = accounts.blame(waits, demand, most_sources, critical_path)
    return replace(blame, cost=cost)


def measure_demand(tables: Tables, waits: pd.DataFrame) -> Demand:
    """Estimate what tasks need in the devices of their hosts; parameters of :func:`attribute`."""
    pieces = Pieces.from_intervals(BlameColumns.from_tables(tables, waits))
    return _demand(tables, pieces, DomainSchedules(pieces))


def _demand(
    tables: Tables,
    pieces: Pieces,
    schedules: DomainSchedules,
    devices: dict[Request, Device] | None = None,
) -> Demand:
    loads = find_loads(pieces, schedules)
    return estimate_demand(loads, devices or fit_devices(loads, len(tables.hosts)))


class Accounts:
    """The demands of one request after another, and the ledgers to divide their losses."""

    def __init__(self, columns: BlameColumns) -> None:
        self.columns, self.places = columns, TargetGroups.from_columns(columns)
        self._demands: list[pd.DataFrame] = []
        self._ledgers: list[Ledger] = []
        self._count = 0

    def waited(self, loss: Loss) -> Flags:
        """Return which tasks of a stage waited or lost time."""
        return ((loss.wait > 0) | (loss.lost > 0)) & (self.columns.stage >= 0)

    def add(self, loss: Loss, shares: BlameShares) -> None:
        """Take in the demands of one request."""
        waited = self.waited(loss)
        demands, ledger = _account(
            self.columns, loss, shares, places=self.places, waited=waited, first=self._count
        )
        self._demands.append(demands)
        self._ledgers.append(ledger)
        self._count += len(demands)

    def add_executors(self, loss: Loss) -> None:
        """Take in waits for executors: who held them explains all that no limit does."""
        nobody = np.zeros(len(self.places.stage))
        sweep = executor_sweep_input(self.columns, loss, self.places.group)
        nothing = np.zeros(len(loss.lost))
        room = loss.slowdown - loss.known
        self.add(loss, BlameShares(sweep, nobody, nobody, raw=nothing, room=room))

    def add_locks(self, loss: Loss) -> None:
        """Take in waits for locks: only who was seen holding them explains them."""
        places = self.places
        self.add(loss, lock_shares(self.columns, loss, places.group, len(places.stage)))

    def blame(
        self, waits: pd.DataFrame, demand: Demand, most_sources: int | None, critical_path: bool
    ) -> Blame:
        """Name the sources of all demands; parameters are those of :func:`attribute`."""
        tables = self.columns.tables
        demands = _joined(self._demands, DEMANDS)
        lost = sum_by(
            demands["stage"].to_numpy(np.int64),
            demands["lost_ms"].to_numpy(np.float64),
            len(tables.stages),
        )
        losses = stage_losses(tables, waits, lost)
        weights = weigh_demands(tables, demands, losses, critical_path)
        sources, folded, moved = name_sources(
            self._ledgers, self.places.stage, tables, weights, most_sources
        )
        demands = demands.assign(lost_ms=np.maximum(demands["lost_ms"] + moved, 0.0))
        return Blame(
            demands=demands, sources=_joined(sources, SOURCES), stages=losses,
            doubts=doubts_of(self.columns, demand, demands), folded=folded, demand=demand,
        )  # fmt: skip


@dataclass(frozen=True)
class TargetGroups:
    """Groups of target tasks, one per (stage, host) with tasks; ``group`` maps task to group."""

    stage: Ints
    host: Ints
    group: Ints

    @classmethod
    def from_columns(cls, columns: BlameColumns) -> TargetGroups:
        """Group the tasks by stage and host."""
        width = len(columns.tables.hosts) + 1
        key = np.maximum(columns.stage, 0) * width + columns.host + 1
        unique, group = np.unique(key, return_inverse=True)
        return cls(unique // width, unique % width - 1, group)

    def total(self, values: Floats) -> Floats:
        """Sum over the tasks of each group."""
        return sum_by(self.group, values, len(self.stage))


@dataclass(frozen=True)
class Sharing:
    """Sums the blame of pieces on pieces (eq. 5; with one piece per task eq. 6).

    Each piece of a target is weighted by the wait in it; conservation holds per task.
    """

    pieces: Pieces
    loss: Loss
    events: Schedule
    places: TargetGroups

    def out(
        self, used: Floats, room: Floats, found: Contention | None, part: Floats | None = None
    ) -> BlameShares:
        """Share the losses to one request out among those who used its resource.

        used: (n_pieces,) u_st of each piece.
        room: (n_tasks,) the slowdown that sources can explain.
        found: what the tasks lost at the request's device, if that is known.
        part: (n_tasks,) the part of it that others cost, if replays told.
        """
        pieces, loss, places = self.pieces, self.loss, self.places
        # A source task without a stage cannot be named: the blame on it stays unattributed.
        stage = pieces.of_task(pieces.columns.stage)
        rate = np.where(stage >= 0, used, 0.0)
        weight, others, itself = self._overlaps(rate)
        raw_parts = others * weight
        raw = pieces.total(raw_parts)
        scale = share_of(room, raw)
        # What was lost in a device is what others cost: they explain all of it, if all are named.
        if (stage < 0).any():
            scale = np.minimum(scale, 1.0)
        elif found is None or loss.request not in BYTES_REQUESTS:
            scale = np.where(self._by_holders(), scale, np.minimum(scale, 1.0))
        beta_weight = np.where(raw_parts > 0, weight * pieces.of_task(scale), 0.0)
        lost_weight = beta_weight * pieces.of_task(share_of(loss.lost, loss.slowdown))
        sweep = SweepInput.from_tasks(
            self.events,
            (rate, stage, (beta_weight, lost_weight), pieces.of_task(places.group)),
            one_domain=loss.request.domain is not Domain.EXECUTOR,
        )
        return BlameShares(
            raw=raw, room=room, sweep=sweep,
            own_beta=places.total(pieces.total(beta_weight * itself)),
            own_lost=places.total(pieces.total(lost_weight * itself)),
            to_others=self._to_others(raw * scale, found, part),
        )  # fmt: skip

    def _by_holders(self) -> Flags:
        """Mark the tasks whose wait was estimated from what others held: they explain it all."""
        codes = self.pieces.columns.waits[evidence_column(self.loss.request)].to_numpy()
        marked: Flags = codes == ESTIMATED
        return marked & (self.loss.request is Request.EXECUTION_MEMORY)

    def _overlaps(self, rate: Floats) -> tuple[Floats, Floats, Floats]:
        """Return each piece's weight as a target, and what others and it itself used meanwhile."""
        pieces, loss = self.pieces, self.loss
        left = room_of(loss)
        is_target = (left > 0) & (loss.span > 0) & (pieces.columns.stage >= 0)
        weight = np.where(is_target, share_of(loss.stretch, loss.span), 0.0)
        weight = pieces.of_task(weight) * pieces.emphasis(loss.request)
        everyone = usage_during(self.events, rate, pieces.of_task(is_target))
        # Pieces of a task do not overlap, so within its task a piece overlaps only with itself.
        alone = loss.request.domain is Domain.APPLICATION
        itself = np.zeros(len(rate)) if alone else rate * pieces.span
        others = everyone - itself
        return weight, np.where(others > ROUNDING * everyone, others, 0.0), itself

    def _to_others(
        self, beta: Floats, found: Contention | None, part: Floats | None
    ) -> tuple[Floats, ...] | None:
        """Return blame and lost ms of each group that other queries cost, NaN where not known."""
        loss, places = self.loss, self.places
        if found is None and part is None:
            return None
        by_load = self._part_by_load(found)
        part = by_load if part is None else np.where(np.isnan(part), by_load, part)
        untold = places.total(np.where((beta > 0) & np.isnan(part), 1.0, 0.0)) > 0
        of_others = beta * np.nan_to_num(part)
        lost = of_others * share_of(loss.lost, loss.slowdown)
        return tuple(np.where(untold, np.nan, places.total(x)) for x in (of_others, lost))

    def _part_by_load(self, found: Contention | None) -> Floats:
        """Return the part of each task's loss that the load says others cost, NaN where unknown."""
        if found is None:
            return np.full(len(self.loss.lost), np.nan)
        part = share_of(found.to_others, found.to_tasks)
        if self.loss.request is not Request.RUN_QUEUE:
            return part
        # A wait that was measured is not divided by the load: whoever held the processor shares it.
        return np.where(is_estimated(self.pieces.columns), part, np.nan)


def _account(
    columns: BlameColumns,
    loss: Loss,
    shares: BlameShares,
    places: TargetGroups,
    waited: Flags,
    first: int,
) -> tuple[pd.DataFrame, Ledger]:
    """Return one request's demands, and the ledger to divide their losses among sources."""
    tasks = places.total(waited.astype(np.float64))
    groups = np.flatnonzero(tasks > 0)
    demand_of = np.full(len(tasks), -1)
    demand_of[groups] = first + np.arange(len(groups))
    stage = places.stage[groups]
    query = columns.tables.stages["query"].to_numpy(np.int64)

    def total(values: Floats) -> Floats:
        return places.total(np.where(waited, values, 0.0))[groups]

    slowdown, lost = total(loss.slowdown), total(loss.lost)
    known = total(loss.known)
    known_lost = total(loss.lost * share_of(loss.known, loss.slowdown))
    time = total(loss.span)
    weighted = total(loss.slowdown * loss.span)
    exceeds = waited & (shares.raw > shares.room) & (shares.room > 0)
    over = places.total(np.where(exceeds, shares.room, 0.0))[groups]
    over_raw = places.total(np.where(exceeds, shares.raw, 0.0))[groups]
    codes = columns.waits[evidence_column(loss.request)].to_numpy(np.int64)
    evidence = np.full(len(tasks), np.iinfo(np.int8).max)
    np.minimum.at(evidence, places.group[waited], codes[waited])
    demands = DEMANDS.frame(
        {
            "stage": stage,
            "query": query[stage],
            "request": np.full(len(groups), REQUESTS.index(loss.request)),
            "host": places.host[groups],
            "tasks": tasks[groups],
            "wait_ms": total(loss.wait),
            "evidence": evidence[groups],
            "ratp": total(loss.ratp),
            "slowdown": np.where(time > 0, share_of(weighted, time), slowdown / tasks[groups]),
            "lost_ms": lost,
            "over_attribution": np.where(over > 0, share_of(over_raw, over), 1.0),
        }
    )
    ledger = Ledger(
        request=loss.request, shares=shares, demand_of=demand_of, first=first, slowdown=slowdown,
        lost=lost, known=known, known_lost=known_lost,
    )  # fmt: skip
    return demands, ledger


def _joined(parts: list[pd.DataFrame], spec: TableSpec) -> pd.DataFrame:
    return pd.concat(parts, ignore_index=True) if parts else spec.empty()


class OthersRange(NamedTuple):
    """Range of what each query lost to others.

    low_ms, high_ms: (n_queries,), ms; NaN where no replay tells.
    decided_by: as in :class:`~iqcar.model.demand.estimate.OthersCost`.
    """

    low_ms: Floats
    high_ms: Floats
    decided_by: tuple[Resource | None, ...]


def range_of_others(
    blame: Blame, lost_ms: Floats, executors_ms: Floats, duration_ms: Floats
) -> OthersRange:
    """Return ranges that hold what is said.

    lost_ms: (n_queries,), ms; what each query is said to have lost to others.
    executors_ms: (n_queries,), ms; the part of it in which it waited for executors: replays keep
        these waits, so they are in no range.
    """
    n, cost = len(lost_ms), blame.cost
    if cost is None:
        unknown = np.full(n, np.nan)
        return OthersRange(unknown, unknown, (None,) * n)
    low = np.minimum(cost.low_ms + executors_ms, lost_ms)
    high = np.maximum(cost.high_ms + executors_ms, lost_ms)
    return OthersRange(
        low,
        np.where(duration_ms > 0, np.fmin(high, duration_ms), high),
        cost.decided_by or (None,) * n,
    )
