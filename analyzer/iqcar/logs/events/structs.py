"""The events of a Spark log as typed structs: only the fields that reach a table are decoded.

Numbers are decoded as float, because a float holds every id and time in use exactly and NaN says
"missing". A line that does not fit its struct is decoded leniently
(:mod:`iqcar.logs.events.lenient`).
"""

from __future__ import annotations

from math import nan
from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct

from iqcar.logs.events.task_structs import EMPTY, ID, NO_STORAGE, Accumulable, LongId, StorageLevel
from iqcar.tables import LAST_PLAUSIBLE_MS, MOST_CORES, MOST_TASKS

IntId = Annotated[float, Meta(ge=0, lt=2**31, title=ID)]
"""Jobs, stages, their attempts and RDDs: Spark numbers them from 0 in 32-bit integers."""
Tasks = Annotated[float, Meta(ge=0, lt=MOST_TASKS)]
"""Tasks of a stage."""
Cores = Annotated[float, Meta(ge=0, lt=MOST_CORES)]
"""Cores of an executor."""
Time = Annotated[float, Meta(ge=0, lt=LAST_PLAUSIBLE_MS)]
"""Times since the epoch in ms."""


class AnyEvent(Struct, gc=False):
    """Any event: only its name, which is all that an unneeded event is read for."""

    name: str = msgspec.field(name="Event")


class RddInfo(Struct, gc=False):
    """``RDD Info``: what tells a Python stage, what is cached, and links a skipped stage."""

    rdd_id: IntId = msgspec.field(default=nan, name="RDD ID")
    name: str = msgspec.field(default="", name="Name")
    scope: str = msgspec.field(default="", name="Scope")
    level: StorageLevel = msgspec.field(default=NO_STORAGE, name="Storage Level")


class StageInfo(Struct, gc=False):
    """``Stage Info`` of a job start, a stage's submission or its completion."""

    stage_id: IntId = msgspec.field(default=nan, name="Stage ID")
    attempt: IntId = msgspec.field(default=0.0, name="Stage Attempt ID")
    name: str = msgspec.field(default="", name="Stage Name")
    tasks: Tasks = msgspec.field(default=nan, name="Number of Tasks")
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
    user: str | None = msgspec.field(default=None, name="user")


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
    properties: Raw = msgspec.field(default=EMPTY, name="Properties")


class JobException(Struct, gc=False):
    """``Exception`` of a job that failed."""

    message: str = msgspec.field(default="", name="Message")


class JobResult(Struct, gc=False):
    """``Job Result``."""

    result: str = msgspec.field(default="", name="Result")
    exception: JobException | None = msgspec.field(default=None, name="Exception")


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


class JvmInformation(Struct, gc=False):
    """``JVM Information``."""

    java: str = msgspec.field(default="", name="Java Version")
    scala: str = msgspec.field(default="", name="Scala Version")


class Environment(Struct, gc=False):
    """``SparkListenerEnvironmentUpdate``."""

    spark: Raw = msgspec.field(default=EMPTY, name="Spark Properties")
    jvm: JvmInformation = msgspec.field(default_factory=JvmInformation, name="JVM Information")


class ExecutorInfo(Struct, gc=False):
    """``Executor Info``."""

    host: str = msgspec.field(default="", name="Host")
    cores: Cores = msgspec.field(default=nan, name="Total Cores")


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


class ExecutorExcluded(Struct, gc=False):
    """``SparkListenerExecutorExcluded`` and its kin: Spark gives it no more tasks."""

    time: Time = nan
    executor_id: str = msgspec.field(default="", name="executorId")


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
    plan_text: Raw = msgspec.field(default=EMPTY, name="physicalPlanDescription")
    settings: Raw = msgspec.field(default=EMPTY, name="modifiedConfigs")
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


class ConnectStarted(Struct, gc=False):
    """``SparkListenerConnectOperationStarted``: a request of Spark Connect, as text."""

    operation: str = msgspec.field(default="", name="operationId")
    statement: str = msgspec.field(default="", name="statementText")


class ThriftStarted(Struct, gc=False):
    """``SparkListenerThriftServerOperationStart``: whose session the jobs of a group belong to."""

    group: str = msgspec.field(default="", name="groupId")
    session: str = msgspec.field(default="", name="sessionId")
    user: str = msgspec.field(default="", name="userName")


class DriverAccumUpdates(Struct, gc=False):
    """``SparkListenerDriverAccumUpdates``: pairs of accumulator id and value."""

    execution: LongId = msgspec.field(default=nan, name="executionId")
    updates: list[list[float]] = msgspec.field(default_factory=list, name="accumUpdates")
