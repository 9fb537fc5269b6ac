"""Divides each demand's loss among source stages, for one batch of target queries at a time.

The largest source queries of each target query are named; the others are summed in one row of the
kind REST per demand. The sums of a source in REST rows are kept in
:data:`iqcar.causes.blame.demand_weights.FOLDED`.

A replay tells which part of a wait for slots others cost. What they cost beyond the slots that
they held meanwhile, they cost by slowing the query's own tasks, which held the rest: on a disk,
say, that they use from another application. It is handed to those who cost the same stage time in
devices.

The blame of source queries for target queries is a matrix: for 2,000 concurrent queries it has 4
million cells per request and host. Only the largest sources of each target are kept. To select
them, all cells of a batch of targets are computed, and the others are summed before the next batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from iqcar.causes.blame.demand_weights import (
    FOLDED,
    KNOWN,
    OWN,
    QUERY,
    RESOURCES,
    REST,
    SOURCES,
    UNATTRIBUTED,
    DemandWeights,
)
from iqcar.causes.blame.ratp import ROUNDING
from iqcar.causes.blame.sweep import pair_integrals, pairs_of_groups
from iqcar.enums import Request
from iqcar.model.waits.columns import LAUNCH_REQUESTS
from iqcar.tables import NONE, Tables, recurring_queries
from iqcar.tables.arrays import Flags, Floats, Ints, Schedule, share_of, sum_by


class SourceEntries(NamedTuple):
    """Blame of source stages for demands: columns with one entry per pair.

    beyond: (n_entries,), ms; the part of ``lost`` that others cost beyond what they held.
    """

    demand: Ints
    kind: Ints
    stage: Ints
    beta: Floats
    lost: Floats
    idle: Floats
    beyond: Floats

    def some(self, kept: Flags) -> SourceEntries:
        """Return the entries that are marked."""
        columns: list[NDArray[Any]] = [column[kept] for column in self]
        return SourceEntries(*columns)


def held_longer(group: Ints, own: Flags, held: Floats, lost: Floats, to_others: Floats) -> Floats:
    """Return which part of each entry is what others cost beyond what they held.

    It is in the entries of others, or in the own ones where others held nothing. Shape
    (n_entries,).

    group, own: (n_entries,), the target, and whether the source is its own query.
    held, lost: (n_entries,), losses by who held the resource, and by what others cost.
    to_others: (n_groups,), what others cost; NaN where that is not known.
    """
    n = len(to_others)
    of_own, of_others, given = (
        sum_by(group[mine], of[mine], n) for of, mine in ((held, own), (held, ~own), (lost, ~own))
    )
    cost, in_own = np.minimum(to_others, of_own + of_others), of_others <= 0
    excess = np.where(cost > of_others, cost - of_others, 0.0)
    part = share_of(excess, np.where(in_own, of_own, given))
    return np.where(own == in_own[group], lost * part[group], 0.0)


def hand_over(
    slots: SourceEntries, devices: Sequence[SourceEntries], takes: Flags, stage: Ints
) -> tuple[SourceEntries, list[SourceEntries], Floats]:
    """Move what others cost beyond the slots that they held to what they cost in devices.

    Where they cost a stage nothing there, and held no slots either, nobody is named for it. The
    blame β stays where the wait is.

    takes: (n_demands,); whether what others cost is known of the demand.
    stage: (n_demands,); row of its target stage.

    Returns the entries, which sum to less where nobody is named, and the task time that each demand
    lost more, in ms, which sums to 0 over the demands of a stage.
    """
    n, n_stages = len(stage), int(stage.max(initial=-1)) + 1
    taking = [(one.kind == QUERY) & takes[one.demand] for one in devices]
    room = np.zeros(n_stages)
    for one, mine in zip(devices, taking, strict=True):
        room += sum_by(stage[one.demand[mine]], one.lost[mine], n_stages)
    taken = room[stage[slots.demand]] > 0
    gone = np.where(taken | (slots.kind == OWN), slots.beyond, 0.0)
    handed = np.where(taken, gone, 0.0)
    moved = -sum_by(slots.demand, handed, n)
    left = 1.0 - share_of(gone, slots.lost)
    kept = slots._replace(lost=slots.lost * left, beta=np.where(taken, 1.0, left) * slots.beta)
    factor = 1.0 + share_of(sum_by(stage[slots.demand], handed, n_stages), room)
    more = []
    for one, mine in zip(devices, taking, strict=True):
        lost = np.where(mine, one.lost * factor[stage[one.demand]], one.lost)
        moved += sum_by(one.demand, lost - one.lost, n)
        more.append(one._replace(lost=lost))
    return kept, more, moved


MOST_SOURCES = 20
"""Source queries named per target query. Users read about ten; 2,000 targets of 20 sources each are
30 MB of JSON."""

PAIRS_AT_ONCE = 1_000_000
"""Pairs of a demand and a source stage per batch; at 200 bytes each with intermediate results, they
take 200 MB."""

PAIRS_PER_TASK = 2
"""Pairs per task in a batch, if that is more. Every batch reads all tasks, so with this bound time
is proportional to pairs, and memory to the size of the tables."""

CELLS_PER_ENTRY = 8
"""Cells per entry up to which a table of all cells is cheaper than sorting the entries."""


def beyond_largest(target: Ints, source: Ints, size: Floats, most: int) -> Flags:
    """Mark entries whose source is not among the largest ``most`` sources of their target.

    Shape (n_entries,). A target with at most ``most + 1`` sources has none marked: a rest of a
    single source would hide its name without saving a row.

    target, source: (n_entries,) target and source of each entry, ≥ 0; the entries of a pair are
        summed.
    size: (n_entries,) size of each entry, ≥ 0.
    most: sources kept per target; of equal ones, those with the lowest numbers.
    """
    if not len(target):
        return np.zeros(0, bool)
    owner, _, member = distinct_pairs(target, source)
    total = sum_by(member, size, len(owner))
    begin = np.flatnonzero(np.diff(owner, prepend=-1))
    count = np.diff(begin, append=len(owner))
    marked = np.zeros(len(owner), bool)
    for position in np.flatnonzero(count > most + 1).tolist():
        here = slice(begin[position], begin[position] + count[position])
        marked[here] = ~_largest(total[here], most)
    return marked[member]


def _largest(values: Floats, most: int) -> Flags:
    """Mark the ``most`` largest values, the first of equal ones; there are more than ``most``.

    By partition, because sorting all pairs took longer than computing them.
    """
    place = len(values) - most
    bound = np.partition(values, place)[place]
    kept: Flags = values > bound
    equal = np.flatnonzero(values == bound)
    kept[equal[: most - np.count_nonzero(kept)]] = True
    return kept


def distinct_pairs(target: Ints, source: Ints) -> tuple[Ints, Ints, Ints]:
    """Return targets and sources of distinct pairs in order, and each entry's position there."""
    first = int(target.min()) if len(target) else 0
    width = int(source.max(initial=0)) + 1
    key = (target - first) * width + source
    cells = (int(target.max(initial=first)) - first + 1) * width
    if cells <= CELLS_PER_ENTRY * len(key):
        present = np.zeros(cells, bool)
        present[key] = True
        pairs, member = np.flatnonzero(present), np.cumsum(present)[key] - 1
    else:
        pairs, member = np.unique(key, return_inverse=True)
    return pairs // width + first, pairs % width, member


def batches(owner: Ints, cost: Floats, most: float) -> list[Flags]:
    """Divide groups into batches of bounded cost; all groups of an owner are in one batch.

    Flags of the groups in each batch; one batch with all groups if they cost at most
    ``most``.

    owner: (n_groups,).
    cost: (n_groups,).
    most: maximum cost of a batch; an owner whose groups cost more has a batch of its own.
    """
    if float(cost.sum()) <= most:
        return [np.ones(len(owner), bool)]
    owners, member = np.unique(owner, return_inverse=True)
    batch = np.zeros(len(owners), np.int64)
    number, spent = 0, 0.0
    for at, owner_cost in enumerate(np.bincount(member, cost, len(owners)).tolist()):
        if spent > 0 and spent + owner_cost > most:
            number, spent = number + 1, 0.0
        batch[at] = number
        spent += owner_cost
    return [batch[member] == n for n in range(number + 1)]


@dataclass(frozen=True)
class SweepInput:
    """Input of the sweep for one request: events, rates as sources, weights as targets.

    The columns are in the order of ``events.row``.
    """

    events: Schedule
    rate: Floats
    source: Ints
    weights: tuple[Floats, Floats]
    group: Ints
    one_domain: bool
    sources: int = 0
    """Numbers that sources can have; 0 for one per stage. Those beyond the stages are of the same
    stages again, with slots that were idle."""

    @classmethod
    def from_tasks(
        cls,
        events: Schedule,
        columns: tuple[Floats, Ints, tuple[Floats, Floats], Ints],
        *,
        one_domain: bool,
        sources: int = 0,
    ) -> SweepInput:
        """Sort rate, source, weights and group of tasks, of shape (n_tasks,), like the events."""
        rate, source, (first, second), group = columns
        row = events.row
        weights = first[row], second[row]
        return cls(
            events=events, rate=rate[row], source=source[row], weights=weights, group=group[row],
            one_domain=one_domain, sources=sources,
        )  # fmt: skip


@dataclass(frozen=True)
class BlameShares:
    """Input to divide the losses to one request among sources.

    own_beta, own_lost: (n_groups,) blame and lost ms of tasks on themselves, which the sweep
        includes.
    raw, room: (n_tasks,) Σ raw β, and the slowdown that sources can explain.
    to_others: (n_groups,) blame and lost ms that other queries cost, NaN where that is not known;
        None where the overlaps tell.
    """

    sweep: SweepInput
    own_beta: Floats
    own_lost: Floats
    raw: Floats
    room: Floats
    to_others: tuple[Floats, ...] | None = None


@dataclass(frozen=True)
class Ledger:
    """Losses of one request's demands, and the input to divide them among sources.

    demand_of: (n_groups,) row of the group's demand; −1 where no task waited.
    first: row of the request's first demand.
    slowdown, lost, known, known_lost: (n_demands_of_request,) Σ S, task time lost in ms, and the
        parts of both with a known cause.
    """

    request: Request
    shares: BlameShares
    demand_of: Ints
    first: int
    slowdown: Floats
    lost: Floats
    known: Floats
    known_lost: Floats


def name_sources(
    ledgers: Sequence[Ledger],
    stage_of_group: Ints,
    tables: Tables,
    weights: DemandWeights,
    most: int | None,
) -> tuple[list[pd.DataFrame], pd.DataFrame, Floats]:
    """Divide the losses of demands among their sources.

    stage_of_group: (n_groups,) row of the target stage.
    most: source queries named per target query; None for all.

    What is returned:
    sources: list of frame of `SOURCES`; one per ledger.
    folded: frame of `FOLDED`.
    moved: (n_demands,), ms; what each demand lost more than its tasks did in it, because it made
        them wait longer for slots; these lost as much less.
    """
    query = tables.stages["query"].to_numpy(np.int64)
    rest = _Rest(query, recurring_queries(tables), weights)
    found: list[list[SourceEntries]] = [[] for _ in ledgers]
    given = [(np.zeros(len(ledger.lost)), np.zeros(len(ledger.lost))) for ledger in ledgers]
    stage, told = _of_demands(ledgers, stage_of_group)
    moved = np.zeros(len(stage))
    for batch in _batches(ledgers, stage_of_group, query, len(tables.queries), most):
        every = [_entries(ledger, stage_of_group, query, batch) for ledger in ledgers]
        every, more = _handed_over(ledgers, every, stage, told)
        moved += more
        for ledger, (beta, lost), entries in zip(ledgers, given, every, strict=True):
            beta += sum_by(entries.demand - ledger.first, entries.beta, len(beta))
            lost += sum_by(entries.demand - ledger.first, entries.lost, len(lost))
        if most is not None:
            every = rest.fold(ledgers, every, stage_of_group, most)
        for parts, entries in zip(found, every, strict=True):
            parts.append(entries)
    frames = [
        _frame(ledger, moved, parts, *sums)
        for ledger, parts, sums in zip(ledgers, found, given, strict=True)
    ]
    return frames, rest.table(), moved


def _of_demands(ledgers: Sequence[Ledger], stage_of_group: Ints) -> tuple[Ints, Flags]:
    """Return the target stage of each demand, and whether it is known what others cost it."""
    n = sum(len(ledger.lost) for ledger in ledgers)
    stage, told = np.zeros(n, np.int64), np.zeros(n, bool)
    for ledger in ledgers:
        groups = np.flatnonzero(ledger.demand_of >= 0)
        stage[ledger.demand_of[groups]] = stage_of_group[groups]
        if ledger.shares.to_others is not None:
            told[ledger.demand_of[groups]] = np.isfinite(ledger.shares.to_others[1][groups])
    return stage, told


def _handed_over(
    ledgers: Sequence[Ledger], every: list[SourceEntries], stage: Ints, told: Flags
) -> tuple[list[SourceEntries], Floats]:
    """Hand over waits for slots that a query's own tasks held longer, to the entries of devices."""
    requests = [ledger.request for ledger in ledgers]
    slots = requests.index(Request.SLOT_WAIT) if Request.SLOT_WAIT in requests else NONE
    if slots == NONE or not every[slots].beyond.any():
        return every, np.zeros(len(stage))
    devices = [at for at, one in enumerate(requests) if one not in LAUNCH_REQUESTS]
    kept, more, moved = hand_over(every[slots], [every[at] for at in devices], told, stage)
    new = dict(zip((slots, *devices), (kept, *more), strict=True))
    return [new.get(at, one) for at, one in enumerate(every)], moved


def _batches(
    ledgers: Sequence[Ledger], stage_of_group: Ints, query: Ints, queries: int, most: int | None
) -> list[Flags]:
    """Divide the groups, by target query, into batches whose pairs fit in memory."""
    if most is None or queries <= most + 1:
        return [np.ones(len(stage_of_group), bool)]
    cost, pieces = np.zeros(len(stage_of_group)), 0
    for ledger in ledgers:
        sweep = ledger.shares.sweep
        cost += pairs_of_groups(
            sweep.events, sweep.rate, sweep.source, weight=sweep.weights[0], group=sweep.group,
            n_sources=max(sweep.sources, len(query)), n_groups=len(stage_of_group),
        )  # fmt: skip
        pieces = max(pieces, len(sweep.rate))
    owner = query[stage_of_group]
    owner = np.where(owner >= 0, owner, queries + stage_of_group)
    return batches(owner, cost, max(PAIRS_AT_ONCE, PAIRS_PER_TASK * pieces))


def _entries(ledger: Ledger, stage_of_group: Ints, query: Ints, batch: Flags) -> SourceEntries:
    """Compute the blame of pairs of some groups, without the blame of tasks on themselves."""
    sweep = ledger.shares.sweep
    first, second = sweep.weights
    if not batch.all():
        first = np.where(batch[sweep.group], first, 0.0)
    group, source, beta, lost = pair_integrals(
        sweep.events, sweep.rate, sweep.source, weights=(first, second), group=sweep.group,
        n_sources=max(sweep.sources, len(query)), n_groups=len(stage_of_group),
        one_domain=sweep.one_domain,
    )  # fmt: skip
    idle = np.zeros(len(lost))
    if sweep.sources:
        idle = np.where(source >= len(query), lost, 0.0)
        group, source, pair = distinct_pairs(group, source % len(query))
        beta, lost, idle = (sum_by(pair, each, len(group)) for each in (beta, lost, idle))
    own_stage = stage_of_group[group] == source
    beta = _without(beta, np.where(own_stage, ledger.shares.own_beta[group], 0.0))
    lost = _without(lost, np.where(own_stage, ledger.shares.own_lost[group], 0.0))
    lost = np.where(beta > 0, lost, 0.0)
    target = stage_of_group[group]
    own = (target == source) | ((query[target] == query[source]) & (query[source] != NONE))
    beyond = np.zeros(len(lost))
    if ledger.shares.to_others is not None:
        # What the query would have lost alone is its own, whoever was there.
        alone = np.setdiff1d(group[~own], group[own])
        none = np.zeros(len(alone))
        group, source = np.append(group, alone), np.append(source, stage_of_group[alone])
        own = np.append(own, np.ones(len(alone), bool))
        beta = _divided(group, own, np.append(beta, none), ledger.shares.to_others[0])
        held, to_others = np.append(lost, none), ledger.shares.to_others[1]
        lost, idle = _divided(group, own, held, to_others), np.append(idle, none)
        beyond = held_longer(group, own, held, lost, to_others)
    kind = np.where(own, OWN, QUERY)
    entries = SourceEntries(
        demand=ledger.demand_of[group], kind=kind, stage=source, beta=beta, lost=lost, idle=idle,
        beyond=beyond,
    )  # fmt: skip
    return entries.some(beta > 0)


def _divided(group: Ints, own: Flags, part: Floats, to_others: Floats) -> Floats:
    """Scale the parts of a group's own query and of others, so that others have their sum.

    What others have less is the query's own. A group whose sum is NaN keeps its parts; the sum over
    a group does not change.
    """
    n = len(to_others)
    of_own, of_others = sum_by(group[own], part[own], n), sum_by(group[~own], part[~own], n)
    known = (of_others > 0) & np.isfinite(to_others)
    others = np.where(known, np.minimum(to_others, of_own + of_others), of_others)
    rest, scale = of_own + of_others - others, share_of(others, of_others)
    # Where nothing is its own, a single entry of no size takes what the others have less.
    whole = np.where(of_own > 0, share_of(rest, of_own), 0.0)
    first = rest * (of_own <= 0) / np.maximum(np.bincount(group[own], minlength=n), 1)
    return np.where(own, part * whole[group] + first[group], part * scale[group])


def _without(total: Floats, itself: Floats) -> Floats:
    """Subtract the blame of tasks on themselves, and drop what is only rounding."""
    rest = total - itself
    return np.where(rest > ROUNDING * total, rest, 0.0)


def _frame(
    ledger: Ledger, moved: Floats, parts: list[SourceEntries], beta: Floats, lost: Floats
) -> pd.DataFrame:
    """Return the sources of one request: named, REST, known causes and unattributed."""
    each = ledger.first + np.arange(len(ledger.lost))
    whole = ledger.lost + moved[each]
    nobody = np.full(len(each), NONE)
    left = ledger.slowdown - ledger.known - beta
    left_lost = whole - ledger.known_lost - lost
    none = np.zeros(len(each))
    known = SourceEntries(
        demand=each, kind=np.full(len(each), KNOWN), stage=nobody, beta=ledger.known,
        lost=ledger.known_lost, idle=none, beyond=none,
    )  # fmt: skip
    unattributed = SourceEntries(
        demand=each, kind=np.full(len(each), UNATTRIBUTED), stage=nobody,
        beta=np.where(left > ROUNDING * ledger.slowdown, left, 0),
        lost=np.where(left_lost > ROUNDING * ledger.lost, left_lost, 0), idle=none, beyond=none,
    )  # fmt: skip
    columns = [np.concatenate(column) for column in zip(*parts, known, unattributed, strict=True)]
    return SOURCES.frame(dict(zip(SOURCES.column_names(), columns[:-1], strict=True)))


class _Rest:
    """Folds the small sources of targets into REST, and sums what was folded per source."""

    def __init__(self, query: Ints, recurring: Ints, weights: DemandWeights) -> None:
        queries = len(recurring)
        self._query, self._queries, self._weights = query, queries, weights
        self._recurring_of, self._recurring = recurring, np.zeros(queries)
        self._any = False
        self._sources, self._victims = np.zeros(queries, np.int64), np.zeros(queries, np.int64)
        self._worst, self._worst_lost = np.full(queries, NONE), np.zeros(queries)
        self._dor = np.zeros(queries)
        self._lost = np.zeros((queries, len(RESOURCES)))

    def fold(
        self, ledgers: Sequence[Ledger], every: list[SourceEntries], stage_of_group: Ints, most: int
    ) -> list[SourceEntries]:
        """Replace the entries of small sources by one REST entry per demand."""
        size = np.array([len(entries.demand) for entries in every], np.int64)
        if not size.any():
            return every
        merged = SourceEntries(*(np.concatenate(column) for column in zip(*every, strict=True)))
        query_of_demand = np.full(len(self._weights.lost_ms), NONE)
        for ledger in ledgers:
            groups = np.flatnonzero(ledger.demand_of >= 0)
            query_of_demand[ledger.demand_of[groups]] = self._query[stage_of_group[groups]]
        target = query_of_demand[merged.demand]
        # Stages without a query cannot be named: together they count as one source.
        source = np.where(self._query >= 0, self._query, self._queries)[merged.stage]
        total = np.concatenate([ledger.lost for ledger in ledgers])
        lost = self._weights.lost_ms[merged.demand] * share_of(merged.lost, total[merged.demand])
        others = np.flatnonzero((merged.kind == QUERY) & (target >= 0))
        small = np.zeros(len(target), bool)
        small[others] = beyond_largest(target[others], source[others], lost[others], most)
        if not small.any():
            return every
        resource = np.array([RESOURCES.index(ledger.request.resource) for ledger in ledgers])
        dor = self._weights.dor[merged.demand] * share_of(merged.lost, total[merged.demand])
        at = np.flatnonzero(small)
        self._count(target[at], source[at], lost[at], dor[at], np.repeat(resource, size)[at])
        each = np.split(small, np.cumsum(size)[:-1])
        return [_with_rest(entries, folded) for entries, folded in zip(every, each, strict=True)]

    def _count(self, target: Ints, source: Ints, lost: Floats, dor: Floats, resource: Ints) -> None:
        self._any = True
        of_target, of_source, member = distinct_pairs(target, source)
        pair_lost = sum_by(member, lost, len(of_target))
        named = of_source < self._queries
        self._sources += np.bincount(of_target, minlength=self._queries)
        of_target, of_source, pair_lost = of_target[named], of_source[named], pair_lost[named]
        self._victims += np.bincount(of_source, minlength=self._queries)
        same = self._recurring_of[of_source] == self._recurring_of[of_target]
        self._recurring += sum_by(of_source[same], pair_lost[same], self._queries)
        worst, worst_lost = np.full(self._queries, NONE), np.full(self._queries, -1.0)
        np.maximum.at(worst_lost, of_source, pair_lost)
        largest = pair_lost == worst_lost[of_source]
        worst[of_source[largest]] = of_target[largest]
        more = worst_lost > np.where(self._worst >= 0, self._worst_lost, -1.0)
        self._worst = np.where(more, worst, self._worst)
        self._worst_lost = np.where(more, worst_lost, self._worst_lost)
        known = source < self._queries
        self._dor += sum_by(source[known], dor[known], self._queries)
        cell = source[known] * len(RESOURCES) + resource[known]
        size = self._queries * len(RESOURCES)
        self._lost += sum_by(cell, lost[known], size).reshape(self._lost.shape)

    def table(self) -> pd.DataFrame:
        """Return the sums of what was folded, by source query; no rows if nothing was."""
        if not self._any:
            return FOLDED.empty()
        by_resource = {f"{r}_lost_ms": self._lost[:, code] for code, r in enumerate(RESOURCES)}
        return FOLDED.frame(
            {
                "sources": self._sources,
                "victims": self._victims,
                "worst_victim": self._worst,
                "worst_lost_ms": self._worst_lost,
                "dor": self._dor,
                "lost_ms": self._lost.sum(axis=1),
                "recurring_ms": self._recurring,
                **by_resource,
            }
        )


def _with_rest(entries: SourceEntries, small: Flags) -> SourceEntries:
    """Replace the small entries of each demand by one REST entry."""
    owner = entries.demand[small]
    size = int(owner.max(initial=-1)) + 1
    demand = np.flatnonzero(np.bincount(owner, minlength=size))
    rest = SourceEntries(
        demand=demand, kind=np.full(len(demand), REST), stage=np.full(len(demand), NONE),
        beta=sum_by(owner, entries.beta[small], size)[demand],
        lost=sum_by(owner, entries.lost[small], size)[demand],
        idle=sum_by(owner, entries.idle[small], size)[demand], beyond=np.zeros(len(demand)),
    )  # fmt: skip
    kept = entries.some(~small)
    return SourceEntries(*(np.concatenate(pair) for pair in zip(kept, rest, strict=True)))
