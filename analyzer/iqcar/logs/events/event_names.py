"""The kinds of events iqcar knows: those it reads, and those it leaves out on purpose.

Anything else counts as skipped, so that a reader learns when Spark says something new.
"""

from __future__ import annotations

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
        "SparkListenerExecutorBlacklisted",
        "SparkListenerExecutorBlacklistedForStage",
        "SparkListenerExecutorExcluded",
        "SparkListenerExecutorExcludedForStage",
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
