"""Enumerations of resources, requests, evidence, blame, models and levels.

Each member has one sentence (``.sentence``), which documentation and help print.
"""

from __future__ import annotations

from enum import Enum


class Kind(str, Enum):
    """A string value with a sentence that explains it."""

    sentence: str

    def __new__(cls, value: str, sentence: str = "") -> Kind:
        """Store the sentence beside the value."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.sentence = sentence
        return member

    def __str__(self) -> str:
        return str(self.value)


class Resource(Kind):
    """What a task can wait for (iQCAR table 1); level 2 of iQC-Graph."""

    SLOTS = "slots", "A place to run: the scheduler had no free slot for the task."
    EXECUTORS = "executors", "Executors that other applications held: the cluster had none to give."
    CPU = "cpu", "Processor time: the task was runnable, or blocked by a lock, but not running."
    MEMORY = "memory", "Execution or storage memory of the task's executor."
    NETWORK = "network", "Shuffle blocks from other hosts."
    IO = "io", "Reading input or writing output, shuffle files and spill."


class Domain(Kind):
    """The contention domain of a request: which tasks can hold what a task waits for."""

    APPLICATION = "application", "Only tasks of the same application."
    CLUSTER = "cluster", "Other applications in the input that got executors of the same cluster."
    HOST = "host", "Every task on the same host, of any application in the input."
    EXECUTOR = "executor", "Only tasks in the same executor."


class Request(Kind):
    """One way of waiting for a resource (iQCAR table 4); level 3 of iQC-Graph."""

    SLOT_WAIT = (
        "slot_wait",
        "From the stage's submission, or the failed attempt's end, to launch, less executor_wait.",
    )
    EXECUTOR_WAIT = (
        "executor_wait",
        "The part of the time to launch in which executors of other applications were in the way.",
    )
    RUN_QUEUE = "run_queue", "Runnable, but another thread had the processor."
    MONITOR_BLOCKED = "monitor_blocked", "Blocked on a Java monitor that another task held."
    NOTIFICATION_WAIT = "notification_wait", "Waiting to be notified by another thread."
    THROTTLED = "throttled", "Stopped by the CPU limit of the executor's container."
    EXECUTION_MEMORY = (
        "execution_memory",
        "Waiting for memory to join, sort or aggregate in.",
    )
    STORAGE_MEMORY = "storage_memory", "Waiting for memory to cache or broadcast in."
    PAGE_FAULT = "page_fault", "Waiting for a page of memory from a mapped file or from swap."
    SHUFFLE_FETCH = "shuffle_fetch", "Waiting for shuffle blocks from other hosts."
    IO_READ = "io_read", "Waiting for input from disk or the file system."
    IO_WRITE = "io_write", "Waiting for writes of shuffle files, spill or output."

    @property
    def resource(self) -> Resource:
        """The resource that this request is for."""
        return _RESOURCE_OF[self]

    @property
    def domain(self) -> Domain:
        """The tasks among which the holders of the resource are."""
        return _DOMAIN_OF[self]

    @property
    def before_launch(self) -> bool:
        """Whether a task waits for it before its launch, not while it runs."""
        return self.domain in (Domain.APPLICATION, Domain.CLUSTER)


_RESOURCE_OF = {
    Request.SLOT_WAIT: Resource.SLOTS,
    Request.EXECUTOR_WAIT: Resource.EXECUTORS,
    Request.RUN_QUEUE: Resource.CPU,
    Request.MONITOR_BLOCKED: Resource.CPU,
    Request.NOTIFICATION_WAIT: Resource.CPU,
    Request.THROTTLED: Resource.CPU,
    Request.EXECUTION_MEMORY: Resource.MEMORY,
    Request.STORAGE_MEMORY: Resource.MEMORY,
    Request.PAGE_FAULT: Resource.MEMORY,
    Request.SHUFFLE_FETCH: Resource.NETWORK,
    Request.IO_READ: Resource.IO,
    Request.IO_WRITE: Resource.IO,
}
_DOMAIN_OF = {
    Request.SLOT_WAIT: Domain.APPLICATION,
    Request.EXECUTOR_WAIT: Domain.CLUSTER,
    Request.RUN_QUEUE: Domain.HOST,
    Request.MONITOR_BLOCKED: Domain.EXECUTOR,
    Request.NOTIFICATION_WAIT: Domain.EXECUTOR,
    Request.THROTTLED: Domain.EXECUTOR,
    Request.EXECUTION_MEMORY: Domain.EXECUTOR,
    Request.STORAGE_MEMORY: Domain.EXECUTOR,
    Request.PAGE_FAULT: Domain.HOST,
    Request.SHUFFLE_FETCH: Domain.HOST,
    Request.IO_READ: Domain.HOST,
    Request.IO_WRITE: Domain.HOST,
}
REQUESTS: tuple[Request, ...] = tuple(Request)
"""All requests, grouped by resource; a request's code in numpy columns is its position here."""


class WaitClass(Kind):
    """What the plugin's sampler found a task waiting for while off the processor."""

    EXECUTION_MEMORY = "execution_memory", "Memory to join, sort or aggregate in."
    STORAGE_MEMORY = "storage_memory", "Memory to cache or broadcast in."
    SHUFFLE_FETCH = "shuffle_fetch", "Shuffle blocks from other hosts."
    IO_READ = "io_read", "Input, spill and shuffle files being read."
    IO_WRITE = "io_write", "Output, spill and shuffle files being written."
    OBJECT_STORE = "object_store", "An object store, such as S3."
    PAGE_FAULT = "page_fault", "A page of memory being read from a mapped file or from swap."
    MONITOR_BLOCKED = "monitor_blocked", "A lock that another thread holds."
    NOTIFICATION_WAIT = "notification_wait", "Another thread's notification."
    PYTHON_WORKER = "python_worker", "A Python worker whose process is not known yet."
    PYTHON_CPU = "python_cpu", "A Python worker that was computing."
    PYTHON_RUN_QUEUE = "python_run_queue", "A Python worker that waited for the processor."
    PYTHON_IO = "python_io", "A Python worker that waited for a disk."
    PYTHON_OTHER = "python_other", "A Python worker that was asleep."
    DRIVER_RPC = "driver_rpc", "An answer from the driver."
    CODEGEN_LOCK = "codegen_lock", "Code being compiled or loaded by another thread."
    GC_SAFEPOINT = "gc_safepoint", "The whole JVM stopped, mostly for garbage collection."
    NATIVE = "native", "Native code that was asleep."
    OTHER = "other", "Anything else, and time that no sample fell into."

    @property
    def request(self) -> Request | None:
        """The request that this class belongs to; None if no other task can hold the resource."""
        return _REQUEST_OF.get(self)


_REQUEST_OF = {
    WaitClass.EXECUTION_MEMORY: Request.EXECUTION_MEMORY,
    WaitClass.STORAGE_MEMORY: Request.STORAGE_MEMORY,
    WaitClass.SHUFFLE_FETCH: Request.SHUFFLE_FETCH,
    WaitClass.IO_READ: Request.IO_READ,
    WaitClass.PYTHON_IO: Request.IO_READ,
    WaitClass.IO_WRITE: Request.IO_WRITE,
    WaitClass.PAGE_FAULT: Request.PAGE_FAULT,
    WaitClass.MONITOR_BLOCKED: Request.MONITOR_BLOCKED,
    WaitClass.CODEGEN_LOCK: Request.MONITOR_BLOCKED,
    WaitClass.NOTIFICATION_WAIT: Request.NOTIFICATION_WAIT,
    WaitClass.PYTHON_RUN_QUEUE: Request.RUN_QUEUE,
}


class Evidence(Kind):
    """How well a wait is known, from worst to best."""

    MISSING = "missing", "Not recorded: unknown, not zero."
    ESTIMATED = "estimated", "Derived from other metrics."
    REPORTED = "reported", "A metric of Spark, or of a vendor."
    MEASURED = "measured", "Measured by the iqcar plugin."


EVIDENCES: tuple[Evidence, ...] = tuple(Evidence)
"""All evidence levels, worst first; the code in numpy columns is the position here."""


class DemandEvidence(Kind):
    """What an own rate or a capacity is known from, from worst to best."""

    PRIOR = "prior", "What is likely before the data; of a device, the highest speed seen."
    INFERRED = "inferred", "The tasks of this run."
    HISTORY = "history", "Earlier runs, in a store; this run does not tell."
    EXPERIMENT = "experiment", "Runs under hogs, in a file of curves; this run does not tell."


class QueryBy(Kind):
    """What counts as one query."""

    SQL = "sql", "The root SQL execution, else Connect operation, else job group, else the job."
    JOB_GROUP = "job-group", "The job group, else the job."
    JOB = "job", "The Spark job."
    APP = "app", "The whole application."


class RunBy(Kind):
    """What one run is when two sets of runs are compared: the unit that statistics count."""

    HOUR = "hour", "The applications of one cluster that started in one hour and overlap."
    APPLICATION = "application", "The application."
    QUERY = "query", "The run of a query."


class MatchBy(Kind):
    """How a query of one set of runs is found in another."""

    AUTO = "auto", "The fingerprint, else the name without dates and counters, else the plan."
    NAME = "name", "The fingerprint, else the name without dates and counters."
    PLAN = "plan", "Tables and operators of the plan alone, whatever the names are."


class ChangeKind(Kind):
    """What kind of change a query or stage went through between two sets of runs."""

    RATE = "rate", "The same work took another time."
    DATA = "data", "It read more or less data."
    SKEW = "skew", "Its data is divided more or less evenly among its tasks."
    STRUCTURE = "structure", "Its stages, or their number of partitions, are others."
    MEMORY = "memory", "It spilled more or less."
    HOST = "host", "One host slowed its tasks, or does no more."
    ENVIRONMENT = "environment", "Nearly everything changed in the same way."
    CONTENTION = "contention", "It waited more or less for what others hold."
    ADDED = "added", "It ran after, not before."
    REMOVED = "removed", "It ran before, not after."


class BlameKind(Kind):
    """What a part of a target's slowdown is attributed to (eq. 4)."""

    QUERY = "query", "Another query."
    OWN = "own", "The target query itself: its own stages and tasks compete."
    KNOWN = "known", "A known cause that is not contention, such as garbage collection."
    UNATTRIBUTED = "unattributed", "Nothing in the input explains it."
    REST = "rest", "The sum of the parts of all other queries, each smaller than those listed."


class WasteCause(Kind):
    """Why the result of a task attempt was not used, or had to be computed again."""

    TASK_FAILED = "task-failed", "A task ended with an error; in a barrier stage all run again."
    FETCH_FAILED = (
        "fetch-failed",
        "Shuffle output could not be fetched: tasks that needed it, and those that wrote it again.",
    )
    EXECUTOR_LOST = (
        "executor-lost",
        "An executor was lost: its running tasks, those that needed the shuffle output it held, and"
        " those that wrote that output again.",
    )
    PREEMPTED = "preempted", "The same, where the cluster took the executor away."
    SLOT_TAKEN = (
        "slot-taken",
        "The scheduler killed a task to give its slot to others, for their fair share.",
    )
    SPECULATION = "speculation", "Another attempt of the same task succeeded first."
    CANCELLED = "cancelled", "Killed because its stage or job had failed or was cancelled."
    NOT_NEEDED = "not-needed", "Killed because its query needed its result no longer."


class FeatureKind(Kind):
    """How a feature of a task is compared with that of its peers (BigRoots §III-B)."""

    NUMERICAL = "numerical", "An amount, such as bytes read."
    TIME = "time", "Time spent on something, as a share of the task's duration."
    RESOURCE = "resource", "Load of the task's host while it ran, less what the task itself used."
    DISCRETE = "discrete", "A state of stragglers that normal tasks are not in."
    WAIT = "wait", "A wait measured by the plugin, judged by how much of the delay it explains."


class CauseEvidence(Kind):
    """What decides whether a resource delayed a straggler."""

    PAPER = "paper", "The load of its host, as in BigRoots."
    MEASURED = "measured", "The task's own measured waits; load of its host alone is no cause."
    AUTO = "auto", "Measured waits where the plugin recorded the task, else the load of its host."


class BaseModel(Kind):
    """A kind of base learner (Hound §3.1); each finds topics of its own."""

    PREDICTIVE = "predictive", "Which metrics predict a job's latencies."
    DEPENDENCE = "dependence", "Which metrics a job's latencies depend on, in any monotonic way."
    CAUSAL = "causal", "Which metrics change a job's latencies while the others are held fixed."


class InputStatus(Kind):
    """How far one input was read."""

    COMPLETE = "complete", "The log was read to the application's end."
    IN_PROGRESS = "in_progress", "The application had not ended when the log was read."
    TRUNCATED = "truncated", "A part of the log is missing or unreadable; the rest was analysed."
    FAILED = "failed", "Nothing could be read."


class QueryStatus(Kind):
    """What became of a query."""

    SUCCEEDED = "succeeded", "It ended well."
    FAILED = "failed", "It, or a job that it needed, ended with an error."
    CANCELLED = "cancelled", "Somebody stopped it, or the application."
    RUNNING = "running", "It had not ended when the log was read, or its end is missing."


class FindingKind(Kind):
    """What a finding is about: what failed, or what would save time."""

    FAILED = "failed", "A query failed, executors were lost, or many attempts failed."
    CONTENTION = "contention", "Other queries were in the way."
    EXECUTORS = "executors", "There were more tasks than slots, and all slots worked."
    START_UP = "start-up", "There was no executor yet, or no longer."
    NOT_GRANTED = "not-granted", "Fewer executors came than were asked for."
    COLD = "cold", "First tasks of executors loaded and compiled what later ones had."
    LOCALITY = "locality", "Tasks waited for the executors with their data, or read it from afar."
    PARTITIONS = "partitions", "There were too few partitions for the slots, or uneven ones."
    TINY_TASKS = "tiny-tasks", "Starting the tasks took longer than what they did."
    SKEW = "skew", "Single tasks had much more data, or more to compute, than the others."
    MEMORY = "memory", "Tasks spilled to disk what did not fit in memory."
    BROADCAST = "broadcast", "Both sides of a join were shuffled, though one is small."
    GC = "gc", "Garbage collection stopped the tasks."
    THROTTLED = "throttled", "The CPU limit of the executors stopped the tasks."
    LOCK = "lock", "Tasks waited for a lock that another one held."
    PAGE_FAULTS = "page-faults", "The tasks waited for pages of memory from disks or swap."
    WASTED = "wasted", "Work was done in vain, or again."
    SLOW_HOST = "slow-host", "A host was slow for the tasks of all queries."
    DRIVER = "driver", "No stage ran: the driver worked, or waited."
    SCHEMA = "schema", "Files were read to learn their schema."
    COLLECT = "collect", "A large result was brought to the driver."
    OUTSIDE = "outside", "Tasks waited for something that nothing recorded, hardly computing."
    IDLE = "idle", "Executors were there, and hardly anything ran."
    UNKNOWN = "unknown", "The log does not tell."

    @property
    def words(self) -> str:
        """What it is called in reports."""
        own = {FindingKind.GC: "garbage collection", FindingKind.THROTTLED: "CPU limit"}
        return own.get(self) or str(self.value).replace("-", " ")


class Level(Kind):
    """Levels of iQC-Graph (iQCAR table 2)."""

    TARGET_QUERY = "target_query", "The query under analysis."
    TARGET_STAGE = "target_stage", "A stage of the target query."
    RESOURCE = "resource", "Immediate explanation: what the stage waited for."
    REQUEST_HOST = "request_host", "Deep explanation: which request, on which host."
    BLAME = "blame", "Blame explanation: which stage held the resource there."
    SOURCE_STAGE = "source_stage", "A stage that held what the target waited for."
    SOURCE_QUERY = "source_query", "The query of that stage."


LEVELS: tuple[Level, ...] = tuple(Level)
"""Levels in order: ``LEVELS[3]`` is the deep explanation."""


class ChangeVerdict(Kind):
    """What the runs before and after say of a query or stage."""

    CHANGED = "changed", "The difference is beyond the margin, and not by chance."
    SAME = "same", "The difference is within the margin, and that not by chance."
    CANNOT_TELL = "cannot_tell", "Too few runs for a difference of this size."


VERDICTS: tuple[ChangeVerdict, ...] = tuple(ChangeVerdict)
"""All verdicts; the code in numpy columns is the position here."""
