"""Declares the tables that the reader returns: each column once, with dtype, unit and a sentence.

A table is a pandas frame with a ``RangeIndex``; an integer column that names another table
(``app``, ``stage``, ``query`` ...) holds the row number there, and −1 means "none". Times are
milliseconds since the epoch, durations milliseconds, sizes bytes. A number the log does not
hold is NaN, never zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from iqcar.enums import REQUESTS, QueryBy, WaitClass
from iqcar.tables.declarations import TableSpec, declare, texts

if TYPE_CHECKING:
    from iqcar.tables.arrays import Flags, Ints


CACHED = TableSpec(
    "cached",
    "One row per span of time in which an executor held blocks of an RDD in storage memory; a log "
    "tells it only with `spark.eventLog.logBlockUpdates.enabled`, or up to Spark 2.2.",
    declare(
        ("app", "int32", "row", "Its application."),
        ("executor", "int32", "row", "The executor that held them."),
        ("stage", "int32", "row", "The first stage that had the RDD cached; −1 if unknown."),
        ("rdd", "int64", "", "Spark's id of the RDD; −1 for all other blocks (broadcasts)."),
        ("name", "category", "", "The RDD's name, else the plan node; empty if unknown."),
        ("since_ms", "float64", "ms", "Start; about, as Spark does not record it."),
        ("until_ms", "float64", "ms", "End."),
        ("bytes", "float64", "bytes", "Mean size in memory."),
    ),
)

TASK_RECORDS = TableSpec(
    "task_records",
    "One row per task attempt that the iqcar plugin measured.",
    declare(
        ("task", "int32", "row", "The task."),
        ("start_ms", "float64", "ms", "When the measuring began, by the executor's clock."),
        ("wall_ms", "float64", "ms", "From there to the end of the task's code."),
        ("cpu_ms", "float64", "ms", "Its thread on the processor."),
        ("run_queue_ms", "float64", "ms", "Its thread runnable but not running; NaN if not Linux."),
        ("throttled_ms", "float64", "ms", "Part of that in which a CPU limit had stopped it."),
        ("off_cpu_ms", "float64", "ms", "The rest of `wall_ms`: its thread was asleep."),
        *(
            (f"{kind}_ms", "float64", "ms", f"Part of `off_cpu_ms`: {kind.sentence}")
            for kind in WaitClass
        ),
        ("samples", "int64", "count", "Samples taken of the task."),
        ("off_samples", "int64", "count", "Samples that found it in a wait of a known class."),
        ("coverage", "float64", "percent", "Samples taken of those wanted while it was asleep."),
        ("chars_read_bytes", "float64", "bytes", "Read by system calls of its thread."),
        ("chars_written_bytes", "float64", "bytes", "Written by system calls of its thread."),
        ("disk_read_bytes", "float64", "bytes", "Of those, read from devices."),
        ("disk_written_bytes", "float64", "bytes", "Of those, written to devices."),
        ("major_faults", "float64", "count", "Pages it waited for; NaN if none or unknown."),
        (
            "disk_delay_ms",
            "float64",
            "ms",
            "For devices, by the kernel's count; NaN if none.",
        ),
        ("blocked_ms", "float64", "ms", "Blocked on monitors, by the JVM's count; NaN if off."),
        ("waited_ms", "float64", "ms", "In waits, by the JVM's count; NaN if off."),
        ("gc_ms", "float64", "ms", "Collections that stopped the JVM meanwhile."),
        (
            "store_requests",
            "float64",
            "count",
            "Requests to object stores; NaN if none.",
        ),
        ("store_request_ms", "float64", "ms", "How long they took in all, some at the same time."),
        ("store_retries", "float64", "count", "Reads and writes of them that were tried again."),
        ("peak_held_bytes", "float64", "bytes", "Most execution memory held in any sample."),
        ("mean_held_bytes", "float64", "bytes", "Execution memory held, mean over `wall_ms`."),
        ("pool", "str", "", "FAIR pool of its job; empty if none was set."),
        ("sampler", "str", "", "off or dead where waits were not sampled; else empty."),
        ("failures", "int64", "count", "Failures of the plugin's own code in its JVM so far."),
    ),
)

INTERVALS = TableSpec(
    "intervals",
    "One row per interval of a measured task: its CPU time and waits in the interval.",
    declare(
        ("task", "int32", "row", "The task; its intervals follow one another."),
        ("start_ms", "float64", "ms", "Start, by the executor's clock."),
        ("end_ms", "float64", "ms", "End."),
        ("cpu_ms", "float64", "ms", "Time on the processor, including its Python worker's."),
        *(
            (f"{request}_ms", "float64", "ms", request.sentence)
            for request in REQUESTS
            if not request.before_launch
        ),
        ("held_bytes", "float64", "bytes", "Execution memory held, mean; NaN if not sampled."),
    ),
)

LOCK_OWNERS = TableSpec(
    "lock_owners",
    "One row per measured task and task that held locks it waited for; of each the four largest.",
    declare(
        ("task", "int32", "row", "The task that waited."),
        ("owner", "int32", "row", "The task that held the locks; −1 if it is not known any more."),
        ("wait_ms", "float64", "ms", "How long it held what the other waited for, by samples."),
    ),
)

POOLS = TableSpec(
    "pools",
    "One row per FAIR pool whenever the plugin saw the scheduler's pools change.",
    declare(
        ("app", "int32", "row", "Its application."),
        ("time_ms", "float64", "ms", "When the plugin saw this state of the pool."),
        ("name", "str", "", "Name of the pool."),
        ("mode", "str", "", "FIFO or FAIR among its own jobs."),
        ("weight", "float64", "", "Its weight among the pools."),
        ("min_share", "float64", "slots", "Slots it gets before weights count."),
        ("cap", "float64", "tasks", "Most of its tasks that run at once; NaN if it has no cap."),
        ("strict", "bool", "", "Whether the cap also holds where slots are idle."),
    ),
)

RULE_CHANGES = TableSpec(
    "rule_changes",
    "One row per difference whenever the plugin applied other rules, and one per look at the rules "
    "file that changed nothing.",
    declare(
        ("app", "int32", "row", "Its application."),
        ("time_ms", "float64", "ms", "When the rules acted, or the file was looked at."),
        ("outcome", "str", "", "accepted; refused, missing or unreadable: rules stay as they are."),
        ("reason", "str", "", "Why the rules stay as they are; empty if accepted."),
        ("kind", "str", "", "pool, placement or order; empty where nothing changed."),
        ("rule", "str", "", "Ids of the rules that it comes from, or came from."),
        ("name", "str", "", "The pool, or what the query is recognised by."),
        ("before", "str", "", "How the pool was, or the query's pool; empty if there was none."),
        ("after", "str", "", "How it is from then on; empty if the rule is gone."),
    ),
)

EXECUTOR_TARGETS = TableSpec(
    "executor_targets",
    "One row whenever the plugin saw that dynamic allocation wanted another number of executors.",
    declare(
        ("app", "int32", "row", "Its application."),
        ("time_ms", "float64", "ms", "When the plugin saw this number first."),
        ("executors", "float64", "count", "Executors that it wanted, those that it had included."),
    ),
)

DRIVER_PHASES = TableSpec(
    "driver_phases",
    "One row per phase in which the driver planned a SQL execution, and per delay of its "
    "listeners, as the plugin saw them.",
    declare(
        ("app", "int32", "row", "Its application."),
        ("sql_execution", "int32", "row", "Its SQL execution."),
        (
            "phase",
            "category",
            "",
            "parsing, analysis, optimization or planning; compiling: generated code, of all "
            "executions of that time, put at the end of this; listeners: from its end until they "
            "were told of it.",
        ),
        ("start_ms", "float64", "ms", "When it began, maybe before the execution."),
        ("end_ms", "float64", "ms", "When it ended."),
    ),
)

SAMPLES = TableSpec(
    "samples",
    "One row per sample of a host, of an executor's processes, or of both (the iqcar plugin, or "
    "`iqcar sample` outside Spark); of several executors on a host one samples the host.",
    declare(
        ("app", "int32", "row", "Its application; −1 for samples taken outside Spark."),
        ("host", "int32", "row", "The machine."),
        ("executor", "int32", "row", "The executor whose plugin took it; −1 outside Spark."),
        ("time_ms", "float64", "ms", "When it was taken, by the host's clock."),
        ("duration_ms", "float64", "ms", "Length of the period that it covers, up to `time_ms`."),
        ("cores", "float64", "count", "Processors."),
        ("busiest_core", "float64", "percent", "Share of the time the busiest one was busy."),
        ("cpu_user", "float64", "percent", "Processor time in programs, niced or not."),
        ("cpu_system", "float64", "percent", "Processor time in the kernel, interrupts too."),
        ("cpu_iowait", "float64", "percent", "Processor time idle while IO was pending."),
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
        ("cgroup_stalled_io_ms", "float64", "ms", "Time some of the container waited for IO."),
        ("cgroup_stalled_memory_ms", "float64", "ms", "The same for memory."),
        ("cgroup_read_bytes", "float64", "bytes", "Read from disks by the container."),
        ("cgroup_write_bytes", "float64", "bytes", "Written to disks by the container."),
        ("jvm_cpu_ms", "float64", "ms", "Processor time of the executor's JVM."),
        ("jvm_rss_bytes", "float64", "bytes", "Memory of the executor's JVM."),
        ("python_cpu_ms", "float64", "ms", "Processor time of the executor's Python workers."),
        ("python_rss_bytes", "float64", "bytes", "Memory of the executor's Python workers."),
        ("own_cpu_ms", "float64", "ms", "Processor time of the sampling itself."),
        ("dropped", "int64", "count", "Samples lost before this one because the driver was slow."),
    ),
)


INPUTS = TableSpec(
    "inputs",
    "One row per event log that was found, readable or not.",
    declare(
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
    declare(
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
        ("master", "str", "", "spark.master: the cluster manager; empty if not recorded."),
        ("executor_cores", "float64", "slots", "spark.executor.cores; NaN if not set."),
        ("most_slots", "float64", "slots", "Most slots its settings allow it; NaN if unlimited."),
        ("gone_until_ms", "float64", "ms", "Latest time of jobs that compaction dropped, or NaN."),
        ("dropped_events", "float64", "count", "Events that Spark did not log; NaN if not known."),
        ("dropped_for_rules", "float64", "count", "Those by which rules see jobs, or NaN."),
    ),
)

HOSTS = TableSpec(
    "hosts",
    "One row per machine, shared by every application in the input.",
    declare(("host", "str", "", "Host name or address as Spark reports it.")),
)

EXECUTORS = TableSpec(
    "executors",
    "One row per executor of an application.",
    declare(
        ("app", "int32", "row", "Its application."),
        ("executor_id", "str", "", "Executor id; `driver` in local mode."),
        ("host", "int32", "row", "The machine it runs on."),
        ("cores", "float64", "slots", "Task slots it offers; NaN if not recorded."),
        ("added_ms", "float64", "ms", "When it was added; NaN if not recorded."),
        ("removed_ms", "float64", "ms", "When it was removed; NaN if it was not."),
        ("removed_reason", "str", "", "Why it was removed."),
        ("excluded_ms", "float64", "ms", "When it was first excluded for failed tasks, or NaN."),
    ),
)

SQL_EXECUTIONS = TableSpec(
    "sql_executions",
    "One row per SQL execution.",
    declare(
        ("app", "int32", "row", "Its application."),
        ("execution_id", "int64", "", "Spark's SQL execution id."),
        ("root_execution_id", "int64", "", "The execution it was started by; itself if none."),
        ("description", "str", "", "The user's, else Spark's call site, request or plan."),
        ("user_named", "bool", "", "Whether the description was set by the user."),
        ("plan_hash", "str", "", "Hash of the physical plan without ids and literals."),
        ("start_ms", "float64", "ms", "When it started."),
        ("end_ms", "float64", "ms", "When it ended; NaN if the log does not say."),
        ("error", "str", "", "What failed, in a line, if Spark ≥ 3.4 recorded it."),
        ("succeeded", "bool", "", "Whether Spark says that it ended well (Spark ≥ 3.4)."),
        ("tables", "str", "", "What its first plan reads: tables or folders, `; ` between them."),
        ("operators", "str", "", "Operators of its first plan, sorted, `; ` between them."),
    ),
)

JOBS = TableSpec(
    "jobs",
    "One row per Spark job.",
    declare(
        ("app", "int32", "row", "Its application."),
        ("job_id", "int64", "", "Spark's job id."),
        ("query", "int32", "row", "The query it belongs to."),
        ("sql_execution", "int32", "row", "Its SQL execution; −1 if none."),
        ("connect_operation", "str", "", "Spark Connect operation id; empty if none."),
        ("connect_request", "str", "", "SQL text or model that it was asked for, if known."),
        ("job_group", "str", "", "Job group; empty if none."),
        ("description", "str", "", "As the user or Spark set it; else a client's tags."),
        ("pool", "str", "", "Scheduler pool; empty if not recorded."),
        ("user", "str", "", "User of its Connect or Thrift session, or as Databricks says."),
        ("session", "str", "", "Id of its Connect or Thrift session; empty if it has none."),
        ("submission_ms", "float64", "ms", "When it was submitted."),
        ("completion_ms", "float64", "ms", "When it ended; NaN if the log does not say."),
        ("succeeded", "bool", "", "Whether it ended well."),
        ("error", "str", "", "Why it failed, in a line: the root of the chain; or empty."),
    ),
)

QUERIES = TableSpec(
    "queries",
    "One row per query, as `--query-by` defines it.",
    declare(
        ("query_id", "str", "", "Unique in the input: application id, kind and number."),
        ("app", "int32", "row", "Its application."),
        ("name", "str", "", "Description, job group, call site, or what its plan does."),
        ("kind", "str", "", "sql, connect, job-group, job or app."),
        ("fingerprint", "str", "", "Equal for every run of the same recurring query."),
        ("family", "str", "", "Its name without dates, ids and run numbers; empty if it has none."),
        ("pool", "str", "", "Scheduler pool of its first job; empty if not recorded."),
        ("start_ms", "float64", "ms", "Start of the execution or of its first job."),
        ("end_ms", "float64", "ms", "Its end; the application's last event if it did not end."),
        ("duration_ms", "float64", "ms", "End less start."),
        ("ended", "bool", "", "Whether the log holds its end."),
        ("failed", "bool", "", "Whether it failed, or a job of it, unless Spark says otherwise."),
        ("error", "str", "", "Why, in a line; empty if it did not fail, or nothing says why."),
        ("jobs", "int64", "count", "Jobs."),
        ("stages", "int64", "count", "Stage attempts."),
        ("tasks", "int64", "count", "Task attempts that ended."),
    ),
)

STAGES = TableSpec(
    "stages",
    "One row per stage attempt that was submitted or ran a task.",
    declare(
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
        ("failure_reason", "str", "", "Why it failed, in a line; or empty."),
        ("rdd", "int64", "", "Spark's id of its last RDD; −1 if not recorded."),
        ("python", "bool", "", "Whether its tasks run Python workers."),
        ("label", "str", "", "What it does: RDD scopes and plan operators, alike in every run."),
        ("operators", "str", "", "Operators of the plan that its tasks ran, sorted, by `; `."),
        ("depth", "int32", "", "Most stages on a path from it to the query's last stage."),
        ("critical", "bool", "", "Whether it lies on its query's critical path."),
    ),
)

STAGE_PARENTS = TableSpec(
    "stage_parents",
    "The stage DAG: one row per edge from a stage to one it reads from.",
    declare(
        ("stage", "int32", "row", "The stage that reads."),
        ("parent", "int32", "row", "The stage that wrote what it reads."),
        ("side_bytes", "float64", "bytes", "Size of the parent, if a join could broadcast it."),
    ),
)

TASKS = TableSpec(
    "tasks",
    "One row per task attempt.",
    declare(
        ("app", "int32", "row", "Its application."),
        ("stage", "int32", "row", "Its stage attempt."),
        ("query", "int32", "row", "Its query."),
        ("host", "int32", "row", "The machine it ran on."),
        ("executor", "int32", "row", "The executor it ran in."),
        ("task_id", "int64", "", "Spark's task id."),
        ("index", "int32", "", "Partition number within the stage."),
        ("attempt", "int32", "", "Attempt number of that partition."),
        ("status", "category", "", "success, failed, killed, running, or waiting (`iqcar live`)."),
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
        ("storage_read_ms", "float64", "ms", "Time of reads, of all threads or sampled, or NaN."),
        ("gpu_wait_ms", "float64", "ms", "Time it waited for the GPU; NaN if not recorded."),
        ("native_ms", "float64", "ms", "Longest time in one operator of Photon; NaN if none ran."),
    ),
)

TASK_FAILURES = TableSpec(
    "task_failures",
    "One row per task attempt that failed or was killed, or whose output was lost afterwards.",
    declare(
        ("task", "int32", "row", "The task attempt."),
        ("reason", "category", "", "Spark's reason; `Resubmitted`: its output was lost later."),
        ("message", "str", "", "What Spark says of it, in a line; empty if nothing."),
        ("source", "int32", "row", "Executor from which it could not fetch; −1 if another reason."),
    ),
)

SQL_METRICS = TableSpec(
    "sql_metrics",
    "One row per SQL metric that carries a wait or its cause (scan, spill, shuffle, broadcast).",
    declare(
        ("app", "int32", "row", "Its application."),
        ("sql_execution", "int32", "row", "Its SQL execution."),
        ("accumulator_id", "int64", "", "Spark's accumulator id."),
        ("node", "str", "", "Plan node that owns it."),
        ("metric", "str", "", "Metric name as Spark shows it."),
        ("unit", "str", "", "ms, ns, bytes or count."),
        ("total", "float64", "as `unit`", "Sum over tasks and driver; NaN if never updated."),
    ),
)

CONF = TableSpec(
    "conf",
    "One row per setting: versions, Spark properties, and what a SQL execution's session changed.",
    declare(
        ("app", "int32", "row", "Its application."),
        ("sql_execution", "int32", "row", "Where it was set otherwise (Spark ≥ 3.3); −1: for all."),
        ("key", "str", "", "Name; `spark.version`, `java.version`, `scala.version` for versions."),
        ("value", "str", "", "Value without secrets."),
    ),
)

JOB_PROPERTIES = TableSpec(
    "job_properties",
    "One row per property that a job's thread sets unlike its application; not those of SQL.",
    declare(
        ("job", "int32", "row", "The job."),
        ("key", "str", "", "Name."),
        ("value", "str", "", "Value without secrets."),
    ),
)

SPECS: tuple[TableSpec, ...] = (
    INPUTS, APPLICATIONS, HOSTS, EXECUTORS, QUERIES, SQL_EXECUTIONS, JOBS, STAGES, STAGE_PARENTS,
    TASKS, TASK_FAILURES, SQL_METRICS, CONF, JOB_PROPERTIES, CACHED, TASK_RECORDS, INTERVALS,
    LOCK_OWNERS, POOLS, RULE_CHANGES, EXECUTOR_TARGETS, DRIVER_PHASES, SAMPLES,
)  # fmt: skip
"""Every table, in the order of the documentation."""


TIMES = {
    "applications": ("start_ms", "end_ms"),
    "executors": ("added_ms", "removed_ms", "excluded_ms"),
    "sql_executions": ("start_ms", "end_ms"),
    "jobs": ("submission_ms", "completion_ms"),
    "queries": ("start_ms", "end_ms"),
    "stages": ("submission_ms", "first_launch_ms", "completion_ms"),
    "tasks": ("launch_ms", "finish_ms"),
    "cached": ("since_ms", "until_ms"),
    "pools": ("time_ms",),
    "executor_targets": ("time_ms",),
    "driver_phases": ("start_ms", "end_ms"),
}
"""Columns of times since the epoch, but those of samples."""


@dataclass(frozen=True)
class Tables:
    """Everything read from the event logs: one frame per :data:`SPECS` entry.

    ``query_by`` says what one row of ``queries`` is; None before jobs are grouped into queries.
    ``given`` is what a command is given to read them again, quoted for a shell.
    """

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
    task_failures: pd.DataFrame
    sql_metrics: pd.DataFrame
    conf: pd.DataFrame
    job_properties: pd.DataFrame
    cached: pd.DataFrame
    task_records: pd.DataFrame
    intervals: pd.DataFrame
    lock_owners: pd.DataFrame
    pools: pd.DataFrame
    rule_changes: pd.DataFrame
    executor_targets: pd.DataFrame
    driver_phases: pd.DataFrame
    samples: pd.DataFrame
    query_by: QueryBy | None = None
    given: str = "PATH"

    def __iter__(self) -> Iterator[tuple[str, pd.DataFrame]]:
        """Iterate over (name, frame)."""
        for spec in SPECS:
            yield spec.name, getattr(self, spec.name)

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


def recurring_queries(tables: Tables) -> Ints:
    """Return the number of each query's recurring query: runs with equal fingerprints share one.

    A query without a fingerprint is a recurring query of its own.

    Returns ndarray of shape (n_queries,), int64.
    """
    numbers: dict[tuple[str, str], int] = {}
    runs = zip(texts(tables.queries, "fingerprint"), texts(tables.queries, "query_id"), strict=True)
    keys = [(fingerprint, "") if fingerprint else ("", query) for fingerprint, query in runs]
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)


def recorded_applications(tables: Tables) -> Flags:
    """Return whether the plugin recorded any task of each application."""
    recorded = np.zeros(len(tables.applications), bool)
    task = tables.task_records["task"].to_numpy(np.int64)
    app = tables.tasks["app"].to_numpy(np.int64)[task]
    recorded[app[(app >= 0) & (app < len(recorded))]] = True
    return recorded
