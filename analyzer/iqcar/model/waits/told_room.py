"""Computes when a cluster had room for one more executor, by what its resource manager tells.

One more executor of an application fits where each of these leaves room for it, in this order: what
one user may hold of its queue, the limit of the queue, those of the queue's parents, and the nodes
that it may run on, of which one must have the room. The first that leaves none is in the way, with
those who share it. Memory always counts. Cores count unless some node held more than it has: YARN's
DefaultResourceCalculator ignores them.

All this is of the nodes and queues that are there now. Where something was held on other nodes, or
more than a node has, the cluster was another one then, and its size is not told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from iqcar.model.waits.shared_cluster import Offers
from iqcar.model.waits.yarn_containers import (
    ContainerRequest,
    Containers,
    containers_of,
    requests_of,
)
from iqcar.tables import NONE, Tables
from iqcar.tables.arrays import Flags, Floats, Ints, sum_by
from iqcar.tables.yarn_told import QueueLimit, YarnTold

SLACK_MB = 0.5
"""Less memory than this is a rounding error."""


class RoomLimit(NamedTuple):
    """Something that bounds how many executors an application gets, over the steps of time.

    apps: rows of the applications with a log that share it.
    fits: (n_steps,), executors of the application that it leaves room for.
    is_queue: whether it is a queue's, which holds also where nobody shares it.
    outside: what applications without a log hold of it.
    """

    apps: Ints
    fits: Floats
    is_queue: bool
    outside: Containers


class ToldCluster:
    """What the applications of one cluster held of the nodes that its resource manager tells."""

    def __init__(
        self, told: YarnTold, held: Containers, requests: Mapping[int, ContainerRequest]
    ) -> None:
        self.told, self.held, self.requests = told, held, requests
        nodes = told.nodes
        self._mb = np.array([node.memory_mb for node in nodes], np.float64)
        self._cores = np.array([node.cores for node in nodes], np.float64)
        self._queue_told = {queue.path: queue for queue in told.queues}
        self._queue_names, self._queue_of = np.unique(held.queue.astype(str), return_inverse=True)
        self._of_queue: dict[str, Flags] = {}
        self._distinct = len({node.host for node in nodes}) == len(nodes)
        self._use = _NodeUse(held, len(nodes))
        within = self._use.cores <= self._cores[self._use.node]  # NaN is not
        self.cores_count = bool(within.all() and np.isfinite(self._cores).all())

    @classmethod
    def of(
        cls, tables: Tables, offers: Offers, requests: Mapping[int, ContainerRequest]
    ) -> ToldCluster | None:
        """Return the cluster of some executors; None where no resource manager told of it.

        requests: of the applications that the manager knows:
            :func:`iqcar.model.waits.yarn_containers.requests_of`.
        """
        if tables.yarn is None or not np.isin(offers.app, list(requests)).any():
            return None
        return cls(tables.yarn, containers_of(tables, tables.yarn, offers, requests), requests)

    def times(self) -> Floats:
        """Return all times at which something that was held changes."""
        return np.concatenate([self.held.since, self.held.until])

    def tells(self, app: int, since: float, until: float) -> bool:
        """Whether the size of the cluster is told for an application between two times."""
        if app not in self.requests or not self._distinct:
            return False
        usable = self._usable(self.requests[app])
        if not usable.any() or not np.isfinite(self._mb[usable]).all():
            return False
        then = (self.held.since < until) & (self.held.until > since) & (self.held.app != NONE)
        if (self.held.node[then] == NONE).any():
            return False
        use = self._use
        over = use.mb > self._mb[use.node] + SLACK_MB  # NaN is not
        return not (over & (use.when < until) & (use.last > since)).any()

    def limits(self, app: int, when: Floats) -> tuple[RoomLimit, ...]:
        """Return what bounds an application, in the order in which it counts.

        when: (n_steps,), ms; start of each step, in order; all :meth:`times` are among them.
        """
        return (*self._queues(app, when), self._nodes(app, when))

    def _queues(self, app: int, when: Floats) -> Iterator[RoomLimit]:
        one, held = self.requests[app], self.held
        mine = held.label == one.label
        path = one.queue
        while path:
            queue, inside = self._queue_told.get(path), mine & self._inside(path)
            for limit in queue.user_limits if queue else ():
                of_user = inside & (held.user == one.user)
                # Who holds as much as the limit still gets one.
                yield from self._within(self._dominant(limit), one, when, of_user, more=1)
            for limit in queue.limits if queue else ():
                yield from self._within(limit, one, when, inside, more=0)
            path = path.rpartition(".")[0]

    def _dominant(self, limit: QueueLimit) -> QueueLimit:
        """Return a limit of dominant shares: memory and cores are each limited by the larger."""
        mb, cores = float(self._mb.sum()), float(self._cores.sum())
        if not (self.cores_count and 0 < mb < np.inf and 0 < cores < np.inf):
            return limit
        share = max(limit.memory_mb / mb, limit.cores / cores)
        return QueueLimit(limit.label, share * mb, round(share * cores, 6))

    def _within(
        self, limit: QueueLimit, one: ContainerRequest, when: Floats, mine: Flags, *, more: int
    ) -> Iterator[RoomLimit]:
        """Return what a limit leaves beside some containers, and so many more."""
        if limit.label == one.label and np.isfinite(limit.memory_mb):
            part = self.held.of(mine)
            left = limit.memory_mb - level_of(when, part.since, part.until, part.mb)
            fits = (left + SLACK_MB) // one.mb
            if self.cores_count and np.isfinite(limit.cores):
                left = limit.cores - level_of(when, part.since, part.until, part.cores)
                fits = np.minimum(fits, left // one.cores)
            found = self._limit(mine, np.maximum(fits + more, 0.0), is_queue=True)
            # Of an application with another label only its master is here.
            labels = [self.requests[app].label for app in found.apps.tolist()]
            apps = found.apps[np.array(labels, object) == one.label]
            yield found._replace(apps=apps.astype(np.int64))

    def _inside(self, path: str) -> Flags:
        """Mark what was held in a queue and in those below it."""
        if path not in self._of_queue:
            inside = [f"{queue}.".startswith(f"{path}.") for queue in self._queue_names]
            self._of_queue[path] = np.array(inside, bool)[self._queue_of]
        return self._of_queue[path]

    def _nodes(self, app: int, when: Floats) -> RoomLimit:
        one, held, use = self.requests[app], self.held, self._use
        usable = self._usable(one)

        def executors(mb: Floats, cores: Floats) -> Floats:
            found = (mb + SLACK_MB) // one.mb
            found = np.minimum(found, cores // one.cores) if self.cores_count else found
            return np.maximum(found, 0.0)

        at_first = executors(self._mb, self._cores)
        fits = executors(self._mb[use.node] - use.mb, self._cores[use.node] - use.cores)
        before = np.where(use.first, at_first[use.node], np.roll(fits, 1))
        change = np.where(usable[use.node], fits - before, 0.0)
        at = np.searchsorted(when, use.when)
        # As many as fit node by node, and no more than fit in what those without a log leave.
        steps = sum_by(np.minimum(at, len(when) - 1), change, len(when))
        on_nodes = at_first[usable].sum() + np.cumsum(steps)
        there = (held.node != NONE) & usable[held.node]
        outside = (held.app == NONE) & (held.label == one.label)
        part = held.of(there | outside)
        left = self._mb[usable].sum() - level_of(when, part.since, part.until, part.mb)
        in_all = np.maximum((left + SLACK_MB) // one.mb, 0.0)
        return self._limit(there | outside, np.minimum(on_nodes, in_all), is_queue=False)

    def _limit(self, mine: Flags, fits: Floats, *, is_queue: bool) -> RoomLimit:
        part = self.held.of(mine)
        logged = part.app != NONE
        return RoomLimit(np.unique(part.app[logged]), fits, is_queue, part.of(~logged))

    def _usable(self, one: ContainerRequest) -> Flags:
        """Mark the nodes that an application's executors may run on.

        Those of its label; without one, also those on which executors without a label ran: there
        are labels that let them.
        """
        labels = [node.labels for node in self.told.nodes]
        usable = np.array([one.label in (found or ("",)) for found in labels], bool)
        if not one.label:
            seen = (self.held.label == "") & (self.held.node != NONE)
            usable[self.held.node[seen]] = True
        return usable


def limited_by_user(tables: Tables) -> set[int]:
    """Return the applications of whose queue one user may hold less than the queue itself may."""
    told = tables.yarn
    if told is None:
        return set()

    def least(limits: Iterable[QueueLimit], label: str) -> float:
        return min((of.memory_mb for of in limits if of.label == label), default=np.inf)

    queues = {queue.path: queue for queue in told.queues}
    return {
        app
        for app, one in requests_of(tables, told).items()
        if (queue := queues.get(one.queue))
        and least(queue.user_limits, one.label) < least(queue.limits, one.label)
    }


class _NodeUse:
    """What was held of each node after each change on it, the changes of a node in order.

    node, when, last: (n_changes,); position of the node, and the times between which it was so.
    mb, cores: (n_changes,); what was held.
    first: (n_changes,); whether it is the node's first change.
    """

    def __init__(self, held: Containers, nodes: int) -> None:
        part = held.of(held.node != NONE)
        node, when = np.tile(part.node, 2), np.concatenate([part.since, part.until])
        order = np.lexsort((when, node))
        self.node, self.when = node[order], when[order]
        self.first: Flags = np.diff(self.node, prepend=NONE) != 0
        ends = np.append(self.first[1:], True)[: len(order)]
        self.last = np.where(ends, np.inf, np.append(self.when[1:], np.inf)[: len(order)])
        self.mb, self.cores = (
            self._levels(np.concatenate([amount, -amount])[order])
            for amount in (part.mb, part.cores)
        )
        # Of changes at one moment only the last one leaves something held.
        kept = self.last > self.when
        self.node, self.when, self.last = self.node[kept], self.when[kept], self.last[kept]
        self.mb, self.cores = self.mb[kept], self.cores[kept]
        self.first = np.diff(self.node, prepend=NONE) != 0

    def _levels(self, change: Floats) -> Floats:
        total = np.cumsum(change)
        start = (total - change)[self.first]
        lengths = np.diff(np.append(np.flatnonzero(self.first), len(total)))
        left: Floats = total - np.repeat(start, lengths)
        return left


def level_of(when: Floats, since: Floats, until: Floats, amount: Floats) -> Floats:
    """Return the sum of amounts in each step that are there from and until a time."""
    at = np.searchsorted(when, np.concatenate([since, until]))
    change = np.concatenate([amount, -amount])
    return np.cumsum(sum_by(np.minimum(at, len(when) - 1), change, len(when)))
