"""Sums wasted work by query and cause: task time, and elapsed time estimated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from iqcar.causes.wasted.partitions import find_attempts
from iqcar.causes.wasted.waste_causes import CAUSES, wasted_tasks
from iqcar.causes.wasted.waste_delays import waste_delays
from iqcar.tables import NONE, Column, Tables, TableSpec, texts
from iqcar.tables.arrays import Floats, Ints, known_or_zero, sum_by

WASTED_WORK = TableSpec(
    "wasted_work",
    "One row per query and cause of wasted work.",
    (
        Column("query", "int32", "row", "The query; −1 for tasks of no query."),
        Column("cause", "category", "", "Why work was wasted: `WasteCause` in kinds.md."),
        Column("attempts", "int64", "count", "Task attempts whose work was wasted."),
        Column("again", "int64", "count", "Those among them that did again what had been done."),
        Column("task_ms", "float64", "ms", "Σ of their durations."),
        Column("elapsed_ms", "float64", "ms", "How much later the query ended; estimated."),
        Column("executors", "int64", "count", "Executors whose loss or output caused it."),
        Column("executor", "int32", "row", "The one among them that cost most task time; or −1."),
        Column("message", "str", "", "What Spark said of what cost most task time; or empty."),
    ),
)


@dataclass(frozen=True)
class WastedWork:
    """Work whose result was not used, or that had been done before.

    tasks: frame of WASTED_TASKS.
    by_query: frame of WASTED_WORK, in the order of queries; within one, what cost most elapsed time
        first.
    task_ms: task time of all attempts that ended, wasted or not.
    """

    tasks: pd.DataFrame
    by_query: pd.DataFrame
    task_ms: float

    @property
    def share(self) -> float:
        """Share of all task time that was wasted."""
        return float(self.tasks["task_ms"].sum()) / self.task_ms if self.task_ms > 0 else 0.0

    def of_queries(self, n: int) -> dict[str, Floats]:
        """Sum over causes: ``wasted_task_ms`` and ``wasted_elapsed_ms`` of shape (n_queries,)."""
        query = self.by_query["query"].to_numpy(np.int64)
        has = query >= 0
        return {
            f"wasted_{name}": sum_by(query[has], self.by_query[name].to_numpy(np.float64)[has], n)
            for name in ("task_ms", "elapsed_ms")
        }


def find_wasted_work(tables: Tables) -> WastedWork:
    """Find the work that was wasted.

    tables: their queries must be identified.
    """
    attempts = find_attempts(tables)
    tasks = wasted_tasks(tables, attempts)
    delays = waste_delays(tables, attempts, tasks)
    lasted = known_or_zero(attempts.finish - attempts.launch)
    return WastedWork(tasks, _sums(tables, tasks, delays), float(lasted[attempts.ended].sum()))


def _sums(tables: Tables, tasks: pd.DataFrame, delays: Floats) -> pd.DataFrame:
    query, executor = (tasks[name].to_numpy(np.int64) for name in ("query", "executor"))
    code = tasks["cause"].cat.codes.to_numpy(np.int64)
    keys, group = np.unique((query - NONE) * len(CAUSES) + code, return_inverse=True)
    of_query, of_cause = keys // len(CAUSES) + NONE, keys % len(CAUSES)
    n, task_ms = len(keys), tasks["task_ms"].to_numpy(np.float64)
    said, messages = pd.factorize(_messages(tables, tasks))
    message, _ = _costliest(group, np.where(messages[said] == "", NONE, said), task_ms, n)
    behind, executors = _costliest(group, executor, task_ms, n)
    total = sum_by(group, task_ms, n)
    # The last row is for tasks of no query.
    elapsed = np.vstack([delays, np.zeros(len(CAUSES))])[of_query, of_cause]
    order = np.lexsort((-total, -elapsed, of_query))
    columns = {
        "query": of_query,
        "cause": np.array([str(cause) for cause in CAUSES], object)[of_cause],
        "attempts": np.bincount(group, minlength=n),
        "again": sum_by(group, tasks["again"].to_numpy(np.float64), n),
        "task_ms": total,
        "elapsed_ms": elapsed,
        "executors": executors,
        "executor": behind,
        "message": np.append(messages, "")[message],
    }
    return WASTED_WORK.frame({name: values[order] for name, values in columns.items()})


def _costliest(group: Ints, what: Ints, task_ms: Floats, n: int) -> tuple[Ints, Ints]:
    """Return what cost each group most task time, −1 if nothing, and how many there were."""
    known = np.flatnonzero(what >= 0)
    most = int(what.max(initial=0)) + 1
    pairs, pair = np.unique(group[known] * most + what[known], return_inverse=True)
    cost = sum_by(pair, task_ms[known], len(pairs))
    of_group = pairs // most
    best = np.full(n, NONE, np.int64)
    order = np.argsort(cost, kind="stable")
    best[of_group[order]] = pairs[order] % most  # what is assigned last stays
    return best, np.bincount(of_group, minlength=n)


def _messages(tables: Tables, tasks: pd.DataFrame) -> NDArray[Any]:
    """What Spark said of each wasted attempt: of the executor behind it, else of the attempt."""
    failures = tables.task_failures
    message = np.full(len(tables.tasks), "", object)
    message[failures["task"].to_numpy(np.int64)] = failures["message"].to_numpy()
    own = message[tasks["task"].to_numpy(np.int64)]
    reasons = np.array([*texts(tables.executors, "removed_reason"), ""], object)
    of_executor = reasons[tasks["executor"].to_numpy(np.int64)]
    said: NDArray[Any] = np.where(of_executor != "", of_executor, own)
    return said
