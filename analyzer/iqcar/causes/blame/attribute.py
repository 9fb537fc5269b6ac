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

import numpy as np
import pandas as pd

from iqcar.causes.blame.blame_doubts import doubts_of
from iqcar.causes.blame.blame_sources import BlameShares, Ledger, SweepInput, name_sources
from iqcar.causes.blame.blame_tables import DEMANDS, FOLDED, SOURCES
from iqcar.causes.blame.cached_blame import cached_shares
from iqcar.causes.blame.demand_weights import stage_losses, weigh_demands
from iqcar.causes.blame.executor_blame import executor_sweep_input
from iqcar.causes.blame.folding import MOST_SOURCES
from iqcar.causes.blame.loads import find_loads, is_estimated
from iqcar.causes.blame.lock_blame import lock_shares
from iqcar.causes.blame.others_parts import as_replayed, parts_of_others, room_of
from iqcar.causes.blame.ratp import (
    BYTES_REQUESTS,
    ROUNDING,
    Loss,
    measure_loss,
    most_explicable,
    share_of_executors,
    used_share,
)
from iqcar.causes.blame.task_intervals import BlameColumns, DomainSchedules, Pieces
from iqcar.causes.blame.usage_sweep import usage_during
from iqcar.enums import REQUESTS, Domain, Request
from iqcar.model.demand.contention import Contention
from iqcar.model.demand.device import Device
from iqcar.model.demand.estimate import Demand, estimate_demand, fit_devices
from iqcar.model.demand.others_cost import OthersCost
from iqcar.model.waits.columns import ESTIMATED, evidence_column
from iqcar.tables import Tables, TableSpec
from iqcar.tables.arrays import Flags, Floats, Ints, Schedule, share_of, sum_by


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
