"""Replays a scenario: computes launches, hosts, waits and durations from what is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np
import pandas as pd

from iqcar.replay.loop.device_sharing import DEVICE, DEVICES, PHASES
from iqcar.replay.loop.event_loop import run
from iqcar.replay.loop.joint_workload import joint_shares, with_caps
from iqcar.replay.loop.loop_input import Devices, Run, Shares, Steps
from iqcar.replay.loop.run import idle_slot_ms
from iqcar.replay.loop.scheduling import is_fair, shares_of_pools
from iqcar.replay.loop.task_demands import DISK, NETWORK, PROCESSOR, Way
from iqcar.replay.whatif.query_chains import chain_steps
from iqcar.replay.whatif.scenario import PoolChoice, Scenario
from iqcar.rules.recorded_setup import DEFAULT_POOL
from iqcar.rules.rule import Pool, pool_name
from iqcar.tables import texts
from iqcar.tables.arrays import Floats, share_of, sum_by

MEMORY, SLOTS = DEVICES, DEVICES + 1
"""Columns of waits after those of the devices."""
JITTER = 0.01
"""Log-normal spread of tasks' work between replays of one question: slots are given by luck."""


@dataclass(frozen=True)
class Member:
    """One way to replay; by default the one that explains the record best."""

    way: Way | None = None
    seed: int = 0


class DeviceUse(NamedTuple):
    """Use of each host's disk, network and processors, ndarrays of shape (n_hosts, 3).

    tasks: tasks that used the device.
    alone_ms, spent_ms: sums over these of the time that they needed alone, and that they took.
    utilisation: share of ``lasted_ms`` in which the whole capacity would have been used.
    lasted_ms: From the first launch to the last end of a task.
    """

    tasks: Floats
    alone_ms: Floats
    spent_ms: Floats
    utilisation: Floats
    lasted_ms: float


@dataclass(frozen=True)
class Outcome:
    """What followed; rows of queries as in ``tables.queries``, NaN where one was not replayed.

    start_ms, end_ms: (n_queries,), ms since the epoch.
    wait_ms: (n_queries, 5), ms of task time; waited for disk, network, processors, execution memory
        and slots.
    task_ms: (n_queries,), ms; time that tasks of the query ran or waited for a slot.
    idle_slot_ms: Time that slots stood free while tasks waited that a cap held back.
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


class Replay(NamedTuple):
    """What happened in a replay.

    alone: (n_tasks, 5), ms; what tasks needed in each phase.
    start_ms, end_ms, idle_slot_ms: As in :class:`Outcome`.
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

    member: How to replay; by default as :class:`Member` says.
    shares: Other modes, pools and caps than those of the scenario.
    """
    how = member or Member()
    one, way = scenario, how.way or scenario.way
    alone = one.alone
    if how.seed:
        alone = alone * _luck(one, how.seed)[:, None]
    came = one.slots.change > 0
    places = np.bincount(one.slots.host[came], one.slots.change[came], one.slots.hosts)
    places = np.minimum(places, len(alone))
    user_start = np.zeros(DEVICES * one.slots.hosts + 1, np.int64)
    np.cumsum(np.repeat(places.astype(np.int64) + 1, DEVICES), out=user_start[1:])
    devices = Devices(
        alone=alone, use=one.use, capacity=one.capacity.ravel(), user_start=user_start,
        rounds=way.rounds, proportional=way.proportional,
        slowing=np.tile([way.slowing, 0.0, 0.0], one.slots.hosts),
        world=np.zeros(len(alone), np.int64),
        memory=one.memory, memory_capacity=one.memory_capacity.ravel(),
    )  # fmt: skip
    slots = one.slots._replace(seed=how.seed)
    shares = shares or scenario_shares(one)
    steps = _steps_in_turn(one)
    found = run(steps, one.work, slots, shares, devices)
    n = len(one.tables.queries)
    start, end = np.full(n, np.nan), np.full(n, np.nan)
    start[one.query] = found.done[one.query_start] + one.origin
    end[one.query] = found.done[one.query_end] + one.origin
    idle = idle_slot_ms(steps, one.work, slots, shares, found)
    return Replay(found, alone, start, end, idle)


def replay_scenario(scenario: Scenario, member: Member | None = None) -> Outcome:
    """Compute what follows from what is given.

    member: How to replay; by default as :class:`Member` says.
    """
    found, alone, start, end, idle = run_scenario(scenario, member)
    one, n = scenario, len(start)
    query = one.query_of_task
    ran = np.isfinite(found.ended) & (query >= 0)
    lost = np.maximum(found.spent - alone, 0.0)
    ready = (found.released + one.steps.ready)[one.work.step]
    slot = np.maximum(found.launched - ready, 0.0)
    wait = np.zeros((n, SLOTS + 1))
    for phase in range(PHASES):
        if DEVICE[phase] >= 0:
            wait[:, DEVICE[phase]] += sum_by(query[ran], lost[ran, phase], n)
    if len(found.lacked_memory):
        wait[:, MEMORY] = sum_by(query[ran], found.lacked_memory[ran], n)
    wait[:, SLOTS] = sum_by(query[ran], slot[ran], n)
    lasted = found.ended - found.launched + slot
    use = _device_use(one, found, alone)
    return Outcome(
        start_ms=start, end_ms=end, wait_ms=wait, task_ms=sum_by(query[ran], lasted[ran], n),
        devices=use, idle_slot_ms=idle,
    )  # fmt: skip


def _steps_in_turn(scenario: Scenario) -> Steps:
    """Steps in which queries start after those that they follow."""
    later = np.flatnonzero(scenario.follows >= 0)
    if len(later) == 0:
        return scenario.steps
    earlier = scenario.query_end[scenario.follows[later]]
    return chain_steps(scenario.steps, earlier, scenario.query_start[later], scenario.gap[later])


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


def _luck(scenario: Scenario, seed: int) -> Floats:
    """Factor of each task's work, the same for a task in every question."""
    place = np.arange(len(scenario.work.step)) - scenario.steps.first_task[scenario.work.step]
    rng_of = np.random.default_rng([seed, 1])
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
    recorded = zip(scenario.workloads, scenario.orders, scenario.ran_in, strict=True)
    chosen = scenario.pools
    for app, (workload, order, names) in enumerate(recorded):
        fair = is_fair(scenario.tables, workload.app)
        weights, set_fair = chosen.weights, chosen.set_fair(app)
        own = {row: pool_name(called[row], frozenset()) for row in {*order.query} & weights.keys()}
        pools = names
        if set_fair is not None or own:
            fair = True if own else bool(set_fair)
            pools = [
                own.get(query, name or DEFAULT_POOL)
                for query, name in zip(order.query, names, strict=True)
            ]
        new = {name: weights[row] for row, name in own.items()}
        declared = {**order.pools, **_changed_pools(order.pools, chosen)}
        parts.append(
            shares_of_pools(workload, order, fair, pools=declared, stage_pool=pools, weights=new)
        )
    return with_caps(joint_shares(parts), scenario.cap_of, scenario.cap)


def _changed_pools(pools: Mapping[str, Pool], chosen: PoolChoice) -> dict[str, Pool]:
    """Return the pools whose weight or minShare is changed, as they are then."""
    found = {}
    for name in {**chosen.pool_weight, **chosen.pool_min_share}:
        pool = pools.get(name, Pool(name))
        found[name] = msgspec.structs.replace(
            pool,
            weight=chosen.pool_weight.get(name, pool.weight),
            min_share=chosen.pool_min_share.get(name, pool.min_share),
        )
    return found


DEVICE_NAMES = {DISK: "disk", NETWORK: "network", PROCESSOR: "processors"}
KEY = ("host", "resource")
LAWS = ("tasks", "throughput_per_s", "demand_ms", "utilisation", "alone_ms", "wait_ms", "time_ms")


def operational_laws(scenario: Scenario, outcome: Outcome) -> pd.DataFrame:
    """Compute the operational laws of the devices that tasks used.

    Returns: One row per host and device in use, the busiest first: ``host``, ``resource``,
    ``tasks``, ``throughput_per_s`` (X), ``demand_ms`` (D, of the whole device per task),
    ``utilisation`` (U = X · D, 0 to 1), and per task ``alone_ms``, ``wait_ms`` and their sum
    ``time_ms`` (R).
    """
    use, rows = outcome.devices, []
    for device, name in DEVICE_NAMES.items():
        tasks = use.tasks[:, device]
        throughput = tasks / (use.lasted_ms / 1e3)
        alone = share_of(use.alone_ms[:, device], tasks)
        time = share_of(use.spent_ms[:, device], tasks)
        hosts = np.flatnonzero(tasks)
        rows.append(
            pd.DataFrame(
                {
                    "host": [scenario.hosts[host] for host in hosts],
                    "resource": name,
                    "tasks": tasks[hosts],
                    "throughput_per_s": throughput[hosts],
                    "demand_ms": 1e3 * share_of(use.utilisation[:, device], throughput)[hosts],
                    "utilisation": use.utilisation[hosts, device],
                    "alone_ms": alone[hosts],
                    "wait_ms": np.maximum(time - alone, 0.0)[hosts],
                    "time_ms": np.maximum(time, alone)[hosts],
                }
            )
        )
    laws = pd.concat(rows, ignore_index=True)
    return laws.sort_values("utilisation", ascending=False, kind="stable", ignore_index=True)


def before_and_after(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Set two tables of :func:`operational_laws` side by side, the busiest of either first.

    Returns: ``host``, ``resource``, and each law as ``…_before`` and ``…_after``; NaN where the
    device was not in use.
    """
    both = before.merge(after, how="outer", on=list(KEY), suffixes=("_before", "_after"))
    most = both[["utilisation_before", "utilisation_after"]].max(axis=1)
    order = np.lexsort((both["resource"], both["host"], -most))
    columns = [*KEY, *(f"{law}_{side}" for law in LAWS for side in ("before", "after"))]
    return both.loc[order, columns].reset_index(drop=True)
