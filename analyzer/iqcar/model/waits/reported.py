"""Computes waits and accounts of tasks from Spark's own metrics; the CPU wait is estimated."""

from __future__ import annotations

import numpy as np

from iqcar.enums import Request
from iqcar.model.waits.account import Account, Budget
from iqcar.model.waits.columns import ESTIMATED, REPORTED
from iqcar.tables.arrays import Flags, Floats, known_or_zero

NEEDED = (
    "launch_ms",
    "finish_ms",
    "getting_result_ms",
    "deserialize_ms",
    "deserialize_cpu_ms",
    "run_ms",
    "cpu_ms",
    "gc_ms",
    "result_serialize_ms",
    "fetch_wait_ms",
    "shuffle_write_ms",
    "output_bytes",
    "input_bytes",
    "scan_ms",
    "storage_read_ms",
    "gpu_wait_ms",
)
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
    gc = np.zeros(len(account.duration))
    for request, reported in (
        (Request.SHUFFLE_FETCH, column["fetch_wait_ms"]),
        (None, column["gc_ms"]),
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
