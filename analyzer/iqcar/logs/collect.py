"""What is collected of an application, its jobs, stages and executors while a log is read."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import isfinite, nan
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from iqcar.logs.events import lenient
from iqcar.logs.events import structs as ev
from iqcar.logs.events import task_structs as kinds
from iqcar.logs.events.lenient import DenseLines, decode_deep
from iqcar.logs.events.operators import runs_python, scope_name
from iqcar.logs.events.root_cause import root_cause
from iqcar.logs.events.settings import (
    CONNECT,
    cached_name,
    clean_description,
    connect_operation,
    connect_owner,
    connect_request,
    connect_tags,
    execution_number,
    is_connects_own,
    job_properties,
    settings_of,
)
from iqcar.logs.events.sql_collect import SqlCollector
from iqcar.logs.events.task_structs import BlockUpdated, TaskEnd, TaskStart, UnpersistRdd
from iqcar.logs.tasks.task_columns import TaskIntake
from iqcar.logs.tasks.task_lines import TaskBlock, unpersisted, update_of
from iqcar.logs.text import redact_text
from iqcar.tables import LAST_PLAUSIBLE_MS


@dataclass(slots=True)
class Job:
    """One Spark job."""

    submission: float
    stage_ids: tuple[int, ...]
    execution: float = nan
    root: float = nan
    connect: str = ""
    tags: str = ""
    group: str = ""
    description: str = ""
    pool: str = ""
    user: str = ""
    session: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    """What it sets unlike its application."""
    completion: float = nan
    succeeded: bool = False
    error: str = ""


@dataclass(slots=True)
class Listed:
    """The jobs that list one stage: a shared stage has thousands, each asked for many times."""

    lowest: int = -1
    highest: int = -1
    waiting: list[int] = field(default_factory=list)
    """A heap of those that were active when last looked at."""

    def add(self, job: int) -> None:
        """Take in a job, which is active."""
        self.lowest = job if self.lowest < 0 else min(job, self.lowest)
        self.highest = max(job, self.highest)
        heappush(self.waiting, job)

    def first_of(self, active: Container[int]) -> int:
        """Return the first active job, else the last of all; a job that ended starts no more."""
        while self.waiting and self.waiting[0] not in active:
            heappop(self.waiting)
        return self.waiting[0] if self.waiting else self.highest


class JobsOfStages:
    """Which jobs list a stage, and which of them runs it."""

    def __init__(self) -> None:
        self.active: dict[int, Job] = {}
        """Jobs that have not ended, by number."""
        self._listed: dict[int, Listed] = {}

    def start(self, number: int, job: Job) -> None:
        """Take in a job, which is active until it ends."""
        self.active[number] = job
        for stage_id in job.stage_ids:
            listed = self._listed.get(stage_id)
            if listed is None:
                listed = self._listed[stage_id] = Listed()
            listed.add(number)

    def end(self, number: int) -> Job | None:
        """Return the job that ended; None if none of this number was active."""
        return self.active.pop(number, None)

    def running(self, stage_id: int) -> int:
        """Return the job that runs a stage now: the first active one that lists it, else −1."""
        listed = self._listed.get(stage_id)
        return listed.first_of(self.active) if listed else -1

    def first(self, stage_id: int) -> int:
        """Return the first job that lists a stage, for one whose submission was lost; else −1."""
        listed = self._listed.get(stage_id)
        return listed.lowest if listed else -1

    def forget_all_but(self, stage_ids: Container[int]) -> None:
        """Drop what is known of other stages."""
        self._listed = {one: jobs for one, jobs in self._listed.items() if one in stage_ids}


@dataclass(slots=True)
class Stage:
    """One stage attempt that was submitted or ran a task."""

    name: str = ""
    tasks: float = nan
    job: int = -1
    pool: str = ""
    submission: float = nan
    completion: float = nan
    completed: bool = False
    failure: str = ""
    python: bool = False
    parents: tuple[int, ...] = ()
    scopes: tuple[str, ...] = ()
    """Operations that made its RDDs."""
    fed: tuple[float, ...] = ()
    """Accumulators that its tasks fed."""


@dataclass(slots=True)
class Executor:
    """One executor."""

    host: str = ""
    cores: float = nan
    added: float = nan
    removed: float = nan
    reason: str = ""
    excluded: float = nan


LINES_TO_JUDGE = 200
"""Lines after which a file without a single event is given up: a Spark log starts with one."""

MAX_REASON = 2_000
"""Characters kept of why an executor was removed: the rest is a stack trace."""

MAX_NAME = 500
"""Characters kept of a name: application, stage, pool, host."""

MOST_RDDS = 100_000
"""Cached RDDs whose names and stages are kept."""

EXCLUDED = ("Excluded", "ExcludedForStage", "Blacklisted", "BlacklistedForStage")
"""Ends of the names of events that take an executor out, as Spark 3.1 and later call it first."""

_WITH_PLANS = (ev.SqlStart, ev.SqlAdaptive)
"""Events that can nest deeper than the typed decoders can follow."""

_PLUGIN_KEPT = frozenset(name.encode() for name in kinds.PLUGIN_KEPT)
_EVENT, _SPACED = b'{"Event":"', b'{"Event": "'
"""How Spark starts a line, and how programs that write lines again do; the event's name follows."""


class NotAnEventLogError(Exception):
    """The first lines hold no event."""


@dataclass
class Collector:
    """Everything one log says, in plain Python, until tables are made of it."""

    application: ev.ApplicationStart | None = None
    end: float = nan
    ended: bool = False
    version: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    """Spark properties by name, without secrets."""
    java: str = ""
    scala: str = ""
    sql: SqlCollector = field(default_factory=SqlCollector)
    jobs: dict[int, Job] = field(default_factory=dict)
    stages: dict[tuple[int, int], Stage] = field(default_factory=dict)
    jobs_of_stages: JobsOfStages = field(default_factory=JobsOfStages)
    executors: dict[str, Executor] = field(default_factory=dict)
    last_rdd: dict[int, int] = field(default_factory=dict)
    """Each stage's last RDD, skipped ones too: it tells which executed stage did its work."""
    cached_rdds: dict[int, tuple[str, tuple[int, int]]] = field(default_factory=dict)
    """Name of each RDD that is cached in memory, and the first stage attempt that had it."""
    connect_requests: dict[str, str] = field(default_factory=dict)
    """What Spark Connect operations were asked for, of those that say so in words."""
    thrift_sessions: dict[str, tuple[str, str]] = field(default_factory=dict)
    """User and session of the SQL Thrift server by job group."""
    plugin_events: list[bytes] = field(default_factory=list)
    """Lines of the events of iqcar's own Spark plugin, but for those about tasks."""
    last_time: float = nan
    other_events: int = 0
    """Events that are not about a task."""
    skipped: int = 0
    malformed: int = 0
    dense: DenseLines = field(default_factory=DenseLines)

    def __post_init__(self) -> None:
        self.bad = lenient.BadNumbers()
        self.use_tasks(TaskIntake())
        self._decode_any = msgspec.json.Decoder(ev.AnyEvent).decode
        sql = self.sql
        sql.bad = self.bad
        handlers: dict[str, tuple[type[msgspec.Struct], Callable[[Any], None]]] = {
            "SparkListenerLogStart": (ev.LogStart, self._log_start),
            "DBCEventLoggingListenerMetadata": (ev.LogStart, self._log_start),
            "SparkListenerApplicationStart": (ev.ApplicationStart, self._application_start),
            "SparkListenerApplicationEnd": (ev.ApplicationEnd, self._application_end),
            "SparkListenerEnvironmentUpdate": (ev.Environment, self._environment),
            "SparkListenerExecutorAdded": (ev.ExecutorAdded, self._executor_added),
            "SparkListenerExecutorRemoved": (ev.ExecutorRemoved, self._executor_removed),
            **{
                f"SparkListenerExecutor{what}": (ev.ExecutorExcluded, self._executor_excluded)
                for what in EXCLUDED
            },
            "SparkListenerJobStart": (ev.JobStart, self._job_start),
            "SparkListenerJobEnd": (ev.JobEnd, self._job_end),
            "SparkListenerStageSubmitted": (ev.StageSubmitted, self._stage_submitted),
            "SparkListenerStageCompleted": (ev.StageCompleted, self._stage_completed),
            kinds.BLOCK_UPDATED: (BlockUpdated, self._block_updated),
            kinds.UNPERSIST: (UnpersistRdd, self._unpersisted),
            f"{kinds.SQL}SparkListenerSQLExecutionStart": (ev.SqlStart, sql.start),
            f"{kinds.SQL}SparkListenerSQLExecutionEnd": (ev.SqlEnd, sql.end),
            f"{kinds.SQL}SparkListenerSQLAdaptiveExecutionUpdate": (ev.SqlAdaptive, sql.adapt),
            f"{kinds.SQL}SparkListenerSQLAdaptiveSQLMetricUpdates": (
                ev.SqlMetricUpdates,
                sql.update_metrics,
            ),
            f"{kinds.SQL}SparkListenerDriverAccumUpdates": (ev.DriverAccumUpdates, sql.driver),
            f"{kinds.CONNECT}OperationStarted": (ev.ConnectStarted, self._connect_started),
            f"{kinds.THRIFT}SparkListenerThriftServerOperationStart": (
                ev.ThriftStarted,
                self._thrift_started,
            ),
        }
        self._handlers = {
            name.encode(): (msgspec.json.Decoder(kind).decode, kind, handle)
            for name, (kind, handle) in handlers.items()
        }

    def use_tasks(self, intake: TaskIntake) -> None:
        """Collect tasks here from now on."""
        self.task_intake = intake
        self.tasks, self.running = intake.columns, intake.running
        self.task_records = intake.records

    @property
    def events(self) -> int:
        """Events taken in."""
        of_tasks = self.task_intake.starts + self.task_intake.ends
        return self.other_events + of_tasks + self.task_intake.block_events

    def add(self, text: bytes, tasks: TaskBlock) -> None:
        """Take in a block of lines.

        text: the lines, in the order of the log.
        tasks: the tasks decoded from it.

        Raises NotAnEventLogError if none of the first lines is an event.
        """
        no_tasks = not (tasks.rows or tasks.starts)
        for start, end in tasks.others:
            self._other(text[start:end].removesuffix(b"\r"))
            if self.malformed == LINES_TO_JUDGE and no_tasks and not self.events:
                raise NotAnEventLogError
        self.task_intake.take(text, tasks)

    def _other(self, line: bytes) -> None:
        """Take in a line that is no well-formed task event in Spark's usual spelling."""
        at = len(_EVENT) if line.startswith(_EVENT) else len(_SPACED)
        told = line[at : line.find(b'"', at)]
        # The plugin's are many numbers, and are bounded where they are decoded.
        if self.dense.has_too_many(line, counts=told not in _PLUGIN_KEPT):
            self.malformed += 1
            return
        known = self._handlers.get(told)
        if known is not None and (at == len(_EVENT) or line.startswith(_SPACED)):
            decode, kind, handle = known
            event: msgspec.Struct | None = None
            try:
                event = decode(line)
            except RecursionError:
                event = decode_deep(line, kind) if issubclass(kind, _WITH_PLANS) else None
            except kinds.NOT_FITTING:
                pass  # the slow way tells why
            if event is not None:
                handle(event)
                self.other_events += 1
                return
        name, parsed = self._name_of(line)
        if name is None:
            self.malformed += 1
            return
        name = kinds.plain_name(name)
        if name == kinds.TASK_START:
            start = self._fitted(TaskStart, line, parsed)
            self.task_intake.add_start(start.info.task_id, line)
        elif name == kinds.TASK_END:
            self.task_intake.add_end(self._fitted(TaskEnd, line, parsed))
        else:
            try:
                self._handle(name, line, parsed)
            except lenient.OutOfBoundsError:
                self.malformed += 1
            else:
                self.other_events += 1

    def _handle(self, name: str, line: bytes, parsed: Any) -> None:
        """Take in an event that is not about a task."""
        known = self._handlers.get(name.encode("utf-8", "replace"))
        if known is not None:
            decode, kind, handle = known
            try:
                event = decode(line) if parsed is None else self._fitted(kind, line, parsed)
            except kinds.NOT_FITTING:
                event = self._fitted(kind, line, parsed)
            handle(event)
        elif name in kinds.PLUGIN_KEPT:
            self.plugin_events.append(line)
        elif not kinds.is_left_out(name):
            self.skipped += 1

    def is_event(self, line: bytes) -> bool:
        """Tell whether a line is an event, of whatever kind."""
        return self._name_of(line)[0] is not None

    def _name_of(self, line: bytes) -> tuple[str | None, Any]:
        """Return an event's name, None if the line is no event; and the line parsed, if it was."""
        try:
            return self._decode_any(line).name, None
        except kinds.NOT_FITTING:
            pass
        try:
            parsed = lenient.parse(line)
        except ValueError:
            return None, None
        name = parsed.get("Event") if isinstance(parsed, dict) else None
        return (name, parsed) if isinstance(name, str) else (None, None)

    def _fitted(self, kind: type[lenient.S], line: bytes, parsed: Any) -> lenient.S:
        return lenient.fit(kind, lenient.parse(line) if parsed is None else parsed, self.bad)

    def _see_time(self, time: float) -> None:
        if time > self.last_time or self.last_time != self.last_time:
            self.last_time = time

    def _log_start(self, event: ev.LogStart) -> None:
        self.version = redact_text(event.version, MAX_NAME) or self.version

    def _application_start(self, event: ev.ApplicationStart) -> None:
        self.application = event

    def _application_end(self, event: ev.ApplicationEnd) -> None:
        self.ended, self.end = True, event.time

    def _environment(self, event: ev.Environment) -> None:
        self.settings.update(settings_of(event.spark, self.bad))
        self.java = redact_text(event.jvm.java, MAX_NAME) or self.java
        self.scala = redact_text(event.jvm.scala, MAX_NAME) or self.scala

    def _executor_added(self, event: ev.ExecutorAdded) -> None:
        executor = self.executors.setdefault(event.executor_id, Executor())
        executor.host, executor.cores = event.info.host, event.info.cores
        executor.added = event.time
        self._see_time(event.time)

    def _executor_removed(self, event: ev.ExecutorRemoved) -> None:
        executor = self.executors.setdefault(event.executor_id, Executor())
        executor.removed = event.time
        executor.reason = redact_text(event.reason, MAX_REASON)
        self._see_time(event.time)

    def _executor_excluded(self, event: ev.ExecutorExcluded) -> None:
        executor = self.executors.setdefault(event.executor_id, Executor())
        if not executor.excluded <= event.time:
            executor.excluded = event.time
        self._see_time(event.time)

    def _job_start(self, event: ev.JobStart) -> None:
        for info in event.stages:
            self._remember_rdd(info)
        if not isfinite(event.job_id):
            return
        stage_ids = event.stage_ids or [info.stage_id for info in event.stages]
        job = Job(event.submission, tuple(int(i) for i in stage_ids if isfinite(i)))
        properties, job.properties = job_properties(event.properties, self.settings, self.bad)
        job.execution = execution_number(properties.execution)
        job.root = execution_number(properties.root or properties.databricks_root)
        job.connect = connect_operation(properties.group, properties.tags)
        job.tags = connect_tags(properties.tags)
        job.group = redact_text(properties.group, MAX_NAME)
        job.description = clean_description(properties.description)
        job.pool = redact_text(properties.pool, MAX_NAME)
        owner = connect_owner(properties.group, properties.tags)
        job.user, job.session = self.thrift_sessions.get(properties.group or "", owner)
        job.user = job.user or redact_text(properties.user, MAX_NAME)
        number = int(event.job_id)
        self.jobs[number] = job
        self.jobs_of_stages.start(number, job)
        execution = self.sql.execution(job.execution, seen=False)
        if execution is not None and isfinite(job.root) and not isfinite(execution.root):
            execution.root = job.root
        self._see_time(event.submission)

    def _connect_started(self, event: ev.ConnectStarted) -> None:
        words = connect_request(event.statement)
        if words:
            self.connect_requests[event.operation] = words

    def _thrift_started(self, event: ev.ThriftStarted) -> None:
        user, session = redact_text(event.user, MAX_NAME), redact_text(event.session, MAX_NAME)
        self.thrift_sessions[event.group] = (user, session)

    def _job_end(self, event: ev.JobEnd) -> None:
        job = self.jobs_of_stages.end(int(event.job_id)) if isfinite(event.job_id) else None
        if job is not None:
            job.completion = event.completion
            job.succeeded = event.result.result == "JobSucceeded"
            if event.result.exception is not None and not job.succeeded:
                job.error = root_cause(event.result.exception.message)
        self._see_time(event.completion)

    def _stage_submitted(self, event: ev.StageSubmitted) -> None:
        stage = self._stage(event.info)
        if stage is None:
            return
        stage.job = self.jobs_of_stages.running(int(event.info.stage_id))
        properties = event.properties or ev.Properties()
        job = self.jobs.get(stage.job)
        stage.pool = redact_text(properties.pool, MAX_NAME) or (job.pool if job else "")

    def _stage_completed(self, event: ev.StageCompleted) -> None:
        stage = self._stage(event.info)
        if stage is None:
            return
        stage.completed = True
        stage.completion = event.info.completion
        stage.failure = root_cause(event.info.failure)
        if stage.job < 0:
            stage.job = self.jobs_of_stages.running(int(event.info.stage_id))
        self.sql.stage(event.info.accumulables)
        stage.fed = tuple([one.id for one in event.info.accumulables])
        self._see_time(stage.completion)

    def _block_updated(self, event: BlockUpdated) -> None:
        self.task_intake.cached.take([update_of(event, nan)], nan)

    def _unpersisted(self, event: UnpersistRdd) -> None:
        self.task_intake.cached.take([unpersisted(event, nan)], nan)

    def _stage(self, info: ev.StageInfo) -> Stage | None:
        """Return the stage attempt that an event is about, brought up to date."""
        if not (isfinite(info.stage_id) and isfinite(info.attempt)):
            return None
        key = (int(info.stage_id), int(info.attempt))
        stage = self.stages.get(key)
        if stage is None:
            stage = self.stages[key] = Stage()
        if is_connects_own(info.name):
            stage.name = CONNECT
        else:
            stage.name = redact_text(info.name, MAX_NAME) or stage.name
        stage.tasks = info.tasks
        stage.parents = tuple([int(parent) for parent in info.parents if isfinite(parent)])
        if isfinite(info.submission):
            stage.submission = info.submission
        if not stage.scopes:
            stage.python = stage.python or any(runs_python(r.name, r.scope) for r in info.rdds)
            stage.scopes = tuple({scope_name(rdd.scope) for rdd in info.rdds} - {""})
        for rdd in info.rdds:
            if rdd.level.in_memory and isfinite(rdd.rdd_id) and len(self.cached_rdds) < MOST_RDDS:
                self.cached_rdds.setdefault(int(rdd.rdd_id), (cached_name(rdd.name), key))
        self._remember_rdd(info)
        self._see_time(info.submission)
        return stage

    def _remember_rdd(self, info: ev.StageInfo) -> None:
        last = -1.0
        for rdd in info.rdds:
            if rdd.rdd_id > last:
                last = rdd.rdd_id
        if last >= 0 and isfinite(info.stage_id):
            self.last_rdd[int(info.stage_id)] = int(last)


CLOCK_STEP_MS = 60_000.0
"""Time by which the driver's clock may be set while an application runs (a minute)."""
LONGEST_QUIET_MS = 365 * 86_400_000.0
"""Time without any event in one application (a year): beyond, one of both sides is damage."""


def settle_times(log: Collector, launch: NDArray[np.float64], finish: NDArray[np.float64]) -> int:
    """Make times outside the application's run NaN, in the log and in those of tasks.

    The run is where most times are, without a year between two of them; where most are between
    the application's start and end, these bound it. The log's last time becomes the last that is
    left. Returns how many were left out that are not of tasks.
    """
    places = _places(log)
    times = np.array([getattr(one, name) for one, name in places], np.float64)
    every = np.concatenate([times, launch, finish])
    every = every[(every > 0) & (every < LAST_PLAUSIBLE_MS)]
    if not len(every):
        return 0
    first, last = _run(every, log)
    wrong = (times > 0) & ((times < first) | (times > last))
    for at in np.flatnonzero(wrong).tolist():
        one, name = places[at]
        setattr(one, name, nan)
    for of_tasks in (launch, finish):
        of_tasks[(of_tasks < first) | (of_tasks > last)] = np.nan
    left = times[(times >= first) & (times <= last)]
    log.last_time = float(left.max()) if len(left) else nan
    return int(wrong.sum()) - int(wrong[0])


def _places(log: Collector) -> list[tuple[Any, str]]:
    """Everything of a log that has times by the driver's clock, and their names; tasks aside."""
    of_kinds = (
        ([log], ("last_time", "end")),
        ([log.application] if log.application else [], ("time",)),
        (log.executors.values(), ("added", "removed", "excluded")),
        (log.jobs.values(), ("submission", "completion")),
        (log.stages.values(), ("submission", "completion")),
        (log.sql.executions.values(), ("start", "end")),
    )
    return [(one, name) for some, names in of_kinds for one in some for name in names]


def _run(every: NDArray[np.float64], log: Collector) -> tuple[float, float]:
    """Return from when until when the application ran."""
    first, last = float(every.min()), float(every.max())
    if last - first > LONGEST_QUIET_MS:
        every = np.sort(every)
        spells = np.split(every, np.flatnonzero(np.diff(every) > LONGEST_QUIET_MS) + 1)
        every = max(spells, key=len)
        first, last = float(every[0]), float(every[-1])
    began = log.application.time - CLOCK_STEP_MS if log.application else nan
    over = log.end + CLOCK_STEP_MS
    if 2 * int((every < began).sum()) < len(every) and began <= last:
        first = max(first, began)
    if 2 * int((every > over).sum()) < len(every) and over >= first:
        last = min(last, over)
    return first, last
