"""Computes the waits and accounts of the tasks that the plugin measured.

A record covers a task's own code, from just before it to the end of its last callback; the time
around it (deserialising the task, serialising and fetching its result) comes from Spark's metrics.
The thread's time on the processor and in the run queue is exact; sampling splits the rest by class
of wait.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from iqcar.enums import Request, WaitClass
from iqcar.model.waits.account import Account, Budget
from iqcar.model.waits.columns import IN_TASK_REQUESTS, MEASURED
from iqcar.model.waits.reported import put_reported
from iqcar.tables.arrays import Flags, Floats, share_of

_OTHER_WAIT = (WaitClass.DRIVER_RPC, WaitClass.PYTHON_WORKER, WaitClass.PYTHON_OTHER)
"""Waits that no other task causes; class ``other`` stays unattributed."""


def from_records(records: pd.DataFrame, column: dict[str, Floats], duration: Floats) -> Account:
    """Compute the account of tasks from the plugin's records.

    Without slot waits. Where the kernel does not report the run queue, its wait is missing, not
    estimated. Where the sampler was off or had died, the waits for shuffle blocks and files come
    from Spark's metrics, and the other waits are missing.

    records: frame of `TASK_RECORDS`; one row per task of the other parameters.
    column: dict of str to (n_tasks,); the columns of ``tasks`` in
        :data:`iqcar.model.waits.reported.NEEDED`.
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
        waited = sum(
            (taken[kind] for kind in WaitClass if kind.request is request), np.zeros(len(wall))
        )
        if request is Request.RUN_QUEUE:
            account.put(request, waited + in_kernel_queue, MEASURED, known_queue)
        else:
            _put_where(account, request, waited, sampled)
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
