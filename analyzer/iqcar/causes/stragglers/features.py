"""Declares and computes features of tasks: metrics, measured waits, samples of their hosts.

They are those of BigRoots tables I and II with eq. 1 to 3, and of Hound table 3, as far as Spark's
log and the plugin's record hold them. Spark records per task neither the time of broadcasts, nor
user and system time apart, nor the time to open files and connections: these are missing.

A span says that a quantity had a value from its start to its end (a sample of a host; a task that
ran). The integral over time up to any moment follows from prefix sums; a window's mean is a
difference of two of them, divided by how much of the window spans tell about.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from iqcar.causes.stragglers.straggler_result import Labels, labels_of
from iqcar.enums import FeatureKind, Request, WaitClass
from iqcar.model.waits.columns import ESTIMATED, MEASURED, evidence_column, wait_column
from iqcar.tables import Tables
from iqcar.tables.arrays import Flags, Floats, Ints, sum_known
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


LEAST_COVER = 0.5
"""Share of a window that samples must tell about for its mean to be known: with less than half, the
rest could turn the mean round."""


class _Moments(NamedTuple):
    """Where moments lie among the breakpoints, and how long after the one before them."""

    place: Ints
    since: Floats


@dataclass(frozen=True)
class Spans:
    """Spans of time by group, ordered once for any number of quantities.

    order: (2n,) breakpoints (starts, then ends, of the n spans) by group and time.
    axis: (2n,) float64, ms; time since the first breakpoint, each group after the one before.
    step: (2n,) float64, ms; time since the breakpoint before, 0 for the first of a group.
    origin: float64, ms; the first breakpoint of all.
    length: float64, ms; room on the axis for one group.
    groups: (n,) group of each span, ≥ 0.
    """

    order: Ints
    axis: Floats
    step: Floats
    origin: float
    length: float
    groups: Ints

    @classmethod
    def from_times(cls, group: Ints, start: Floats, end: Floats) -> Spans:
        """Order the breakpoints.

        group: (n,) ≥ 0.
        start, end: (n,), ms; finite, start ≤ end.
        """
        when = np.concatenate([start, end])
        origin = float(when.min(initial=np.inf)) if len(when) else 0.0
        length = float(when.max(initial=origin)) - origin + 1.0 if len(when) else 1.0
        axis = np.concatenate([group, group]) * length + (when - origin)
        order = np.argsort(axis, kind="stable")
        axis = axis[order]
        step = np.diff(axis, prepend=axis[:1])
        return cls(order=order, axis=axis, step=step, origin=origin, length=length, groups=group)

    def moments(self, group: Ints, when: Floats) -> _Moments:
        """Find moments on the axis; those outside of all spans lie at the nearest edge."""
        if not len(self.axis):
            return _Moments(np.full(len(when), -1), np.zeros(len(when)))
        inside = np.clip(when - self.origin, 0.0, self.length - 0.5)
        at = group * self.length + np.nan_to_num(inside)
        place = np.searchsorted(self.axis, at, side="right") - 1
        since = np.where(place >= 0, at - self.axis[np.maximum(place, 0)], 0.0)
        return _Moments(place, since)

    def integral(self, values: Floats, begin: _Moments, end: _Moments) -> Floats:
        """Integrate a quantity over windows: its value times ms, summed over spans.

        values: (n,) NaN where a span does not tell.
        begin, end: from :meth:`moments`.
        """
        if not len(values):
            return np.zeros(len(begin.place))
        known = np.isfinite(values)
        value = np.where(known, values, 0.0)
        slope = np.cumsum(np.concatenate([value, -value])[self.order])
        alive = np.cumsum(np.concatenate([known, known * -1])[self.order])
        # What rounding leaves where no span is would grow with time.
        slope = np.where(alive > 0, slope, 0.0)
        total = np.cumsum(self.step * np.concatenate([[0.0], slope[:-1]]))

        def up_to(moment: _Moments) -> Floats:
            place = np.maximum(moment.place, 0)
            reached = total[place] + slope[place] * moment.since
            return np.where(moment.place >= 0, reached, 0.0)

        return up_to(end) - up_to(begin)


class Windows:
    """Windows of time in groups, and the means of quantities over them."""

    def __init__(self, spans: Spans, group: Ints, begin: Floats, end: Floats) -> None:
        """Place the windows.

        group: (w,) −1 for a window without a group: its means are unknown.
        begin, end: (w,), ms.
        """
        known = (group >= 0) & np.isfinite(begin) & np.isfinite(end)
        safe = np.where(known, group, 0)
        self._spans = spans
        self._known = known
        self._length = np.where(known, end - begin, 0.0)
        self._begin = spans.moments(safe, np.where(known, begin, 0.0))
        self._end = spans.moments(safe, np.where(known, end, 0.0))

    def total(self, values: Floats) -> Floats:
        """Integrate a quantity over each window; 0 where nothing is known."""
        both = self._spans.integral(values, self._begin, self._end)
        return np.where(self._known, np.maximum(both, 0.0), 0.0)

    def mean(self, values: Floats) -> Floats:
        """Mean of a quantity over each window, NaN where spans tell of too little of it.

        Spans that overlap count each.
        """
        weight = np.where(np.isfinite(values), 1.0, np.nan)
        covered = self.total(weight)
        enough = (covered >= LEAST_COVER * self._length) & (covered > 0)
        mean: Floats = np.divide(
            self.total(values), covered, out=np.full(len(covered), np.nan), where=enough
        )
        return mean


WORTH_SAYING_MS = 100.0
"""Offsets below it move no sample of a second into another task's window by much."""


def clock_offsets(tables: Tables) -> Floats:
    """Offset of each host's clock from the driver's in ms; 0 where nothing is known.

    One per host. What to take from a host's time to get the driver's.
    """
    hosts = len(tables.hosts)
    most, least = np.full(hosts, np.inf), np.full(hosts, -np.inf)
    records = tables.task_records
    if len(records):
        tasks = tables.tasks
        row = records["task"].to_numpy(np.int64)
        host = tasks["host"].to_numpy(np.int64)[row]
        start = records["start_ms"].to_numpy(np.float64)
        end = start + records["wall_ms"].to_numpy(np.float64)
        above = start - tasks["launch_ms"].to_numpy(np.float64)[row]
        below = end - tasks["finish_ms"].to_numpy(np.float64)[row]
        good = (host >= 0) & np.isfinite(above) & np.isfinite(below)
        np.minimum.at(most, host[good], above[good])
        np.maximum.at(least, host[good], below[good])
    known = np.isfinite(most) & np.isfinite(least)
    most, least = np.where(known, most, 0.0), np.where(known, least, 0.0)
    # Bounds that contradict each other are a clock that was set meanwhile: no one offset is right.
    middle = (most + least) / 2
    least_of_them: Floats = np.where(most < 0, most, np.where(least > 0, least, 0.0))
    return np.where(most < least, middle, least_of_them)


def clock_doubts(tables: Tables, offsets: Floats) -> list[str]:
    """Say which hosts' clocks are off, in one sentence; empty if none is by much."""
    off = np.flatnonzero(np.abs(offsets) >= WORTH_SAYING_MS)
    if not len(off):
        return []
    worst = int(off[np.argmax(np.abs(offsets[off]))])
    return [
        f"the clocks of {len(off)} hosts are not the driver's (up to {abs(offsets[worst]):.0f} ms "
        f"on {tables.hosts['host'].iloc[worst]}): their samples were moved by the least offset "
        "that their task records allow"
    ]


WORTH_SAYING = 0.01
"""Share of tasks on sampled hosts from which it is said that samples do not tell about them."""
_PER_S = 1000.0


def sampled_quantities(samples: pd.DataFrame) -> dict[str, Floats]:
    """Quantities of :data:`HOST_FEATURES` in each sample, NaN where it does not tell."""

    def number(name: str) -> Floats:
        values: Floats = samples[name].to_numpy(np.float64)
        return values

    duration = number("duration_ms")
    total = number("mem_total_bytes")
    idle = number("cpu_idle") + np.nan_to_num(number("cpu_iowait"))
    moved_in, moved_out = number("net_in_bytes"), number("net_out_bytes")
    return {
        "host_cpu": np.clip(1.0 - idle / 100.0, 0.0, 1.0),
        "host_cpu_pressure": _share(number("stalled_cpu_ms"), duration),
        "host_throttled": _share(number("cgroup_throttled_ms"), duration),
        "host_disk": number("disk_busy"),
        "host_io_pressure": _share(number("stalled_io_ms"), duration),
        "container_io_pressure": _share(number("cgroup_stalled_io_ms"), duration),
        "host_disk_read": number("disk_read_bytes") / duration * _PER_S,
        "host_disk_write": number("disk_write_bytes") / duration * _PER_S,
        "host_network": (moved_in + moved_out) / duration * _PER_S,
        "host_net_in": moved_in / duration * _PER_S,
        "host_net_out": moved_out / duration * _PER_S,
        "host_memory": _share(number("mem_used_bytes"), np.where(total > 0, total, np.nan)),
        "host_memory_pressure": _share(number("stalled_memory_ms"), duration),
        "container_memory_pressure": _share(number("cgroup_stalled_memory_ms"), duration),
    }


def _share(part: Floats, whole: Floats) -> Floats:
    return np.clip(part / whole, 0.0, 1.0)


def host_columns(tables: Tables, offsets: Floats, edge_ms: float) -> dict[str, Floats]:
    """Means of the host's quantities during each task and in the windows around it (eq. 1 to 3, 6).

    One value per task; NaN where samples tell of less than half of the window.

    offsets: one per host, ms; what to take from a host's time to get the driver's.
    edge_ms: width of the windows before and after.
    """
    tasks, samples = tables.tasks, tables.samples
    launch = tasks["launch_ms"].to_numpy(np.float64)
    finish = tasks["finish_ms"].to_numpy(np.float64)
    task_host = tasks["host"].to_numpy(np.int64)
    host = samples["host"].to_numpy(np.int64)
    end = samples["time_ms"].to_numpy(np.float64)
    start = end - samples["duration_ms"].to_numpy(np.float64)
    usable = (host >= 0) & np.isfinite(start) & (end > start)
    samples, host, start, end = samples[usable], host[usable], start[usable], end[usable]
    if not len(samples):
        nothing = np.full(len(tasks), np.nan)
        return dict.fromkeys(_names(), nothing)
    start, end = start - offsets[host], end - offsets[host]
    spans = Spans.from_times(host, start, end)
    # A task of no length still had a moment.
    during = Windows(spans, task_host, launch, np.maximum(finish, launch + 1.0))
    head = Windows(spans, task_host, launch - edge_ms, launch)
    tail = Windows(spans, task_host, finish, finish + edge_ms)
    quantities = sampled_quantities(samples)
    columns = {}
    for feature in HOST_FEATURES:
        values = quantities[feature.name]
        columns[feature.name] = during.mean(values)
        if feature.cause:
            columns[before(feature)] = head.mean(values)
            columns[after(feature)] = tail.mean(values)
    return columns


def _names() -> list[str]:
    with_edges = [f for f in HOST_FEATURES if f.cause]
    return [
        *(f.name for f in HOST_FEATURES),
        *(before(f) for f in with_edges),
        *(after(f) for f in with_edges),
    ]


def untold_tasks(tables: Tables, host_cpu: Floats) -> tuple[int, int]:
    """Count the tasks on sampled hosts that no sample tells about, and all on sampled hosts."""
    host = tables.tasks["host"].to_numpy(np.int64)
    sampled = np.isin(host, np.unique(tables.samples["host"].to_numpy(np.int64)))
    return int((sampled & np.isnan(host_cpu)).sum()), int(sampled.sum())


def sample_doubts(untold: int, sampled: int) -> list[str]:
    """Say for how many tasks on sampled hosts the samples do not tell; empty if for few."""
    if untold <= WORTH_SAYING * max(sampled, 1):
        return []
    return [
        f"no sample tells what the host did during {untold} of {sampled} "
        "tasks on sampled hosts: it is unknown there, and no cause"
    ]


_FAR = {"PROCESS_LOCAL": 0.0, "NODE_LOCAL": 1.0, "RACK_LOCAL": 2.0, "ANY": 2.0}
"""Eq. 4. It counts NO_PREF as 2; but a task without a preference is nowhere badly placed."""

_OF_TASKS = (
    "input_bytes", "input_records", "shuffle_read_records", "remote_bytes", "local_bytes",
    "remote_blocks", "local_blocks", "cpu_ms", "memory_spilled_bytes", "disk_spilled_bytes",
    "shuffle_write_bytes", "shuffle_write_records", "output_bytes", "output_records",
    "result_bytes", "peak_memory_bytes", "gc_ms", "deserialize_ms", "result_serialize_ms",
    "getting_result_ms", "fetch_wait_ms", "scan_ms", "shuffle_write_ms", "run_ms",
)  # fmt: skip
_IDENTITY = ("task_id", "app", "stage", "query", "host", "executor", "launch_ms")
_WAITED = (
    Request.RUN_QUEUE, Request.IO_READ, Request.IO_WRITE, Request.SHUFFLE_FETCH,
    Request.EXECUTION_MEMORY, Request.STORAGE_MEMORY, Request.MONITOR_BLOCKED,
    Request.NOTIFICATION_WAIT, Request.THROTTLED, Request.PAGE_FAULT,
)  # fmt: skip
_RECORDED = (WaitClass.OBJECT_STORE, WaitClass.DRIVER_RPC, WaitClass.PYTHON_OTHER)


@dataclass(frozen=True)
class TaskFeatures:
    """Tasks with their features; made from event logs or from any trace.

    frame: the identity columns of :data:`iqcar.causes.stragglers.features.FEATURES`, and one
        float column per feature; NaN where unknown.
    features: which columns are features, and how each is compared.
    labels: what to call the applications, stages, queries, hosts and tasks.
    doubts: what makes the features doubtful, one sentence each.
    """

    frame: pd.DataFrame
    features: tuple[Feature, ...]
    labels: Labels
    doubts: tuple[str, ...] = ()

    def column(self, name: str) -> Floats:
        """One feature of every task."""
        values: Floats = self.frame[name].to_numpy(np.float64)
        return values

    def of_stages(self, stages: Ints) -> TaskFeatures:
        """Keep the tasks of some stages; ``task`` in the frame tells which they are."""
        kept = np.isin(self.frame["stage"].to_numpy(np.int64), stages)
        return replace(self, frame=self.frame[kept].reset_index(drop=True))


def build_features(tables: Tables, waits: pd.DataFrame, edge_ms: float) -> TaskFeatures:
    """Build the features of every task.

    With a frame of :data:`FEATURES`, aligned with ``tables.tasks``.

    tables: with queries identified.
    waits: frame of `WAITS`; aligned with ``tables.tasks``.
    edge_ms: width of the windows before and after a task in which its host is looked at.
    """
    tasks = tables.tasks
    n = len(tasks)
    launch = tasks["launch_ms"].to_numpy(np.float64)
    finish = tasks["finish_ms"].to_numpy(np.float64)
    duration = finish - launch
    measured = np.zeros(n, bool)
    measured[tables.task_records["task"].to_numpy(np.int64)] = True
    offsets = clock_offsets(tables)
    first, first_of_stage = _first_waves(tasks)
    columns = {
        "task": np.arange(n),
        **{name: tasks[name] for name in _IDENTITY},
        "duration_ms": duration,
        "compared": (tasks["status"] == "success").to_numpy(bool),
        "measured": measured,
        **{name: tasks[name] for name in _OF_TASKS},
        "shuffle_read_bytes": sum_known(
            *(tasks[name].to_numpy(np.float64) for name in ("remote_bytes", "local_bytes"))
        ),
        "scheduler_delay_ms": _scheduler_delay(tasks, duration),
        "python_ms": _python(tables, measured),
        "off_cpu_ms": _waited(waits, Request.RUN_QUEUE, ESTIMATED),
        "locality": _locality(tasks["locality"]),
        "first_on_executor": first,
        "first_of_stage": first_of_stage,
        **{f"wait_{r}_ms": _waited(waits, r, MEASURED) for r in _WAITED},
        **{f"wait_{kind}_ms": _recorded(tables, kind) for kind in _RECORDED},
        "python_cpu_ms": _recorded(tables, WaitClass.PYTHON_CPU),
        **host_columns(tables, offsets, edge_ms),
    }
    untold = sample_doubts(*untold_tasks(tables, columns["host_cpu"]))
    doubts = (*clock_doubts(tables, offsets), *untold)
    return TaskFeatures(FEATURES.frame(columns), FEATURE_LIST, labels_of(tables), doubts)


def _scheduler_delay(tasks: pd.DataFrame, duration: Floats) -> Floats:
    """What is left of a task's duration, as Spark's own UI has it; NaN without executor metrics."""
    reported = duration.copy()
    for name in ("run_ms", "deserialize_ms", "result_serialize_ms", "getting_result_ms"):
        reported = reported - tasks[name].to_numpy(np.float64)
    delay: Floats = np.maximum(reported, 0.0)
    return delay


def _python(tables: Tables, measured: Flags) -> Floats:
    """Time that a task which feeds a Python worker was neither computing nor collecting garbage."""
    tasks = tables.tasks
    rest = tasks["run_ms"].to_numpy(np.float64) - tasks["cpu_ms"].to_numpy(np.float64)
    for name in ("gc_ms", "fetch_wait_ms"):
        rest = rest - np.nan_to_num(tasks[name].to_numpy(np.float64))
    python = np.append(tables.stages["python"].to_numpy(bool), False)
    feeds = python[tasks["stage"].to_numpy(np.int64)] & ~measured
    return np.where(feeds, np.maximum(rest, 0.0), np.nan)


def _waited(waits: pd.DataFrame, request: Request, evidence: int) -> Floats:
    """Wait for a request where the evidence is of this level."""
    values = waits[wait_column(request)].to_numpy(np.float64)
    return np.where(waits[evidence_column(request)] == evidence, values, np.nan)


def _recorded(tables: Tables, kind: WaitClass) -> Floats:
    """Wait of a class in the plugin's record; NaN without one, or where its sampler was off."""
    values = np.full(len(tables.tasks), np.nan)
    records = tables.task_records
    sampled = (records["sampler"] == "").to_numpy(bool)
    row = records["task"].to_numpy(np.int64)[sampled]
    values[row] = records[f"{kind}_ms"].to_numpy(np.float64)[sampled]
    return values


def _locality(level: pd.Series) -> Floats:
    codes = level.cat.codes.to_numpy(np.int64)
    values = [_FAR.get(str(name), np.nan) for name in level.cat.categories]
    far: Floats = np.array([*values, np.nan], np.float64)[codes]
    return far


def _first_waves(tasks: pd.DataFrame) -> tuple[Floats, Floats]:
    """Whether no task, and no task of its stage, had ended on its executor at each launch."""
    executor = tasks["executor"].to_numpy(np.int64)
    stage = tasks["stage"].to_numpy(np.int64)
    launch = tasks["launch_ms"].to_numpy(np.float64)
    finish = tasks["finish_ms"].to_numpy(np.float64)
    known = executor >= 0
    width = int(executor.max(initial=0)) + 1
    answers = []
    for group in (executor, (stage + 1) * width + executor):
        _, number = np.unique(np.where(known, group, -1), return_inverse=True)
        ended = np.full(int(number.max(initial=-1)) + 1, np.inf)
        np.fmin.at(ended, number, finish)
        answers.append(np.where(known, launch < ended[number], np.nan))
    return answers[0].astype(np.float64), answers[1].astype(np.float64)
