"""Declares the features of tasks: meaning, unit, kind of comparison, and cause.

They are those of BigRoots tables I and II with eq. 1 to 3, and of Hound table 3, as far as Spark's
log and the plugin's record hold them. Spark records per task neither the time of broadcasts, nor
user and system time apart, nor the time to open files and connections: these are missing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from iqcar.enums import FeatureKind
from iqcar.tables.declarations import Column, TableSpec, declare

NUMERICAL, TIME, RESOURCE, DISCRETE, WAIT = FeatureKind


class Feature(NamedTuple):
    """One feature of a task.

    name: column of `FEATURES`.
    kind: how it is compared with its peers'.
    cause: key in ``rules/causes.json``; empty if it is no cause by itself, only a word of topics.
    unit: ms, bytes, bytes/s, count, share, or empty.
    phrase: what a sentence calls it.
    sentence: what it holds.
    bigroots: whether it is one of the paper's.
    elsewhere: cause if it stands out from tasks on other hosts, but not on its own; if any.
    instead: cause whose measured waits are better evidence than this feature, if any.
    """

    name: str
    kind: FeatureKind
    cause: str
    unit: str
    phrase: str
    sentence: str
    bigroots: bool = False
    instead: str = ""
    elsewhere: str = ""


CPU, DISK, NETWORK, MEMORY = "host-cpu", "host-disk", "host-network", "memory"
"""Causes that are a resource of the host or the executor; measured waits are evidence of them."""
LIMIT = "cpu-limit"


def _features(*rows: tuple[Any, ...]) -> tuple[Feature, ...]:
    return tuple(Feature(*row) for row in rows)


_FRAMEWORK = _features(
    ("input_bytes", NUMERICAL, "input-skew", "bytes", "input",
        "Bytes read from input.", True),
    ("input_records", NUMERICAL, "input-skew", "count", "input records",
        "Records read from input."),
    ("shuffle_read_bytes", NUMERICAL, "shuffle-skew", "bytes", "shuffle read",
        "Shuffle bytes read, from its host and others.", True),
    ("shuffle_read_records", NUMERICAL, "shuffle-skew", "count", "shuffle records read",
        "Shuffle records read."),
    ("remote_bytes", NUMERICAL, "", "bytes", "remote shuffle read",
        "Shuffle bytes read from other hosts."),
    ("local_bytes", NUMERICAL, "", "bytes", "local shuffle read",
        "Shuffle bytes read from its own host."),
    ("remote_blocks", NUMERICAL, "", "count", "remote shuffle blocks",
        "Shuffle blocks read from other hosts."),
    ("local_blocks", NUMERICAL, "", "count", "local shuffle blocks",
        "Shuffle blocks read from its own host."),
    ("cpu_ms", NUMERICAL, "computation-skew", "ms", "computing",
        "CPU time of its code.", False, "", "slow-host"),
    ("python_cpu_ms", NUMERICAL, "computation-skew", "ms", "its Python worker's computing",
        "CPU time of its Python worker; measured.", False, "", "slow-host"),
    ("python_ms", NUMERICAL, "python", "ms", "its Python worker",
        "In a stage with Python workers: run time less CPU time, collections and fetches; NaN "
        "where measured.", False, "", "slow-host"),
    ("memory_spilled_bytes", NUMERICAL, "spill", "bytes", "spill",
        "Size in memory of what it spilled.", True),
    ("disk_spilled_bytes", NUMERICAL, "spill", "bytes", "spill on disk",
        "Size on disk of what it spilled.", True),
    ("shuffle_write_bytes", NUMERICAL, "shuffle-write-skew", "bytes", "shuffle write",
        "Shuffle bytes written.", True),
    ("shuffle_write_records", NUMERICAL, "shuffle-write-skew", "count", "shuffle records",
        "Shuffle records written."),
    ("output_bytes", NUMERICAL, "output-skew", "bytes", "output",
        "Bytes written to output."),
    ("output_records", NUMERICAL, "output-skew", "count", "output records",
        "Records written to output."),
    ("result_bytes", NUMERICAL, "result", "bytes", "result",
        "Size of its result."),
    ("peak_memory_bytes", NUMERICAL, "", "bytes", "peak execution memory",
        "Peak execution memory it held."),
    ("gc_ms", TIME, "gc", "ms", "garbage collection",
        "Garbage collection of its JVM while it ran.", True),
    ("deserialize_ms", TIME, "deserialise", "ms", "deserialising the task",
        "Time to deserialise the task.", True),
    ("result_serialize_ms", TIME, "result", "ms", "serialising the result",
        "Time to serialise its result.", True),
    ("getting_result_ms", TIME, "result", "ms", "fetching the result",
        "Time to fetch its result from the executor."),
    ("scheduler_delay_ms", TIME, "scheduler-delay", "ms", "scheduler delay",
        "Its duration less all that its executor reports."),
    ("fetch_wait_ms", TIME, NETWORK, "ms", "waiting for shuffle blocks",
        "Time it waited for remote shuffle blocks.", False, NETWORK),
    ("scan_ms", TIME, DISK, "ms", "scanning input",
        "SQL scan time.", False, DISK),
    ("shuffle_write_ms", TIME, DISK, "ms", "writing shuffle files",
        "Time it spent writing shuffle files.", False, DISK),
    ("off_cpu_ms", TIME, "off-cpu", "ms", "off the processor for no recorded reason",
        "Estimated wait for the processor: run time less CPU time and every known wait; NaN "
        "where measured."),
    ("run_ms", NUMERICAL, "", "ms", "run time",
        "Time its code ran."),
    ("locality", DISCRETE, "locality", "", "locality",
        "0 process-local, 1 node-local, 2 rack-local or any; NaN where it has no "
        "preference.", True),
    ("first_on_executor", DISCRETE, "cold-executor", "", "first on its executor",
        "1 if no task had ended on its executor when it was launched, else 0."),
    ("first_of_stage", DISCRETE, "", "", "first of its stage there",
        "1 if no task of its stage had ended on its executor when it was launched, else 0."),
)  # fmt: skip
_WAITS = _features(
    ("wait_run_queue_ms", WAIT, CPU, "ms", "the processor",
        "Measured wait for the processor."),
    ("wait_throttled_ms", WAIT, LIMIT, "ms", "its executor's CPU limit",
        "Measured stops by the CPU limit of its executor."),
    ("wait_io_read_ms", WAIT, DISK, "ms", "reads",
        "Measured wait for reads."),
    ("wait_io_write_ms", WAIT, DISK, "ms", "writes",
        "Measured wait for writes."),
    ("wait_object_store_ms", WAIT, "object-store", "ms", "the object store",
        "Measured wait for an object store."),
    ("wait_shuffle_fetch_ms", WAIT, NETWORK, "ms", "shuffle blocks",
        "Measured wait for shuffle blocks."),
    ("wait_execution_memory_ms", WAIT, MEMORY, "ms", "execution memory",
        "Measured wait for execution memory."),
    ("wait_storage_memory_ms", WAIT, MEMORY, "ms", "storage memory",
        "Measured wait for storage memory."),
    ("wait_page_fault_ms", WAIT, "host-memory", "ms", "pages of memory",
        "Measured wait for pages of memory from mapped files or swap."),
    ("wait_monitor_blocked_ms", WAIT, "locks", "ms", "locks",
        "Measured wait for locks and for code being compiled."),
    ("wait_notification_wait_ms", WAIT, "locks", "ms", "other threads",
        "Measured wait for other threads."),
    ("wait_driver_rpc_ms", WAIT, "driver", "ms", "the driver",
        "Measured wait for the driver: broadcasts, block locations, commits."),
    ("wait_python_other_ms", WAIT, "python-idle", "ms", "its sleeping Python worker",
        "Measured wait for a Python worker that slept."),
)  # fmt: skip
_HOST = _features(
    ("host_cpu", RESOURCE, CPU, "share", "host CPU",
        "Share of the host's processor time in use (eq. 1).", True, CPU),
    ("host_cpu_pressure", RESOURCE, CPU, "share", "host CPU pressure",
        "Share of the time in which something waited for a processor.", False, CPU),
    ("host_throttled", RESOURCE, LIMIT, "share", "throttling",
        "Share of the time in which the container's limit held it back.", False, LIMIT),
    ("host_disk", RESOURCE, DISK, "share", "host disk",
        "Share of the time the busiest disk was busy (eq. 2).", True, DISK),
    ("host_io_pressure", RESOURCE, DISK, "share", "host IO pressure",
        "Share of the time in which something waited for IO.", False, DISK),
    ("container_io_pressure", RESOURCE, DISK, "share", "IO pressure of its container",
        "Share of the time in which something of the container waited for IO.", False, DISK),
    ("host_disk_read", RESOURCE, "", "bytes/s", "host disk reads",
        "Bytes read from disks per second."),
    ("host_disk_write", RESOURCE, "", "bytes/s", "host disk writes",
        "Bytes written to disks per second."),
    ("host_network", RESOURCE, NETWORK, "bytes/s", "host network",
        "Bytes sent and received per second (eq. 3).", True, NETWORK),
    ("host_net_in", RESOURCE, "", "bytes/s", "host network in",
        "Bytes received per second."),
    ("host_net_out", RESOURCE, "", "bytes/s", "host network out",
        "Bytes sent per second."),
    ("host_memory", RESOURCE, "", "share", "host memory",
        "Share of the host's memory in use."),
    ("host_memory_pressure", RESOURCE, "host-memory", "share", "host memory pressure",
        "Share of the time in which something waited for memory."),
    ("container_memory_pressure", RESOURCE, "host-memory", "share",
        "memory pressure of its container",
        "Share of the time in which something of the container waited for memory."),
)  # fmt: skip

FEATURE_LIST: tuple[Feature, ...] = (*_FRAMEWORK, *_WAITS, *_HOST)
"""All features; of several that are evidence of one cause, the first that holds is named."""

PAPER_FEATURES: tuple[Feature, ...] = tuple(f for f in FEATURE_LIST if f.bigroots)
"""The features of the paper (tables I, II, eq. 1 to 3)."""

HOST_FEATURES: tuple[Feature, ...] = _HOST
"""Features of the host, sampled before, during and after the task."""

(SLOW_HOST,) = _features(
    ("host_duration_ms", NUMERICAL, "slow-host", "ms", "tasks on its host",
     "Mean duration of the stage's other tasks on its host."),
)  # fmt: skip
"""Not a column: it is looked at where nothing else explains a straggler."""


def before(feature: Feature) -> str:
    """Name of the column with a host's feature in the window before the task."""
    return f"{feature.name}_before"


def after(feature: Feature) -> str:
    """Name of the column with a host's feature in the window after the task."""
    return f"{feature.name}_after"


IDENTITY: tuple[Column, ...] = declare(
    ("task", "int32", "row", "The task."), ("task_id", "int64", "", "Its id in Spark."),
    ("app", "int32", "row", "Its application."), ("stage", "int32", "row", "Its stage attempt."),
    ("query", "int32", "row", "Its query; −1 if none."),
    ("host", "int32", "row", "The machine it ran on; −1 if unknown."),
    ("executor", "int32", "row", "Its executor; −1 if unknown."),
    ("launch_ms", "float64", "ms", "When it was launched."),
    ("duration_ms", "float64", "ms", "Launch to finish."),
    ("compared", "bool", "", "Whether it succeeded, so that its duration tells something."),
    ("measured", "bool", "", "Whether the plugin measured its waits."),
)  # fmt: skip

FEATURES = TableSpec(
    "features",
    "One row per task attempt, aligned with `tasks`: the features that causes of stragglers are "
    "found from. `*_before` and `*_after` tell of the edges of a task, see docs/stragglers.md.",
    (
        *IDENTITY,
        *(Column(f.name, "float64", f.unit, f.sentence) for f in FEATURE_LIST),
        *(
            Column(name, "float64", f.unit, f"`{f.name}` in the window {when} the task.")
            for f in HOST_FEATURES
            if f.cause
            for name, when in ((before(f), "before"), (after(f), "after"))
        ),
    ),
)
