"""Replays every query alone: what it took longer beside the others, they cost it.

All queries are replayed at once, each in a world of its own: with its application's slots, and
hosts that no other query uses. So it takes about as long as one replay of the run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.base.units import percent
from iqcar.causes.blame.attribute import Blame, attribute, measure_demand
from iqcar.causes.blame.blame_sources import MOST_SOURCES
from iqcar.enums import Request, Resource
from iqcar.model.demand.estimate import Known, Learned, OthersCost
from iqcar.model.waits.columns import MEASURED, evidence_column, wait_column
from iqcar.model.waits.execution_memory import possible_memory_waits
from iqcar.replay.loop.device_sharing import DEVICES
from iqcar.replay.loop.event_loop import run
from iqcar.replay.loop.learned_rates import told_alone
from iqcar.replay.loop.loop_input import Devices, Run, Shares, Slots
from iqcar.replay.loop.task_demands import ASSUMED, COMPUTE, DISK, FETCH, READ, WAIT, WRITE
from iqcar.replay.whatif.edit import keep_starts
from iqcar.replay.whatif.model import Model, build_model
from iqcar.replay.whatif.outcome import run_scenario, scenario_shares
from iqcar.replay.whatif.ranges import blended
from iqcar.replay.whatif.scenario import Scenario, TaskNeeds
from iqcar.tables import NONE, Tables
from iqcar.tables.arrays import Floats, Ints, most_at_once, positive_or_zero, share_of, sum_by

MOST_TASKS = 100_000
"""Tasks of a run up to which it is replayed, which takes 50 µs each."""
MOST_PAIRS = 5_000_000
"""Tasks times tasks at once on a host, up to which a run is replayed: each event looks at them."""
MOST_DEVICES = 3_000_000
"""Devices, or times that slots come and go, in all worlds: some 100 bytes each."""
PHASE_OF = {
    Request.IO_READ: READ,
    Request.IO_WRITE: WRITE,
    Request.SHUFFLE_FETCH: FETCH,
    Request.RUN_QUEUE: COMPUTE,
}
MOST_OFF = 0.3
"""Error of the replayed duration, as a share of the recorded one, from which a replay tells
nothing of a query."""

NO_RANGE = "what is lost to others is divided by the load there, and has no range"
TOO_LARGE = f"the run is too large to replay each query alone: {NO_RANGE}"


def blame_run(
    tables: Tables,
    waits: pd.DataFrame,
    most_sources: int | None = MOST_SOURCES,
    critical_path: bool = False,
    known: Known | None = None,
) -> tuple[Blame, Model | None]:
    """Attribute waits, in the amount that replays tell; see :func:`~.attribute.attribute`.

    known: what earlier runs told of stages and hosts.

    Returns the model of the run, too; None where no two queries ran at once, or none can be
    replayed.
    """
    demand = replace(measure_demand(tables, waits), known=known or Known())
    beside = _ran_at_once(tables)
    why = TOO_LARGE if _is_large(tables) else ""
    model = build_model(tables, waits, demand) if beside and not why else None
    cost = None if model is None else others_cost(model, waits)
    if model is not None:
        says = model.demands.learned
    else:
        says = Learned() if beside else Learned(Known(told_alone(tables, demand)))
    demand = replace(demand, learned=says)
    blame = attribute(
        tables, waits, most_sources=most_sources, critical_path=critical_path, demand=demand,
        cost=cost,
    )  # fmt: skip
    doubt = (why or _no_range(model, cost)) if beside else ""
    return (replace(blame, doubts=(*blame.doubts, doubt)) if doubt else blame), model


def _is_large(tables: Tables) -> bool:
    """Whether replays of all tasks take too long."""
    tasks = tables.tasks
    if len(tasks) > MOST_TASKS:
        return True
    launch, finish = (tasks[c].to_numpy(np.float64) for c in ("launch_ms", "finish_ms"))
    host, hosts = tasks["host"].to_numpy(np.int64), len(tables.hosts)
    ran = (host >= 0) & np.isfinite(launch + finish)
    one = np.ones(np.count_nonzero(ran))
    at_once = most_at_once(host[ran], launch[ran], finish[ran], one, hosts)
    return float((np.bincount(host[ran], minlength=hosts) * at_once).sum()) > MOST_PAIRS


def _no_range(model: Model | None, cost: OthersCost | None) -> str:
    """Say of which queries no replay tells what they lost to others; empty if of none."""
    if model is None:
        return f"no query can be replayed alone: {NO_RANGE}"
    if cost is None:
        return TOO_LARGE
    untold = int((np.isnan(cost.lost_ms) & np.isfinite(model.recorded_ms)).sum())
    if untold == 0:
        return ""
    return (
        f"the replay of {untold} of {len(cost.lost_ms)} queries is off by more than "
        f"{percent(MOST_OFF)} of the run: {NO_RANGE}"
    )


def _ran_at_once(tables: Tables) -> bool:
    """Whether tasks of two queries ran, or waited, at one time."""
    task, queries = tables.tasks, len(tables.queries)
    query = task["query"].to_numpy(np.int64)
    submitted = np.append(tables.stages["submission_ms"].to_numpy(np.float64), np.nan)
    begin = submitted[task["stage"].to_numpy(np.int64)]
    begin = np.fmin(begin, task["launch_ms"].to_numpy(np.float64))
    end = task["finish_ms"].to_numpy(np.float64)
    known = (query >= 0) & np.isfinite(begin) & np.isfinite(end)
    first, last = np.full(queries, np.inf), np.full(queries, -np.inf)
    np.minimum.at(first, query[known], begin[known])
    np.maximum.at(last, query[known], end[known])
    order = np.argsort(first, kind="stable")
    before = np.maximum.accumulate(last[order])[:-1]
    return bool((first[order][1:] < before).any())


class _Worlds(NamedTuple):
    """Worlds: one per query, then one per application for what is of no query.

    app: (n_worlds,) application, as in the scenario.
    of_step: (n_steps,) world of each step.
    """

    app: Ints
    of_step: Ints


def others_cost(model: Model, waits: pd.DataFrame) -> OthersCost | None:
    """Compute what others cost every query; None where that is too much to replay.

    waits: from :func:`iqcar.model.waits.measure.measure_waits`.
    """
    one = keep_starts(model.scenario)
    worlds = _worlds(one)
    changes = np.bincount(one.slots.app, minlength=len(one.workloads))[worlds.app].sum()
    if max(len(worlds.app) * one.slots.hosts * DEVICES, changes) > MOST_DEVICES:
        return None
    together = run_scenario(one).run
    alone = _run_alone(one, worlds, TaskNeeds(one.alone, one.use, one.capacity))
    lasted, took = _durations(one, together), _durations(one, alone)
    recorded = model.recorded_ms
    known = np.abs(lasted / recorded - 1.0) <= MOST_OFF

    def lost_beside(took: Floats) -> Floats:
        found: Floats = np.maximum(recorded - blended(lasted, took, recorded), 0.0)
        return found

    # As what-if says that removing all others saves.
    lost = lost_beside(took)
    least, most = (
        lost_beside(_durations(one, _run_alone(one, worlds, need))) for need in (one.slow, one.fast)
    )
    off = np.minimum(np.abs(model.error[np.isfinite(model.error)]), MOST_OFF)
    noise = recorded * (np.sqrt(np.mean(off**2)) if len(off) else MOST_OFF)
    open_ = (one.fast.capacity < one.capacity).any()
    low = lost - RATES_DOWN * np.maximum(lost - least, 0.0) - NOISE_DOWN * noise
    # Who fills a disk by itself loses nothing to who holds a slot.
    low = low - open_ * np.maximum(lost - most, 0.0)
    high = lost + (1.0 if open_ else RATES_UP) * np.maximum(most - lost, 0.0) + NOISE_UP * noise
    to_others, to_tasks = _parts(model, waits, together, alone)
    query = one.tables.tasks["query"].to_numpy(np.int64)
    high = high + recorded * _unseen(one.tables, waits, to_others)
    low, high = np.maximum(low, 0.0), np.minimum(high, recorded)
    lost, low, high = (np.where(known, ms, np.nan) for ms in (lost, low, high))
    told = np.append(~(np.abs(lasted / recorded - 1.0) > MOST_OFF), True)[query]
    to_others, to_tasks = (
        {request: np.where(told, part, np.nan) for request, part in parts.items()}
        for parts in (to_others, to_tasks)
    )
    return OthersCost(
        lost_ms=lost, low_ms=low, high_ms=high, decided_by=_decided_by(one, waits),
        to_others=to_others, to_tasks=to_tasks, from_disk=_read_from_disk(one),
    )  # fmt: skip


def _read_from_disk(one: Scenario) -> Ints:
    """Rows of stages that read from disks, where these were short; else none."""
    short = (one.evidence[:, DISK] != ASSUMED).any()
    reads = (one.alone[:, READ] > 0) & (one.use[:, READ] > 0) & short
    return np.unique(one.tables.tasks["stage"].to_numpy(np.int64)[one.task[reads]])


def _unseen(tables: Tables, waits: pd.DataFrame, to_others: dict[Request, Floats]) -> Floats:
    """Return the share of each query's task time that it waited for who knows whom."""
    queue = positive_or_zero(waits[wait_column(Request.RUN_QUEUE)].to_numpy(np.float64))
    took = positive_or_zero(waits["duration_ms"].to_numpy(np.float64))
    query, queries = tables.tasks["query"].to_numpy(np.int64), len(tables.queries)
    ran = np.flatnonzero(query >= 0)
    unseen = np.where(np.isnan(to_others[Request.RUN_QUEUE]), queue, 0.0)
    if Request.EXECUTION_MEMORY not in to_others:
        unseen = unseen + possible_memory_waits(tables, waits)
    whole = sum_by(query[ran], took[ran], queries)
    found: Floats = np.minimum(share_of(sum_by(query[ran], unseen[ran], queries), whole), 1.0)
    return found


RATES_DOWN, RATES_UP = 0.05, 0.4
"""Parts of the range below and above the amount, of what lower and higher own rates of all stages
would explain: they are not off in one direction at once. Whether a device was short is one
question."""
NOISE_DOWN, NOISE_UP = 0.5, 1.5
"""Half-widths by the error of the replay before tasks were fitted, as a share of the run, root mean
square over the queries. Noise in the times hides load, so that more than is said was lost."""
LEAST_LOST_MS = 1e-3
"""Less is rounding: clocks count from the start of the run."""
UNSEEN = 0.3
"""Part of a measured wait for the processor from which on recorded tasks do not explain it."""
RESOURCE_OF = {
    READ: Resource.IO,
    WRITE: Resource.IO,
    FETCH: Resource.NETWORK,
    COMPUTE: Resource.CPU,
    WAIT: Resource.CPU,
}


def _decided_by(one: Scenario, waits: pd.DataFrame) -> tuple[Resource | None, ...]:
    """Find for each query the resource whose records would narrow its range most."""
    query, n = one.query_of_task, len(one.tables.queries)
    open_ms = dict.fromkeys((Resource.IO, Resource.NETWORK, Resource.CPU), np.zeros(n))
    mine = query >= 0
    for phase, resource in RESOURCE_OF.items():
        between = np.maximum(one.slow.alone[:, phase] - one.fast.alone[:, phase], 0.0)
        open_ms[resource] = open_ms[resource] + sum_by(query[mine], between[mine], n)
    measured = waits[evidence_column(Request.EXECUTION_MEMORY)].to_numpy() == MEASURED
    memory = np.where(measured, 0.0, possible_memory_waits(one.tables, waits))[one.task]
    open_ms[Resource.MEMORY] = sum_by(query[mine], memory[mine], n)
    if np.isfinite(one.tables.samples["disk_busy"].to_numpy(np.float64)).any():
        open_ms[Resource.IO] = np.zeros(n)
    if np.isfinite(one.tables.samples["net_in_bytes"].to_numpy(np.float64)).any():
        open_ms[Resource.NETWORK] = np.zeros(n)
    resources = list(open_ms)
    every = np.array([open_ms[resource] for resource in resources])
    return tuple(
        resources[at] if ms > 0 else None
        for at, ms in zip(every.argmax(axis=0).tolist(), every.max(axis=0).tolist(), strict=True)
    )


def _worlds(one: Scenario) -> _Worlds:
    """Give each query, and what is of no query, a world."""
    steps_of = np.repeat(
        np.arange(len(one.workloads)), [len(each.steps.delay) for each in one.workloads]
    )
    n, queries = len(one.tables.queries), one.query
    app = np.zeros(n + len(one.workloads), np.int64)
    app[queries] = steps_of[one.query_start]
    app[n:] = np.arange(len(one.workloads))
    of_step = one.query_of_step.copy()
    of_step[one.query_start], of_step[one.query_end] = queries, queries
    of_step = np.where(of_step >= 0, of_step, n + steps_of)
    return _Worlds(app, of_step)


def _run_alone(one: Scenario, worlds: _Worlds, need: TaskNeeds) -> Run:
    """Replay each world."""
    slots, hosts, n = one.slots, one.slots.hosts, len(worlds.app)
    order = np.argsort(slots.app, kind="stable")
    changes = np.bincount(slots.app, minlength=len(one.workloads))
    first = np.cumsum(changes) - changes
    many = changes[worlds.app]
    place = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
    rows = order[np.repeat(first[worlds.app], many) + place]
    world = np.repeat(np.arange(n), many)
    copied = Slots(
        when=slots.when[rows], change=slots.change[rows], when_idle=slots.when_idle[rows],
        app=world, host=slots.host[rows], handover=slots.handover[worlds.app], hosts=hosts,
    )  # fmt: skip
    came = copied.change > 0
    places = np.bincount(
        (world * hosts + copied.host)[came], copied.change[came], n * hosts
    ).astype(np.int64)
    places = np.minimum(places, len(one.work.step))
    user_start = np.zeros(DEVICES * n * hosts + 1, np.int64)
    np.cumsum(np.repeat(places + 1, DEVICES), out=user_start[1:])
    devices = Devices(
        alone=need.alone, use=need.use, capacity=np.tile(need.capacity.ravel(), n),
        user_start=user_start, rounds=one.way.rounds, proportional=one.way.proportional,
        slowing=np.tile([one.way.slowing, 0.0, 0.0], n * hosts),
        world=worlds.of_step[one.work.step] * hosts, memory=one.memory,
        memory_capacity=one.memory_capacity[worlds.app].ravel() if len(one.memory) else np.zeros(0),
    )  # fmt: skip
    return run(one.steps, one.work, copied, _shares_of_worlds(one, worlds), devices)


def _shares_of_worlds(one: Scenario, worlds: _Worlds) -> Shares:
    """Give each world the pools and caps that its query ran in, as if nobody else was in them."""
    shares, n = scenario_shares(one), len(worlds.app)
    pools, pool = np.unique(
        worlds.of_step * len(shares.pool_weight) + shares.pool, return_inverse=True
    )
    world, was = np.divmod(pools, len(shares.pool_weight))
    most, capped = max(len(shares.cap), 1), np.flatnonzero(shares.cap_of >= 0)
    caps, cap = np.unique(
        worlds.of_step[capped] * most + shares.cap_of[capped], return_inverse=True
    )
    cap_of = np.full(len(worlds.of_step), NONE, np.int64)
    cap_of[capped] = cap
    return shares._replace(
        fair=shares.fair[worlds.app], pool_app=world,
        first_pool=np.searchsorted(world, np.arange(n + 1)).astype(np.int64), pool=pool,
        pool_fair=shares.pool_fair[was], pool_weight=shares.pool_weight[was],
        pool_min_share=shares.pool_min_share[was], pool_by_name=shares.pool_by_name[was],
        cap_of=cap_of, cap=shares.cap[caps % most], cap_share=shares.cap_share[caps % most],
        cap_strict=shares.cap_strict[caps % most],
    )  # fmt: skip


def _durations(one: Scenario, found: Run) -> Floats:
    lasted = np.full(len(one.tables.queries), np.nan)
    lasted[one.query] = found.done[one.query_end] - found.done[one.query_start]
    return lasted


def _parts(
    model: Model, waits: pd.DataFrame, together: Run, alone: Run
) -> tuple[dict[Request, Floats], dict[Request, Floats]]:
    """Return which part of each task's losses others cost, and what it lost in devices."""
    one, task = model.scenario, model.scenario.task
    to_others, to_tasks = {}, {}

    def of_all(values: Floats) -> Floats:
        whole = np.zeros(len(waits))
        whole[task] = values
        return whole

    for request, phase in PHASE_OF.items():
        spent, need = together.spent[:, phase], one.alone[:, phase]
        lost = np.where(spent > need + LEAST_LOST_MS, spent - need, 0.0)
        cost = np.clip(spent - alone.spent[:, phase], 0.0, lost)
        to_others[request] = of_all(share_of(cost, lost))
        recorded = positive_or_zero(waits[wait_column(request)].to_numpy(np.float64))
        if request is Request.RUN_QUEUE:
            recorded = recorded + positive_or_zero(waits["compute_ms"].to_numpy(np.float64))
        to_tasks[request] = np.clip(share_of(of_all(lost), recorded), 0.0, 1.0)
    # Waits that no recorded task explains are somebody's who used a processor unseen.
    unseen = of_all(one.alone[:, COMPUTE] - one.alone[:, COMPUTE] * one.use[:, COMPUTE])
    queue = positive_or_zero(waits[wait_column(Request.RUN_QUEUE)].to_numpy(np.float64))
    measured = waits[evidence_column(Request.RUN_QUEUE)].to_numpy() == MEASURED
    unseen = measured & (unseen > UNSEEN * queue)
    to_others[Request.RUN_QUEUE] = np.where(unseen, np.nan, to_others[Request.RUN_QUEUE])
    ready = (together.released + one.steps.ready)[one.work.step]
    waited = np.maximum(together.launched - ready, 0.0)
    ready = (alone.released + one.steps.ready)[one.work.step]
    less = waited - np.maximum(alone.launched - ready, 0.0)
    to_others[Request.SLOT_WAIT] = of_all(np.clip(share_of(less, waited), 0.0, 1.0))
    if len(together.lacked_memory):
        less = together.lacked_memory - alone.lacked_memory
        part = np.clip(share_of(less, together.lacked_memory), 0.0, 1.0)
        to_others[Request.EXECUTION_MEMORY] = of_all(part)
    return to_others, to_tasks
