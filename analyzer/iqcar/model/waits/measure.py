"""Computes every task's waits and account: measured by the plugin, else from Spark's metrics.

A record covers a task's own code, from just before it to the end of its last callback; the time
around it (deserialising the task, serialising and fetching its result) comes from Spark's metrics.
The thread's time on the processor and in the run queue is exact; sampling splits the rest by class
of wait.

The plugin's record of a task has its worker's times, unless it did not know the worker's process.
Then the task looks as if it waited for nothing known, and whoever waits for a processor beside it
seems to wait for nobody. The samples tell how long all Python workers of an executor computed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from iqcar.enums import EVIDENCES, REQUESTS, Request, Resource, WaitClass
from iqcar.model.waits.columns import (
    ACCOUNT,
    ESTIMATED,
    IN_TASK_REQUESTS,
    MEASURED,
    MISSING,
    REPORTED,
    WAITS,
    evidence_column,
    requests_of,
    wait_column,
)
from iqcar.model.waits.execution_memory import with_memory_waits
from iqcar.model.waits.executor_shortage import Shortage, find_shortages
from iqcar.tables import Column, Tables, TableSpec
from iqcar.tables.arrays import (
    Flags,
    Floats,
    Ints,
    grown,
    known_or_zero,
    positive_or_zero,
    share_of,
    sum_by,
)

QUERY_WAITS = TableSpec(
    "query_waits",
    "One row per query and resource: the sum of its tasks' waits.",
    (
        Column("query", "int32", "row", "The query."),
        Column("resource", "str", "", "slots, executors, cpu, memory, network or io."),
        Column("wait_ms", "float64", "ms", "Sum over its tasks; NaN if known for none."),
        Column("evidence", "str", "", "The weakest evidence among the tasks whose wait is known."),
        Column("missing_share", "float64", "", "Share of its task time whose wait is unknown."),
    ),
)

TELLING = {
    Resource.SLOTS: (Request.SLOT_WAIT,),
    Resource.EXECUTORS: (Request.EXECUTOR_WAIT,),
    Resource.CPU: (Request.RUN_QUEUE,),
    Resource.MEMORY: (Request.EXECUTION_MEMORY, Request.STORAGE_MEMORY),
    Resource.NETWORK: (Request.SHUFFLE_FETCH,),
    Resource.IO: (Request.IO_READ, Request.IO_WRITE),
}
"""Requests that must be known for a resource's wait to count as known. Lock waits are not among
them: where they were not measured, the estimated run-queue wait contains them."""


def sum_query_waits(tables: Tables, waits: pd.DataFrame) -> pd.DataFrame:
    """Sum each query's task waits by resource.

    Frame of `QUERY_WAITS`, every query × every resource, queries in order.

    tables: their queries must be identified.
    waits: frame of WAITS; one row per row of ``tables.tasks``.
    """
    n = len(tables.queries)
    query = tables.tasks["query"].to_numpy()
    has = query >= 0
    query = query[has]
    duration = waits["duration_ms"].to_numpy()[has]
    life = np.bincount(query, weights=duration, minlength=n)
    columns: dict[str, list[Floats]] = {"wait_ms": [], "missing_share": []}
    evidences: list[list[str]] = []
    for resource in Resource:
        total = np.zeros(n)
        weakest = np.full(n, len(EVIDENCES), np.uint8)
        unknown = np.zeros(len(query), bool)
        for request in requests_of(resource):
            wait = waits[wait_column(request)].to_numpy()[has]
            evidence = waits[evidence_column(request)].to_numpy()[has]
            known = evidence != MISSING
            total += np.bincount(query[known], weights=wait[known], minlength=n)
            np.minimum.at(weakest, query[known], evidence[known])
            if request in TELLING[resource]:
                unknown |= ~known
        missing = np.bincount(query, weights=duration * unknown, minlength=n)
        none_known = weakest == len(EVIDENCES)
        columns["wait_ms"].append(np.where(none_known, np.nan, total))
        # A query without task time has no unknown time, unless no task's wait is known.
        share = np.where(life > 0, missing / np.where(life > 0, life, 1.0), 0.0)
        columns["missing_share"].append(np.where(none_known, 1.0, share))
        evidences.append([str(EVIDENCES[w % len(EVIDENCES)]) for w in weakest])
    resources = [str(r) for r in Resource]
    return QUERY_WAITS.frame(
        {
            "query": np.repeat(np.arange(n), len(resources)),
            "resource": resources * n,
            "wait_ms": np.column_stack(columns["wait_ms"]).ravel(),
            "evidence": [e for row in zip(*evidences, strict=True) for e in row],
            "missing_share": np.column_stack(columns["missing_share"]).ravel(),
        }
    )


_OF_WORKERS = ("python_cpu_ms", "python_run_queue_ms", "python_io_ms", "python_other_ms")
"""What a record tells of a worker that the plugin knew; one that slept computed nothing."""


def with_python_waits(tables: Tables, waits: pd.DataFrame) -> pd.DataFrame:
    """Divide an executor's Python time among its tasks that feed workers nobody measured.

    Each gets it by its time that nothing explains; what is left of that is an estimated wait for
    the processor, as in other tasks.

    waits: frame of WAITS, of these tasks. Tasks whose workers were measured stay as they are.
    """
    rest = _unexplained(waits)
    fed = _unseen_workers(tables) & (rest > 0)
    cpu = _python_cpu(tables, np.where(fed, rest, 0.0))
    told = cpu > 0
    if not told.any():
        return waits
    queue, evidence = wait_column(Request.RUN_QUEUE), evidence_column(Request.RUN_QUEUE)
    waited = positive_or_zero(waits[queue].to_numpy(np.float64)) + rest - cpu
    codes = waits[evidence].to_numpy()
    computed = waits["compute_ms"].to_numpy(np.float64)
    return waits.assign(
        **{
            "compute_ms": np.where(told, positive_or_zero(computed) + cpu, computed),
            queue: np.where(told, waited, waits[queue].to_numpy(np.float64)),
            evidence: np.where(told, ESTIMATED, codes).astype(codes.dtype),
        }
    )


def _unexplained(waits: pd.DataFrame) -> Floats:
    """Time of each task that is neither a wait nor computing, in ms."""
    names = ["compute_ms", "gc_ms", *(wait_column(request) for request in IN_TASK_REQUESTS)]
    known = sum((positive_or_zero(waits[name].to_numpy(np.float64)) for name in names), 0.0)
    return np.maximum(positive_or_zero(waits["duration_ms"].to_numpy(np.float64)) - known, 0.0)


def _unseen_workers(tables: Tables) -> Flags:
    """Mark tasks that feed a Python worker whose processor time no record tells."""
    stage, python = tables.tasks["stage"].to_numpy(np.int64), tables.stages["python"].to_numpy(bool)
    feeds = np.append(python, False)[np.where(stage >= 0, stage, len(python))]
    records = tables.task_records
    seen = (records[list(_OF_WORKERS)].to_numpy(np.float64) > 0).any(axis=1)
    feeds[records["task"].to_numpy(np.int64)[seen]] = False
    return feeds


def _python_cpu(tables: Tables, rest: Floats) -> Floats:
    """Return the processor time of each task's Python worker, in ms; at most ``rest``."""
    tasks, samples, found = tables.tasks, tables.samples, np.zeros(len(rest))
    executor = tasks["executor"].to_numpy(np.int64)
    begin, end = (tasks[name].to_numpy(np.float64) for name in ("launch_ms", "finish_ms"))
    feeds = (rest > 0) & (executor >= 0) & (end > begin)
    of_samples = samples["executor"].to_numpy(np.int64)
    until, lasted = (samples[name].to_numpy(np.float64) for name in ("time_ms", "duration_ms"))
    cpu = positive_or_zero(samples["python_cpu_ms"].to_numpy(np.float64))
    usable = np.isfinite(until) & (lasted > 0) & (cpu > 0)
    for one in np.unique(executor[feeds]):
        mine, rows = np.flatnonzero(feeds & (executor == one)), usable & (of_samples == one)
        if not rows.any():
            continue
        since, to = until[rows] - lasted[rows], until[rows]
        needed = grown(begin[mine], end[mine], rest[mine])
        part = np.minimum(share_of(cpu[rows], needed(to) - needed(since)), 1.0)
        computing = grown(since, to, part * (to - since))
        life = end[mine] - begin[mine]
        during = np.minimum(computing(end[mine]) - computing(begin[mine]), life)
        found[mine] = rest[mine] * during / life
    return found


class Budget:
    """Time that is left of each task.

    total: (n_tasks,), ms.
    """

    def __init__(self, total: Floats) -> None:
        self.left: Floats = total.copy()

    def take(self, wanted: Floats) -> Floats:
        """Take the wanted time, at least 0 and at most what is left; NaN takes 0."""
        taken: Floats = np.minimum(np.maximum(known_or_zero(wanted), 0.0), self.left)
        self.left = self.left - taken
        return taken


Codes = NDArray[np.int8]

UNATTRIBUTED = "unattributed_ms"


@dataclass(frozen=True)
class Account:
    """Parts of the duration, waits and their evidence for a set of tasks.

    duration: (n_tasks,), ms.
    parts: dict of column name to (n_tasks,), ms; every column of ``ACCOUNT`` except
        ``unattributed_ms``.
    waits: dict of Request to (n_tasks,), ms; NaN where the wait is missing.
    evidence: dict of Request to (n_tasks,); codes of the evidence.
    """

    duration: Floats
    parts: dict[str, Floats]
    waits: dict[Request, Floats]
    evidence: dict[Request, Codes]

    @classmethod
    def blank(cls, duration: Floats) -> Account:
        """Return an account with all parts zero and all waits missing."""
        n = len(duration)
        return cls(
            duration,
            {name: np.zeros(n) for name, _ in ACCOUNT if name != UNATTRIBUTED},
            {r: np.full(n, np.nan) for r in REQUESTS},
            {r: np.full(n, MISSING, np.int8) for r in REQUESTS},
        )

    def put(self, request: Request, wait: Floats, evidence: int | Ints, where: Flags) -> None:
        """Set the waits for a request where they are known, and mark the others as missing."""
        self.waits[request] = np.where(where, wait, np.nan)
        self.evidence[request] = np.where(where, evidence, MISSING).astype(np.int8)

    def replace(self, rows: Ints, other: Account) -> None:
        """Replace everything but the slot wait of some tasks by a better account of them."""
        for name, values in other.parts.items():
            self.parts[name][rows] = values
        for request in IN_TASK_REQUESTS:
            self.waits[request][rows] = other.waits[request]
            self.evidence[request][rows] = other.evidence[request]

    def frame(self) -> pd.DataFrame:
        """Return the table :data:`WAITS`; time that no part or wait explains is unattributed."""
        none = np.zeros(len(self.duration))
        in_parts = sum(map(known_or_zero, self.parts.values()), none)
        waited = sum((known_or_zero(self.waits[r]) for r in IN_TASK_REQUESTS), none)
        explained = in_parts + waited
        return WAITS.frame(
            {
                "duration_ms": self.duration,
                **self.parts,
                UNATTRIBUTED: np.maximum(self.duration - explained, 0.0),
                **{wait_column(r): self.waits[r] for r in REQUESTS},
                **{evidence_column(r): self.evidence[r] for r in REQUESTS},
            }
        )


NEEDED = (
    "launch_ms", "finish_ms", "getting_result_ms", "deserialize_ms", "deserialize_cpu_ms",
    "run_ms", "cpu_ms", "gc_ms", "result_serialize_ms", "fetch_wait_ms", "shuffle_write_ms",
    "output_bytes", "input_bytes", "scan_ms", "storage_read_ms", "gpu_wait_ms", "native_ms",
)  # fmt: skip
"""Columns of ``tasks`` that an account is computed from."""


def from_metrics(column: dict[str, Floats], duration: Floats, python: Flags) -> Account:
    """Compute the account of tasks from Spark's metrics; the CPU wait is the rest of the run time.

    Without slot waits.

    column: dict of str to (n_tasks,); the columns of ``tasks`` in :data:`NEEDED`.
    duration: (n_tasks,), ms.
    python: (n_tasks,) whether the task feeds a Python worker. Such a task is off the CPU while the
        worker computes. A plain log does not distinguish that work from waiting, so the CPU wait is
        missing.
    """
    account = Account.blank(duration)
    left = Budget(duration)
    getting_result = left.take(column["getting_result_ms"])
    deserialize_wall = left.take(column["deserialize_ms"])
    deserialize_cpu = Budget(deserialize_wall).take(column["deserialize_cpu_ms"])
    run = left.take(column["run_ms"])
    result_serialize = left.take(column["result_serialize_ms"])
    cpu_known = ~np.isnan(column["cpu_ms"])
    off_cpu = Budget(run)
    compute = off_cpu.take(column["cpu_ms"]) + deserialize_cpu
    gc = put_reported(account, column, off_cpu)
    # While the GPU computes, the thread is off the CPU too, and no metric tells for how long.
    computes_here = ~python & np.isnan(column["gpu_wait_ms"])
    estimable = cpu_known & ~np.isnan(column["run_ms"]) & computes_here
    account.put(Request.RUN_QUEUE, off_cpu.left, ESTIMATED, estimable)
    account.parts.update(
        compute_ms=np.where(cpu_known, compute, np.nan),
        gc_ms=gc,
        deserialize_ms=deserialize_wall - deserialize_cpu,
        result_serialize_ms=result_serialize,
        getting_result_ms=getting_result,
    )
    return account


def put_reported(account: Account, column: dict[str, Floats], off_cpu: Budget) -> Floats:
    """Set the waits that Spark and vendors report; return the garbage collection, ms."""
    # Native code runs on while the JVM collects garbage, so in Photon everything else goes first.
    native = ~np.isnan(column["native_ms"])
    gc = np.zeros(len(account.duration))
    for request, reported in (
        (Request.SHUFFLE_FETCH, column["fetch_wait_ms"]),
        (None, np.where(native, np.nan, column["gc_ms"])),
        (Request.IO_WRITE, _write_wait(column)),
        (Request.NOTIFICATION_WAIT, column["gpu_wait_ms"]),
    ):
        taken = off_cpu.take(reported)
        if request is None:
            gc = taken
        else:
            account.put(request, taken, REPORTED, ~np.isnan(reported))
    scan, storage = _read_wait(column), column["storage_read_ms"]
    told = ~np.isnan(scan)
    read = off_cpu.take(np.where(told, scan, storage))
    evidence = np.where(told, REPORTED, ESTIMATED)
    account.put(Request.IO_READ, read, evidence, told | ~np.isnan(storage))
    gc += off_cpu.take(np.where(native, column["gc_ms"], np.nan))
    return gc


def _write_wait(column: dict[str, Floats]) -> Floats:
    """Return the shuffle write time; NaN for a task that only wrote output, which is not timed."""
    writes_output = known_or_zero(column["output_bytes"]) > 0
    writes_shuffle = known_or_zero(column["shuffle_write_ms"]) > 0
    return np.where(writes_output & ~writes_shuffle, np.nan, column["shuffle_write_ms"])


def _read_wait(column: dict[str, Floats]) -> Floats:
    """Return the scan time; 0 for a task that read no input; NaN where input has no scan time."""
    reads_nothing = (column["input_bytes"] == 0) & ~(column["storage_read_ms"] > 0)
    return np.where(np.isnan(column["scan_ms"]) & reads_nothing, 0.0, column["scan_ms"])


_OTHER_WAIT = (
    WaitClass.DRIVER_RPC, WaitClass.OBJECT_STORE, WaitClass.PYTHON_WORKER, WaitClass.PYTHON_OTHER,
)  # fmt: skip
"""Waits that no other task causes; class ``other`` stays unattributed."""


def from_records(records: pd.DataFrame, column: dict[str, Floats], duration: Floats) -> Account:
    """Compute the account of tasks from the plugin's records.

    Without slot waits. Where the kernel does not report the run queue, its wait is missing, not
    estimated. Where the sampler was off or had died, the waits for shuffle blocks and files come
    from Spark's metrics, and the other waits are missing. A request without a class of wait would
    count as measured, and 0.

    records: frame of `TASK_RECORDS`; one row per task of the other parameters.
    column: dict of str to (n_tasks,); the columns of ``tasks`` in
        :data:`iqcar.model.waits.measure.NEEDED`.
    duration: (n_tasks,), ms.
    """

    def ms(name: str) -> Floats:
        values: Floats = records[name].to_numpy(np.float64)
        return values

    account = Account.blank(duration)
    left = Budget(duration)
    recorded = ms("wall_ms")
    wall = left.take(recorded)
    # All times of a record longer than its task (clock error, damage) are scaled down alike.
    fits = share_of(wall, recorded)
    getting_result = left.take(column["getting_result_ms"])
    deserialize_wall = left.take(column["deserialize_ms"])
    deserialize_cpu = Budget(deserialize_wall).take(column["deserialize_cpu_ms"])
    result_serialize = left.take(column["result_serialize_ms"])
    spent = Budget(wall)
    compute = spent.take(ms("cpu_ms") * fits)
    in_kernel_queue = spent.take(ms("run_queue_ms") * fits)

    sampled = (records["sampler"] == "").to_numpy(bool)
    off_cpu = Budget(np.where(sampled, spent.left, 0.0))
    taken = {
        kind: off_cpu.take(np.where(sampled, ms(f"{kind}_ms") * fits, 0.0)) for kind in WaitClass
    }
    unsampled = Budget(np.where(sampled, 0.0, spent.left))
    gc = put_reported(account, column, unsampled)
    known_queue = np.isfinite(ms("run_queue_ms"))
    for request in IN_TASK_REQUESTS:
        mine = (taken[kind] for kind in WaitClass if kind.request is request)
        waited = sum(mine, np.zeros(len(wall)))
        if request is Request.RUN_QUEUE:
            queue = Budget(waited + in_kernel_queue)
            throttled = queue.take(ms("throttled_ms") * fits)
            told = known_queue & np.isfinite(ms("throttled_ms"))
            account.put(Request.THROTTLED, throttled, MEASURED, told)
            account.put(request, queue.left, MEASURED, known_queue)
        elif request is not Request.THROTTLED:
            older = np.isnan(ms("page_fault_ms")) & (request is Request.PAGE_FAULT)
            _put_where(account, request, waited, sampled & ~older)
    python_queue = np.where(known_queue, 0.0, taken[WaitClass.PYTHON_RUN_QUEUE])
    account.parts.update(
        compute_ms=compute + taken[WaitClass.PYTHON_CPU] + deserialize_cpu,
        gc_ms=np.where(sampled, taken[WaitClass.GC_SAFEPOINT], gc),
        deserialize_ms=deserialize_wall - deserialize_cpu,
        result_serialize_ms=result_serialize,
        getting_result_ms=getting_result,
        other_wait_ms=sum((taken[kind] for kind in _OTHER_WAIT), python_queue),
    )
    return account


def _put_where(account: Account, request: Request, waited: Floats, where: Flags) -> None:
    """Set measured waits where the sampler ran; keep the reported ones elsewhere."""
    account.waits[request] = np.where(where, waited, account.waits[request])
    account.evidence[request] = np.where(where, MEASURED, account.evidence[request]).astype(np.int8)


def slot_wait(tables: Tables, column: dict[str, Floats]) -> tuple[Floats, Codes]:
    """Return launch less stage submission; for a retry, less the end of the previous attempt.

    The wait of a speculative copy is missing, because no event records when it was requested.

    What is returned:
    wait: (n_tasks,), ms; NaN where it is missing.
    evidence: (n_tasks,) codes of the evidence; estimated where a stage's submission is its first
        launch, and for a task that was not launched yet.
    """
    tasks, stages = tables.tasks, tables.stages
    stage = tasks["stage"].to_numpy()
    launch = column["launch_ms"]
    if len(stages) == 0:
        return np.full(len(tasks), np.nan), np.zeros(len(tasks), np.int8)
    row = np.maximum(stage, 0)
    submitted = stages["submission_ms"].to_numpy(np.float64)[row]
    first_launch = stages["first_launch_ms"].to_numpy(np.float64)[row]
    asked = np.where(np.isnan(submitted), first_launch, submitted)
    asked = np.where(stage >= 0, asked, np.nan)
    still_waits = (tasks["status"] == "waiting").to_numpy(bool)
    evidence = np.where(np.isnan(submitted) | still_waits, ESTIMATED, REPORTED)

    # In this order the attempts of one partition are adjacent, first attempt first.
    order = np.lexsort((tasks["attempt"].to_numpy(), tasks["index"].to_numpy(), stage))
    same = (np.diff(stage[order]) == 0) & (np.diff(tasks["index"].to_numpy()[order]) == 0)
    before = np.full(len(tasks), -1)
    before[order[1:][same]] = order[:-1][same]
    retry = (before >= 0) & (tasks["attempt"].to_numpy() > 0)
    predecessor_end = column["finish_ms"][np.maximum(before, 0)]
    asked = np.where(retry, np.maximum(predecessor_end, asked), asked)

    wait = launch - asked
    unknown = tasks["speculative"].to_numpy(bool) | ~np.isfinite(wait)
    wait = np.where(unknown, np.nan, np.maximum(wait, 0.0))
    return wait, np.where(unknown, MISSING, evidence).astype(np.int8)


def executor_wait(
    tables: Tables, wait: Floats, launch: Floats, finish: Floats
) -> tuple[Floats, Codes]:
    """Return the part of each task's wait for its launch that missing executors explain.

    wait: (n_tasks,), ms; from the submission of the stage, or the end of the attempt before, to the
        launch; NaN where it is not known.
    launch, finish: (n_tasks,), ms.

    What is returned:
    lost: (n_tasks,), ms; from 0 to the wait; NaN where that is not known.
    evidence: (n_tasks,) codes of the evidence: measured where the plugin recorded how many
        executors the application asked for, else estimated.
    """
    lost = np.where(np.isfinite(wait), 0.0, np.nan)
    evidence = np.where(np.isfinite(wait), ESTIMATED, MISSING).astype(np.int8)
    asked = launch - wait
    shortages = find_shortages(tables, asked, launch, finish)
    if not shortages:
        return lost, evidence
    app, stage = (tables.tasks[name].to_numpy(np.int64) for name in ("app", "stage"))
    typical = _typical_duration(stage, finish - launch)
    for victim, shortage in shortages.items():
        rows = np.flatnonzero((app == victim) & (wait > 0) & np.isfinite(finish))
        lost[rows] = _lost(shortage, asked[rows], launch[rows], typical[rows])
        if shortage.measured:
            evidence[rows] = MEASURED
    return lost, evidence


def _lost(shortage: Shortage, asked: Floats, launch: Floats, typical: Floats) -> Floats:
    """Return the wait less the one with the missing slots, at most the time they were missing."""
    served = shortage.during(shortage.own, asked, launch)
    at = np.searchsorted(shortage.when, asked, side="right") - 1
    ahead = np.maximum(served - shortage.missing[np.maximum(at, 0)] * typical, 0.0)
    every = shortage.total(shortage.own + shortage.missing)
    start = np.interp(asked, shortage.when, every)
    without = np.interp(start + ahead, every, shortage.when) - asked
    without = np.where(ahead > 0, np.maximum(without, 0.0), 0.0)
    exposed = shortage.during(shortage.short, asked, launch)
    return np.clip(launch - asked - without, 0.0, exposed)


def _typical_duration(stage: NDArray[np.int64], duration: Floats) -> Floats:
    """Return the mean duration of the tasks of each task's stage, in ms."""
    known = np.isfinite(duration) & (stage >= 0)
    size = int(stage.max(initial=-1)) + 1
    total = sum_by(stage[known], duration[known], size)
    mean = share_of(total, np.bincount(stage[known], minlength=size).astype(np.float64))
    return np.where(stage >= 0, mean[np.maximum(stage, 0)] if size else 0.0, 0.0)


def measure_waits(tables: Tables) -> pd.DataFrame:
    """Derive every task's waits and account.

    Frame of `WAITS`, one row per row of ``tables.tasks``.

    tables: ``tasks``, ``stages``, ``task_records`` and settings of memory are used.
    """
    tasks = tables.tasks
    column = {name: tasks[name].to_numpy(np.float64) for name in NEEDED}
    duration = np.maximum(known_or_zero(column["finish_ms"] - column["launch_ms"]), 0.0)
    account = from_metrics(column, duration, _feeds_python(tables))
    records = tables.task_records
    if len(records):
        rows = records["task"].to_numpy(np.int64)
        here = {name: values[rows] for name, values in column.items()}
        account.replace(rows, from_records(records, here, duration[rows]))
    wait, evidence = slot_wait(tables, column)
    lost, of_lost = executor_wait(tables, wait, column["launch_ms"], column["finish_ms"])
    account.waits[Request.SLOT_WAIT], account.evidence[Request.SLOT_WAIT] = wait - lost, evidence
    account.waits[Request.EXECUTOR_WAIT], account.evidence[Request.EXECUTOR_WAIT] = lost, of_lost
    return with_memory_waits(tables, with_python_waits(tables, account.frame()))


def _feeds_python(tables: Tables) -> Flags:
    stage = tables.tasks["stage"].to_numpy()
    python = tables.stages["python"].to_numpy(bool)
    if len(python) == 0:
        return np.zeros(len(stage), bool)
    return np.where(stage >= 0, python[np.maximum(stage, 0)], False)
