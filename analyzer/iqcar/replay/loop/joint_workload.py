"""Lays out all applications of a recorded run together, for a replay in which they share hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from iqcar.replay.loop.loop_input import Shares, Slots, Steps, Work
from iqcar.replay.loop.recorded_workload import Workload
from iqcar.tables.arrays import Ints


@dataclass(frozen=True)
class JointWorkload:
    """Applications on one clock, and what each step and task of the event loop is in the tables.

    origin: ms since the epoch that the clock counts from.
    app: (n_apps,) rows of the applications.
    query: (n_queries,) rows of the queries; ``query_start`` and ``query_end`` are their steps.
    stage: (n_steps,) row of the stage of each step, −1 for a moment.
    task: (n_tasks,) row of each task of ``work``.
    steps, work, slots: what the event loop takes.
    """

    origin: float
    app: Ints
    query: Ints
    query_start: Ints
    query_end: Ints
    stage: Ints
    task: Ints
    steps: Steps
    work: Work
    slots: Slots


def joint_workload(workloads: Sequence[Workload]) -> JointWorkload:
    """Put the workloads of several applications on one clock.

    workloads: At least one.
    """
    origin = min(one.origin for one in workloads)
    late = [one.origin - origin for one in workloads]
    steps_before = _before([len(one.steps.delay) for one in workloads])
    tasks_before = _before([len(one.work.duration) for one in workloads])
    edges_before = _before([len(one.steps.follower) for one in workloads])
    moved = [
        _steps(one.steps, *by)
        for one, by in zip(
            workloads, zip(late, steps_before, tasks_before, edges_before, strict=True), strict=True
        )
    ]
    steps = Steps(*(np.concatenate(parts) for parts in zip(*moved, strict=True)))
    steps = steps._replace(
        first_task=np.append(steps.first_task, sum(len(one.work.duration) for one in workloads)),
        follower_start=np.append(
            steps.follower_start, sum(len(one.steps.follower) for one in workloads)
        ),
    )
    following = [
        np.where(one.work.next_attempt >= 0, one.work.next_attempt + before, -1)
        for one, before in zip(workloads, tasks_before, strict=True)
    ]
    work = Work(
        *(np.concatenate(parts) for parts in zip(*(w.work for w in workloads), strict=True))
    )
    work = work._replace(
        step=_moved([one.work.step for one in workloads], steps_before),
        next_attempt=np.concatenate(following),
    )
    slots = Slots(
        when=np.concatenate([one.slots.when + by for one, by in zip(workloads, late, strict=True)]),
        change=np.concatenate([one.slots.change for one in workloads]),
        when_idle=np.concatenate([one.slots.when_idle for one in workloads]),
        app=np.repeat(np.arange(len(workloads)), [len(one.slots.when) for one in workloads]),
        host=np.concatenate([one.slots.host for one in workloads]),
        handover=np.concatenate([one.slots.handover for one in workloads]),
        hosts=workloads[0].slots.hosts,
    )
    stage = np.full(len(steps.delay), -1, np.int64)
    for one, before in zip(workloads, steps_before, strict=True):
        stage[one.order.stage_step + before] = one.order.stage
    return JointWorkload(
        origin=origin, app=np.array([one.app for one in workloads]),
        query=np.concatenate([one.order.query for one in workloads]),
        query_start=_moved([one.order.query_start for one in workloads], steps_before),
        query_end=_moved([one.order.query_end for one in workloads], steps_before), stage=stage,
        task=np.concatenate([one.task for one in workloads]), steps=steps, work=work, slots=slots,
    )  # fmt: skip


def _steps(steps: Steps, late: float, steps_before: int, tasks_before: int, edges: int) -> Steps:
    """Steps of one application with positions among all."""
    return Steps(
        missing=steps.missing, delay=steps.delay + np.where(steps.missing == 0, late, 0.0),
        ready=steps.ready, tail=steps.tail, counted=steps.counted,
        first_task=steps.first_task[:-1] + tasks_before, first_late=steps.first_late + tasks_before,
        follower_start=steps.follower_start[:-1] + edges, follower=steps.follower + steps_before,
        job=steps.job + steps_before, recorded=steps.recorded + late,
    )  # fmt: skip


def _before(sizes: list[int]) -> list[int]:
    return [0, *np.cumsum(sizes[:-1]).tolist()]


def _moved(parts: list[Ints], before: list[int]) -> Ints:
    return np.concatenate([part + by for part, by in zip(parts, before, strict=True)])


def joint_shares(shares: Sequence[Shares]) -> Shares:
    """Put the pools of several applications into one list."""
    sizes = [len(one.pool_weight) for one in shares]
    before = _before(sizes)
    joined = Shares(*(np.concatenate(parts) for parts in zip(*shares, strict=True)))
    caps = _before([len(one.cap) for one in shares])
    return joined._replace(
        pool_app=np.repeat(np.arange(len(shares)), sizes),
        first_pool=np.append(before, sum(sizes)),
        pool=_moved([one.pool for one in shares], before),
        cap_of=np.concatenate(
            [
                np.where(one.cap_of >= 0, one.cap_of + by, -1)
                for one, by in zip(shares, caps, strict=True)
            ]
        ),
    )


def with_caps(shares: Shares, cap_of: Ints, cap: Ints) -> Shares:
    """Cap further steps, whatever pool they are in: no task goes beyond it.

    cap_of: (n_steps,); cap of each step; −1: as its pool has it.
    cap: (n_caps,); most tasks at once.
    """
    return shares._replace(
        cap_of=np.where(cap_of >= 0, cap_of + len(shares.cap), shares.cap_of),
        cap=np.concatenate([shares.cap, cap]),
        cap_share=np.concatenate([shares.cap_share, np.ones(len(cap))]),
        cap_strict=np.concatenate([shares.cap_strict, np.ones(len(cap), bool)]),
    )
