"""Who was in the way of each demand: pairs of stages, a batch of targets at a time.

The largest source queries of each target query are named, the others summed in one row of the kind
REST per demand (:mod:`iqcar.blame.folding`); what each source loses by that is kept in
:data:`iqcar.blame.blame_tables.FOLDED`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from iqcar.blame.blame_tables import FOLDED, KNOWN, OWN, QUERY, REST, SOURCES, UNATTRIBUTED
from iqcar.blame.folding import (
    PAIRS_AT_ONCE,
    PAIRS_PER_TASK,
    batches,
    beyond_largest,
    distinct_pairs,
)
from iqcar.blame.ratp import ROUNDING
from iqcar.blame.sweep import pair_integrals, pairs_of_groups
from iqcar.enums import Resource
from iqcar.tables import NONE, recurring_queries
from iqcar.tables.arrays import share_of, sum_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from iqcar.blame.folding import Reach
    from iqcar.enums import Request
    from iqcar.tables import Tables
    from iqcar.tables.arrays import Flags, Floats, Ints, Schedule


@dataclass(frozen=True)
class Meeting:
    """Pieces of tasks as targets and as sources of one request, as the sweep takes them."""

    events: Schedule
    rate: Floats
    source: Ints
    weights: tuple[Floats, Floats]
    group: Ints
    one_domain: bool


@dataclass(frozen=True)
class Ledger:
    """One request: what its demands lost, and what meets what.

    Attributes
    ----------
    request : Request
    meeting : Meeting
    own_beta, own_lost : (groups,) what tasks would blame on themselves.
    demand_of : (groups,) row of the group's demand; −1 where nothing waited.
    first : row of the request's first demand.
    slowdown, lost, known, known_lost : (demands of the request,) Σ S, task time lost, and the parts
        of both that are known.
    """

    request: Request
    meeting: Meeting
    own_beta: Floats
    own_lost: Floats
    demand_of: Ints
    first: int
    slowdown: Floats
    lost: Floats
    known: Floats
    known_lost: Floats


class _Entries(NamedTuple):
    """Blame of a source stage for a demand, one entry each."""

    demand: Ints
    kind: Ints
    stage: Ints
    beta: Floats
    lost: Floats

    def some(self, kept: Flags) -> _Entries:
        columns: list[NDArray[Any]] = [column[kept] for column in self]
        return _Entries(*columns)


def name_sources(
    ledgers: Sequence[Ledger],
    stage_of_group: Ints,
    tables: Tables,
    reach: Reach,
    most: int | None,
) -> tuple[list[pd.DataFrame], pd.DataFrame]:
    """Divide what demands lost among their sources.

    Parameters
    ----------
    ledgers : sequence of Ledger
    stage_of_group : (groups,) row of the target stage.
    tables : Tables
    reach : Reach
    most : int, optional
        Source queries named per target query; all by default.

    Returns
    -------
    (list of DataFrame of :data:`SOURCES`, DataFrame of :data:`FOLDED`)
        One frame per ledger.
    """
    query = tables.stages["query"].to_numpy(np.int64)
    rest = _Rest(query, recurring_queries(tables), reach)
    found: list[list[_Entries]] = [[] for _ in ledgers]
    given = [(np.zeros(len(one.lost)), np.zeros(len(one.lost))) for one in ledgers]
    for batch in _batches(ledgers, stage_of_group, query, len(tables.queries), most):
        every = [_entries(one, stage_of_group, query, batch) for one in ledgers]
        for ledger, (beta, lost), entries in zip(ledgers, given, every, strict=True):
            beta += sum_by(entries.demand - ledger.first, entries.beta, len(beta))
            lost += sum_by(entries.demand - ledger.first, entries.lost, len(lost))
        if most is not None:
            every = rest.fold(ledgers, every, stage_of_group, most)
        for parts, entries in zip(found, every, strict=True):
            parts.append(entries)
    frames = [
        _frame(ledger, parts, *sums)
        for ledger, parts, sums in zip(ledgers, found, given, strict=True)
    ]
    return frames, rest.table()


def _batches(
    ledgers: Sequence[Ledger], stage_of_group: Ints, query: Ints, queries: int, most: int | None
) -> list[Flags]:
    """Split the groups so that the pairs of a batch fit in memory, by target query."""
    if most is None or queries <= most + 1:
        return [np.ones(len(stage_of_group), bool)]
    cost, pieces = np.zeros(len(stage_of_group)), 0
    for one in ledgers:
        meeting = one.meeting
        cost += pairs_of_groups(
            meeting.events, meeting.rate, meeting.source, meeting.weights[0], meeting.group,
            len(query), len(stage_of_group),
        )  # fmt: skip
        pieces = max(pieces, len(meeting.rate))
    owner = query[stage_of_group]
    owner = np.where(owner >= 0, owner, queries + stage_of_group)
    return batches(owner, cost, max(PAIRS_AT_ONCE, PAIRS_PER_TASK * pieces))


def _entries(ledger: Ledger, stage_of_group: Ints, query: Ints, batch: Flags) -> _Entries:
    """Work out the pairs of some groups: what overlapped, less what tasks are to themselves."""
    meeting = ledger.meeting
    first, second = meeting.weights
    if not batch.all():
        first = np.where(batch[meeting.group], first, 0.0)
    group, source, beta, lost = pair_integrals(
        meeting.events,
        meeting.rate,
        meeting.source,
        (first, second),
        meeting.group,
        len(query),
        len(stage_of_group),
        one_domain=meeting.one_domain,
    )
    own_stage = stage_of_group[group] == source
    beta = _without(beta, np.where(own_stage, ledger.own_beta[group], 0.0))
    lost = _without(lost, np.where(own_stage, ledger.own_lost[group], 0.0))
    lost = np.where(beta > 0, lost, 0.0)
    keep = beta > 0
    group, source = group[keep], source[keep]
    target = stage_of_group[group]
    own = (target == source) | ((query[target] == query[source]) & (query[source] != NONE))
    kind = np.where(own, OWN, QUERY)
    return _Entries(ledger.demand_of[group], kind, source, beta[keep], lost[keep])


def _without(total: Floats, itself: Floats) -> Floats:
    """Take out what tasks would blame on themselves, and what rounding leaves of it."""
    rest = total - itself
    return np.where(rest > ROUNDING * total, rest, 0.0)


def _frame(ledger: Ledger, parts: list[_Entries], beta: Floats, lost: Floats) -> pd.DataFrame:
    """Sources of one request: the named, the rest, what is known, and what nothing explains."""
    each = ledger.first + np.arange(len(ledger.lost))
    nobody = np.full(len(each), NONE)
    left = ledger.slowdown - ledger.known - beta
    left_lost = ledger.lost - ledger.known_lost - lost
    known = _Entries(each, np.full(len(each), KNOWN), nobody, ledger.known, ledger.known_lost)
    unattributed = _Entries(
        each,
        np.full(len(each), UNATTRIBUTED),
        nobody,
        np.where(left > ROUNDING * ledger.slowdown, left, 0),
        np.where(left_lost > ROUNDING * ledger.lost, left_lost, 0),
    )
    columns = [np.concatenate(column) for column in zip(*parts, known, unattributed, strict=True)]
    return SOURCES.frame(
        dict(zip(("demand", "kind", "source_stage", "beta", "lost_ms"), columns, strict=True))
    )


class _Rest:
    """Folds the small sources of targets, and keeps what that takes from each source."""

    def __init__(self, query: Ints, recurring: Ints, reach: Reach) -> None:
        queries = len(recurring)
        self._query, self._queries, self._reach = query, queries, reach
        self._recurring_of, self._recurring = recurring, np.zeros(queries)
        self._any = False
        self._sources, self._victims = np.zeros(queries, np.int64), np.zeros(queries, np.int64)
        self._worst, self._worst_lost = np.full(queries, NONE), np.zeros(queries)
        self._dor = np.zeros(queries)
        self._lost = np.zeros((queries, len(Resource)))

    def fold(
        self,
        ledgers: Sequence[Ledger],
        every: list[_Entries],
        stage_of_group: Ints,
        most: int,
    ) -> list[_Entries]:
        """Sum the entries of small sources in one REST entry per demand."""
        size = np.array([len(entries.demand) for entries in every], np.int64)
        if not size.any():
            return every
        whole = _Entries(*(np.concatenate(column) for column in zip(*every, strict=True)))
        query_of_demand = np.full(len(self._reach.lost_ms), NONE)
        for one in ledgers:
            groups = np.flatnonzero(one.demand_of >= 0)
            query_of_demand[one.demand_of[groups]] = self._query[stage_of_group[groups]]
        target = query_of_demand[whole.demand]
        # Of a stage without a query nobody can be named: those are one source.
        source = np.where(self._query >= 0, self._query, self._queries)[whole.stage]
        total = np.concatenate([one.lost for one in ledgers])
        lost = self._reach.lost_ms[whole.demand] * share_of(whole.lost, total[whole.demand])
        others = np.flatnonzero((whole.kind == QUERY) & (target >= 0))
        small = np.zeros(len(target), bool)
        small[others] = beyond_largest(target[others], source[others], lost[others], most)
        if not small.any():
            return every
        resource = np.array([list(Resource).index(one.request.resource) for one in ledgers])
        part, of = whole.lost, total
        if self._reach.by_beta:
            part, of = whole.beta, np.concatenate([one.slowdown for one in ledgers])
        dor = self._reach.dor[whole.demand] * share_of(part, of[whole.demand])
        at = np.flatnonzero(small)
        self._count(target[at], source[at], lost[at], dor[at], np.repeat(resource, size)[at])
        each = np.split(small, np.cumsum(size)[:-1])
        return [_with_rest(entries, of) for entries, of in zip(every, each, strict=True)]

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
        cell = source[known] * len(Resource) + resource[known]
        size = self._queries * len(Resource)
        self._lost += sum_by(cell, lost[known], size).reshape(self._lost.shape)

    def table(self) -> pd.DataFrame:
        """What was folded, by query; no rows where nothing was."""
        if not self._any:
            return FOLDED.empty()
        by_resource = {f"{r}_lost_ms": self._lost[:, code] for code, r in enumerate(Resource)}
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


def _with_rest(entries: _Entries, small: Flags) -> _Entries:
    """Put one REST entry per demand in place of its small ones."""
    of = entries.demand[small]
    size = int(of.max(initial=-1)) + 1
    demand = np.flatnonzero(np.bincount(of, minlength=size))
    rest = _Entries(
        demand,
        np.full(len(demand), REST),
        np.full(len(demand), NONE),
        sum_by(of, entries.beta[small], size)[demand],
        sum_by(of, entries.lost[small], size)[demand],
    )
    kept = entries.some(~small)
    return _Entries(*(np.concatenate(pair) for pair in zip(kept, rest, strict=True)))
