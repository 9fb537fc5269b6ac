"""The events of a Spark log as typed structs: only the fields that reach a table are decoded.

Numbers are decoded as float, because a float holds every id and time in use exactly and NaN says
"missing". A line that does not fit its struct is decoded leniently
(:mod:`iqcar.eventlog.events.lenient`).
"""

from __future__ import annotations

from math import nan
from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct

from iqcar.tables import LAST_PLAUSIBLE_MS

NOT_FITTING = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What the typed decoders raise on a line that does not fit."""

ID = "id"
"""Title of the bounds of an id: an event with an id outside of them is damaged, as nobody can tell
what it is about. Any other number outside of its bounds is unknown, and the event counts."""
IntId = Annotated[float, Meta(ge=0, lt=2**31, title=ID)]
"""Jobs, stages, their attempts and RDDs: Spark numbers them from 0 in 32-bit integers."""
LongId = Annotated[float, Meta(ge=-(2**63), lt=2**63, title=ID)]
"""SQL executions and accumulators: 64-bit integers, as in the tables; −1 may say "none"."""
Count = Annotated[float, Meta(ge=0, lt=2**31)]
"""Tasks of a stage, cores of an executor: Spark counts them in 32-bit integers."""
Time = Annotated[float, Meta(ge=0, lt=LAST_PLAUSIBLE_MS)]
"""Times since the epoch in ms."""

_EMPTY = Raw(b"")


class AnyEvent(Struct, gc=False):
    """Any event: only its name, which is all that an unneeded event is read for."""

    name: str = msgspec.field(name="Event")


class ShuffleRead(Struct, gc=False, frozen=True):
    """``Shuffle Read Metrics``; the fetch wait is in ms."""

    remote_blocks: float = msgspec.field(default=nan, name="Remote Blocks Fetched")
    local_blocks: float = msgspec.field(default=nan, name="Local Blocks Fetched")
    fetch_wait: float = msgspec.field(default=nan, name="Fetch Wait Time")
    remote_bytes: float = msgspec.field(default=nan, name="Remote Bytes Read")
    local_bytes: float = msgspec.field(default=nan, name="Local Bytes Read")
    records: float = msgspec.field(default=nan, name="Total Records Read")


class ShuffleWrite(Struct, gc=False, frozen=True):
    """``Shuffle Write Metrics``; the write time is in ns in every version of Spark."""

    bytes_written: float = msgspec.field(default=nan, name="Shuffle Bytes Written")
    write_time: float = msgspec.field(default=nan, name="Shuffle Write Time")
    records: float = msgspec.field(default=nan, name="Shuffle Records Written")


class Input(Struct, gc=False, frozen=True):
    """``Input Metrics``."""

    bytes_read: float = msgspec.field(default=nan, name="Bytes Read")
    records: float = msgspec.field(default=nan, name="Records Read")


class Output(Struct, gc=False, frozen=True):
    """``Output Metrics``."""

    bytes_written: float = msgspec.field(default=nan, name="Bytes Written")
    records: float = msgspec.field(default=nan, name="Records Written")


NO_SHUFFLE_READ, NO_SHUFFLE_WRITE, NO_INPUT, NO_OUTPUT = (
    ShuffleRead(),
    ShuffleWrite(),
    Input(),
    Output(),
)


class Metrics(Struct, gc=False, frozen=True):
    """``Task Metrics``; CPU times are in ns, all other times in ms."""

    deserialize: float = msgspec.field(default=nan, name="Executor Deserialize Time")
    deserialize_cpu: float = msgspec.field(default=nan, name="Executor Deserialize CPU Time")
    run: float = msgspec.field(default=nan, name="Executor Run Time")
    cpu: float = msgspec.field(default=nan, name="Executor CPU Time")
    peak_memory: float = msgspec.field(default=nan, name="Peak Execution Memory")
    result_bytes: float = msgspec.field(default=nan, name="Result Size")
    gc_time: float = msgspec.field(default=nan, name="JVM GC Time")
    result_serialize: float = msgspec.field(default=nan, name="Result Serialization Time")
    memory_spilled: float = msgspec.field(default=nan, name="Memory Bytes Spilled")
    disk_spilled: float = msgspec.field(default=nan, name="Disk Bytes Spilled")
    shuffle_read: ShuffleRead = msgspec.field(default=NO_SHUFFLE_READ, name="Shuffle Read Metrics")
    shuffle_write: ShuffleWrite = msgspec.field(
        default=NO_SHUFFLE_WRITE, name="Shuffle Write Metrics"
    )
    input: Input = msgspec.field(default=NO_INPUT, name="Input Metrics")
    output: Output = msgspec.field(default=NO_OUTPUT, name="Output Metrics")
    host_name: str = msgspec.field(default="", name="Host Name")


NO_METRICS = Metrics()


class TaskInfo(Struct, gc=False, frozen=True):
    """``Task Info``; the accumulables stay raw, because they are most of the bytes."""

    task_id: float = msgspec.field(default=nan, name="Task ID")
    index: float = msgspec.field(default=nan, name="Index")
    attempt: float = msgspec.field(default=nan, name="Attempt")
    launch: float = msgspec.field(default=nan, name="Launch Time")
    executor_id: str = msgspec.field(default="", name="Executor ID")
    host: str = msgspec.field(default="", name="Host")
    locality: str = msgspec.field(default="", name="Locality")
    speculative: bool = msgspec.field(default=False, name="Speculative")
    getting_result: float = msgspec.field(default=nan, name="Getting Result Time")
    finish: float = msgspec.field(default=nan, name="Finish Time")
    failed: bool = msgspec.field(default=False, name="Failed")
    killed: bool = msgspec.field(default=False, name="Killed")
    accumulables: Raw = msgspec.field(default=_EMPTY, name="Accumulables")


NO_TASK_INFO = TaskInfo()


class Reason(Struct, gc=False, frozen=True):
    """``Task End Reason``."""

    reason: str = msgspec.field(default="", name="Reason")
    updates: Raw = msgspec.field(default=_EMPTY, name="Accumulator Updates")


NO_REASON = Reason()


class TaskEnd(Struct, gc=False):
    """``SparkListenerTaskEnd``: holds all there is to know about a finished task."""

    stage_id: float = msgspec.field(default=nan, name="Stage ID")
    stage_attempt: float = msgspec.field(default=0.0, name="Stage Attempt ID")
    reason: Reason = msgspec.field(default=NO_REASON, name="Task End Reason")
    info: TaskInfo = msgspec.field(default=NO_TASK_INFO, name="Task Info")
    metrics: Metrics = msgspec.field(default=NO_METRICS, name="Task Metrics")
    # Taken from the accumulables afterwards; no event has fields of such names.
    scan: float = msgspec.field(default=nan, name="iqcar scan")
    peak: float = msgspec.field(default=nan, name="iqcar peak")
    record: str = msgspec.field(default="", name="iqcar record")


class StartedInfo(Struct, gc=False):
    """``Task Info`` of a task start, as far as it tells which task it is."""

    task_id: float = msgspec.field(default=nan, name="Task ID")
    launch: float = msgspec.field(default=nan, name="Launch Time")


class TaskStart(Struct, gc=False):
    """``SparkListenerTaskStart``: kept aside until the task's end is seen."""

    stage_id: float = msgspec.field(default=nan, name="Stage ID")
    stage_attempt: float = msgspec.field(default=0.0, name="Stage Attempt ID")
    info: StartedInfo = msgspec.field(default_factory=StartedInfo, name="Task Info")


class RddInfo(Struct, gc=False):
    """``RDD Info``: what tells a Python stage, and the id that links a skipped stage."""

    rdd_id: IntId = msgspec.field(default=nan, name="RDD ID")
    name: str = msgspec.field(default="", name="Name")
    scope: str = msgspec.field(default="", name="Scope")


class Accumulable(Struct, gc=False):
    """An accumulator in an event; old Sparks write any value as text."""

    id: LongId = msgspec.field(default=nan, name="ID")
    name: str | None = msgspec.field(default=None, name="Name")
    update: Raw = msgspec.field(default=_EMPTY, name="Update")
    value: Raw = msgspec.field(default=_EMPTY, name="Value")


class StageInfo(Struct, gc=False):
    """``Stage Info`` of a job start, a stage's submission or its completion."""

    stage_id: IntId = msgspec.field(default=nan, name="Stage ID")
    attempt: IntId = msgspec.field(default=0.0, name="Stage Attempt ID")
    name: str = msgspec.field(default="", name="Stage Name")
    tasks: Count = msgspec.field(default=nan, name="Number of Tasks")
    rdds: list[RddInfo] = msgspec.field(default_factory=list, name="RDD Info")
    parents: list[IntId] = msgspec.field(default_factory=list, name="Parent IDs")
    submission: Time = msgspec.field(default=nan, name="Submission Time")
    completion: Time = msgspec.field(default=nan, name="Completion Time")
    failure: str = msgspec.field(default="", name="Failure Reason")
    accumulables: list[Accumulable] = msgspec.field(default_factory=list, name="Accumulables")


class Properties(Struct, gc=False):
    """Local properties of a job or stage: the few that say what it belongs to."""

    execution: str | None = msgspec.field(default=None, name="spark.sql.execution.id")
    root: str | None = msgspec.field(default=None, name="spark.sql.execution.root.id")
    databricks_root: str | None = msgspec.field(
        default=None, name="spark.databricks.execution.rootSqlExecutionId"
    )
    group: str | None = msgspec.field(default=None, name="spark.jobGroup.id")
    description: str | None = msgspec.field(default=None, name="spark.job.description")
    pool: str | None = msgspec.field(default=None, name="spark.scheduler.pool")
    tags: str | None = msgspec.field(default=None, name="spark.job.tags")


class StageSubmitted(Struct, gc=False):
    """``SparkListenerStageSubmitted``."""

    info: StageInfo = msgspec.field(default_factory=StageInfo, name="Stage Info")
    properties: Properties | None = msgspec.field(default=None, name="Properties")


class StageCompleted(Struct, gc=False):
    """``SparkListenerStageCompleted``."""

    info: StageInfo = msgspec.field(default_factory=StageInfo, name="Stage Info")


class JobStart(Struct, gc=False):
    """``SparkListenerJobStart``."""

    job_id: IntId = msgspec.field(default=nan, name="Job ID")
    submission: Time = msgspec.field(default=nan, name="Submission Time")
    stages: list[StageInfo] = msgspec.field(default_factory=list, name="Stage Infos")
    stage_ids: list[IntId] = msgspec.field(default_factory=list, name="Stage IDs")
    properties: Properties | None = msgspec.field(default=None, name="Properties")


class JobResult(Struct, gc=False):
    """``Job Result``."""

    result: str = msgspec.field(default="", name="Result")


class JobEnd(Struct, gc=False):
    """``SparkListenerJobEnd``."""

    job_id: IntId = msgspec.field(default=nan, name="Job ID")
    completion: Time = msgspec.field(default=nan, name="Completion Time")
    result: JobResult = msgspec.field(default_factory=JobResult, name="Job Result")


class ApplicationStart(Struct, gc=False):
    """``SparkListenerApplicationStart``."""

    name: str = msgspec.field(default="", name="App Name")
    id: str | None = msgspec.field(default=None, name="App ID")
    time: Time = msgspec.field(default=nan, name="Timestamp")
    user: str | None = msgspec.field(default=None, name="User")
    attempt: str | None = msgspec.field(default=None, name="App Attempt ID")


class ApplicationEnd(Struct, gc=False):
    """``SparkListenerApplicationEnd``."""

    time: Time = msgspec.field(default=nan, name="Timestamp")


class LogStart(Struct, gc=False):
    """``SparkListenerLogStart`` and Databricks' ``DBCEventLoggingListenerMetadata``."""

    version: str = msgspec.field(default="", name="Spark Version")


class SparkProperties(Struct, gc=False):
    """The Spark properties that reach a table; no other property is ever decoded."""

    task_cpus: str | None = msgspec.field(default=None, name="spark.task.cpus")
    scheduler_mode: str | None = msgspec.field(default=None, name="spark.scheduler.mode")


class Environment(Struct, gc=False):
    """``SparkListenerEnvironmentUpdate``."""

    spark: SparkProperties = msgspec.field(default_factory=SparkProperties, name="Spark Properties")


class ExecutorInfo(Struct, gc=False):
    """``Executor Info``."""

    host: str = msgspec.field(default="", name="Host")
    cores: Count = msgspec.field(default=nan, name="Total Cores")


class ExecutorAdded(Struct, gc=False):
    """``SparkListenerExecutorAdded``."""

    time: Time = msgspec.field(default=nan, name="Timestamp")
    executor_id: str = msgspec.field(default="", name="Executor ID")
    info: ExecutorInfo = msgspec.field(default_factory=ExecutorInfo, name="Executor Info")


class ExecutorRemoved(Struct, gc=False):
    """``SparkListenerExecutorRemoved``."""

    time: Time = msgspec.field(default=nan, name="Timestamp")
    executor_id: str = msgspec.field(default="", name="Executor ID")
    reason: str = msgspec.field(default="", name="Removed Reason")


class PlanMetric(Struct, gc=False):
    """A SQL metric that a plan node declares."""

    name: str = ""
    id: LongId = msgspec.field(default=nan, name="accumulatorId")
    type: str = msgspec.field(default="", name="metricType")


class PlanNode(Struct, gc=False):
    """``sparkPlanInfo``: a node of the physical plan."""

    name: str = msgspec.field(default="", name="nodeName")
    text: str = msgspec.field(default="", name="simpleString")
    children: list[PlanNode] = msgspec.field(default_factory=list)
    metrics: list[PlanMetric] = msgspec.field(default_factory=list)


class SqlStart(Struct, gc=False):
    """``SparkListenerSQLExecutionStart``; the plan as text stays raw, it can be megabytes."""

    execution: LongId = msgspec.field(default=nan, name="executionId")
    root: LongId | None = msgspec.field(default=None, name="rootExecutionId")
    description: str = ""
    plan: PlanNode | None = msgspec.field(default=None, name="sparkPlanInfo")
    plan_text: Raw = msgspec.field(default=_EMPTY, name="physicalPlanDescription")
    time: Time = nan


class SqlAdaptive(Struct, gc=False):
    """``SparkListenerSQLAdaptiveExecutionUpdate``: read for the metrics of new nodes."""

    execution: LongId = msgspec.field(default=nan, name="executionId")
    plan: PlanNode | None = msgspec.field(default=None, name="sparkPlanInfo")


class SqlMetricUpdates(Struct, gc=False):
    """``SparkListenerSQLAdaptiveSQLMetricUpdates``."""

    execution: LongId = msgspec.field(default=nan, name="executionId")
    metrics: list[PlanMetric] = msgspec.field(default_factory=list, name="sqlPlanMetrics")


class SqlEnd(Struct, gc=False):
    """``SparkListenerSQLExecutionEnd``; Spark ≥ 3.4 tells the error."""

    execution: LongId = msgspec.field(default=nan, name="executionId")
    time: Time = nan
    error: str | None = msgspec.field(default=None, name="errorMessage")


class DriverAccumUpdates(Struct, gc=False):
    """``SparkListenerDriverAccumUpdates``: pairs of accumulator id and value."""

    execution: LongId = msgspec.field(default=nan, name="executionId")
    updates: list[list[float]] = msgspec.field(default_factory=list, name="accumUpdates")
