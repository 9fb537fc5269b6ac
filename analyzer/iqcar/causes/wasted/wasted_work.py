"""Sums wasted work by query and cause: task time, and elapsed time estimated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from iqcar.causes.wasted.waste_delays import (
    CAUSES,
    GONE_SLACK_MS,
    Attempts,
    find_attempts,
    waste_delays,
)
from iqcar.enums import WasteCause
from iqcar.tables import NONE, Column, Tables, TableSpec, texts
from iqcar.tables.arrays import Flags, Floats, Ints, known_or_zero, sum_by

OFFERED_MS = 3_000.0
"""A freed slot is offered at once, but may stay empty for Spark's default of spark.locality.wait:
a task that was launched later got its slot otherwise."""


def slot_takers(tables: Tables, killed: Ints) -> Ints:
    """Return for each killed task the task that was launched in its slot then; −1 if none was.

    The log names executors, not slots. So of the launches on the executor after the kill, of other
    stages, each goes to one killed task, in the order of time; shape (n_killed,).

    killed: rows of tasks that the scheduler killed to give their slots away.
    """
    taker = np.full(len(killed), NONE, np.int64)
    tasks = tables.tasks
    executor, stage = (tasks[name].to_numpy(np.int64) for name in ("executor", "stage"))
    launch, finish = (tasks[name].to_numpy(np.float64) for name in ("launch_ms", "finish_ms"))
    order = np.argsort(finish[killed], kind="stable")
    for host in np.unique(executor[killed[executor[killed] >= 0]]).tolist():
        here = np.flatnonzero((executor == host) & np.isfinite(launch))
        here = here[np.argsort(launch[here], kind="stable")]
        when = launch[here]
        given = np.zeros(len(here), bool)
        for place in order[executor[killed[order]] == host].tolist():
            row = killed[place]
            first, last = np.searchsorted(when, (finish[row], finish[row] + OFFERED_MS))
            free = ~given[first:last] & (stage[here[first:last]] != stage[row])
            if free.any():
                chosen = first + int(free.argmax())
                given[chosen] = True
                taker[place] = here[chosen]
    return taker


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
        Column("taker", "int32", "row", "The task that got its slot, where that was taken; or −1."),
    ),
)

NOTICED_MS = 120_000.0
"""A fetch failed because an executor was lost if that was noticed within this time afterwards:
Spark's default for spark.network.timeout, after which a silent executor is given up."""


_OTHER_SUCCEEDED = "another attempt succeeded"
_SLOT_TAKEN = "preempt"
"""In the reason for which Databricks' scheduler kills a task for the fair share of others."""
_TAKEN_AWAY = ("preempt", "pre-empt", "decommission", "spot interruption", "exit status: -102.")
"""In the reason for the loss of an executor that the cluster took away, in any case of letters."""


def wasted_tasks(tables: Tables, attempts: Attempts) -> pd.DataFrame:
    """List the task attempts whose work was wasted.

    Frame of `WASTED_TASKS`, in the order of tasks. Attempts that still ran when the log was read
    are not among them.

    attempts: from :func:`iqcar.causes.wasted.waste_delays.find_attempts`.
    """
    tasks = tables.tasks
    rows = np.flatnonzero(attempts.ended & (attempts.first != np.arange(len(tasks))))
    code, executor = _CauseFinder(tables, attempts, rows).causes()
    names = pd.Index([str(cause) for cause in CAUSES], dtype=object)
    taken = code == CAUSES.index(WasteCause.SLOT_TAKEN)
    taker = np.full(len(rows), NONE, np.int64)
    taker[taken] = slot_takers(tables, rows[taken])
    return WASTED_TASKS.frame(
        {
            "task": rows,
            "query": tasks["query"].to_numpy()[rows],
            "stage": tasks["stage"].to_numpy()[rows],
            "cause": pd.Categorical.from_codes(code, names),
            "again": attempts.succeeded[rows],
            "executor": executor,
            "task_ms": known_or_zero(attempts.finish[rows] - attempts.launch[rows]),
            "taker": taker,
        }
    )


class _CauseFinder:
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

    def causes(self) -> tuple[Ints, Ints]:
        """Return positions in ``CAUSES`` and rows of executors, each of shape (n_wasted,)."""
        if len(self._rows):
            self._explain_failures()
            self._explain_repeats()
        return self._code, self._behind

    def _explain_failures(self) -> None:
        """Explain attempts that failed or were killed; all are failed tasks until here."""
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
        for_others = np.array([_SLOT_TAKEN in why.lower() for why in self._message], bool)
        self._set(for_others & (kind == "TaskKilled"), WasteCause.SLOT_TAKEN)

    def _explain_repeats(self) -> None:
        """Explain attempts that succeeded although another one had before."""
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
        return self._removed[executor] <= when + NOTICED_MS

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
        Column("taken", "int64", "count", "Attempts whose slot a known query's task got."),
        Column("taker", "int32", "row", "The query that got most of those slots' time; or −1."),
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
    of_task = np.append(tables.tasks["query"].to_numpy(np.int64), NONE)
    taker = of_task[tasks["taker"].to_numpy(np.int64)]
    got_most, _ = _costliest(group, taker, task_ms, n)
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
        "taken": np.bincount(group[taker >= 0], minlength=n),
        "taker": got_most,
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
