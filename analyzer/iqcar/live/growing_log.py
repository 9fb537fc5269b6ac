"""Keeps of a growing log what later windows need, and forgets the rest.

The cost of a line does not depend on how long the log is already: tasks that ended before the
window are dropped whenever they outnumber those within it.

A log that is followed for days may not fill memory: what is kept are the tasks that ended after
some time, what runs, and the jobs, stages and SQL executions that these belong to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf, isfinite, nan
from typing import Any

import msgspec
import numpy as np

from iqcar.logs.collect import Collector, Stage
from iqcar.logs.events.task_structs import NOT_FITTING, PLUGIN, TaskEnd
from iqcar.logs.tasks.task_lines import NUMBERS, TaskBlock, TaskDecoder
from iqcar.tables import LAST_PLAUSIBLE_MS

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

    sql_executions, jobs, stages, tasks: how many.
    """

    sql_executions: int = 0
    jobs: int = 0
    stages: int = 0
    tasks: int = 0


def forget(log: Collector, time_ms: float, total: Forgotten) -> None:
    """Drop what ended before a time, and add how much that was to the total.

    time_ms: since the epoch.
    total: added to.
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
    _forget_stages(log, gone, total)
    in_use = {stage.job for stage in log.stages.values()}
    ended_jobs -= in_use
    for number in ended_jobs:
        del log.jobs[number]
    total.jobs += len(ended_jobs)
    _forget_unlisted(log)
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
    _forget_stages(log, stages, total)
    if jobs or stages:
        _forget_unlisted(log)
    executions = list(log.sql.executions)[: max(len(log.sql.executions) - most, 0)]
    if executions:
        log.sql.forget(set(executions))
        total.sql_executions += len(executions)


def _abandoned(stage: Stage, ended_jobs: set[int]) -> bool:
    """Tell whether a stage that never completed was of a job that ended."""
    return not stage.completed and stage.job in ended_jobs


def _forget_unlisted(log: Collector) -> None:
    """Drop what is known of stages that are dropped and that no job lists."""
    listed = {stage_id for job in log.jobs.values() for stage_id in job.stage_ids}
    listed |= {stage_id for stage_id, _ in log.stages}
    log.jobs_of_stages.forget_all_but(listed)
    log.last_rdd = {one: rdd for one, rdd in log.last_rdd.items() if one in listed}


def _forget_stages(log: Collector, gone: set[tuple[int, int]], total: Forgotten) -> None:
    """Drop stages, and tasks that started in them and whose end was lost."""
    total.stages += len(gone)
    for key in gone:
        del log.stages[key]
    for task_id, line in list(log.running.items()) if gone else ():
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

    time_ms: tasks that ended before it are left out.
    now_ms: the end of the copy: until then what has not ended runs.
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


MOST_OPEN = 20_000
"""Jobs, stages or SQL executions kept that have not ended (20,000); hardly a thousand
run at once."""

ROWS_TO_FORGET = 20_000
"""Tasks taken in after which those that are over are dropped, at least."""
LONGEST_JUMP_MS = 86_400_000.0
"""A time that is a day later than all before is damage, unless the next event agrees."""
_START = b'{"Event":"SparkListenerApplicationStart"'
_LOG_START = b'{"Event":"SparkListenerLogStart"'
_STAGE, _ATTEMPT, _LAUNCH, _FINISH = (
    NUMBERS.index(name) for name in ("stage_id", "stage_attempt", "launch_ms", "finish_ms")
)


class _Launch(msgspec.Struct):
    time: float = msgspec.field(default=nan, name="Launch Time")


class _Start(msgspec.Struct):
    info: _Launch = msgspec.field(name="Task Info")


_decode_start = msgspec.json.Decoder(_Start).decode


class GrowingLog:
    """Collects what the lines of one log say.

    keep_ms: how long before the newest event tasks are kept; infinite keeps all.

    log: what the lines said, without what is over.
    forgotten: how much was over.
    newest_ms: time of the newest event, by the clocks that wrote the log; NaN before the first
        one.
    succeeded: tasks that succeeded and whose output is not lost, by stage id and attempt, of
        stages that have not completed.
    """

    def __init__(self, keep_ms: float) -> None:
        self.keep_ms = keep_ms
        self._decoder = TaskDecoder()
        self.start_again()

    def start_again(self) -> None:
        """Forget everything."""
        self.log = Collector()
        self.forgotten = Forgotten()
        self.newest_ms = nan
        self.succeeded: Counter[tuple[int, int]] = Counter()
        self.last_line = b""
        self._doubted_ms = nan
        self._kept_rows = 0

    def take(self, text: bytes) -> str:
        """Take in a block of lines.

        Raises NotAnEventLogError if none of the first lines is an event.

        Returns why what came before does not count any more, in a sentence; empty if it does:
        another application may begin in the middle of a log.
        """
        reason = ""
        for part in _applications(text):
            before = self._application()
            if before and (other := _names_another(part, before)):
                reason = f"another application begins here ({other}): all before it is left out"
                self.start_again()
            block = self._decoder.decode(part)
            self.log.add(part, block)
            self._see(part, block)
        self.last_line = text.rstrip().rpartition(b"\n")[2]
        if self.log.tasks.rows > 2 * self._kept_rows + ROWS_TO_FORGET:
            self.forget()
        if isfinite(self.keep_ms) and self._open > 2 * MOST_OPEN:
            forget_oldest(self.log, MOST_OPEN, self.forgotten)
        return reason

    @property
    def _open(self) -> int:
        """How many there are of the kind of which there are most."""
        return max(len(self.log.jobs), len(self.log.stages), len(self.log.sql.executions))

    def forget(self, now_ms: float = nan) -> None:
        """Drop what is over: what ended before the window that ends at a time, or newest event."""
        until = now_ms if isfinite(now_ms) else self.newest_ms
        if isfinite(self.keep_ms) and isfinite(until):
            forget(self.log, until - self.keep_ms, self.forgotten)
        self._kept_rows = self.log.tasks.rows
        open_ = {key for key, stage in self.log.stages.items() if not stage.completed}
        self.succeeded = Counter({key: n for key, n in self.succeeded.items() if key in open_})

    def copy_until(self, now_ms: float) -> Collector:
        """Return a copy of what is kept, in which what has not ended runs until a time."""
        since = now_ms - self.keep_ms if isfinite(self.keep_ms) else -inf
        return copy_since(self.log, since, now_ms)

    def _application(self) -> str:
        start = self.log.application
        return (start.id or start.name) if start is not None else ""

    def _see(self, text: bytes, block: TaskBlock) -> None:
        """Take note of times, and of tasks that succeeded."""
        numbers = np.frombuffer(block.rows).reshape(-1, len(NUMBERS) + 1)
        times = []
        if len(numbers):
            ended = numbers[:, [_LAUNCH, _FINISH]].ravel()
            far = ended > np.fmax(self.newest_ms, ended[:1]) + LONGEST_JUMP_MS
            times += [float(np.fmax.reduce(ended[~far], initial=nan)), *ended[far][-2:].tolist()]
            reasons = [texts[3] for texts in block.texts]
            for row in numbers[:, [_STAGE, _ATTEMPT, len(NUMBERS)]].tolist():
                reason = reasons[int(row[2])]
                if reason in ("Success", "Resubmitted") and isfinite(row[0] + row[1]):
                    key = (int(row[0]), int(row[1]))
                    self.succeeded[key] += 1 if reason == "Success" else -1
        for _, start, end in block.started[-1:]:
            with suppress(*NOT_FITTING):
                times.append(_decode_start(text[start:end]).info.time)
        began = self.log.application.time if self.log.application else nan
        for time in (began, *times, self.log.last_time, self.log.end):
            self._see_time(time)
        if self.log.last_time > self.newest_ms:
            self.log.last_time = self.newest_ms  # it is not believed

    def _see_time(self, time: float) -> None:
        if not 0 < time < LAST_PLAUSIBLE_MS or time <= self.newest_ms:
            return
        if time > self.newest_ms + LONGEST_JUMP_MS and not (
            abs(time - self._doubted_ms) < LONGEST_JUMP_MS
        ):
            self._doubted_ms = time
            return
        self.newest_ms = time


def _applications(text: bytes) -> list[bytes]:
    """Cut a block where an application starts, which few blocks have; before its log's start."""
    parts, start = [], 0
    at = text.find(_START)
    while at >= 0:
        log_start = text.rfind(_LOG_START, start, at)
        cut = log_start if log_start >= 0 else at
        if cut > start:
            parts.append(text[start:cut])
            start = cut
        at = text.find(_START, at + 1)
    return [*parts, text[start:]]


class _Application(msgspec.Struct):
    id: str | None = msgspec.field(default=None, name="App ID")
    name: str = msgspec.field(default="", name="App Name")


_decode_application = msgspec.json.Decoder(_Application).decode


def _names_another(text: bytes, known: str) -> str:
    """Return the application that a block starts, if it is another one."""
    at = text.find(_START)
    if at < 0:
        return ""
    try:
        found = _decode_application(text[at : text.find(b"\n", at)])
    except NOT_FITTING:
        return ""
    name = found.id or found.name
    return name if name != known else ""
