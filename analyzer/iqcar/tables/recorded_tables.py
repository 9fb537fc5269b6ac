"""Declares the tables that only some logs fill: cached blocks, and all that the plugin records."""

from __future__ import annotations

from iqcar.enums import REQUESTS, WaitClass
from iqcar.tables.declarations import TableSpec, declare

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
