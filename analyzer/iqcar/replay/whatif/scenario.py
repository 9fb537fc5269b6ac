"""Infers from the record what a causal model of the run takes as given.

Given are what tasks need, what devices can do, slots, shares, and when queries start. Waits, hosts,
launches and durations follow (:mod:`iqcar.replay.whatif.outcome`). An intervention edits what is
given (:mod:`iqcar.replay.whatif.edit`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from iqcar.replay.loop.device_sharing import DEVICE, DEVICES
from iqcar.replay.loop.fit_demands import fit_demands
from iqcar.replay.loop.joint_workload import joint_workload
from iqcar.replay.loop.loop_input import Slots, Steps, Work
from iqcar.replay.loop.memory_demands import MemoryDemands
from iqcar.replay.loop.open_loop import fit_tasks
from iqcar.replay.loop.recorded_workload import Workload
from iqcar.replay.loop.run import record
from iqcar.replay.loop.scheduling import StageOrder, ran_in_pools, stage_order
from iqcar.replay.loop.task_demands import (
    ASSUMED,
    DISK,
    HEADROOM,
    NETWORK,
    WAIT,
    TaskDemands,
    Way,
    task_demands,
)
from iqcar.replay.whatif.curves import Curve, set_own_rates
from iqcar.replay.whatif.query_chains import queries_in_turn
from iqcar.tables import NONE, Tables
from iqcar.tables.arrays import Flags, Floats, Ints, share_of, sum_by

if TYPE_CHECKING:
    from iqcar.model.demand.estimate import Demand

MUCH_USED = 0.2
"""Utilisation of a device at its assumed capacity from which it may have been short."""


@dataclass(frozen=True)
class PoolChoice:
    """Mode and pools of the scheduler; None: as recorded."""

    fair: bool | None = None
    weights: dict[int, int] = field(default_factory=dict)
    """Weight of a pool of its own for each of these queries."""
    fair_of: dict[int, bool] = field(default_factory=dict)
    """The same as ``fair`` for some applications, by position among the workloads."""
    pool_weight: dict[str, int] = field(default_factory=dict)
    """Weight of each of these pools that there are."""
    pool_min_share: dict[str, int] = field(default_factory=dict)

    def set_fair(self, app: int) -> bool | None:
        """Return what is chosen for an application; None: as recorded."""
        return self.fair_of.get(app, self.fair)


class TaskNeeds(NamedTuple):
    """What tasks need, and devices can do; as in :class:`Scenario`."""

    alone: Floats
    use: Floats
    capacity: Floats


@dataclass(frozen=True)
class Scenario:
    """What is given in a run; rows of tasks as in ``work``.

    tables: As recorded.
    workloads: Of the applications that can be replayed.
    ran_in: Pool that each stage's tasks ran in, as recorded.
    query, query_start, query_end: (n_queries,); rows of the queries, and their steps.
    query_of_step: (n_steps,); row of the query of each stage; −1 for a moment.
    stage_of_step: (n_steps,).
    steps, work, slots: what the event loop takes.
    alone, use: (n_tasks, 5); as in :class:`iqcar.replay.loop.task_demands.TaskDemands`.
    gc: (n_tasks,), ms.
    task: (n_tasks,); row of each task in the tables; of a task made anew, of one that it is like.
    capacity: (n_hosts, 3).
    evidence: (n_hosts, 3).
    follows: (n_queries,), int64; position of the query that each one starts after; −1 if it starts
        when it did.
    gap: (n_queries,), ms; from that one's end to its start.
    cap_of: (n_steps,).
    cap: (n_caps,).
    way: how tasks use devices.
    slow, fast: what tasks need if own rates are as low, and as high, as the data allow (middle
        80 %); of the run as it was.
    """

    tables: Tables
    workloads: tuple[Workload, ...]
    orders: tuple[StageOrder, ...]
    ran_in: tuple[list[str], ...]
    origin: float
    query: Ints
    query_start: Ints
    query_end: Ints
    follows: Ints
    gap: Floats
    query_of_step: Ints
    stage_of_step: Ints
    steps: Steps
    work: Work
    slots: Slots
    alone: Floats
    use: Floats
    gc: Floats
    task: Ints
    capacity: Floats
    evidence: np.ndarray
    hosts: tuple[str, ...]
    pools: PoolChoice
    cap_of: Ints
    cap: Ints
    doubts: tuple[str, ...]
    way: Way
    slow: TaskNeeds
    fast: TaskNeeds
    own_rates: str = ""
    """What was measured of stages' own rates, as a sentence."""
    memory: Floats = field(default_factory=lambda: np.zeros(0))
    """(n_tasks,) bytes of execution memory that each task wants; no rows: it is not shared."""
    memory_capacity: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    """(n_apps, n_hosts) bytes of execution memory."""

    @property
    def query_of_task(self) -> Ints:
        """Row of the query of each task."""
        return self.query_of_step[self.work.step]


def build_scenario(
    tables: Tables,
    waits: pd.DataFrame,
    demand: Demand,
    curves: Sequence[Curve] = (),
    memory: MemoryDemands | None = None,
    *,
    coarse: bool = False,
    idle_too: bool = True,
) -> tuple[Scenario, Scenario, TaskDemands] | None:
    """Build the causal model of a recorded run; None where nothing can be replayed.

    The second one is for the check: in it no task was fitted by itself. The third is what the
    first was built from.

    waits: From :func:`iqcar.model.waits.measure.measure_waits`.
    demand: From :func:`iqcar.causes.blame.attribute.attribute`.
    curves: Own rates that were measured.
    memory: Execution memory is shared; by default tasks wait for it as long as they did.
    coarse: Whether no task is fitted by itself and no other explanation is sought: a tenth of the
        time.
    idle_too: Whether to build it also where no device can ever be short: slots alone tell all then.
    """
    recording = record(tables)
    workloads = tuple(recording.workloads.values())
    if not workloads:
        return None
    needs = task_demands(tables, waits, demand)
    joint = joint_workload(workloads)
    plenty = never_short(joint.slots, needs.alone, needs.use, needs.capacity)
    if plenty.all() and not idle_too:
        return None
    fits = fit_demands(tables, needs, demand, coarse=coarse)
    demands, unfitted, slow, fast = fits.fitted, fits.check, fits.slow, fits.fast
    if memory is not None:
        demands, unfitted, slow, fast = (
            _without_memory_waits(one, memory) for one in (demands, unfitted, slow, fast)
        )
    demands, own_rates = set_own_rates(demands, tables, curves)
    unfitted, _ = set_own_rates(unfitted, tables, curves)
    follows, gap = _chained(tables, joint.query)
    stages = tables.stages["query"].to_numpy(np.int64)
    n_steps = len(joint.steps.delay)
    query = np.full(n_steps, -1, np.int64)
    is_stage = joint.stage >= 0
    query[is_stage] = stages[joint.stage[is_stage]]
    fitted = Scenario(
        tables=tables, workloads=workloads, origin=joint.origin, query=joint.query,
        orders=tuple(stage_order(tables, each) for each in workloads),
        ran_in=tuple(ran_in_pools(tables, each.order.stage) for each in workloads),
        query_start=joint.query_start, query_end=joint.query_end, follows=follows, gap=gap,
        query_of_step=query, stage_of_step=joint.stage, steps=joint.steps, work=joint.work,
        slots=joint.slots, alone=demands.alone[joint.task], use=demands.use[joint.task],
        gc=demands.gc[joint.task], task=joint.task, capacity=demands.capacity,
        evidence=demands.evidence,
        hosts=tuple(tables.hosts["host"].astype(str)), pools=PoolChoice(),
        cap_of=np.full(n_steps, -1, np.int64), cap=np.zeros(0, np.int64),
        doubts=recording.doubts, own_rates=own_rates, way=demands.way,
        slow=TaskNeeds(slow.alone[joint.task], slow.use[joint.task], slow.capacity),
        fast=TaskNeeds(fast.alone[joint.task], fast.use[joint.task], fast.capacity),
    )  # fmt: skip
    if memory is not None:
        fitted = replace(
            fitted,
            memory=memory.wanted[joint.task],
            memory_capacity=memory.capacity[joint.app],
        )
    demands = _as_seen(demands, needs)
    if coarse:
        return fitted, fitted, demands
    check = replace(fitted, alone=unfitted.alone[joint.task], use=unfitted.use[joint.task])
    return fitted, check, demands


def other_explanation(scenario: Scenario, demands: TaskDemands) -> Scenario | None:
    """Explain the record otherwise; None where nothing else explains it.

    Devices whose capacity is only assumed can do no more than the most that was seen, so that tasks
    waited for each other there.
    """
    tables = scenario.tables
    doubted = _might_be_short(tables, demands)
    if not doubted.any():
        return None
    capacity = np.where(doubted, demands.capacity / HEADROOM, scenario.capacity)
    short = fit_tasks(tables, _as_fast_as_devices(tables, demands, doubted, capacity))
    task = scenario.task
    return replace(scenario, alone=short.alone[task], use=short.use[task], capacity=capacity)


def _as_seen(demands: TaskDemands, needs: TaskDemands) -> TaskDemands:
    """Let capacities that are assumed be a multiple of what tasks had, or of what loads suggest."""
    suggested = np.where(needs.evidence == ASSUMED, needs.capacity, HEADROOM * needs.capacity)
    assumed = demands.evidence == ASSUMED
    return replace(demands, capacity=np.where(assumed, suggested, demands.capacity))


def _chained(tables: Tables, query: Ints) -> tuple[Ints, Floats]:
    """Position of the query that each one starts after, and the time between, ms."""
    position = np.full(len(tables.queries) + 1, NONE, np.int64)
    position[query] = np.arange(len(query))
    row = queries_in_turn(tables)[query]
    begin, end = (tables.queries[name].to_numpy(np.float64) for name in ("start_ms", "end_ms"))
    follows = position[row]
    gap = np.where(follows >= 0, np.maximum(begin[query] - end[row], 0.0), 0.0)
    return follows, gap


def never_short(slots: Slots, alone: Floats, use: Floats, capacity: Floats) -> Flags:
    """Tell which devices can do what the most demanding task asks, in all slots at once.

    Returns ndarray of shape (3,), bool: of disks, networks and processors: on all hosts.
    """
    came = slots.change > 0
    at_once = np.bincount(slots.host[came], slots.change[came], len(capacity))
    found = np.ones(DEVICES, bool)
    for phase in np.flatnonzero(DEVICE >= 0):
        most = use[alone[:, phase] > 0, phase].max(initial=0.0)
        found[DEVICE[phase]] &= bool((at_once * most <= capacity[:, DEVICE[phase]]).all())
    return found


def _without_memory_waits(demands: TaskDemands, memory: MemoryDemands) -> TaskDemands:
    """Take the waits for memory out of the time that stays: they follow from who holds it."""
    alone = demands.alone.copy()
    alone[:, WAIT] = np.maximum(alone[:, WAIT] - memory.waited, 0.0)
    return replace(demands, alone=alone)


def _as_fast_as_devices(
    tables: Tables, demands: TaskDemands, doubted: Flags, capacity: Floats
) -> TaskDemands:
    """Let tasks alone fill the doubted devices: all that they took longer, they waited there."""
    host = np.maximum(tables.tasks["host"].to_numpy(np.int64), 0)
    alone = demands.alone.copy()
    moved = demands.alone * demands.use
    for phase in np.flatnonzero(DEVICE >= 0):
        device = DEVICE[phase]
        least = np.minimum(share_of(moved[:, phase], capacity[host, device]), alone[:, phase])
        alone[:, phase] = np.where(doubted[host, device], least, alone[:, phase])
    return replace(demands, alone=alone, use=share_of(moved, alone), capacity=capacity)


def _might_be_short(tables: Tables, demands: TaskDemands) -> Flags:
    """Mark capacities of disks and networks that are assumed and were in use much of the time."""
    launch, finish = (
        tables.tasks[name].to_numpy(np.float64) for name in ("launch_ms", "finish_ms")
    )
    host = tables.tasks["host"].to_numpy(np.int64)
    ran = np.flatnonzero((host >= 0) & np.isfinite(launch + finish))
    n_hosts = len(tables.hosts)
    first, last = np.full(n_hosts, np.inf), np.full(n_hosts, -np.inf)
    np.minimum.at(first, host[ran], launch[ran])
    np.maximum.at(last, host[ran], finish[ran])
    lasted = np.maximum(last - first, 1.0)
    moved = demands.alone[ran] * demands.use[ran]
    doubted = np.zeros(demands.capacity.shape, bool)
    for device in (DISK, NETWORK):
        in_it = np.sum(moved[:, device == DEVICE], axis=1)
        used = sum_by(host[ran], in_it, n_hosts) / lasted / demands.capacity[:, device]
        if used.max(initial=0.0) >= MUCH_USED:
            doubted[:, device] = demands.evidence[:, device] == ASSUMED
    return doubted
