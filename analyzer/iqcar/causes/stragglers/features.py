"""Computes the features of every task: metrics, measured waits, and samples of its host."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from iqcar.causes.stragglers.feature_list import FEATURE_LIST, FEATURES, Feature
from iqcar.causes.stragglers.host_features import (
    clock_doubts,
    clock_offsets,
    host_columns,
    sample_doubts,
    untold_tasks,
)
from iqcar.causes.stragglers.straggler_result import Labels, labels_of
from iqcar.enums import Request, WaitClass
from iqcar.model.waits.columns import ESTIMATED, MEASURED, evidence_column, wait_column
from iqcar.tables import Tables
from iqcar.tables.arrays import Flags, Floats, Ints, sum_known

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

    frame: the identity columns of :data:`iqcar.causes.stragglers.feature_list.FEATURES`, and one
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
