"""Replays every query alone: what it took longer beside the others, they cost it.

All queries are replayed at once, each in a world of its own: with its application's slots, and
hosts that no other query uses. So it takes about as long as one replay of the run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.causes.blame.attribute import Blame, attribute, measure_demand
from iqcar.causes.blame.folding import MOST_SOURCES
from iqcar.enums import REQUESTS, Request
from iqcar.model.demand.device import Device
from iqcar.model.demand.estimate import MIDDLE, Demand
from iqcar.model.demand.known import Known, KnownRates, Learned
from iqcar.model.demand.others_cost import OthersCost
from iqcar.model.waits.columns import MEASURED, evidence_column, wait_column
from iqcar.replay.loop.device_sharing import DEVICES
from iqcar.replay.loop.event_loop import Run, run
from iqcar.replay.loop.learned_rates import LEAST_ERROR
from iqcar.replay.loop.loop_input import Devices, Shares, Slots
from iqcar.replay.loop.task_demands import COMPUTE, FETCH, READ, WRITE
from iqcar.replay.whatif.edit import keep_starts
from iqcar.replay.whatif.model import Model, build_model
from iqcar.replay.whatif.outcome import run_scenario
from iqcar.replay.whatif.scenario import Scenario
from iqcar.tables import Tables
from iqcar.tables.arrays import Floats, Ints, positive_or_zero, share_of

MOST_DEVICES = 3_000_000
"""Devices of all worlds, some 100 bytes each."""
PHASE_OF = {
    Request.IO_READ: READ,
    Request.IO_WRITE: WRITE,
    Request.SHUFFLE_FETCH: FETCH,
    Request.RUN_QUEUE: COMPUTE,
}
MOST_OFF = 0.3
"""Error of the replayed duration, as a share of the recorded one, from which a replay tells
nothing of a query."""


def blame_run(
    tables: Tables,
    waits: pd.DataFrame,
    devices: dict[Request, Device] | None = None,
    most_sources: int | None = MOST_SOURCES,
    critical_path: bool = False,
    known: Known | None = None,
) -> tuple[Blame, Model | None]:
    """Attribute waits, in the amount that replays tell; see :func:`~.attribute.attribute`.

    known: what earlier runs told of stages and hosts.

    Returns the model of the run, too; None where no two queries ran at once, or none can be
    replayed.
    """
    demand = measure_demand(tables, waits, devices)
    demand = demand if known is None else replace(demand, known=known)
    if not _ran_at_once(tables):
        model, cost, says = None, None, Learned(Known(_told_alone(tables, demand)))
    else:
        model = build_model(tables, waits, demand)
        cost = None if model is None else others_cost(model, waits)
        says = Learned() if model is None else model.demands.learned
    demand = replace(demand, learned=says)
    blame = attribute(
        tables, waits, most_sources=most_sources, critical_path=critical_path, demand=demand,
        cost=cost,
    )  # fmt: skip
    return blame, model


def _ran_at_once(tables: Tables) -> bool:
    """Whether tasks of two queries ran, or waited, at one time."""
    task, queries = tables.tasks, len(tables.queries)
    query = task["query"].to_numpy(np.int64)
    begin = tables.stages["submission_ms"].to_numpy(np.float64)[task["stage"].to_numpy(np.int64)]
    begin = np.fmin(begin, task["launch_ms"].to_numpy(np.float64))
    end = task["finish_ms"].to_numpy(np.float64)
    known = (query >= 0) & np.isfinite(begin) & np.isfinite(end)
    first, last = np.full(queries, np.inf), np.full(queries, -np.inf)
    np.minimum.at(first, query[known], begin[known])
    np.maximum.at(last, query[known], end[known])
    order = np.argsort(first, kind="stable")
    before = np.maximum.accumulate(last[order])[:-1]
    return bool((first[order][1:] < before).any())


def _told_alone(tables: Tables, demand: Demand) -> KnownRates:
    """Own rates of stages where no query ran beside another."""
    parts = [KnownRates(*(np.zeros(0, kind) for kind in (int, int, int, float, float)))]
    query = tables.stages["query"].to_numpy(np.int64)
    for request, rates in demand.rates.items():
        stage, log_low, log_high = rates.stage, np.log(rates.low), np.log(rates.high)
        spread = (log_high - log_low) / (2.0 * MIDDLE)
        every = KnownRates(
            stage, query[stage], np.full(len(stage), REQUESTS.index(request)), np.log(rates.rate),
            spread**2 + LEAST_ERROR**2,
        )  # fmt: skip
        parts.append(every.where(rates.identified & (query[stage] >= 0)))
    return KnownRates(*(np.concatenate(part) for part in zip(*parts, strict=True)))


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
    if len(worlds.app) * one.slots.hosts * DEVICES > MOST_DEVICES:
        return None
    together = run_scenario(one).run
    alone = _run_alone(one, worlds, one.alone)
    lasted, took = _durations(one, together), _durations(one, alone)
    recorded = model.recorded_ms
    off = np.abs(lasted / recorded - 1.0)
    known = off <= MOST_OFF
    bounds = []
    for need in (one.slow, one.fast):
        other = _run_alone(one, worlds, need)
        bounds.append(lasted - _durations(one, other))
    lost = np.maximum(lasted - took, 0.0)
    # A replay that is off by so much says nothing that is surer.
    unsure = np.abs(lasted - recorded) + LEAST_UNSURE * recorded
    low = np.clip(np.minimum(bounds[0], lost) - unsure, 0.0, None)
    high = np.minimum(np.maximum(bounds[1], lost) + unsure, recorded)
    lost, low, high = (np.where(known, ms, np.nan) for ms in (lost, low, high))
    to_others, to_tasks = _parts(model, waits, together, alone)
    return OthersCost(lost, low, high, to_others, to_tasks)


LEAST_UNSURE = 0.01
"""Half-width of ranges at least, as a share of the run: slots are given by luck."""
UNSEEN = 0.3
"""Part of a measured wait for the processor from which on recorded tasks do not explain it."""


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


def _run_alone(one: Scenario, worlds: _Worlds, alone: Floats) -> Run:
    """Replay each world; ``alone`` is what tasks need."""
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
    user_start = np.zeros(DEVICES * n * hosts + 1, np.int64)
    np.cumsum(np.repeat(places + 1, DEVICES), out=user_start[1:])
    moved = one.alone * one.use
    devices = Devices(
        alone=alone, use=share_of(moved, alone), capacity=np.tile(one.capacity.ravel(), n),
        user_start=user_start, rounds=one.way.rounds, proportional=one.way.proportional,
        slowing=np.tile([one.way.slowing, 0.0, 0.0], n * hosts),
        world=worlds.of_step[one.work.step] * hosts, memory=one.memory,
        memory_capacity=one.memory_capacity[worlds.app].ravel() if len(one.memory) else np.zeros(0),
    )  # fmt: skip
    return run(one.steps, one.work, copied, _one_pool_each(one, worlds), devices)


def _one_pool_each(one: Scenario, worlds: _Worlds) -> Shares:
    """One pool in each world, first in, first out."""
    n, none = len(worlds.app), np.zeros(0, np.int64)
    steps = np.arange(len(one.steps.delay))
    return Shares(
        fair=np.zeros(n, bool), pool_app=np.arange(n), first_pool=np.arange(n + 1),
        pool=worlds.of_step, by_stage=steps, by_name=steps, pool_fair=np.zeros(n, bool),
        pool_weight=np.ones(n), pool_min_share=np.zeros(n), pool_by_name=np.arange(n),
        cap_of=np.full(len(steps), -1), cap=none, cap_share=np.zeros(0),
        cap_strict=np.zeros(0, bool),
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
        lost = np.maximum(spent - need, 0.0)
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
