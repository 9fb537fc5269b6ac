"""Computes how long applications waited on YARN before they ran, and who held containers meanwhile.

The log of an application begins when its driver runs: what it waited before, in the state ACCEPTED,
only the resource manager knows. It tells of each application how much memory its containers held in
all. That is spread over its life as its log says (by executors), else evenly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from iqcar.model.waits.executor_shortage import START_UP_MS
from iqcar.model.waits.shared_cluster import Offers, executor_offers
from iqcar.tables import NONE, Tables, texts
from iqcar.tables.arrays import Floats, sum_by
from iqcar.tables.yarn_told import YarnApplication, YarnNode, YarnQueue, YarnTold

MOST_HOLDERS = 10
"""Applications named per wait, those that held most; the others are summed up."""
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
    held: share of the memory of all nodes that run now that others held meanwhile, on average; may
        be over 1 where there were more nodes; NaN where it is not told.
    holders: those that held most, first.
    rest_ms: part of the wait that is put down to further holders.
    unattributed_ms: part of it that nobody is named for: as far as is told, nobody held anything.
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
    """

    url: str
    pending: tuple[Pending, ...]
    waiting: int
    unknown: int
    nodes: tuple[YarnNode, ...]
    queues: tuple[YarnQueue, ...]


def pending_waits(tables: Tables, told: YarnTold) -> YarnWaits:
    """Find the applications that waited before they ran, and who held containers meanwhile.

    tables: ``applications`` and ``executors`` are used.
    """
    rows = _rows_by_id(tables)
    offers = executor_offers(tables)
    memory = sum(node.memory_mb for node in told.nodes)
    held = _HeldMemory(told.applications, rows, tables)
    found = [
        _pending(one, rows.get(one.application_id, NONE), offers=offers, held=held, memory=memory)
        for one in told.applications
        if _until(one) - one.submitted_ms >= START_UP_MS
    ]
    known = {one.application_id for one in told.applications}
    unlogged = sum(one.waits and one.application_id not in rows for one in told.applications)
    unknown = sum(one not in known for one in rows if one.startswith("application_"))
    return YarnWaits(
        url=told.url,
        pending=tuple(sorted(found, key=lambda one: -one.wait_ms)),
        waiting=unlogged,
        unknown=unknown,
        nodes=told.nodes,
        queues=told.queues,
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
    """Memory that each application held when: MB·ms in all, spread over times."""

    def __init__(
        self, applications: Sequence[YarnApplication], rows: dict[str, int], tables: Tables
    ) -> None:
        offers = executor_offers(tables)
        self.of = [
            one
            for one in applications
            if one.memory_mb_s > 0 and one.until_ms > one.launched_ms  # NaN is neither
        ]
        self.app = [rows.get(one.application_id, NONE) for one in self.of]
        part, since, until, weight = [], [], [], []
        for number, (one, app) in enumerate(zip(self.of, self.app, strict=True)):
            spans = _executor_spans(tables, offers, app, one.until_ms)
            if not len(spans.app):
                alone = np.array([one.launched_ms]), np.array([one.until_ms])
                spans = Offers(np.array([app]), np.ones(1), *alone, np.array([NONE]))
            whole = float(((spans.until - spans.since) * spans.cores).sum())
            part.append(np.full(len(spans.app), number))
            since.append(spans.since)
            until.append(spans.until)
            weight.append(spans.cores * (one.memory_mb_s * MB_MS / whole))
        none = [np.zeros(0)]
        self._part = np.concatenate(part or [np.zeros(0, np.int64)])
        self._since, self._until, self._mb = (
            np.concatenate(one or none) for one in (since, until, weight)
        )

    def during(self, since: float, until: float) -> Floats:
        """Return the MB·ms that each held in a time; shape (len(self.of),)."""
        overlap = np.minimum(self._until, until) - np.maximum(self._since, since)
        return sum_by(self._part, np.maximum(overlap, 0.0) * self._mb, len(self.of))


def _executor_spans(tables: Tables, offers: Offers, app: int, now: float) -> Offers:
    """Return when an application had executors until the manager was asked; none without a log.

    A log without an end may lag behind: what it held last it is taken to hold still.
    """
    mine = offers.of(offers.app == app) if app >= 0 else offers.of(np.zeros(len(offers.app), bool))
    if len(mine.app):
        of_log = tables.applications.iloc[app]
        last = (mine.until >= of_log["end_ms"]) & (not of_log["ended"])
        mine = mine._replace(until=np.minimum(np.where(last, now, mine.until), now))
    return mine.of(mine.until > mine.since)


def _pending(
    one: YarnApplication, app: int, *, offers: Offers, held: _HeldMemory, memory: float
) -> Pending:
    until = _until(one)
    wait = until - one.submitted_ms
    amount = held.during(one.submitted_ms, until)
    amount[[other is one for other in held.of]] = 0.0
    total = float(amount.sum())
    lost = amount * (wait / total) if total > 0 else amount
    order = np.argsort(-lost, kind="stable")
    named = [int(row) for row in order[:MOST_HOLDERS] if lost[row] > 0]
    mine = offers.since[offers.app == app] if app >= 0 else np.zeros(0)
    return Pending(
        application=one,
        app=app,
        since_ms=one.submitted_ms,
        until_ms=until,
        first_executor_ms=float(mine.min()) if len(mine) else np.nan,
        held=total / (wait * memory) if memory > 0 else np.nan,
        holders=tuple(Holder(held.of[row], held.app[row], float(lost[row])) for row in named),
        rest_ms=float(lost[order[MOST_HOLDERS:]].sum()),
        unattributed_ms=0.0 if total > 0 else wait,
    )
