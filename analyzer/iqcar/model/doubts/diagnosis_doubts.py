"""Lists reasons to doubt a diagnosis: damaged inputs, lost events, unknown and estimated waits."""

from __future__ import annotations

import numpy as np
import pandas as pd

from iqcar.base.limits import LEAST_DOUBT
from iqcar.enums import InputStatus, Request
from iqcar.model.doubts.record_doubts import outside_doubts, record_doubts
from iqcar.model.waits import ESTIMATED, MISSING, evidence_column
from iqcar.tables import Tables, texts


def find_doubts(tables: Tables, waits: pd.DataFrame) -> tuple[str, ...]:
    """List what limits the trust in a diagnosis.

    One sentence each, the gravest first; empty if there is nothing to doubt.
    """
    doubts = [*_input_doubts(tables), *_lost_task_ends(tables)]
    if len(tables.tasks):
        doubts += [
            *record_doubts(tables, waits),
            *outside_doubts(tables),
            *_unknown_waits(tables, waits),
            *_loneliness(tables),
        ]
    return tuple(doubts)


def _input_doubts(tables: Tables) -> list[str]:
    inputs = tables.inputs
    return [
        f"{path}: {status.replace('_', ' ')}: {message}"
        for path, status, message in zip(
            texts(inputs, "path"), texts(inputs, "status"), texts(inputs, "message"), strict=True
        )
        if status != InputStatus.COMPLETE or message
    ]


def _lost_task_ends(tables: Tables) -> list[str]:
    """Find completed stages with fewer successful tasks than declared: Spark dropped events."""
    stages, tasks = tables.stages, tables.tasks
    good = ((tasks["status"] == "success") & (tasks["stage"] >= 0)).to_numpy()
    distinct = tasks.loc[good, ["stage", "index"]].drop_duplicates()
    seen = np.bincount(distinct["stage"].to_numpy(np.int64), minlength=len(stages))
    whole = stages["completed"].to_numpy(bool) & (stages["failure_reason"] == "").to_numpy(bool)
    missing = np.where(whole, stages["declared_tasks"].to_numpy() - seen, 0)
    lost = int(missing[missing > 0].sum())
    if not lost:
        return []
    return [
        f"{lost} task ends are missing from {int((missing > 0).sum())} completed stages (Spark "
        "drops events when its listener queue is full; raise "
        "spark.scheduler.listenerbus.eventqueue.capacity): waits and blame are too low by that much"
    ]


def _unknown_waits(tables: Tables, waits: pd.DataFrame) -> list[str]:
    tasks = tables.tasks
    duration = waits["duration_ms"].to_numpy()
    total = max(float(duration.sum()), 1.0)

    def unknown(request: Request) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        code: np.ndarray[tuple[int], np.dtype[np.int8]] = waits[evidence_column(request)].to_numpy()
        missing: np.ndarray[tuple[int], np.dtype[np.bool_]] = code == MISSING
        return missing

    doubts = []
    running = (tasks["status"] == "running").to_numpy()
    if running.any():
        doubts.append(
            f"{int(running.sum())} tasks had not ended when the log was read: "
            "what they waited for while running is unknown"
        )
    if len(tables.task_records) == 0 and unknown(Request.EXECUTION_MEMORY).all():
        doubts.append(
            "waits for memory are in no event log: memory is missing here, not zero, "
            "and some of it may hide in the estimated CPU wait"
        )
    stage = np.maximum(tasks["stage"].to_numpy(), 0)
    python = tables.stages["python"].to_numpy(bool)[stage] if len(tables.stages) else running
    measured = np.zeros(len(tasks), bool)
    measured[tables.task_records["task"].to_numpy(np.int64)] = True
    no_cpu = unknown(Request.RUN_QUEUE) & ~running
    on_gpu = tasks["gpu_wait_ms"].notna().to_numpy()
    for who, why in (
        (no_cpu & measured, "the kernel there does not tell it"),
        (
            no_cpu & python & ~measured,
            "its tasks feed Python workers, whose work looks like a wait in a log",
        ),
        (
            no_cpu & on_gpu & ~python & ~measured,
            "its tasks compute on a GPU, whose work looks like a wait in a log",
        ),
        (
            no_cpu & ~on_gpu & ~python & ~measured,
            "the log has no CPU time (Spark before 2.1, or the executor was lost)",
        ),
    ):
        share = float(duration[who].sum()) / total
        if share >= LEAST_DOUBT:
            doubts.append(f"CPU wait is unknown for {share:.0%} of all task time: {why}")
    estimated = (waits[evidence_column(Request.RUN_QUEUE)] == ESTIMATED).to_numpy(bool)
    share = float(duration[estimated].sum()) / total
    if estimated.any() and (not measured.any() or share >= LEAST_DOUBT):
        where = f" for {share:.0%} of all task time" if measured.any() else ""
        doubts.append(
            f"CPU wait is estimated{where} as run time less CPU time and every known wait: "
            "locks, driver calls and unrecorded IO are in it too"
        )
    for request, what in (
        (Request.IO_READ, "reading input: its scans report no scan time"),
        (Request.IO_WRITE, "writing output: Spark records no time for it"),
    ):
        share = float(duration[unknown(request) & ~running].sum()) / total
        if share >= LEAST_DOUBT:
            doubts.append(f"IO wait is unknown for {share:.0%} of all task time spent {what}")
    share = float(duration[unknown(Request.SLOT_WAIT)].sum()) / total
    if share >= LEAST_DOUBT:
        doubts.append(
            f"slot wait is unknown for {share:.0%} of all task time: speculative copies, "
            "or stages whose submission is not in the log"
        )
    return doubts


def _loneliness(tables: Tables) -> list[str]:
    queries = tables.queries[(tables.queries["tasks"] > 0).to_numpy()]
    start = queries["start_ms"].to_numpy()
    order = np.argsort(start, kind="stable")
    ends = np.maximum.accumulate(queries["end_ms"].to_numpy()[order])
    if (start[order][1:] < ends[:-1]).any():
        return []
    return ["no two queries ran at the same time: nothing here can be blamed on another query"]
