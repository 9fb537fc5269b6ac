"""The kinds of events, and what is decoded of the end of a task: only fields that reach a table.

Events that are left out on purpose are named. Anything else counts as skipped, so that a reader
learns when Spark says something new. Processes that decode nothing but tasks import this file
alone, so it must be quick to import.
"""

from __future__ import annotations

from math import nan
from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct

SQL = "org.apache.spark.sql.execution.ui."
"""Prefix of the names of Spark SQL's own events."""

CONNECT = "org.apache.spark.sql.connect.service.SparkListenerConnect"
"""Prefix of the names of Spark Connect's events."""

THRIFT = "org.apache.spark.sql.hive.thriftserver.ui."
"""Prefix of the names of the SQL Thrift server's events."""

PLUGIN = "org.iqcar.spark.IqcarEvent"
"""Prefix of the names of the events that iqcar's own Spark plugin writes."""

PLUGIN_KEPT = frozenset(
    f"{PLUGIN}{kind}"
    for kind in ("Scheduler", "Rules", "Executors", "Phases", "Samples", "Dropped")
)
"""Those among them whose lines are kept."""

TASK_RECORD = "iqcar.task"
"""Name of the accumulator whose updates are the plugin's records of tasks."""

TASK_END = "SparkListenerTaskEnd"
TASK_START = "SparkListenerTaskStart"
BLOCK_UPDATED = "SparkListenerBlockUpdated"
UNPERSIST = "SparkListenerUnpersistRDD"

_LEFT_OUT = frozenset(
    (
        "SparkListenerBlockManagerAdded",
        "SparkListenerBlockManagerRemoved",
        "SparkListenerBarrierTaskFailed",
        "SparkListenerExecutorMetricsUpdate",
        "SparkListenerExecutorUnblacklisted",
        "SparkListenerExecutorUnexcluded",
        "SparkListenerMiscellaneousProcessAdded",
        "SparkListenerNodeBlacklisted",
        "SparkListenerNodeBlacklistedForStage",
        "SparkListenerNodeExcluded",
        "SparkListenerNodeExcludedForStage",
        "SparkListenerNodeUnblacklisted",
        "SparkListenerNodeUnexcluded",
        "SparkListenerResourceProfileAdded",
        "SparkListenerSpeculativeTaskSubmitted",
        "SparkListenerStageExecutorMetrics",
        "SparkListenerTaskGettingResult",
        "SparkListenerUnschedulableTaskSetAdded",
        "SparkListenerUnschedulableTaskSetRemoved",
        f"{SQL}SparkListenerQueryExecutionMetrics",
    )
)
_LEFT_OUT_PREFIXES = (
    "org.apache.spark.sql.streaming.StreamingQueryListener$",
    "org.apache.spark.sql.streaming.ui.",
    CONNECT,
    THRIFT,
    "org.apache.spark.sql.catalyst.catalog.",
    "org.apache.spark.ml.",
    "org.apache.spark.streaming.scheduler.",
    PLUGIN,
)
_SCHEDULER = "org.apache.spark.scheduler."


def plain_name(name: str) -> str:
    """Return the name without the package that Spark 2.1–2.3 and some newer events carry.

    >>> plain_name("org.apache.spark.scheduler.SparkListenerExecutorBlacklisted")
    'SparkListenerExecutorBlacklisted'
    """
    return name.removeprefix(_SCHEDULER)


def is_left_out(name: str) -> bool:
    """Tell whether an event is known and says nothing that a table needs."""
    return plain_name(name) in _LEFT_OUT or name.startswith(_LEFT_OUT_PREFIXES)


NOT_FITTING = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What the typed decoders raise on a line that does not fit."""

ID = "id"
"""Title of the bounds of an id: an event with an id outside of them is damaged, as nobody can tell
what it is about. Any other number outside of its bounds is unknown, and the event counts."""
LongId = Annotated[float, Meta(ge=-(2**63), lt=2**63, title=ID)]
"""SQL executions and accumulators: 64-bit integers, as in the tables; −1 may say "none"."""

EMPTY = Raw(b"")


class Accumulable(Struct, gc=False):
    """An accumulator in an event; old Sparks write any value as text."""

    id: LongId = msgspec.field(default=nan, name="ID")
    name: str | None = msgspec.field(default=None, name="Name")
    update: Raw = msgspec.field(default=EMPTY, name="Update")
    value: Raw = msgspec.field(default=EMPTY, name="Value")


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


Size = Annotated[float, Meta(ge=0, lt=2**53)]
"""Bytes of a block; from here on (9 PB) they are damage, and sums would not be exact."""


class StorageLevel(Struct, gc=False, frozen=True):
    """``Storage Level``: whether an RDD is, or a block was left, in memory."""

    in_memory: bool = msgspec.field(default=False, name="Use Memory")


NO_STORAGE, STORED = StorageLevel(), StorageLevel(in_memory=True)


class BlockStatus(Struct, gc=False, frozen=True):
    """``Status`` of an updated block; of one driven out the size is that which it had."""

    level: StorageLevel = msgspec.field(default=STORED, name="Storage Level")
    bytes: Size = msgspec.field(default=nan, name="Memory Size")


NO_STATUS = BlockStatus()


class TaskBlockUpdate(Struct, gc=False, frozen=True):
    """An element of ``Updated Blocks``: a block that a task stored, or drove out."""

    block: str = msgspec.field(default="", name="Block ID")
    status: BlockStatus = msgspec.field(default=NO_STATUS, name="Status")


class BlockManagerId(Struct, gc=False, frozen=True):
    """``Block Manager ID``."""

    executor_id: str = msgspec.field(default="", name="Executor ID")


NO_BLOCK_MANAGER = BlockManagerId()


class BlockInfo(Struct, gc=False, frozen=True):
    """``Block Updated Info``; of a block driven out the size is that which it had."""

    manager: BlockManagerId = msgspec.field(default=NO_BLOCK_MANAGER, name="Block Manager ID")
    block: str = msgspec.field(default="", name="Block ID")
    level: StorageLevel = msgspec.field(default=STORED, name="Storage Level")
    bytes: Size = msgspec.field(default=nan, name="Memory Size")


NO_BLOCK_INFO = BlockInfo()


class BlockUpdated(Struct, gc=False, frozen=True):
    """``SparkListenerBlockUpdated``; it has no time."""

    info: BlockInfo = msgspec.field(default=NO_BLOCK_INFO, name="Block Updated Info")


class UnpersistRdd(Struct, gc=False, frozen=True):
    """``SparkListenerUnpersistRDD``; it has no time."""

    rdd: float = msgspec.field(default=nan, name="RDD ID")


NO_SHUFFLE_READ, NO_SHUFFLE_WRITE, NO_INPUT, NO_OUTPUT = (
    ShuffleRead(),
    ShuffleWrite(),
    Input(),
    Output(),
)
"""Where the log has none: unknown, or in Spark 1.x nothing."""


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
    blocks: list[TaskBlockUpdate] = msgspec.field(default_factory=list, name="Updated Blocks")


NO_METRICS = Metrics()


class TaskInfo(Struct, gc=False, frozen=True):
    """``Task Info``; the accumulables stay raw, because they are most of the bytes."""

    task_id: float = msgspec.field(default=nan, name="Task ID")
    index: float = msgspec.field(default=nan, name="Index")
    attempt: float = msgspec.field(default=nan, name="Attempt")
    partition: float = msgspec.field(default=nan, name="Partition ID")
    launch: float = msgspec.field(default=nan, name="Launch Time")
    executor_id: str = msgspec.field(default="", name="Executor ID")
    host: str = msgspec.field(default="", name="Host")
    locality: str = msgspec.field(default="", name="Locality")
    speculative: bool = msgspec.field(default=False, name="Speculative")
    getting_result: float = msgspec.field(default=nan, name="Getting Result Time")
    finish: float = msgspec.field(default=nan, name="Finish Time")
    failed: bool = msgspec.field(default=False, name="Failed")
    killed: bool = msgspec.field(default=False, name="Killed")
    accumulables: Raw = msgspec.field(default=EMPTY, name="Accumulables")


NO_TASK_INFO = TaskInfo()


class FetchedFrom(Struct, gc=False, frozen=True):
    """``Block Manager Address`` of a failed fetch: whose shuffle output could not be had."""

    executor_id: str = msgspec.field(default="", name="Executor ID")


class Reason(Struct, gc=False, frozen=True):
    """``Task End Reason``; which of its texts there are depends on the reason."""

    reason: str = msgspec.field(default="", name="Reason")
    updates: Raw = msgspec.field(default=EMPTY, name="Accumulator Updates")
    class_name: str | None = msgspec.field(default=None, name="Class Name")
    description: str | None = msgspec.field(default=None, name="Description")
    message: str | None = msgspec.field(default=None, name="Message")
    killed_for: str | None = msgspec.field(default=None, name="Kill Reason")
    lost_for: str | None = msgspec.field(default=None, name="Loss Reason")
    stack_trace: str | None = msgspec.field(default=None, name="Full Stack Trace")
    fetched_from: FetchedFrom | None = msgspec.field(default=None, name="Block Manager Address")


NO_REASON = Reason()


class TaskEnd(Struct, gc=False):
    """``SparkListenerTaskEnd``: holds all there is to know about a finished task."""

    stage_id: float = msgspec.field(default=nan, name="Stage ID")
    stage_attempt: float = msgspec.field(default=0.0, name="Stage Attempt ID")
    reason: Reason = msgspec.field(default=NO_REASON, name="Task End Reason")
    info: TaskInfo = msgspec.field(default=NO_TASK_INFO, name="Task Info")
    metrics: Metrics = msgspec.field(default=NO_METRICS, name="Task Metrics")


class StartedInfo(Struct, gc=False):
    """``Task Info`` of a task start, as far as it tells which task it is, and when."""

    task_id: float = msgspec.field(default=nan, name="Task ID")
    launch: float = msgspec.field(default=nan, name="Launch Time")


class TaskStart(Struct, gc=False):
    """``SparkListenerTaskStart``: its line is kept aside until the task's end is seen."""

    info: StartedInfo = msgspec.field(default_factory=StartedInfo, name="Task Info")
