"""Finds the task attempts whose work was wasted, and why each was.

Of the attempts at one partition the first to succeed is of use. All others that ended are wasted:
those that failed or were killed, and those that succeeded again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from iqcar.causes.wasted.partitions import GONE_SLACK_MS
from iqcar.enums import WasteCause
from iqcar.tables import NONE, Column, Tables, TableSpec, texts
from iqcar.tables.arrays import Flags, Floats, Ints, known_or_zero

if TYPE_CHECKING:
    from iqcar.causes.wasted.partitions import Attempts

WASTED_TASKS = TableSpec(
    "wasted_tasks",
    "One row per task attempt whose work was wasted.",
    (
        Column("task", "int32", "row", "The task attempt."),
        Column("query", "int32", "row", "Its query."),
        Column("stage", "int32", "row", "Its stage attempt."),
        Column("cause", "category", "", "Why it was wasted: `WasteCause` in kinds.md."),
        Column("again", "bool", "", "Whether it succeeded, and an earlier attempt had before."),
        Column("executor", "int32", "row", "The executor whose loss or output caused it; or −1."),
        Column("task_ms", "float64", "ms", "Its duration: finish less launch."),
    ),
)

NOTICED_MS = 120_000.0
"""A fetch failed because an executor was lost if that was noticed within this time afterwards:
Spark's default for spark.network.timeout, after which a silent executor is given up."""

CAUSES: tuple[WasteCause, ...] = tuple(WasteCause)
"""Categories of the column ``cause``."""

_OTHER_SUCCEEDED = "another attempt succeeded"
_TAKEN_AWAY = ("preempt", "decommission", "spot interruption")
"""In the reason for the loss of an executor that the cluster took away, in any case of letters."""


def wasted_tasks(tables: Tables, attempts: Attempts) -> pd.DataFrame:
    """List the task attempts whose work was wasted.

    Frame of `WASTED_TASKS`, in the order of tasks. Attempts that still ran when the log was read
    are not among them.

    attempts: from :func:`iqcar.causes.wasted.partitions.find_attempts`.
    """
    tasks = tables.tasks
    rows = np.flatnonzero(attempts.ended & (attempts.first != np.arange(len(tasks))))
    code, executor = _Judge(tables, attempts, rows).judged()
    names = pd.Index([str(cause) for cause in CAUSES], dtype=object)
    return WASTED_TASKS.frame(
        {
            "task": rows,
            "query": tasks["query"].to_numpy()[rows],
            "stage": tasks["stage"].to_numpy()[rows],
            "cause": pd.Categorical.from_codes(code, names),
            "again": attempts.succeeded[rows],
            "executor": executor,
            "task_ms": known_or_zero(attempts.finish[rows] - attempts.launch[rows]),
        }
    )


class _Judge:
    """Decides why each of some attempts was wasted, and which executor is behind it."""

    def __init__(self, tables: Tables, attempts: Attempts, rows: Ints) -> None:
        self._tables, self._attempts, self._rows = tables, attempts, rows
        self._code: Ints = np.zeros(len(rows), np.int64)
        self._behind: Ints = np.full(len(rows), NONE, np.int64)
        failures, tasks = tables.task_failures, tables.tasks
        kind, message = np.full((2, len(tasks)), "", object)
        source = np.full(len(tasks), NONE, np.int64)
        of_task = failures["task"].to_numpy(np.int64)
        kind[of_task] = failures["reason"].astype(object).to_numpy()
        message[of_task] = failures["message"].to_numpy()
        source[of_task] = failures["source"].to_numpy(np.int64)
        nobody = np.flatnonzero((kind == "FetchFailed") & (source < 0))
        source[nobody] = _last_removed(tables, nobody)
        self._kind, self._message, self._source = kind, message[rows], source[rows]
        # The last element is for "no executor": it is never removed.
        removed = tables.executors["removed_ms"].to_numpy(np.float64)
        self._removed: Floats = np.append(removed, np.nan)
        reasons = texts(tables.executors, "removed_reason")
        self._taken: Flags = np.array([*map(_is_taken_away, reasons), False], bool)

    def judged(self) -> tuple[Ints, Ints]:
        """Return positions in ``CAUSES`` and rows of executors, each of shape (n_wasted,)."""
        if len(self._rows):
            self._judge_failures()
            self._judge_repeats()
        return self._code, self._behind

    def _judge_failures(self) -> None:
        """Judge attempts that failed or were killed; all are failed tasks until here."""
        rows, attempts, tasks = self._rows, self._attempts, self._tables.tasks
        kind, first = self._kind[rows], attempts.first[rows]
        executor = tasks["executor"].to_numpy(np.int64)[rows]
        killed = (tasks["status"] == "killed").to_numpy(bool)[rows]
        finish = attempts.finish[rows]
        self._set(killed, WasteCause.NOT_NEEDED)
        self._set(killed & self._of_a_failure(), WasteCause.CANCELLED)
        outdone = np.array([_OTHER_SUCCEEDED in why for why in self._message], bool)
        # Where the other attempt ends the stage, Spark says that the stage is finished.
        outdone |= killed & (first >= 0) & (attempts.finish[first] >= attempts.launch[rows])
        self._set(outdone | ((kind == "TaskCommitDenied") & (first >= 0)), WasteCause.SPECULATION)
        self._set(kind == "FetchFailed", WasteCause.FETCH_FAILED, self._source)
        self._lose((kind == "FetchFailed") & self._gone(self._source, finish), self._source)
        self._lose((kind == "TaskResultLost") & self._gone(executor, finish), executor)
        self._lose(kind == "ExecutorLostFailure", executor)
        taken = np.array([*map(_is_taken_away, self._message)], bool)
        self._set(taken & (kind == "ExecutorLostFailure"), WasteCause.PREEMPTED)

    def _judge_repeats(self) -> None:
        """Judge attempts that succeeded although another one had before."""
        rows, attempts, tasks = self._rows, self._attempts, self._tables.tasks
        before = _success_before(attempts, tasks["task_id"].to_numpy())[rows]
        again = attempts.succeeded[rows]
        holder = tasks["executor"].to_numpy(np.int64)[before]
        launch = attempts.launch[rows]
        self._set(again & self._after_failed_fetch(launch), WasteCause.FETCH_FAILED, holder)
        removed = self._removed[holder] <= launch + GONE_SLACK_MS
        self._lose(again & (removed | (self._kind[before] == "Resubmitted")), holder)
        beside = again & (launch < attempts.finish[before])
        self._set(beside, WasteCause.SPECULATION, np.full(len(rows), NONE))

    def _set(self, where: Flags, cause: WasteCause, behind: Ints | None = None) -> None:
        self._code[where] = CAUSES.index(cause)
        if behind is not None:
            self._behind[where] = behind[where]

    def _lose(self, where: Flags, executor: Ints) -> None:
        """Put attempts down to the loss of executors."""
        self._set(where, WasteCause.EXECUTOR_LOST, executor)
        self._set(where & self._taken[executor], WasteCause.PREEMPTED)

    def _gone(self, executor: Ints, when: Floats) -> Flags:
        gone: Flags = self._removed[executor] <= when + NOTICED_MS
        return gone

    def _of_a_failure(self) -> Flags:
        """Whether the attempt's stage or job failed."""
        stages, jobs = self._tables.stages, self._tables.jobs
        stage = self._tables.tasks["stage"].to_numpy(np.int64)[self._rows]
        failed = np.array([bool(why) for why in texts(stages, "failure_reason")], bool)
        ended = jobs["completion_ms"].notna().to_numpy(bool)
        of_job = np.append(ended & ~jobs["succeeded"].to_numpy(bool), False)
        failed |= of_job[stages["job"].to_numpy(np.int64)]
        of_failure: Flags = np.append(failed, False)[stage]
        return of_failure

    def _after_failed_fetch(self, launch: Floats) -> Flags:
        """Whether a task of the same application had failed to fetch before."""
        app = self._tables.tasks["app"].to_numpy(np.int64)
        since = np.full(len(self._tables.applications) + 1, np.inf)
        failed = np.flatnonzero(self._kind == "FetchFailed")
        np.fmin.at(since, app[failed], self._attempts.finish[failed])
        after: Flags = since[app[self._rows]] <= launch
        return after


def _is_taken_away(why: str) -> bool:
    said = why.lower()
    return any(words in said for words in _TAKEN_AWAY)


def _last_removed(tables: Tables, rows: Ints) -> Ints:
    """Return the executor of each task's application that was removed last before the task ended.

    A fetch that failed because outputs were not even registered names no executor.
    """
    removed = tables.executors["removed_ms"].to_numpy(np.float64)
    of_app = tables.executors["app"].to_numpy(np.int64)
    app = tables.tasks["app"].to_numpy(np.int64)
    finish = tables.tasks["finish_ms"].to_numpy(np.float64)
    gone = np.flatnonzero(np.isfinite(removed))
    gone = gone[np.argsort(removed[gone], kind="stable")]
    found = []
    for row in rows.tolist():
        before = gone[(of_app[gone] == app[row]) & (removed[gone] <= finish[row] + GONE_SLACK_MS)]
        found.append(int(before[-1]) if len(before) else NONE)
    return np.array(found, np.int64)


def _success_before(attempts: Attempts, task_id: Ints) -> Ints:
    """Row of the success of the same partition before each success; −1 where there is none."""
    before = np.full(len(attempts.first), NONE, np.int64)
    repeated = attempts.succeeded & (attempts.first != np.arange(len(before)))
    of_partition = np.zeros(int(attempts.partition.max(initial=0)) + 1, bool)
    of_partition[attempts.partition[repeated]] = True
    rows = np.flatnonzero(attempts.succeeded & of_partition[attempts.partition])
    is_repeat = attempts.first[rows] != rows
    keys = (task_id[rows], attempts.launch[rows], attempts.finish[rows], is_repeat)
    order = rows[np.lexsort((*keys, attempts.partition[rows]))]
    same = np.diff(attempts.partition[order]) == 0
    before[order[1:][same]] = order[:-1][same]
    return before
