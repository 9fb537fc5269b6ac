"""Lays out one application of a recorded run for the event loop: steps, tasks, slots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iqcar.replay.loop.dependencies import order_of
from iqcar.replay.loop.loop_input import Slots, Steps, Work
from iqcar.tables import NONE, Tables
from iqcar.tables.arrays import Flags, Floats, Ints, most_at_once

if TYPE_CHECKING:
    from iqcar.replay.loop.dependencies import StepOrder


IDLE_BEFORE_REMOVAL_MS = 1_000.0
"""An executor that had nothing to do for this long when it was removed went because it was idle
(dynamic allocation waits for spark.dynamicAllocation.executorIdleTimeout, 60 s by default). One
that was lost takes its tasks with it: they end at that moment, give or take a heartbeat's news."""

ENOUGH_HANDOVERS = 20
"""Slots handed from task to task from which their median is a property of the application."""


class RecordedTasks(NamedTuple):
    """Tasks of an application as they ran, times relative to its origin."""

    stage: Ints
    executor: Ints
    launch: Floats
    finish: Floats
    first_attempt: Flags


def slots_of(
    tables: Tables, app: int, ran: RecordedTasks, stage_first_launch: Floats, origin: float
) -> Slots:
    """Find when slots of an application came and went.

    tables: ``executors`` and ``applications`` are used.
    stage_first_launch: On the clock of ``ran``.
    origin: Zero of that clock, in ms since the epoch.
    """
    executors = tables.executors
    of_app = np.flatnonzero((executors["app"] == app).to_numpy())
    cpus = float(tables.applications["task_cpus"].iloc[app])
    cpus = cpus if cpus > 0 else 1.0
    cores = executors["cores"].to_numpy(np.float64)
    has = ran.executor >= 0
    size = len(executors)
    most = most_at_once(
        ran.executor[has], ran.launch[has], ran.finish[has], np.ones(int(has.sum())), size
    )
    # What ran is proof of a slot, even where an executor's cores are not recorded.
    slots = np.where(cores > 0, np.maximum(np.floor(cores / cpus), np.minimum(most, 1.0)), most)
    first, last = np.full(size, np.inf), np.full(size, -np.inf)
    np.minimum.at(first, ran.executor[has], ran.launch[has])
    np.maximum.at(last, ran.executor[has], ran.finish[has])
    added = executors["added_ms"].to_numpy(np.float64) - origin
    added = np.fmin(np.where(np.isnan(added), 0.0, added), first)
    removed = executors["removed_ms"].to_numpy(np.float64) - origin
    of_app = of_app[slots[of_app] > 0]
    slots, added, removed, last = slots[of_app], added[of_app], removed[of_app], last[of_app]
    goes = np.isfinite(removed) & (removed > added)
    when = np.concatenate([added, removed[goes]])
    change = np.concatenate([slots, -slots[goes]]).astype(np.int64)
    host = executors["host"].to_numpy(np.int64)[of_app]
    host = np.maximum(np.concatenate([host, host[goes]]), 0)
    idle = np.concatenate(
        [np.zeros(len(of_app), bool), (last < removed - IDLE_BEFORE_REMOVAL_MS)[goes]]
    )
    order = np.lexsort((-change, when))
    handover = _handover(ran, of_app, slots, stage_first_launch)
    return Slots(
        when=np.maximum(when[order], 0.0), change=change[order], when_idle=idle[order],
        app=np.zeros(len(order), np.int64), host=host[order], handover=np.array([handover]),
        hosts=max(len(tables.hosts), 1),
    )  # fmt: skip


def _handover(
    ran: RecordedTasks, executor: Ints, slots: Floats, stage_first_launch: Floats
) -> float:
    """Median time from a task's end to the launch of the next, where one was waiting.

    The k-th launch on an executor with s slots takes the slot that the (k − s)-th end freed.
    """
    by_executor = np.argsort(ran.executor, kind="stable")
    bounds = np.searchsorted(ran.executor[by_executor], np.stack([executor, executor + 1]))
    gaps = []
    for at, after, size in zip(*bounds.tolist(), slots.astype(np.int64).tolist(), strict=True):
        of_executor = by_executor[at:after]
        if len(of_executor) <= size:
            continue
        of_executor = of_executor[np.argsort(ran.launch[of_executor], kind="stable")][size:]
        freed = np.sort(ran.finish[by_executor[at:after]])[: len(of_executor)]
        waited = ran.first_attempt[of_executor] & (
            stage_first_launch[ran.stage[of_executor]] < freed
        )
        gaps.append((ran.launch[of_executor] - freed)[waited])
    every = np.concatenate(gaps) if gaps else np.zeros(0)
    return float(np.median(every)) if len(every) >= ENOUGH_HANDOVERS else 0.0


def preparations_of(
    ran: RecordedTasks, slots: Slots, submitted: Floats, first_launch: Floats
) -> Floats:
    """Time from the submission of each stage to when its tasks could be launched.

    Time before the last executor came is left out, and so is time in which all slots were taken:
    what passed after that is the stage's own (its tasks were being put together, or waited for a
    place near their data). Where no slot was free just before the first launch, nothing tells: it
    is the median of the other stages of the application, at most what passed.
    """
    added = slots.when[slots.change > 0]
    before = np.searchsorted(added, first_launch, side="left") - 1
    since = np.where(before >= 0, added[np.maximum(before, 0)], -np.inf) if len(added) else -np.inf
    passed = np.maximum(first_launch - np.fmax(submitted, since), 0.0)
    when = np.concatenate([ran.launch, ran.finish, slots.when])
    free = np.concatenate([np.full(len(ran.launch), -1.0), np.ones(len(ran.finish)), slots.change])
    order = np.lexsort((-free, when))
    when, taken = when[order], np.cumsum(free[order]) <= 0
    last_taken = np.maximum.accumulate(np.where(taken, np.arange(len(when)), -1))
    taken_until = np.where(last_taken >= 0, np.append(when, np.nan)[last_taken + 1], -np.inf)
    state = np.searchsorted(when, first_launch, side="left") - 1
    there = np.isfinite(passed) & (state >= 0)
    state = np.maximum(state, 0)
    known = there & ~taken[state]
    passed = np.where(known, np.fmin(passed, first_launch - taken_until[state]), passed)
    usual = float(np.median(passed[known])) if known.any() else 0.0
    return np.where(known, passed, np.fmin(np.nan_to_num(passed), usual))


@dataclass(frozen=True)
class Workload:
    """What of one application does not depend on shares.

    app: row of the application.
    origin: ms since the epoch that its clock counts from.
    order: its steps; stages as FIFO orders them.
    task: (tasks,) row of each task of ``work``.
    steps, work: what the event loop takes.
    slots: with the hosts that they are on.
    """

    app: int
    origin: float
    order: StepOrder
    task: Ints
    steps: Steps
    work: Work
    slots: Slots


def workload_of(tables: Tables, app: int, task: Ints) -> Workload | None:
    """Lay one application out; None where it ran no task, or had no slots that are known.

    app: Row of the application.
    task: rows of its tasks, ascending. No step looks at the tasks of all applications: there may be
        thousands of either.
    """
    stages, tasks = tables.stages, tables.tasks
    launch = tasks["launch_ms"].to_numpy(np.float64)
    finish = tasks["finish_ms"].to_numpy(np.float64)
    stage_of_task = tasks["stage"].to_numpy()
    task = task[np.isfinite(launch[task] + finish[task]) & (stage_of_task[task] >= 0)]
    if len(task) == 0:
        return None
    stage = _stages_in_fifo_order(tables, app)
    order = order_of(tables, _queries(tables, app), _jobs(tables, app, stage), stage)
    origin = float(min(order.begin.min(initial=np.inf), launch[task].min()))

    place = np.full(len(stages), NONE, np.int64)
    place[stage] = np.arange(len(stage))
    task = task[place[stage_of_task[task]] >= 0]
    step_of_task = place[stage_of_task[task]]
    first_launch = stages["first_launch_ms"].to_numpy(np.float64)[stage] - origin
    before, overlaps = _attempts_before(tables, task, step_of_task)
    late = before >= 0
    in_order = np.lexsort(
        (
            tasks["task_id"].to_numpy()[task],
            tasks["index"].to_numpy()[task],
            launch[task],
            late,
            step_of_task,
        )
    )
    ran = RecordedTasks(
        step_of_task,
        tasks["executor"].to_numpy()[task].astype(np.int64),
        launch[task] - origin,
        finish[task] - origin,
        ~late,
    )
    slots = slots_of(tables, app, ran, first_launch, origin)
    if not (slots.change > 0).any():
        return None
    begin, end = order.begin[order.stage_step] - origin, order.end[order.stage_step] - origin
    ready = np.zeros(len(order.begin))
    ready[order.stage_step] = preparations_of(ran, slots, begin, first_launch)

    next_attempt, at_launch, wait = _next_attempts(ran.launch, before, overlaps, in_order)
    duration = np.maximum(ran.finish - ran.launch, 0.0)[in_order]
    counts = (ran.finish <= end[step_of_task])[in_order]
    work = Work(
        step=order.stage_step[step_of_task[in_order]], duration=duration, counts=counts,
        next_attempt=next_attempt, next_at_launch=at_launch, next_wait=np.maximum(wait, 0.0),
        host=tasks["host"].to_numpy()[task].astype(np.int64)[in_order],
    )  # fmt: skip
    last = np.full(len(order.begin), -np.inf)
    np.maximum.at(last, work.step[counts], ran.finish[in_order][counts])
    steps = _steps(order, origin, work, ready=ready, late=late[in_order], last=last)
    return Workload(
        app=app, origin=origin, order=order, task=task[in_order], steps=steps, work=work,
        slots=slots,
    )  # fmt: skip


def _next_attempts(
    launch: Floats, before: Ints, overlaps: Flags, in_order: Ints
) -> tuple[Ints, Flags, Floats]:
    """Return of each task, in order, its next attempt, whether that overlaps it, and when it came.

    before, overlaps: (n_tasks,) the attempt before each task, and whether the two ran together.
    """
    position = np.empty(len(before), np.int64)
    position[in_order] = np.arange(len(before))
    next_attempt = np.full(len(before), NONE, np.int64)
    at_launch, wait = np.zeros(len(before), bool), np.zeros(len(before))
    again = np.flatnonzero(before >= 0)
    ancestor = position[before[again]]
    next_attempt[ancestor] = position[again]
    at_launch[ancestor] = overlaps[again]
    wait[ancestor] = np.where(overlaps[again], launch[again] - launch[before[again]], 0.0)
    return next_attempt, at_launch, wait


def _steps(
    order: StepOrder, origin: float, work: Work, ready: Floats, late: Flags, last: Floats
) -> Steps:
    """Lay out the steps; ``last`` is when the last task that counts ended, −inf if none."""
    n = len(order.begin)
    begin, end = order.begin - origin, order.end - origin
    delay = order._replace(begin=begin, end=end).delays()
    missing = np.bincount(order.later, minlength=n)
    by_earlier = np.argsort(order.earlier, kind="stable")
    follower_start = np.searchsorted(order.earlier[by_earlier], np.arange(n + 1))
    first_task = np.searchsorted(work.step, np.arange(n + 1))
    first_late = first_task[:-1] + np.bincount(work.step[~late], minlength=n)
    counted = np.bincount(work.step[work.counts], minlength=n)
    # What waits for no task takes as long as it took.
    tail = end - np.where(np.isfinite(last), last, begin)
    return Steps(
        missing=missing, delay=delay, ready=ready, tail=np.maximum(tail, 0.0), counted=counted,
        first_task=first_task, first_late=first_late, follower_start=follower_start,
        follower=order.later[by_earlier], job=order.job_step, recorded=begin,
    )  # fmt: skip


def _queries(tables: Tables, app: int) -> Ints:
    """Rows of the queries whose times are known."""
    queries = tables.queries
    known = np.isfinite(queries["start_ms"].to_numpy() + queries["end_ms"].to_numpy())
    return np.flatnonzero(known & (queries["app"] == app).to_numpy())


def _jobs(tables: Tables, app: int, stage: Ints) -> Ints:
    """Rows of the jobs that began, by job id."""
    began = np.isfinite(tables.jobs["submission_ms"].to_numpy(np.float64))
    of_stage = tables.stages["job"].to_numpy(np.int64)[stage]
    began[of_stage[of_stage >= 0]] = True
    job = np.flatnonzero(began & (tables.jobs["app"] == app).to_numpy())
    return job[np.argsort(tables.jobs["job_id"].to_numpy(np.int64)[job], kind="stable")]


def _stages_in_fifo_order(tables: Tables, app: int) -> Ints:
    """Rows of the stages that began, by job id, stage id and attempt."""
    stages = tables.stages
    began = np.isfinite(
        np.fmin(stages["submission_ms"].to_numpy(), stages["first_launch_ms"].to_numpy())
    )
    stage = np.flatnonzero(began & (stages["app"] == app).to_numpy())
    job = stages["job"].to_numpy(np.int64)[stage]
    job_id = np.full(len(stage), NONE, np.int64)
    if len(tables.jobs):
        job_id = np.where(
            job >= 0, tables.jobs["job_id"].to_numpy(np.int64)[np.maximum(job, 0)], NONE
        )
    attempt = stages["attempt"].to_numpy(np.int64)[stage]
    return stage[np.lexsort((attempt, stages["stage_id"].to_numpy(np.int64)[stage], job_id))]


def _attempts_before(tables: Tables, task: Ints, stage: Ints) -> tuple[Ints, Flags]:
    """Position of the attempt before each task, −1 for a first one, and whether the two overlap.

    A retry comes when its predecessor has ended; a speculative copy runs beside it.
    """
    tasks = tables.tasks
    index = tasks["index"].to_numpy()[task].astype(np.int64)
    attempt = tasks["attempt"].to_numpy()[task].astype(np.int64)
    launch = tasks["launch_ms"].to_numpy(np.float64)[task]
    finish = tasks["finish_ms"].to_numpy(np.float64)[task]
    order = np.lexsort((tasks["task_id"].to_numpy()[task], attempt, index, stage))
    same = (np.diff(stage[order]) == 0) & (np.diff(index[order]) == 0)
    before = np.full(len(task), NONE, np.int64)
    before[order[1:][same]] = order[:-1][same]
    overlaps = (before >= 0) & (finish[np.maximum(before, 0)] > launch)
    return before, overlaps
