"""A recorded run as a causal model: what is given, and a replay that computes what follows from it.

Given are what tasks need, what devices can do, slots, shares, and when queries start. Waits, hosts,
launches and durations follow. An intervention edits what is given (:mod:`iqcar.whatif.edit`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iqcar.replay import record
from iqcar.replay.event_loop import DEVICE, DEVICES, PHASES, run
from iqcar.replay.idle_slots import idle_slot_ms
from iqcar.replay.joint_workload import joint_shares, joint_workload, with_caps
from iqcar.replay.loop_input import Devices
from iqcar.replay.open_loop import ROUNDS, fit_demands, fit_tasks
from iqcar.replay.scheduling import (
    is_fair,
    ran_in_pools,
    shares_of_pools,
    stage_order,
)
from iqcar.replay.task_demands import ASSUMED, DISK, HEADROOM, NETWORK, task_demands
from iqcar.rules.pool_names import pool_name
from iqcar.rules.priorities import DEFAULT_POOL
from iqcar.tables import texts
from iqcar.tables.arrays import share_of, sum_by
from iqcar.whatif.curves import set_own_rates

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from iqcar.demand.estimate import Demand
    from iqcar.replay.event_loop import Run
    from iqcar.replay.loop_input import Shares, Slots, Steps, Work
    from iqcar.replay.recorded_workload import Workload
    from iqcar.replay.task_demands import TaskDemands
    from iqcar.tables import Tables
    from iqcar.tables.arrays import Flags, Floats, Ints
    from iqcar.whatif.curves import Curve

MUCH_USED = 0.2
"""Utilisation of a device at its assumed capacity from which it may have been short."""
JITTER = 0.01
"""Log-normal spread of tasks' work between replays of one question: slots are given by luck."""


@dataclass(frozen=True)
class Member:
    """One way to replay: how often tasks go through their phases, and how devices are shared."""

    rounds: int = ROUNDS
    proportional: bool = False
    luck: int = 0


@dataclass(frozen=True)
class PoolChoice:
    """Mode and pools of the scheduler; None: as recorded."""

    fair: bool | None = None
    weights: dict[int, int] = field(default_factory=dict)
    """Weight of a pool of its own for each of these queries."""


@dataclass(frozen=True)
class Scenario:
    """What is given in a run; rows of tasks as in ``work``.

    Attributes
    ----------
    tables : Tables
        As recorded.
    workloads : tuple of Workload
        Of the applications that can be replayed.
    query, query_start, query_end : ndarray of shape (n_queries,)
        Rows of the queries, and their steps.
    query_of_step : ndarray of shape (n_steps,)
        Row of the query of each stage; −1 for a moment.
    stage_of_step : ndarray of shape (n_steps,)
    steps, work, slots : what the event loop takes.
    alone, use : ndarray of shape (n_tasks, 5)
        As in :class:`iqcar.replay.task_demands.TaskDemands`.
    gc : ndarray of shape (n_tasks,), ms
    capacity : ndarray of shape (n_hosts, 3)
    evidence : ndarray of shape (n_hosts, 3)
    hosts : tuple of str
    pools : PoolChoice
    cap_of : ndarray of shape (n_steps,)
    cap : ndarray of shape (n_caps,)
    """

    tables: Tables
    workloads: tuple[Workload, ...]
    origin: float
    query: Ints
    query_start: Ints
    query_end: Ints
    query_of_step: Ints
    stage_of_step: Ints
    steps: Steps
    work: Work
    slots: Slots
    alone: Floats
    use: Floats
    gc: Floats
    capacity: Floats
    evidence: np.ndarray
    hosts: tuple[str, ...]
    pools: PoolChoice
    cap_of: Ints
    cap: Ints
    doubts: tuple[str, ...]
    own_rates: str = ""
    """What was measured of stages' own rates, as a sentence."""

    @property
    def query_of_task(self) -> Ints:
        """Row of the query of each task."""
        return self.query_of_step[self.work.step]


class DeviceUse(NamedTuple):
    """Use of each host's disk, network and processors, ndarrays of shape (n_hosts, 3).

    Attributes
    ----------
    tasks : tasks that used the device.
    alone_ms, spent_ms : sums over these of the time that they needed alone, and that they took.
    utilisation : share of ``lasted_ms`` in which the whole capacity would have been used.
    lasted_ms : float
        From the first launch to the last end of a task.
    """

    tasks: Floats
    alone_ms: Floats
    spent_ms: Floats
    utilisation: Floats
    lasted_ms: float


@dataclass(frozen=True)
class Outcome:
    """What followed; rows of queries as in ``tables.queries``, NaN where one was not replayed.

    Attributes
    ----------
    start_ms, end_ms : ndarray of shape (n_queries,), ms since the epoch
    wait_ms : ndarray of shape (n_queries, 4), ms of task time
        Waited for disk, network, processors and slots.
    task_ms : ndarray of shape (n_queries,), ms
        Time that tasks of the query ran or waited for a slot.
    devices : DeviceUse
    idle_slot_ms : float
        Time that slots stood free while tasks waited that a cap held back.
    """

    start_ms: Floats
    end_ms: Floats
    wait_ms: Floats
    task_ms: Floats
    devices: DeviceUse
    idle_slot_ms: float = 0.0

    @property
    def duration_ms(self) -> Floats:
        """End less start."""
        lasted: Floats = self.end_ms - self.start_ms
        return lasted


def build_scenario(
    tables: Tables,
    waits: pd.DataFrame,
    demand: Demand,
    curves: Sequence[Curve] = (),
    *,
    coarse: bool = False,
    idle_too: bool = True,
) -> tuple[Scenario, Scenario, Scenario | None] | None:
    """Build the causal model of a recorded run; None where nothing can be replayed.

    The second one is for the check: in it no task was fitted by itself. The third, where there is
    one, explains the record otherwise: devices whose capacity is only assumed can do no more than
    the most that was seen, so that tasks waited for each other there.

    Parameters
    ----------
    tables : Tables
    waits : DataFrame
        From :func:`iqcar.waits.measure_waits`.
    demand : Demand
        From :func:`iqcar.blame.attribute.attribute`.
    curves : sequence of Curve
        Own rates that were measured.
    coarse : bool
        Whether no task is fitted by itself and no other explanation is sought: a tenth of the time.
    idle_too : bool
        Whether to build it also where no device can ever be short: slots alone tell all then.
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
    demands, unfitted = fit_demands(tables, needs, coarse=coarse)
    demands, own_rates = set_own_rates(demands, tables, curves)
    unfitted, _ = set_own_rates(unfitted, tables, curves)
    stages = tables.stages["query"].to_numpy(np.int64)
    n_steps = len(joint.steps.delay)
    query = np.full(n_steps, -1, np.int64)
    is_stage = joint.stage >= 0
    query[is_stage] = stages[joint.stage[is_stage]]
    fitted = Scenario(
        tables=tables,
        workloads=workloads,
        origin=joint.origin,
        query=joint.query,
        query_start=joint.query_start,
        query_end=joint.query_end,
        query_of_step=query,
        stage_of_step=joint.stage,
        steps=joint.steps,
        work=joint.work,
        slots=joint.slots,
        alone=demands.alone[joint.task],
        use=demands.use[joint.task],
        gc=demands.gc[joint.task],
        capacity=demands.capacity,
        evidence=demands.evidence,
        hosts=tuple(tables.hosts["host"].astype(str)),
        pools=PoolChoice(),
        cap_of=np.full(n_steps, -1, np.int64),
        cap=np.zeros(0, np.int64),
        doubts=recording.doubts,
        own_rates=own_rates,
    )
    if coarse:
        return fitted, fitted, None
    check = replace(fitted, alone=unfitted.alone[joint.task], use=unfitted.use[joint.task])
    doubted = _might_be_short(tables, demands)
    if not doubted.any():
        return fitted, check, None
    capacity = np.where(doubted, demands.capacity / HEADROOM, demands.capacity)
    short = fit_tasks(tables, _as_fast_as_devices(tables, demands, doubted, capacity))
    other = replace(
        fitted, alone=short.alone[joint.task], use=short.use[joint.task], capacity=capacity
    )
    return fitted, check, other


def never_short(slots: Slots, alone: Floats, use: Floats, capacity: Floats) -> Flags:
    """Tell which devices can do what the most demanding task asks, in all slots at once.

    Returns
    -------
    ndarray of shape (3,), bool
        Of disks, networks and processors: on all hosts.
    """
    came = slots.change > 0
    at_once = np.bincount(slots.host[came], slots.change[came], len(capacity))
    found = np.ones(DEVICES, bool)
    for phase in np.flatnonzero(DEVICE >= 0):
        most = use[alone[:, phase] > 0, phase].max(initial=0.0)
        found[DEVICE[phase]] &= bool((at_once * most <= capacity[:, DEVICE[phase]]).all())
    return found


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


class Replay(NamedTuple):
    """What happened in a replay.

    Attributes
    ----------
    run : Run
    alone : ndarray of shape (n_tasks, 5), ms
        What tasks needed in each phase.
    start_ms, end_ms, idle_slot_ms
        As in :class:`Outcome`.
    """

    run: Run
    alone: Floats
    start_ms: Floats
    end_ms: Floats
    idle_slot_ms: float


def run_scenario(
    scenario: Scenario, member: Member | None = None, shares: Shares | None = None
) -> Replay:
    """Compute when queries run.

    Parameters
    ----------
    scenario : Scenario
    member : Member, optional
        How to replay; by default as :class:`Member` says.
    shares : Shares, optional
        Other modes, pools and caps than those of the scenario.
    """
    how = member or Member()
    one = scenario
    alone = one.alone
    if how.luck:
        alone = alone * _luck(one, how.luck)[:, None]
    came = one.slots.change > 0
    places = np.bincount(one.slots.host[came], one.slots.change[came], one.slots.hosts)
    seats = np.zeros(DEVICES * one.slots.hosts + 1, np.int64)
    np.cumsum(np.repeat(places.astype(np.int64) + 1, DEVICES), out=seats[1:])
    devices = Devices(alone, one.use, one.capacity.ravel(), seats, how.rounds, how.proportional)
    slots = one.slots._replace(luck=how.luck)
    shares = shares or scenario_shares(one)
    found = run(one.steps, one.work, slots, shares, devices)
    n = len(one.tables.queries)
    start, end = np.full(n, np.nan), np.full(n, np.nan)
    start[one.query] = found.done[one.query_start] + one.origin
    end[one.query] = found.done[one.query_end] + one.origin
    idle = idle_slot_ms(one.steps, one.work, slots, shares, found)
    return Replay(found, alone, start, end, idle)


def replay_scenario(scenario: Scenario, member: Member | None = None) -> Outcome:
    """Compute what follows from what is given.

    Parameters
    ----------
    scenario : Scenario
    member : Member, optional
        How to replay; by default as :class:`Member` says.
    """
    found, alone, start, end, idle = run_scenario(scenario, member)
    one, n = scenario, len(start)
    query = one.query_of_task
    ran = np.isfinite(found.ended) & (query >= 0)
    lost = np.maximum(found.spent - alone, 0.0)
    ready = (found.released + one.steps.ready)[one.work.step]
    slot = np.maximum(found.launched - ready, 0.0)
    wait = np.zeros((n, DEVICES + 1))
    for phase in range(PHASES):
        if DEVICE[phase] >= 0:
            wait[:, DEVICE[phase]] += sum_by(query[ran], lost[ran, phase], n)
    wait[:, DEVICES] = sum_by(query[ran], slot[ran], n)
    lasted = found.ended - found.launched + slot
    use = _device_use(one, found, alone)
    return Outcome(start, end, wait, sum_by(query[ran], lasted[ran], n), use, idle)


def _device_use(scenario: Scenario, found: Run, alone: Floats) -> DeviceUse:
    hosts = scenario.slots.hosts
    tasks, needed, spent, used = (np.zeros((hosts, DEVICES)) for _ in range(4))
    on = np.flatnonzero((found.host >= 0) & np.isfinite(found.ended))
    host = found.host[on]
    for device in range(DEVICES):
        phases = np.flatnonzero(device == DEVICE)
        mine = alone[on][:, phases]
        tasks[:, device] = sum_by(host, np.where((mine > 0).any(axis=1), 1.0, 0.0), hosts)
        needed[:, device] = sum_by(host, np.sum(mine, axis=1), hosts)
        spent[:, device] = sum_by(host, found.spent[on][:, phases].sum(axis=1), hosts)
        used[:, device] = sum_by(host, (mine * scenario.use[on][:, phases]).sum(axis=1), hosts)
    ends, launches = found.ended, found.launched
    lasted = max(float(np.nanmax(ends, initial=0.0) - np.nanmin(launches, initial=np.inf)), 1.0)
    with np.errstate(invalid="ignore"):
        utilisation = np.nan_to_num(used / scenario.capacity / lasted)
    return DeviceUse(tasks, needed, spent, utilisation, lasted)


def _luck(scenario: Scenario, luck: int) -> Floats:
    """Factor of each task's work, the same for a task in every question."""
    place = np.arange(len(scenario.work.step)) - scenario.steps.first_task[scenario.work.step]
    rng_of = np.random.default_rng([luck, 1])
    table = rng_of.standard_normal(4096)
    key = (scenario.stage_of_step[scenario.work.step] * 257 + place * 31) % len(table)
    luck_of: Floats = np.exp(JITTER * table[key])
    return luck_of


def scenario_shares(scenario: Scenario) -> Shares:
    """Lay out the scheduler's modes and pools of all applications, and the caps.

    Pools of their own are called as those that rules make: Spark decides ties by name. Runs of one
    name share a pool.
    """
    parts = []
    called = texts(scenario.tables.queries, "name")
    for workload in scenario.workloads:
        order = stage_order(scenario.tables, workload)
        names = ran_in_pools(scenario.tables, workload.order.stage)
        fair = is_fair(scenario.tables, workload.app)
        weights = scenario.pools.weights
        own = {row: pool_name(called[row], frozenset()) for row in {*order.query} & weights.keys()}
        if scenario.pools.fair is not None or own:
            fair = True if own else bool(scenario.pools.fair)
            names = [
                own.get(query, name or DEFAULT_POOL)
                for query, name in zip(order.query, names, strict=True)
            ]
        new = {name: weights[row] for row, name in own.items()}
        parts.append(shares_of_pools(workload, order, fair, order.pools, names, new))
    return with_caps(joint_shares(parts), scenario.cap_of, scenario.cap)
