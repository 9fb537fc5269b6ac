"""Computes how long applications waited on YARN before they ran, and who held containers meanwhile.

The log of an application begins when its driver runs: what it waited before, in the state ACCEPTED,
only the resource manager knows. It tells of each application how much memory its containers held in
all. That is spread over its life as its log says (by executors), else evenly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from iqcar.logs.find.resource_manager import YarnApplication, YarnTold
from iqcar.model.waits.executor_shortage import START_UP_MS
from iqcar.model.waits.shared_cluster import Offers, executor_offers
from iqcar.tables import NONE, Tables, texts
from iqcar.tables.arrays import Floats, Ints, sum_by

MOST_HOLDERS = 10
"""Applications named per wait, those that held most; the others are summed up."""
MOST_WORK = 50_000_000
"""Steps, one per wait and time in which something was held, that it may take to tell who held
containers (some 1 s). Beyond them the shorter waits are told without."""
MB_MS = 1e3
"""MB·ms in a MB·s."""


class Holder(NamedTuple):
    """An application that held containers while another one waited for its first.

    app: its row; −1 without a log.
    lost_ms: its part of the wait.
    """

    application: YarnApplication
    app: int
    lost_ms: float


class Pending(NamedTuple):
    """A wait of an application for the container of its master: of its driver, in cluster mode.

    app: its row; −1 without a log.
    since_ms, until_ms: since the epoch; until now, where it waits still.
    first_executor_ms: when its log has its first executor; NaN without.
    held: share of the memory of all nodes that run now which others held meanwhile, on average; may
        be over 1 where there were more nodes; NaN where it is not told, and of the shorter ones of
        very many waits.
    holders: those that held most, first.
    rest_ms: part of the wait that is put down to further holders.
    unattributed_ms: part of it that nobody is named for: as far as is told, nobody held anything,
        or ``held`` is NaN.
    """

    application: YarnApplication
    app: int
    since_ms: float
    until_ms: float
    first_executor_ms: float
    held: float
    holders: tuple[Holder, ...]
    rest_ms: float
    unattributed_ms: float

    @property
    def wait_ms(self) -> float:
        """How long it waited."""
        return self.until_ms - self.since_ms


class YarnWaits(NamedTuple):
    """What a resource manager adds to event logs.

    pending: waits of more than an ordinary start, the longest first.
    waiting: those among all applications that wait still, and have no log.
    unknown: applications of the logs that the manager does not know, or not any more.
    memory_mb, cores, nodes: of the cluster now; NaN where it is not told.
    """

    url: str
    pending: tuple[Pending, ...]
    waiting: int
    unknown: int
    memory_mb: float
    cores: float
    nodes: float


def pending_waits(tables: Tables, told: YarnTold) -> YarnWaits:
    """Find the applications that waited before they ran, and who held containers meanwhile.

    tables: ``applications`` and ``executors`` are used.
    """
    rows = _rows_by_id(tables)
    waits = [one for one in told.applications if _until(one) - one.submitted_ms >= START_UP_MS]
    waits.sort(key=lambda one: one.submitted_ms - _until(one))
    held = _HeldMemory(told.applications, rows, tables)
    found = [
        _pending(one, rows.get(one.application_id, NONE), held, told.memory_mb, number * held.work)
        for number, one in enumerate(waits, 1)
    ]
    known = {one.application_id for one in told.applications}
    unlogged = sum(one.waits and one.application_id not in rows for one in told.applications)
    unknown = sum(one not in known for one in rows if one.startswith("application_"))
    return YarnWaits(
        url=told.url,
        pending=tuple(found),
        waiting=unlogged,
        unknown=unknown,
        memory_mb=told.memory_mb,
        cores=told.cores,
        nodes=told.nodes,
    )


def _rows_by_id(tables: Tables) -> dict[str, int]:
    """Return the row of each application's first attempt by id."""
    found: dict[str, int] = {}
    for row, one in enumerate(texts(tables.applications, "application_id")):
        found.setdefault(one, row)
    return found


def _until(one: YarnApplication) -> float:
    """Return when the wait of an application ended, or now; NaN where nobody tells."""
    return one.until_ms if one.waits else one.launched_ms


class _HeldMemory:
    """Memory that each application held when: MB·ms in all, spread over times.

    of, app: applications that held some, and their rows; −1 without a log.
    first: when each application with a log has its first executor; NaN without, and at −1.
    work: steps that it takes to tell what each held in some time.
    """

    def __init__(
        self, applications: Sequence[YarnApplication], rows: dict[str, int], tables: Tables
    ) -> None:
        offers = executor_offers(tables)
        self.first = np.full(len(tables.applications) + 1, np.nan)
        np.fmin.at(self.first, offers.app, offers.since)
        self.of = [
            one
            for one in applications
            if one.memory_mb_s > 0 and one.until_ms > one.launched_ms  # NaN is neither
        ]
        self.app = [rows.get(one.application_id, NONE) for one in self.of]
        self._number = {one: number for number, one in enumerate(self.of)}
        life = [(one.launched_ms, one.until_ms, one.memory_mb_s * MB_MS) for one in self.of]
        launched, now, amount = np.array(life, np.float64).reshape(-1, 3).T
        part, spans = _executor_spans(tables, offers, self.app, now)
        alone = np.setdiff1d(np.arange(len(self.of)), part)
        self._part = np.concatenate([part, alone])
        self._since = np.concatenate([spans.since, launched[alone]])
        self._until = np.concatenate([spans.until, now[alone]])
        cores = np.concatenate([spans.cores, np.ones(len(alone))])
        whole = sum_by(self._part, (self._until - self._since) * cores, len(self.of))
        self._mb = cores * (amount / whole)[self._part]
        self.work = len(self._part)

    def by_others(self, one: YarnApplication, since: float, until: float) -> Floats:
        """Return the MB·ms that each but one held in a time; shape (len(self.of),)."""
        overlap = np.minimum(self._until, until) - np.maximum(self._since, since)
        found = sum_by(self._part, np.maximum(overlap, 0.0) * self._mb, len(self.of))
        if one in self._number:
            found[self._number[one]] = 0.0
        return found


def _executor_spans(
    tables: Tables, offers: Offers, app: Sequence[int], now: Floats
) -> tuple[Ints, Offers]:
    """Return when applications had executors until the manager was asked, and whose each is.

    A log without an end may lag behind: what it held last it is taken to hold still.

    app, now: (n,); row of each application, −1 without a log; when the manager was asked.
    """
    place = np.full(len(tables.applications) + 1, NONE)
    place[app] = np.arange(len(app))
    place[NONE] = NONE
    spans = offers.of(place[offers.app] >= 0)
    part = place[spans.app]
    end, ended = (tables.applications[name].to_numpy()[spans.app] for name in ("end_ms", "ended"))
    last = (spans.until >= end) & ~ended.astype(bool)
    spans = spans._replace(until=np.fmin(np.where(last, np.inf, spans.until), now[part]))
    kept = spans.until > spans.since
    return part[kept], spans.of(kept)


def _pending(
    one: YarnApplication, app: int, held: _HeldMemory, memory: float, work: int
) -> Pending:
    """Describe a wait; ``work`` is what it took so far to tell who held containers."""
    until = _until(one)
    wait = until - one.submitted_ms
    is_told = work <= MOST_WORK
    amount = held.by_others(one, one.submitted_ms, until) if is_told else np.zeros(0)
    total = float(amount.sum())
    lost = amount * (wait / total) if total > 0 else amount
    most = min(MOST_HOLDERS, len(lost))
    order = np.argpartition(-lost, most - 1)[:most] if most else np.zeros(0, np.int64)
    order = order[np.lexsort((order, -lost[order]))]
    named = [int(row) for row in order if lost[row] > 0]
    return Pending(
        application=one,
        app=app,
        since_ms=one.submitted_ms,
        until_ms=until,
        first_executor_ms=float(held.first[app]),
        held=total / (wait * memory) if memory > 0 and is_told else np.nan,
        holders=tuple(Holder(held.of[row], held.app[row], float(lost[row])) for row in named),
        rest_ms=float(np.delete(lost, order).sum()),
        unattributed_ms=0.0 if total > 0 else wait,
    )
