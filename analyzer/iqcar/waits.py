"""What every task waited for, with evidence, and an account of its whole life.

The account (DESIGN of the wait table; iQCAR table 1 and fig. 2): from launch to finish a task
computes, collects garbage, deserialises, waits, serialises its result and has it fetched; what
none of these explains is ``unattributed_ms``. The parts sum to the duration, so evidence that
overlaps (scan time holds CPU time, for one) is counted once: every part takes at most what the
parts before it left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iqcar.kinds import EVIDENCES, REQUESTS, Evidence, Request, Resource
from iqcar.tables import Column, TableSpec

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from iqcar.tables import Tables

    Floats = NDArray[np.float64]
    Codes = NDArray[np.int8]

MISSING, ESTIMATED, REPORTED, MEASURED = range(len(EVIDENCES))
"""Codes of the evidence levels in numpy columns (positions in :data:`EVIDENCES`)."""

ACCOUNT = (
    ("compute_ms", "CPU time of its thread; NaN if Spark did not record it."),
    ("gc_ms", "Garbage collection that stopped it."),
    ("deserialize_ms", "Deserialising the task, less the CPU time of that."),
    ("result_serialize_ms", "Serialising its result."),
    ("getting_result_ms", "Fetching its result from the executor."),
    ("unattributed_ms", "What nothing explains: scheduler delay, and waits nobody recorded."),
)
"""The parts of a task's duration that are no wait for a resource, with a sentence each."""

WAITS = TableSpec(
    "waits",
    "One row per task attempt, aligned with `tasks`: waits with evidence, and the account.",
    (
        Column("duration_ms", "float64", "ms", "Launch to finish."),
        *(Column(name, "float64", "ms", sentence) for name, sentence in ACCOUNT),
        *(Column(f"{r}_ms", "float64", "ms", f"{r.sentence} NaN if unknown.") for r in REQUESTS),
        *(
            Column(
                f"{r}_evidence",
                "int8",
                "",
                f"Evidence of `{r}_ms`: 0 missing, 1 estimated, 2 reported, 3 measured.",
            )
            for r in REQUESTS
        ),
    ),
)

IN_TASK_REQUESTS = tuple(r for r in REQUESTS if r is not Request.SLOT_WAIT)
"""Requests made while a task runs; the slot wait lies before its launch."""


def wait_column(request: Request) -> str:
    """Name of the column that holds a request's wait in ms."""
    return f"{request}_ms"


def evidence_column(request: Request) -> str:
    """Name of the column that holds the evidence code of a request's wait."""
    return f"{request}_evidence"


def measure_waits(tables: Tables) -> pd.DataFrame:
    """Derive every task's waits and account from what its event log reports.

    Parameters
    ----------
    tables : Tables
        ``tasks`` and ``stages`` are used.

    Returns
    -------
    DataFrame of :data:`WAITS`, one row per row of ``tables.tasks``.
    """
    tasks, stages = tables.tasks, tables.stages
    n = len(tasks)
    column = {name: tasks[name].to_numpy(np.float64) for name in _NEEDED}
    duration = np.maximum(_known(column["finish_ms"] - column["launch_ms"]), 0.0)
    waits: dict[str, Floats] = {}
    evidence: dict[Request, Codes] = {r: np.zeros(n, np.int8) for r in REQUESTS}
    waits_of = {r: np.full(n, np.nan) for r in REQUESTS}

    left = _Budget(duration)
    getting_result = left.take(column["getting_result_ms"])
    deserialize_wall = left.take(column["deserialize_ms"])
    deserialize_cpu = _Budget(deserialize_wall).take(column["deserialize_cpu_ms"])
    run = left.take(column["run_ms"])
    result_serialize = left.take(column["result_serialize_ms"])

    cpu_known = ~np.isnan(column["cpu_ms"])
    off_cpu = _Budget(run)
    compute = off_cpu.take(column["cpu_ms"]) + deserialize_cpu
    for request, reported in (
        (Request.SHUFFLE_FETCH, _fetch_wait(column)),
        (None, column["gc_ms"]),
        (Request.IO_WRITE, _write_wait(column)),
        (Request.IO_READ, _read_wait(column)),
    ):
        taken = off_cpu.take(reported)
        if request is None:
            gc = taken
            continue
        known = ~np.isnan(reported)
        waits_of[request] = np.where(known, taken, np.nan)
        evidence[request] = np.where(known, REPORTED, MISSING).astype(np.int8)

    # A task that feeds a Python worker is off the CPU while the worker computes: that is work,
    # not waiting, and a plain log cannot tell the two apart.
    python = _of_stage(stages["python"].to_numpy(bool), tasks, default=False)
    estimable = cpu_known & ~np.isnan(column["run_ms"]) & ~python
    rest = np.where(estimable, off_cpu.left, 0.0)
    waits_of[Request.RUN_QUEUE] = np.where(estimable, rest, np.nan)
    evidence[Request.RUN_QUEUE] = np.where(estimable, ESTIMATED, MISSING).astype(np.int8)

    slot_wait, slot_evidence = _slot_wait(tables, column)
    waits_of[Request.SLOT_WAIT], evidence[Request.SLOT_WAIT] = slot_wait, slot_evidence

    account = {
        "compute_ms": np.where(cpu_known, compute, np.nan),
        "gc_ms": gc,
        "deserialize_ms": deserialize_wall - deserialize_cpu,
        "result_serialize_ms": result_serialize,
        "getting_result_ms": getting_result,
    }
    explained = sum((_known(part) for part in account.values()), np.zeros(n))
    explained += sum((_known(waits_of[r]) for r in IN_TASK_REQUESTS), np.zeros(n))
    waits["duration_ms"] = duration
    waits.update(account)
    waits["unattributed_ms"] = np.maximum(duration - explained, 0.0)
    waits.update({wait_column(r): waits_of[r] for r in REQUESTS})
    return WAITS.frame({**waits, **{evidence_column(r): evidence[r] for r in REQUESTS}})


_NEEDED = (
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
    "remote_bytes",
    "shuffle_write_ms",
    "shuffle_write_bytes",
    "output_bytes",
    "input_bytes",
    "scan_ms",
)


class _Budget:
    """Time that is handed out once: each taker gets at most what is left."""

    def __init__(self, total: Floats) -> None:
        self.left: Floats = total.copy()

    def take(self, wanted: Floats) -> Floats:
        taken: Floats = np.minimum(np.maximum(_known(wanted), 0.0), self.left)
        self.left = self.left - taken
        return taken


def _known(values: Floats) -> Floats:
    """Replace what is unknown by zero, for sums that have checked for it already."""
    known: Floats = np.where(np.isfinite(values), values, 0.0)
    return known


def _fetch_wait(column: dict[str, Floats]) -> Floats:
    return column["fetch_wait_ms"]


def _write_wait(column: dict[str, Floats]) -> Floats:
    """Shuffle write time; unknown for a task that wrote output, whose time nobody records."""
    writes_output = _known(column["output_bytes"]) > 0
    writes_shuffle = _known(column["shuffle_write_ms"]) > 0
    waited: Floats = np.where(writes_output & ~writes_shuffle, np.nan, column["shuffle_write_ms"])
    return waited


def _read_wait(column: dict[str, Floats]) -> Floats:
    """Scan time; zero for a task that read no input; unknown where input has no scan time."""
    reads_nothing = column["input_bytes"] == 0
    waited: Floats = np.where(np.isnan(column["scan_ms"]) & reads_nothing, 0.0, column["scan_ms"])
    return waited


def _of_stage(values: NDArray[np.bool_], tasks: pd.DataFrame, default: bool) -> NDArray[np.bool_]:
    stage = tasks["stage"].to_numpy()
    if len(values) == 0:
        return np.full(len(stage), default)
    found: NDArray[np.bool_] = np.where(stage >= 0, values[np.maximum(stage, 0)], default)
    return found


def _slot_wait(tables: Tables, column: dict[str, Floats]) -> tuple[Floats, Codes]:
    """Launch less stage submission; for a retry, less the end of the attempt before it.

    A speculative copy is asked for at a moment that no event records: its wait is missing.
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
    evidence = np.where(np.isnan(submitted), ESTIMATED, REPORTED)

    # Attempts of one partition lie next to each other in this order, first attempt first.
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


def requests_of(resource: Resource) -> tuple[Request, ...]:
    """All requests for one resource, in the order of :data:`REQUESTS`."""
    return tuple(r for r in REQUESTS if r.resource is resource)


def evidence_name(code: int) -> Evidence:
    """Return the evidence level with this code."""
    return EVIDENCES[code]
