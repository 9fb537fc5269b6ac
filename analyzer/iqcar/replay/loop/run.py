"""Replays a recorded run: how long each query would have taken under other shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from iqcar.replay.loop.event_loop import run
from iqcar.replay.loop.recorded_workload import workload_of
from iqcar.replay.loop.scheduling import (
    chosen_pools,
    is_fair,
    planned_shares,
    ran_in_pools,
    recorded_pools,
    recorded_shares,
    stage_order,
)
from iqcar.rules.rule import PoolPlan
from iqcar.tables import Tables, recorded_applications
from iqcar.tables.arrays import Floats

if TYPE_CHECKING:
    from iqcar.replay.loop.loop_input import Run, Shares, Slots, Steps, Work
    from iqcar.replay.loop.recorded_workload import Workload
    from iqcar.replay.loop.scheduling import StageOrder


def idle_slot_ms(steps: Steps, work: Work, slots: Slots, shares: Shares, found: Run) -> float:
    """Return the integral of min(free slots, tasks that a strict cap holds back), in ms.

    steps, work, slots, shares: What was replayed.
    found: What happened.
    """
    if not shares.cap_strict.any():
        return 0.0
    app = shares.pool_app[shares.pool]
    held = shares.cap_of >= 0
    held[held] = shares.cap_strict[shares.cap_of[held]]
    idle = 0.0
    for number in np.unique(app[held]).tolist():
        there, ran = slots.app == number, np.isfinite(found.launched) & np.isfinite(found.ended)
        ran &= app[work.step] == number
        launched, ended = found.launched[ran], found.ended[ran] + slots.handover[number]
        # A further attempt was not there from the beginning: its wait is not counted.
        waits = ran & held[work.step] & (np.arange(len(ran)) < steps.first_late[work.step])
        asked = (found.released + steps.ready)[work.step[waits]]
        asked = np.minimum(asked, found.launched[waits])
        times = [slots.when[there], launched, ended, asked, found.launched[waits]]
        free = [slots.change[there], -np.ones(len(launched)), np.ones(len(ended))]
        behind = [np.ones(len(asked)), -np.ones(len(asked))]
        none = [np.zeros(len(one)) for one in times]
        when = np.concatenate(times)
        order = np.argsort(when, kind="stable")
        free_slots = np.cumsum(np.concatenate([*free, *none[3:]])[order])
        waiting = np.cumsum(np.concatenate([*none[:3], *behind])[order])
        both = np.minimum(free_slots, waiting)[:-1]
        idle += float((np.maximum(both, 0.0) * np.diff(when[order])).sum())
    return idle


MAX_TASKS = 5_000_000
"""Task attempts of an application up to which it is replayed: some seconds for one plan."""


@dataclass(frozen=True)
class Replayed:
    """When queries ran in a replay.

    start_ms, end_ms: (queries,) ms since the epoch; NaN for a query that could not be replayed.
    idle_slot_ms: time that slots stood free while tasks waited that a cap held back.
    """

    start_ms: Floats
    end_ms: Floats
    idle_slot_ms: float = 0.0

    @property
    def duration_ms(self) -> Floats:
        """End less start."""
        lasted: Floats = self.end_ms - self.start_ms
        return lasted


@dataclass
class Recording:
    """A recorded run, laid out once so that it can be replayed under many plans."""

    tables: Tables
    workloads: dict[int, Workload] = field(default_factory=dict)
    """By row of the application."""
    doubts: tuple[str, ...] = ()
    """What could not be laid out, and why; what had to be assumed."""
    model: ClassVar[str] = "slots"
    """What is shared in this replay; stands in JSON."""
    most_error: ClassVar[float] = float("inf")
    """Error from which its predictions count for nothing; tasks are not fitted, so there is none.
    """
    assumptions: ClassVar[str] = (
        "Tasks last as long as they did, queries start when they did, executors come and go as "
        "they did; only who is offered a free slot first is new."
    )
    _before: dict[int, tuple[Floats, Floats, float]] = field(default_factory=dict)
    _orders: dict[int, StageOrder] = field(default_factory=dict)
    _recorded: dict[int, Shares] = field(default_factory=dict)

    def shares(self, plan: PoolPlan | None = None) -> dict[int, Shares]:
        """Shares of each application as recorded, or under a plan.

        A plan acts on applications in which it assigns a query to a pool; the others stay as
        they were.
        """
        chosen = chosen_pools(self.tables, plan) if plan is not None else {}
        touched = self._touched(chosen)
        found = {}
        for app, workload in self.workloads.items():
            if app not in self._orders:
                order = self._orders[app] = stage_order(self.tables, workload)
                self._recorded[app] = recorded_shares(self.tables, workload, order)
            found[app] = self._recorded[app]
            if plan is not None and app in touched:
                found[app] = planned_shares(workload, self._orders[app], plan, chosen)
        return found

    def reach(self, plan: PoolPlan) -> set[int]:
        """Applications in which a plan acts."""
        return self._touched(chosen_pools(self.tables, plan))

    def replay(self, plan: PoolPlan | None = None) -> Replayed:
        """Replay under the recorded shares, or under a plan; see :meth:`shares`."""
        n = len(self.tables.queries)
        start, end = np.full(n, np.nan), np.full(n, np.nan)
        idle = 0.0
        for app, shares in self.shares(plan).items():
            workload = self.workloads[app]
            if shares is not self._recorded[app]:
                times = _times(workload, shares)
            elif app in self._before:
                times = self._before[app]
            else:
                times = self._before[app] = _times(workload, shares)
            start[workload.order.query], end[workload.order.query] = times[:2]
            idle += times[2]
        return Replayed(start, end, idle)

    @property
    def slot_count(self) -> int:
        """Sum over applications of the most slots that each had at once."""
        each = (np.cumsum(one.slots.change) for one in self.workloads.values())
        return sum(int(slots.max(initial=0)) for slots in each)

    def errors(self) -> Floats:
        """How far a replay of the run as it was is off: :func:`replay_errors`."""
        return replay_errors(self.tables, self.replay())

    def _touched(self, chosen: Mapping[int, str]) -> set[int]:
        app = self.tables.queries["app"].to_numpy(np.int64)
        return {int(app[query]) for query in chosen}


def _times(workload: Workload, shares: Shares) -> tuple[Floats, Floats, float]:
    """Start and end of the queries in ms since the epoch; slot time that caps left idle, in ms."""
    slots = workload.slots.anywhere()
    found = run(workload.steps, workload.work, slots, shares)
    order = workload.order
    start, end = found.done[order.query_start], found.done[order.query_end]
    idle = idle_slot_ms(workload.steps, workload.work, slots, shares, found)
    return start + workload.origin, end + workload.origin, idle


def record(tables: Tables) -> Recording:
    """Lay a recorded run out for replays.

    tables: From :func:`iqcar.read`.
    """
    recording, doubts = Recording(tables), []
    app_of_task = tables.tasks["app"].to_numpy(np.int64)
    tasks = np.bincount(app_of_task, minlength=len(tables.applications))
    rows_of_app = np.split(np.argsort(app_of_task, kind="stable"), np.cumsum(tasks)[:-1])
    for app, name in enumerate(tables.applications["application_id"].tolist()):
        if tasks[app] == 0:
            continue
        if tasks[app] > MAX_TASKS:
            doubts.append(
                f"{name} is not replayed: its {tasks[app]:,} tasks are more than {MAX_TASKS:,}, "
                "so rules for it carry no expected effect"
            )
            continue
        workload = workload_of(tables, app, rows_of_app[app])
        if workload is None:
            doubts.append(
                f"{name} cannot be replayed: the log does not say which slots its tasks ran in, "
                "so rules for it carry no expected effect"
            )
        else:
            recording.workloads[app] = workload
            doubts += _unknown_weights(tables, workload, name)
    recording.doubts = tuple(doubts)
    return recording


def _unknown_weights(tables: Tables, workload: Workload, name: str) -> list[str]:
    """Doubt a replay of several FAIR pools whose weights nobody recorded."""
    if not is_fair(tables, workload.app):
        return []
    pools = set(ran_in_pools(tables, workload.order.stage))
    if len(pools) < 2:
        return []
    if pools <= recorded_pools(tables, workload.app).keys():
        return []
    recorded = recorded_applications(tables)[workload.app]
    how = "" if recorded else " (the iqcar plugin records them)"
    return [
        f"the weights of the FAIR pools of {name} are not in its log{how}: the expected effect of "
        "rules rests on Spark's defaults for them"
    ]


def replay(tables: Tables, plan: PoolPlan | None = None) -> Replayed:
    """Predict when each query would have run under a plan; None: under the recorded shares.

    The scheduler is Spark's (TaskSchedulerImpl, FIFOSchedulingAlgorithm,
    FairSchedulingAlgorithm): one round of offers whenever a slot comes free or a task set comes
    in, no preemption, locality left out. What is kept as it was recorded: how long each task
    held its slot, when queries started, the driver's time between jobs and stages, when
    executors came and went.

    Returns: Its own error shows in a replay under the recorded shares: see :func:`replay_errors`.

    tables: From :func:`iqcar.read`.
    """
    return record(tables).replay(plan)


def replay_errors(tables: Tables, before: Replayed) -> Floats:
    """How far a replay under the recorded shares is off, as a share of each query's duration.

    Returns: (replayed − recorded) / recorded; NaN for queries that were not replayed, did not end,
    or ran no task.
    """
    queries = tables.queries
    lasted = queries["duration_ms"].to_numpy(np.float64)
    known = queries["ended"].to_numpy(bool) & (queries["tasks"] > 0).to_numpy() & (lasted > 0)
    off = np.full(len(queries), np.nan)
    off[known] = before.duration_ms[known] / lasted[known] - 1.0
    return off
