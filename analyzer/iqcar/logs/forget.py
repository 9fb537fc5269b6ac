"""Drops from a collector what ended before a time, and copies what is left, for growing logs.

A log that is followed for days may not fill memory: what is kept are the tasks that ended after
some time, what runs, and the jobs, stages and SQL executions that these belong to.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace
from math import nan
from typing import Any

import msgspec

from iqcar.logs.collect import Collector, Stage
from iqcar.logs.events.task_structs import NOT_FITTING, PLUGIN, TaskEnd

MOST_REQUESTS = 1000
"""Requests of Spark Connect kept that no job has named yet."""
PHASES = f"{PLUGIN}Phases"
MOST_STATES = 100
"""Plugin events without a sample that are kept: the last states of pools, targets and rules."""


class _Sampled(msgspec.Struct):
    t: float = nan


class _PluginEvent(msgspec.Struct):
    name: str = msgspec.field(name="Event")
    samples: list[_Sampled] = msgspec.field(default_factory=list)
    execution: int = msgspec.field(default=-1, name="executionId")


_decode_plugin = msgspec.json.Decoder(_PluginEvent).decode
_decode_task = msgspec.json.Decoder(TaskEnd).decode


@dataclass
class Forgotten:
    """How much was dropped of a log that is followed.

    Attributes
    ----------
    sql_executions, jobs, stages, tasks : how many.
    """

    sql_executions: int = 0
    jobs: int = 0
    stages: int = 0
    tasks: int = 0


def forget(log: Collector, time_ms: float, total: Forgotten) -> None:
    """Drop what ended before a time, and add how much that was to the total.

    Parameters
    ----------
    time_ms : since the epoch.
    total : added to.
    """
    tasks_before = log.tasks.rows
    log.use_tasks(log.task_intake.since(time_ms))
    total.tasks += tasks_before - log.tasks.rows
    ended_jobs = {
        number
        for number, job in log.jobs.items()
        if job.completion < time_ms and number not in log.jobs_of_stages.active
    }
    gone = {
        key
        for key, stage in log.stages.items()
        if (stage.completed and not stage.completion >= time_ms) or _abandoned(stage, ended_jobs)
    }
    _forget_running(log, gone)
    for key in gone:
        del log.stages[key]
    total.stages += len(gone)
    in_use = {stage.job for stage in log.stages.values()}
    ended_jobs -= in_use
    for number in ended_jobs:
        del log.jobs[number]
    total.jobs += len(ended_jobs)
    listed = {stage_id for job in log.jobs.values() for stage_id in job.stage_ids}
    listed |= {stage_id for stage_id, _ in log.stages}
    log.jobs_of_stages.forget_all_but(listed)
    log.last_rdd = {one: rdd for one, rdd in log.last_rdd.items() if one in listed}
    total.sql_executions += _forget_executions(log, time_ms)
    removed = [name for name, executor in log.executors.items() if executor.removed < time_ms]
    for name in removed:
        del log.executors[name]
    named = {job.connect for job in log.jobs.values()}
    waiting = [one for one in log.connect_requests if one not in named][-MOST_REQUESTS:]
    kept = named.union(waiting)
    log.connect_requests = {
        operation: words for operation, words in log.connect_requests.items() if operation in kept
    }
    log.plugin_events = _plugin_events_since(log.plugin_events, time_ms, log.sql.executions)


def forget_oldest(log: Collector, most: int, total: Forgotten) -> None:
    """Drop the oldest jobs, stages and SQL executions where there are more than so many of a kind.

    No application runs as many at once: ends were lost, or somebody makes them up.
    """
    jobs = list(log.jobs)[: max(len(log.jobs) - most, 0)]
    for number in jobs:
        log.jobs_of_stages.end(number)
        del log.jobs[number]
    total.jobs += len(jobs)
    stages = set(list(log.stages)[: max(len(log.stages) - most, 0)])
    _forget_running(log, stages)
    for key in stages:
        del log.stages[key]
    total.stages += len(stages)
    if jobs or stages:
        listed = {stage_id for job in log.jobs.values() for stage_id in job.stage_ids}
        listed |= {stage_id for stage_id, _ in log.stages}
        log.jobs_of_stages.forget_all_but(listed)
        log.last_rdd = {one: rdd for one, rdd in log.last_rdd.items() if one in listed}
    executions = list(log.sql.executions)[: max(len(log.sql.executions) - most, 0)]
    if executions:
        log.sql.forget(set(executions))
        total.sql_executions += len(executions)


def _abandoned(stage: Stage, ended_jobs: set[int]) -> bool:
    """Tell whether a stage that never completed was of a job that ended."""
    return not stage.completed and stage.job in ended_jobs


def _forget_running(log: Collector, gone: set[tuple[int, int]]) -> None:
    """Drop tasks that started in stages that are dropped, and whose end was lost."""
    if not gone:
        return
    for task_id, line in list(log.running.items()):
        try:
            task = _decode_task(line)
        except NOT_FITTING:
            continue
        if (task.stage_id, task.stage_attempt) in gone:
            del log.running[task_id]


def _forget_executions(log: Collector, time_ms: float) -> int:
    executions = log.sql.executions
    in_use = {int(number) for job in log.jobs.values() for number in (job.execution, job.root)
              if number == number}  # fmt: skip
    ended = {
        number for number, one in executions.items() if one.end < time_ms and number not in in_use
    }
    needed = {int(one.root) for number, one in executions.items()
              if number not in ended and one.root == one.root}  # fmt: skip
    ended -= needed
    if ended:
        log.sql.forget(ended)
    return len(ended)


def _plugin_events_since(
    lines: list[bytes], time_ms: float, executions: Container[int]
) -> list[bytes]:
    """Return samples since a time, each execution's last phases, and the last other events."""
    states = 0
    planned: set[int] = set()
    kept: list[bytes] = []
    for line in reversed(lines):
        try:
            event = _decode_plugin(line)
        except NOT_FITTING:
            event = _PluginEvent("")
        if event.name == PHASES:
            if event.execution in executions and event.execution not in planned:
                planned.add(event.execution)
                kept.append(line)
            continue
        samples = event.samples
        if samples and not max(one.t for one in samples) >= time_ms:
            continue
        states += not samples
        if samples or states <= MOST_STATES:
            kept.append(line)
    return kept[::-1]


def copy_since(log: Collector, time_ms: float, now_ms: float) -> Collector:
    """Return a copy of what a log says so far, to make tables of; the log can be read on.

    Parameters
    ----------
    time_ms : tasks that ended before it are left out.
    now_ms : the end of the copy: until then what has not ended runs.
    """
    kept: dict[str, Any] = {
        name: value.copy() if isinstance(value, (dict, list)) else value
        for name, value in vars(log).items()
        if name in Collector.__dataclass_fields__
    }
    kept["sql"] = replace(log.sql, executions=log.sql.executions.copy())
    kept["stages"] = {key: replace(stage) for key, stage in log.stages.items()}
    kept["last_time"] = now_ms
    part = Collector(**kept)
    part.use_tasks(log.task_intake.since(time_ms))
    return part
