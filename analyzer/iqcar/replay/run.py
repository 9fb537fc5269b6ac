"""Replay a recorded run: how long each query would have taken under other shares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from iqcar.replay.event_loop import run
from iqcar.replay.recorded_workload import workload_of
from iqcar.replay.scheduling import (
    chosen_pools,
    is_fair,
    planned_shares,
    ran_in_pools,
    recorded_pools,
    recorded_shares,
    stage_order,
)
from iqcar.tables import recorded_applications

if TYPE_CHECKING:
    from iqcar.replay.loop_input import Shares
    from iqcar.replay.recorded_workload import Workload
    from iqcar.replay.scheduling import StageOrder
    from iqcar.rules.pool_plan import PoolPlan
    from iqcar.tables import Tables
    from iqcar.tables.arrays import Floats

MAX_TASKS = 5_000_000
"""Task attempts of an application up to which it is replayed: some seconds for one plan."""


@dataclass(frozen=True)
class Replayed:
    """When queries ran in a replay.

    Attributes
    ----------
    start_ms, end_ms : (queries,) ms since the epoch; NaN for a query that could not be replayed.
    """

    start_ms: Floats
    end_ms: Floats

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
    _before: dict[int, tuple[Floats, Floats]] = field(default_factory=dict)
    _orders: dict[int, StageOrder] = field(default_factory=dict)

    def replay(self, plan: PoolPlan | None = None) -> Replayed:
        """Replay under the recorded shares, or under a plan.

        A plan acts on applications in which it assigns a query to a pool; the others stay as
        they were.
        """
        n = len(self.tables.queries)
        start, end = np.full(n, np.nan), np.full(n, np.nan)
        chosen = chosen_pools(self.tables, plan) if plan is not None else {}
        app = self.tables.queries["app"].to_numpy(np.int64)
        touched = {int(app[query]) for query in chosen}
        for number, workload in self.workloads.items():
            if number not in self._orders:
                self._orders[number] = stage_order(self.tables, workload)
            order = self._orders[number]
            if plan is not None and number in touched:
                times = _times(workload, planned_shares(workload, order, plan, chosen))
            else:
                if number not in self._before:
                    shares = recorded_shares(self.tables, workload, order)
                    self._before[number] = _times(workload, shares)
                times = self._before[number]
            start[workload.order.query], end[workload.order.query] = times
        return Replayed(start, end)


def _times(workload: Workload, shares: Shares) -> tuple[Floats, Floats]:
    """Start and end of the application's queries, in ms since the epoch."""
    done = run(workload.steps, workload.work, workload.slots.anywhere(), shares).done
    order = workload.order
    start, end = done[order.query_start], done[order.query_end]
    return start + workload.origin, end + workload.origin


def record(tables: Tables) -> Recording:
    """Lay a recorded run out for replays.

    Parameters
    ----------
    tables : Tables
        From :func:`iqcar.read`.
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

    Parameters
    ----------
    tables : Tables
        From :func:`iqcar.read`.
    plan : PoolPlan, optional

    Returns
    -------
    Replayed
        Its own error shows in a replay under the recorded shares: see :func:`replay_errors`.

    Notes
    -----
    The scheduler is Spark's (TaskSchedulerImpl, FIFOSchedulingAlgorithm,
    FairSchedulingAlgorithm): one round of offers whenever a slot comes free or a task set comes
    in, no preemption, locality left out. What is kept as it was recorded: how long each task
    held its slot, when queries started, the driver's time between jobs and stages, when
    executors came and went.
    """
    return record(tables).replay(plan)


def replay_errors(tables: Tables, before: Replayed) -> Floats:
    """How far a replay under the recorded shares is off, as a share of each query's duration.

    Returns
    -------
    ndarray of float64, one per query
        (replayed − recorded) / recorded; NaN for queries that were not replayed, did not end, or
        ran no task.
    """
    queries = tables.queries
    lasted = queries["duration_ms"].to_numpy(np.float64)
    known = queries["ended"].to_numpy(bool) & (queries["tasks"] > 0).to_numpy() & (lasted > 0)
    off = np.full(len(queries), np.nan)
    off[known] = before.duration_ms[known] / lasted[known] - 1.0
    return off
