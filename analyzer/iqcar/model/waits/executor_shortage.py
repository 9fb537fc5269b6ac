"""Computes when each application lacked slots because others held the executors of its cluster.

An application lacks slots while it has more waiting tasks than free slots, its settings (and, where
the plugin recorded them, its requests) allow it more executors, and the cluster has no room for
another one. No event log holds the size of a cluster: it counts as full where its applications hold
as much as they ever held at once around that time. What is lacking then is at most what the other
applications hold.

Executors take a while to start, also on an empty cluster. A shortage counts only where it lasts
longer than that without a new executor.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from iqcar.model.waits.shared_cluster import Offers, clusters_of, executor_offers
from iqcar.tables import Tables
from iqcar.tables.arrays import Flags, Floats, Ints, by_group_and_time, running_total

CAPACITY_WINDOW_MS = 3_600_000.0
"""Time before and after an application in which what all applications held at once tells the size
of the cluster; clusters that grow and shrink do so over the day."""
START_UP_MS = 5_000.0
"""Time in which a cluster manager starts executors when it has room: seconds on standalone clusters
and YARN. The fastest start in the input, if slower, replaces it."""
START_UP_SPREAD = 1.5
"""Ratio of ordinary start-up times to the fastest one seen."""
NO_SLOTS = 1e-6
"""Fewer slots than this count as none; rounding errors of slot counts are far smaller."""


class TaskLaunches(NamedTuple):
    """Times of the tasks of one application, each ndarray of shape (n_tasks,), ms."""

    asked: Floats
    launch: Floats
    finish: Floats


class Shortage(NamedTuple):
    """Missing slots of one application, as steps from each time to the next.

    when: (n_steps,), ms; distinct times in order; the last step has no end and misses nothing.
    missing: (n_steps,), slots; slots it lacked because others held them.
    own: (n_steps,), slots; slots that it had.
    others: (n_steps,), slots; slots that the holders had.
    holders: rows of the other applications of its cluster.
    measured: whether the plugin recorded how many executors it asked for.
    """

    when: Floats
    missing: Floats
    own: Floats
    others: Floats
    holders: Ints
    measured: bool

    def total(self, rate: Floats) -> Floats:
        """Return the integral of a rate per step from the first time to each time."""
        return running_total(np.diff(self.when, append=self.when[-1:]) * rate)

    def during(self, rate: Floats, since: Floats, until: Floats) -> Floats:
        """Return the integral of a rate per step over intervals."""
        total = self.total(rate)
        found: Floats = np.interp(until, self.when, total) - np.interp(since, self.when, total)
        return np.maximum(found, 0.0)

    @property
    def short(self) -> Floats:
        """1 in the steps in which slots were missing, else 0."""
        return (self.missing > NO_SLOTS).astype(np.float64)


def find_shortages(
    tables: Tables, asked: Floats, launch: Floats, finish: Floats
) -> dict[int, Shortage]:
    """Find the applications that lacked slots because others held them, by application row.

    Empty where no two applications share a cluster.

    tables: ``applications``, ``executors``, ``executor_targets`` and the ``app`` of ``tasks`` are
        used.
    asked, launch, finish: (n_tasks,), ms; when each task started to wait, was launched and ended; a
        task with a time that is not finite is left out.
    """
    if len(tables.applications) < 2:
        return {}
    cluster = clusters_of(tables)
    offers = executor_offers(tables)
    shared = np.flatnonzero(np.bincount(cluster[cluster >= 0]) > 1)
    if not len(shared):
        return {}
    app = tables.tasks["app"].to_numpy(np.int64)
    usable = np.isfinite(asked + launch + finish) & (app >= 0) & (app < len(cluster))
    usable[usable] = np.isin(cluster[app[usable]], shared)
    rows = np.flatnonzero(usable)
    if not len(rows):
        return {}
    rows = rows[by_group_and_time(app[rows], asked[rows])]
    victims, first = np.unique(app[rows], return_index=True)
    found: dict[int, Shortage] = {}
    tasks = {
        int(victim): TaskLaunches(asked[mine], launch[mine], finish[mine])
        for victim, mine in zip(victims, np.split(rows, first[1:]), strict=True)
    }
    for number in shared:
        members = np.flatnonzero(cluster == number)
        own = offers.of(np.isin(offers.app, members))
        patience = _patience(tables, own, tasks)
        for victim in members.tolist():
            waiting = tasks.get(victim)
            if waiting is not None and _can_lack(victim, own, waiting):
                shortage = _shortage(tables, victim, own, waiting, patience)
                if shortage.short.any():
                    found[victim] = shortage
    return found


def _can_lack(victim: int, offers: Offers, tasks: TaskLaunches) -> bool:
    """Tell whether a task waited, and others held executors between the first and the last one."""
    others = (offers.app != victim) & (offers.since < tasks.finish.max())
    others &= offers.until > tasks.asked.min()
    return bool(others.any() and (tasks.launch > tasks.asked).any())


def _patience(tables: Tables, offers: Offers, tasks: dict[int, TaskLaunches]) -> float:
    """Return the time that executors of a cluster may ordinarily take to start, in ms."""
    fastest = np.inf
    for app in np.unique(offers.app).tolist():
        first = float(offers.since[offers.app == app].min())
        start = float(tables.applications["start_ms"].iloc[app])
        asked = float(tasks[app].asked.min()) if app in tasks else np.nan
        # Executors come at the application's start, or once there are tasks for them.
        since = asked if start < asked < first else start
        if first >= since:
            fastest = min(fastest, first - since)
    return max(START_UP_MS, START_UP_SPREAD * fastest) if np.isfinite(fastest) else START_UP_MS


def _shortage(
    tables: Tables,
    app: int,
    offers: Offers,
    tasks: TaskLaunches,
    patience: float,
) -> Shortage:
    """Compute the missing slots of one application of a cluster."""
    settings = tables.applications.iloc[app]
    cpus = settings["task_cpus"] if settings["task_cpus"] > 0 else 1.0
    limit = settings["most_slots"] if settings["most_slots"] > 0 else np.inf
    mine = offers.app == app
    size = settings["executor_cores"]
    size = size if size > 0 else float(offers.cores[mine].max(initial=1.0))
    when, offered, others, waiting, busy = _levels(offers, mine, tasks, cpus)
    # Spark can launch a task some ms before it notes the end of the one before: the slots of a
    # cluster are those of its executors.
    own = np.maximum(offered, busy)
    need = np.minimum(np.maximum(waiting - (own - busy), 0.0), np.maximum(limit - own, 0.0))
    targets = tables.executor_targets[tables.executor_targets["app"] == app]
    if len(targets):
        known = targets["time_ms"].to_numpy(np.float64)
        at = np.searchsorted(known, when, side="right") - 1
        wanted = targets["executors"].to_numpy(np.float64)[np.maximum(at, 0)] * size
        need = np.where(at >= 0, np.minimum(need, np.maximum(wanted - own, 0.0)), need)
    held = offered + others
    around = (when >= tasks.asked.min() - CAPACITY_WINDOW_MS) & (
        when <= tasks.finish.max() + CAPACITY_WINDOW_MS
    )
    room = held[around].max(initial=0.0) - held
    short = (need > NO_SLOTS) & (others > NO_SLOTS) & (room < size - NO_SLOTS)
    short &= _lasting(when, offered, short, patience)
    short[-1] = False
    missing = np.where(short, np.minimum(need, others), 0.0)
    return Shortage(
        when=when, missing=missing, own=own, others=others,
        holders=np.unique(offers.app[~mine]), measured=len(targets) > 0,
    )  # fmt: skip


def _levels(
    offers: Offers, mine: Flags, tasks: TaskLaunches, cpus: float
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return distinct times, and from each on: own slots, others', slots waited for, and in use."""
    zeros, held = np.zeros(len(tasks.asked)), np.full(len(tasks.asked), cpus)
    own, others = np.where(mine, offers.cores, 0.0), np.where(mine, 0.0, offers.cores)
    none = np.zeros(len(mine))
    when = np.concatenate([offers.since, offers.until, tasks.asked, tasks.launch, tasks.finish])
    steps = np.stack(
        [
            np.concatenate([own, -own, zeros, zeros, zeros]),
            np.concatenate([others, -others, zeros, zeros, zeros]),
            np.concatenate([none, none, held, -held, zeros]),
            np.concatenate([none, none, zeros, held, -held]),
        ]
    )
    order = np.argsort(when, kind="stable")
    when = when[order]
    levels = np.cumsum(steps[:, order], axis=1)
    last = np.flatnonzero(np.diff(when, append=np.inf) > 0)
    own, others, waiting, busy = levels[:, last]
    return when[last], own, others, waiting, busy


def _lasting(when: Floats, own: Floats, short: Flags, patience: float) -> Flags:
    """Mark the steps between two new executors of one's own if slots are short there for long."""
    period: Ints = np.cumsum(np.diff(own, prepend=own[:1]) > NO_SLOTS)
    until = np.append(when[1:], when[-1])
    first, last = np.full(period[-1] + 1, np.inf), np.full(period[-1] + 1, -np.inf)
    np.minimum.at(first, period[short], when[short])
    np.maximum.at(last, period[short], until[short])
    return (last - first >= patience)[period]
