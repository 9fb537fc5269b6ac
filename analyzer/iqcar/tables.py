"""The tables that everything after the reader works on: each column declared once.

A table is a pandas frame with a ``RangeIndex``; an integer column that names another table
(``app``, ``stage``, ``query`` ...) holds the row number there, and −1 means "none". Times are
milliseconds since the epoch, durations milliseconds, sizes bytes. A number the log does not
hold is NaN, never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from iqcar.kinds import REQUESTS, Request, WaitClass

if TYPE_CHECKING:
    from collections.abc import Iterator

NONE = -1
"""The row number that means "no such row"."""


class Column(NamedTuple):
    """One column: its name, dtype, unit and a sentence about it."""

    name: str
    dtype: str
    unit: str
    sentence: str


class TableSpec(NamedTuple):
    """One table: its name, a sentence about it, and its columns in order."""

    name: str
    sentence: str
    columns: tuple[Column, ...]

    def column_names(self) -> list[str]:
        """Names of the columns in order."""
        return [column.name for column in self.columns]

    def frame(self, columns: Mapping[str, Any]) -> pd.DataFrame:
        """Build the table from one array per column.

        Parameters
        ----------
        columns : mapping of str to array-like
            Exactly the declared columns, all of one length.

        Raises
        ------
        ValueError
            If a column is missing, unknown, or of another length.
        """
        if set(columns) != set(self.column_names()):
            wrong = sorted(set(columns) ^ set(self.column_names()))
            raise ValueError(f"table {self.name}: columns differ: {wrong}")
        lengths = {len(values) for values in columns.values()}
        if len(lengths) > 1:
            raise ValueError(f"table {self.name}: columns of lengths {sorted(lengths)}")
        frame: pd.DataFrame = pd.DataFrame(
            {c.name: as_dtype(columns[c.name], c.dtype) for c in self.columns}, copy=False
        )
        return frame

    def empty(self) -> pd.DataFrame:
        """Return the table without rows."""
        return self.frame({c.name: [] for c in self.columns})


def as_dtype(values: Any, dtype: str) -> Any:
    """Convert one column to its declared dtype (``str`` becomes an object array of str)."""
    if dtype == "str":
        array = np.empty(len(values), dtype=object)
        array[:] = ["" if v is None else v for v in values]
        return pd.Series(array, dtype=object)
    if dtype == "category":
        return values if isinstance(values, pd.Categorical) else pd.Categorical(values)
    return np.asarray(values, dtype=dtype)


def texts(frame: pd.DataFrame, name: str) -> list[str]:
    """Return a text column as a list of str."""
    values: list[str] = frame[name].astype(object).tolist()
    return values


def _columns(*rows: tuple[str, str, str, str]) -> tuple[Column, ...]:
    return tuple(Column(*row) for row in rows)


INPUTS = TableSpec(
    "inputs",
    "One row per event log that was found, readable or not.",
    _columns(
        ("path", "str", "", "Where the log is: a file, a rolling directory or a member of a zip."),
        ("app", "int32", "row", "Its application; −1 where nothing could be read."),
        ("application_id", "str", "", "Application id as Spark wrote it."),
        ("application_name", "str", "", "Application name as the user gave it."),
        ("spark_version", "str", "", "Spark version that wrote the log; empty if not recorded."),
        ("status", "str", "", "complete, in_progress, truncated or failed."),
        ("message", "str", "", "What was lost or doubtful, in one sentence; empty if nothing."),
        ("events", "int64", "count", "Well-formed events read."),
        ("skipped_events", "int64", "count", "Events of a kind iqcar does not know."),
        ("malformed_lines", "int64", "count", "Lines that are not an event."),
        ("tasks", "int64", "count", "Task-end events."),
        ("stages", "int64", "count", "Distinct stage attempts seen."),
        ("jobs", "int64", "count", "Distinct job starts."),
        ("sql_executions", "int64", "count", "Distinct SQL execution ids."),
        ("hosts", "int64", "count", "Hosts that ran tasks."),
        ("executors", "int64", "count", "Distinct executors added or running tasks."),
    ),
)

APPLICATIONS = TableSpec(
    "applications",
    "One row per application attempt that could be read.",
    _columns(
        ("application_id", "str", "", "Application id; made from the path if not recorded."),
        ("attempt_id", "str", "", "Attempt of the application; empty if it has only one."),
        ("name", "str", "", "Application name."),
        ("user", "str", "", "User that ran it."),
        ("spark_version", "str", "", "Spark version; empty if not recorded."),
        ("start_ms", "float64", "ms", "When the application started."),
        ("end_ms", "float64", "ms", "When it ended; the last event's time if it did not end."),
        ("ended", "bool", "", "Whether the log holds the application's end."),
        ("task_cpus", "float64", "slots", "spark.task.cpus: slots that one task holds."),
        ("scheduler_mode", "str", "", "spark.scheduler.mode: FIFO or FAIR."),
    ),
)

HOSTS = TableSpec(
    "hosts",
    "One row per machine, shared by every application in the input.",
    _columns(("host", "str", "", "Host name or address as Spark reports it.")),
)

EXECUTORS = TableSpec(
    "executors",
    "One row per executor of an application.",
    _columns(
        ("app", "int32", "row", "Its application."),
        ("executor_id", "str", "", "Executor id; `driver` in local mode."),
        ("host", "int32", "row", "The machine it runs on."),
        ("cores", "float64", "slots", "Task slots it offers; NaN if not recorded."),
        ("added_ms", "float64", "ms", "When it was added; NaN if not recorded."),
        ("removed_ms", "float64", "ms", "When it was removed; NaN if it was not."),
        ("removed_reason", "str", "", "Why it was removed."),
    ),
)

SQL_EXECUTIONS = TableSpec(
    "sql_executions",
    "One row per SQL execution.",
    _columns(
        ("app", "int32", "row", "Its application."),
        ("execution_id", "int64", "", "Spark's SQL execution id."),
        ("root_execution_id", "int64", "", "The execution it was started by; itself if none."),
        ("description", "str", "", "Description: the user's, else Spark's call site."),
        ("user_named", "bool", "", "Whether the description was set by the user."),
        ("plan_hash", "str", "", "Hash of the physical plan without ids and literals."),
        ("start_ms", "float64", "ms", "When it started."),
        ("end_ms", "float64", "ms", "When it ended; NaN if the log does not say."),
        ("error", "str", "", "Error message if it failed and Spark recorded it."),
    ),
)

JOBS = TableSpec(
    "jobs",
    "One row per Spark job.",
    _columns(
        ("app", "int32", "row", "Its application."),
        ("job_id", "int64", "", "Spark's job id."),
        ("query", "int32", "row", "The query it belongs to."),
        ("sql_execution", "int32", "row", "Its SQL execution; −1 if none."),
        ("connect_operation", "str", "", "Spark Connect operation id; empty if none."),
        ("job_group", "str", "", "Job group; empty if none."),
        ("description", "str", "", "Job description, as the user or Spark set it."),
        ("pool", "str", "", "Scheduler pool; empty if not recorded."),
        ("submission_ms", "float64", "ms", "When it was submitted."),
        ("completion_ms", "float64", "ms", "When it ended; NaN if the log does not say."),
        ("succeeded", "bool", "", "Whether it ended well."),
    ),
)

QUERIES = TableSpec(
    "queries",
    "One row per query: what a user would call one (see `--query-by`).",
    _columns(
        ("query_id", "str", "", "Unique in the input: application id, kind and number."),
        ("app", "int32", "row", "Its application."),
        ("name", "str", "", "What the user calls it: description, job group or call site."),
        ("kind", "str", "", "sql, connect, job-group, job or app."),
        ("fingerprint", "str", "", "Equal for every run of the same recurring query."),
        ("pool", "str", "", "Scheduler pool of its first job; empty if not recorded."),
        ("start_ms", "float64", "ms", "Start of the execution or of its first job."),
        ("end_ms", "float64", "ms", "Its end; the application's last event if it did not end."),
        ("duration_ms", "float64", "ms", "End less start."),
        ("ended", "bool", "", "Whether the log holds its end."),
        ("failed", "bool", "", "Whether it, or a job of it, failed."),
        ("jobs", "int64", "count", "Jobs."),
        ("stages", "int64", "count", "Stage attempts."),
        ("tasks", "int64", "count", "Task attempts that ended."),
    ),
)

STAGES = TableSpec(
    "stages",
    "One row per stage attempt that was submitted or ran a task.",
    _columns(
        ("app", "int32", "row", "Its application."),
        ("stage_id", "int64", "", "Spark's stage id."),
        ("attempt", "int32", "", "Stage attempt number."),
        ("name", "str", "", "Stage name (call site)."),
        ("job", "int32", "row", "The job that ran it."),
        ("query", "int32", "row", "Its query."),
        ("pool", "str", "", "Scheduler pool; empty if not recorded."),
        ("declared_tasks", "int64", "count", "Tasks Spark planned; −1 if not recorded."),
        ("submission_ms", "float64", "ms", "When it was submitted to the scheduler."),
        ("first_launch_ms", "float64", "ms", "Launch of its first task; NaN if none ran."),
        ("completion_ms", "float64", "ms", "When it completed, or its last task ended."),
        ("completed", "bool", "", "Whether the log holds its completion."),
        ("failure_reason", "str", "", "Why it failed; empty if it did not."),
        ("python", "bool", "", "Whether its tasks run Python workers."),
        ("depth", "int32", "", "Most stages on a path from it to the query's last stage."),
        ("critical", "bool", "", "Whether it lies on its query's critical path."),
    ),
)

STAGE_PARENTS = TableSpec(
    "stage_parents",
    "The stage DAG: one row per edge from a stage to one it reads from.",
    _columns(
        ("stage", "int32", "row", "The stage that reads."),
        ("parent", "int32", "row", "The stage that wrote what it reads."),
    ),
)

TASKS = TableSpec(
    "tasks",
    "One row per task attempt.",
    _columns(
        ("app", "int32", "row", "Its application."),
        ("stage", "int32", "row", "Its stage attempt."),
        ("query", "int32", "row", "Its query."),
        ("host", "int32", "row", "The machine it ran on."),
        ("executor", "int32", "row", "The executor it ran in."),
        ("task_id", "int64", "", "Spark's task id."),
        ("index", "int32", "", "Partition number within the stage."),
        ("attempt", "int32", "", "Attempt number of that partition."),
        ("status", "category", "", "success, failed, killed or running."),
        ("locality", "category", "", "Locality level it was launched at."),
        ("speculative", "bool", "", "Whether it is a speculative copy."),
        ("launch_ms", "float64", "ms", "When it was launched."),
        ("finish_ms", "float64", "ms", "When it ended; the log's last event if still running."),
        ("getting_result_ms", "float64", "ms", "Time to fetch its result from the executor."),
        ("deserialize_ms", "float64", "ms", "Time to deserialise the task."),
        ("deserialize_cpu_ms", "float64", "ms", "CPU time to deserialise it (Spark ≥ 2.1)."),
        ("run_ms", "float64", "ms", "Time its code ran."),
        ("cpu_ms", "float64", "ms", "CPU time of its code (Spark ≥ 2.1)."),
        ("gc_ms", "float64", "ms", "Garbage collection of its JVM while it ran."),
        ("result_serialize_ms", "float64", "ms", "Time to serialise its result."),
        ("result_bytes", "float64", "bytes", "Size of its result."),
        ("peak_memory_bytes", "float64", "bytes", "Peak execution memory it held."),
        ("memory_spilled_bytes", "float64", "bytes", "Size in memory of what it spilled."),
        ("disk_spilled_bytes", "float64", "bytes", "Size on disk of what it spilled."),
        ("input_bytes", "float64", "bytes", "Bytes read from input."),
        ("input_records", "float64", "count", "Records read from input."),
        ("output_bytes", "float64", "bytes", "Bytes written to output."),
        ("output_records", "float64", "count", "Records written to output."),
        ("remote_bytes", "float64", "bytes", "Shuffle bytes read from other hosts."),
        ("local_bytes", "float64", "bytes", "Shuffle bytes read from its own host."),
        ("remote_blocks", "float64", "count", "Shuffle blocks read from other hosts."),
        ("local_blocks", "float64", "count", "Shuffle blocks read from its own host."),
        ("fetch_wait_ms", "float64", "ms", "Time it waited for remote shuffle blocks."),
        ("shuffle_read_records", "float64", "count", "Shuffle records read."),
        ("shuffle_write_bytes", "float64", "bytes", "Shuffle bytes written."),
        ("shuffle_write_ms", "float64", "ms", "Time it spent writing shuffle files."),
        ("shuffle_write_records", "float64", "count", "Shuffle records written."),
        ("scan_ms", "float64", "ms", "SQL scan time; NaN if its scans do not report it."),
    ),
)

SQL_METRICS = TableSpec(
    "sql_metrics",
    "One row per SQL metric that carries a wait or its cause (scan, spill, shuffle, broadcast).",
    _columns(
        ("app", "int32", "row", "Its application."),
        ("sql_execution", "int32", "row", "Its SQL execution."),
        ("accumulator_id", "int64", "", "Spark's accumulator id."),
        ("node", "str", "", "Plan node that owns it."),
        ("metric", "str", "", "Metric name as Spark shows it."),
        ("unit", "str", "", "ms, ns, bytes or count."),
        ("total", "float64", "as `unit`", "Sum over tasks and driver; NaN if never updated."),
    ),
)

TASK_RECORDS = TableSpec(
    "task_records",
    "One row per task attempt that the iqcar plugin measured.",
    _columns(
        ("task", "int32", "row", "The task."),
        ("start_ms", "float64", "ms", "When the measuring began, by the executor's clock."),
        ("wall_ms", "float64", "ms", "From there to the end of the task's code."),
        ("cpu_ms", "float64", "ms", "Its thread on the processor."),
        ("run_queue_ms", "float64", "ms", "Its thread runnable, not running; NaN off Linux."),
        ("off_cpu_ms", "float64", "ms", "The rest of `wall_ms`: its thread was asleep."),
        *(
            (f"{kind}_ms", "float64", "ms", f"Part of `off_cpu_ms`: {kind.sentence}")
            for kind in WaitClass
        ),
        ("samples", "int64", "count", "Looks at the task."),
        ("off_samples", "int64", "count", "Those that found it in a wait of a known class."),
        ("chars_read_bytes", "float64", "bytes", "Read by system calls of its thread."),
        ("chars_written_bytes", "float64", "bytes", "Written by system calls of its thread."),
        ("disk_read_bytes", "float64", "bytes", "Of those, read from devices."),
        ("disk_written_bytes", "float64", "bytes", "Of those, written to devices."),
        ("blocked_ms", "float64", "ms", "In monitors, by the JVM's count; NaN if off."),
        ("waited_ms", "float64", "ms", "In waits, by the JVM's count; NaN if off."),
        ("gc_ms", "float64", "ms", "Collections that stopped the JVM meanwhile."),
        ("pool", "str", "", "FAIR pool that was set; empty if none."),
        ("sampler", "str", "", "off or dead where waits could not be told apart; else empty."),
        ("failures", "int64", "count", "Failures of the plugin's own code in its JVM so far."),
    ),
)

INTERVALS = TableSpec(
    "intervals",
    "One row per interval of a measured task: what it did and waited for then.",
    _columns(
        ("task", "int32", "row", "The task; its intervals follow one another."),
        ("start_ms", "float64", "ms", "Start, by the executor's clock."),
        ("end_ms", "float64", "ms", "End."),
        ("cpu_ms", "float64", "ms", "Time on the processor, that of its Python worker too."),
        *(
            (f"{request}_ms", "float64", "ms", request.sentence)
            for request in REQUESTS
            if request is not Request.SLOT_WAIT
        ),
    ),
)

POOLS = TableSpec(
    "pools",
    "One row per FAIR pool whenever the plugin saw the scheduler's pools change.",
    _columns(
        ("app", "int32", "row", "Its application."),
        ("time_ms", "float64", "ms", "From when on."),
        ("name", "str", "", "Name of the pool."),
        ("mode", "str", "", "FIFO or FAIR among its own jobs."),
        ("weight", "float64", "", "Its weight among the pools."),
        ("min_share", "float64", "slots", "Slots it gets before weights count."),
    ),
)

SAMPLES = TableSpec(
    "samples",
    "One row per sample of a host, of an executor's processes, or of both (the iqcar plugin, or "
    "`iqcar sample` outside Spark); of several executors on a host one samples the host.",
    _columns(
        ("app", "int32", "row", "Its application; −1 for samples taken outside Spark."),
        ("host", "int32", "row", "The machine."),
        ("executor", "int32", "row", "The executor whose plugin took it; −1 outside Spark."),
        ("time_ms", "float64", "ms", "When it was taken, by the host's clock."),
        ("duration_ms", "float64", "ms", "The time before it that it tells about."),
        ("cores", "float64", "count", "Processors."),
        ("busiest_core", "float64", "percent", "Share of the time the busiest one was busy."),
        ("cpu_user", "float64", "percent", "Processor time in programs."),
        ("cpu_system", "float64", "percent", "Processor time in the kernel."),
        ("cpu_iowait", "float64", "percent", "Processor time idle while a disk was waited for."),
        ("cpu_steal", "float64", "percent", "Processor time that other virtual machines took."),
        ("cpu_idle", "float64", "percent", "Processor time with nothing to do."),
        ("load1", "float64", "count", "Load average of the last minute."),
        ("mem_total_bytes", "float64", "bytes", "Memory of the host."),
        ("mem_used_bytes", "float64", "bytes", "Memory in use, without caches."),
        ("mem_available_bytes", "float64", "bytes", "Memory programs could still get."),
        ("disk_read_bytes", "float64", "bytes", "Read from all disks."),
        ("disk_write_bytes", "float64", "bytes", "Written to all disks."),
        ("disk_busy", "float64", "share", "Share of the time the busiest disk was busy, 0 to 1."),
        ("net_in_bytes", "float64", "bytes", "Received over all interfaces but loopback."),
        ("net_out_bytes", "float64", "bytes", "Sent over all interfaces but loopback."),
        ("psi_cpu", "float64", "percent", "Time in the last 10 s in which some waited for CPU."),
        ("psi_io", "float64", "percent", "The same for IO."),
        ("psi_memory", "float64", "percent", "The same for memory."),
        ("stalled_cpu_ms", "float64", "ms", "Time since the last sample some waited for CPU."),
        ("stalled_io_ms", "float64", "ms", "The same for IO."),
        ("stalled_memory_ms", "float64", "ms", "The same for memory."),
        ("cgroup_cpus", "float64", "count", "Processors the container may use; NaN if no limit."),
        ("cgroup_mem_limit_bytes", "float64", "bytes", "Memory the container may use."),
        ("cgroup_mem_used_bytes", "float64", "bytes", "Memory the container uses."),
        ("cgroup_throttled_ms", "float64", "ms", "Time its processes were held back by the limit."),
        ("jvm_cpu_ms", "float64", "ms", "Processor time of the executor's JVM."),
        ("jvm_rss_bytes", "float64", "bytes", "Memory of the executor's JVM."),
        ("python_cpu_ms", "float64", "ms", "Processor time of the executor's Python workers."),
        ("python_rss_bytes", "float64", "bytes", "Memory of the executor's Python workers."),
        ("own_cpu_ms", "float64", "ms", "Processor time of the sampling itself."),
        ("dropped", "int64", "count", "Samples lost before this one because the driver was slow."),
    ),
)

SPECS: tuple[TableSpec, ...] = (
    INPUTS,
    APPLICATIONS,
    HOSTS,
    EXECUTORS,
    QUERIES,
    SQL_EXECUTIONS,
    JOBS,
    STAGES,
    STAGE_PARENTS,
    TASKS,
    SQL_METRICS,
    TASK_RECORDS,
    INTERVALS,
    POOLS,
    SAMPLES,
)
"""Every table, in the order of the documentation."""


@dataclass(frozen=True)
class Tables:
    """Everything read from the event logs: one frame per :data:`SPECS` entry."""

    inputs: pd.DataFrame
    applications: pd.DataFrame
    hosts: pd.DataFrame
    executors: pd.DataFrame
    queries: pd.DataFrame
    sql_executions: pd.DataFrame
    jobs: pd.DataFrame
    stages: pd.DataFrame
    stage_parents: pd.DataFrame
    tasks: pd.DataFrame
    sql_metrics: pd.DataFrame
    task_records: pd.DataFrame
    intervals: pd.DataFrame
    pools: pd.DataFrame
    samples: pd.DataFrame

    def __iter__(self) -> Iterator[tuple[str, pd.DataFrame]]:
        """Iterate over (name, frame)."""
        for field in fields(self):
            yield field.name, getattr(self, field.name)

    def with_(self, **frames: pd.DataFrame) -> Tables:
        """Return a copy with some frames replaced."""
        return replace(self, **frames)

    @classmethod
    def empty(cls) -> Tables:
        """Return tables without rows."""
        return cls(**{spec.name: spec.empty() for spec in SPECS})

    def __repr__(self) -> str:
        """Name each table with its number of rows."""
        return "Tables(" + ", ".join(f"{name}: {len(frame)}" for name, frame in self) + ")"
