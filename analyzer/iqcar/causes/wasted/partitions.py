"""Finds which task attempts did the same work, and which of them was the first to succeed.

A stage that runs again because its shuffle output was lost has the same id if the job that wrote it
still runs, else another one: with adaptive execution each exchange is a job of its own, and what
reads it lists the stage again under a new id.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from iqcar.enums import WasteCause
from iqcar.tables import NONE, Tables
from iqcar.tables.arrays import Flags, Floats, Ints

CAUSES: tuple[WasteCause, ...] = tuple(WasteCause)
"""Categories of the column ``cause``."""
GONE_SLACK_MS = 1_000.0
"""An output counts as lost with its executor if that was removed this long after the launch of the
task that wrote it again: the driver's scheduler knows of a loss before it writes the event."""
MANY = 2**31
"""Bound of partition numbers, stage ids and rows of tables: one int64 holds two of them."""


class Attempts(NamedTuple):
    """The attempts of all tasks, as arrays of shape (n_tasks,).

    work: equal for tasks of stage attempts that do the same work; −1 where the stage is not known.
    partition: equal for attempts at the same part of the same work; never −1.
    first: row of the first attempt of the partition to succeed; −1 if none did.
    launch, finish: ndarray, ms.
    """

    work: Ints
    partition: Ints
    first: Ints
    succeeded: Flags
    ended: Flags
    launch: Floats
    finish: Floats


def lost_times(tables: Tables) -> Floats:
    """Return when the shuffle output of each executor was lost.

    Shape (n_executors,), ms. When it was removed, or a task first failed to fetch from it; NaN if
    neither.
    """
    lost: Floats = tables.executors["removed_ms"].to_numpy(np.float64).copy()
    failures = tables.task_failures
    source = failures["source"].to_numpy(np.int64)
    named = source >= 0
    finish = tables.tasks["finish_ms"].to_numpy(np.float64)
    np.fmin.at(lost, source[named], finish[failures["task"].to_numpy(np.int64)[named]])
    return lost


def find_attempts(tables: Tables) -> Attempts:
    """Group task attempts by what they computed.

    tables: ``tasks``, ``task_failures``, ``stages`` and ``executors`` are used.
    """
    tasks = tables.tasks
    launch, finish = (tasks[name].to_numpy(np.float64) for name in ("launch_ms", "finish_ms"))
    stage, index = (tasks[name].to_numpy(np.int64) for name in ("stage", "index"))
    succeeded = (tasks["status"] == "success").to_numpy(bool)
    ended = succeeded | tasks["status"].isin(("failed", "killed")).to_numpy(bool)
    works = _Works(tables, stage, index, succeeded)
    work, index = np.append(works.work, NONE)[stage], works.index
    known = (work >= 0) & (index >= 0)
    # An attempt at an unknown part of the work is the only one at it.
    own = np.where(known, work * MANY + index, -1 - np.arange(len(tasks)))
    _, partition = np.unique(own, return_inverse=True)
    first = np.full(len(tasks) + 1, NONE, np.int64)
    done = np.flatnonzero(succeeded)
    times = np.bincount(partition[done], minlength=1)
    several = done[times[partition[done]] > 1]
    first[partition[done]] = done
    task_id = tasks["task_id"].to_numpy(np.int64)[several]
    latest_first = several[np.lexsort((task_id, launch[several], finish[several]))][::-1]
    first[partition[latest_first]] = latest_first  # what is assigned last stays
    return Attempts(
        work=work, partition=partition, first=first[partition], succeeded=succeeded, ended=ended,
        launch=launch, finish=finish,
    )  # fmt: skip


class _Works:
    """The work of each stage attempt, and the partition of each task.

    work: (n_stages,) row of the first stage attempt that did the same.
    index: (n_tasks,) partition within the stage.
    """

    def __init__(self, tables: Tables, stage: Ints, index: Ints, succeeded: Flags) -> None:
        stages, self.index, self._succeeded = tables.stages, index.copy(), succeeded
        app, stage_id, rdd = (stages[c].to_numpy(np.int64) for c in ("app", "stage_id", "rdd"))
        _, rows, work = np.unique(app * MANY + stage_id, return_index=True, return_inverse=True)
        self.work: Ints = rows[work]
        written = tables.tasks["shuffle_write_bytes"].to_numpy(np.float64) > 0
        wrote = np.zeros(len(stages), bool)
        wrote[stage[written & (stage >= 0)]] = True
        may = np.flatnonzero(wrote & (rdd >= 0))
        submitted = stages["submission_ms"].to_numpy(np.float64)[may]
        of_rdd: dict[tuple[int, int], list[int]] = {}
        for row in may[np.argsort(submitted, kind="stable")].tolist():
            of_rdd.setdefault((int(app[row]), int(rdd[row])), []).append(row)
        repeated = [r for r in of_rdd.values() if len(set(self.work[r].tolist())) > 1]
        self._planned = stages["declared_tasks"].to_numpy(np.int64)
        partial = np.flatnonzero((self.work != np.arange(len(stages))) & (self._planned >= 0))
        partial = partial[self._planned[partial] < self._planned[self.work[partial]]]
        if not repeated and not len(partial):
            return
        by_end = (tables.tasks[name].to_numpy() for name in ("task_id", "finish_ms"))
        self._order = np.lexsort((*by_end, stage))
        self._sorted = stage[self._order]
        self._executor = tables.tasks["executor"].to_numpy(np.int64)
        self._launch, self._finish = (
            tables.tasks[name].to_numpy(np.float64) for name in ("launch_ms", "finish_ms")
        )
        self._lost = lost_times(tables)
        for row in partial.tolist():
            self._name_partitions(row, may_be_lost=bool(wrote[row]))
        for stages_of_rdd in repeated:
            self._link(stages_of_rdd)

    def _name_partitions(self, row: int, may_be_lost: bool) -> None:
        """Tell which partitions a further attempt of a stage ran, where the log does not say.

        Before Spark 3.3 tasks of such an attempt are numbered from 0. They are those that were
        missing, in order.
        """
        mine = self._tasks_of(row)
        missing = set(range(int(self._planned[self.work[row]])))
        begun = float(self._launch[mine].min(initial=np.inf))
        for earlier in np.flatnonzero(self.work[:row] == self.work[row]).tolist():
            tasks = self._tasks_of(earlier)
            done = tasks[self._succeeded[tasks] & (self._finish[tasks] <= begun)]
            if may_be_lost:
                lost = np.append(self._lost, np.nan)[self._executor[done]]
                done = done[~(lost <= begun + GONE_SLACK_MS)]
            missing -= set(self.index[done].tolist())
        number = self.index[mine]
        if len(missing) == self._planned[row] and number.max(initial=0) < len(missing):
            self.index[mine] = np.array(sorted(missing), np.int64)[np.maximum(number, 0)]

    def _link(self, rows: list[int]) -> None:
        """Join stages that wrote a lost shuffle output again with those that wrote it first.

        Where all of it is to be written again, it has to be lost: a job that writes another shuffle
        of the same RDD runs all partitions, too.
        """
        first = rows[0]
        holders: dict[int, int] = {}
        for row in rows:
            mine = self._tasks_of(row)
            if row == self.work[row] != self.work[first]:
                fewer = 0 <= self._planned[row] < self._planned[first]
                if fewer or self._all_lost(mine, holders):
                    self.work[self.work == row] = self.work[first]
            done = mine[self._succeeded[mine]]
            parts, on = self.index[done].tolist(), self._executor[done].tolist()
            holders.update(zip(parts, on, strict=True))

    def _tasks_of(self, stage: int) -> Ints:
        """Rows of a stage's tasks, in the order in which they ended."""
        start, end = np.searchsorted(self._sorted, [stage, stage + 1])
        return self._order[start:end]

    def _all_lost(self, tasks: Ints, holders: dict[int, int]) -> bool:
        """Whether the outputs of the same partitions were on executors that had been lost."""
        until = float(self._launch[tasks].min(initial=np.inf)) + GONE_SLACK_MS
        on = [holders.get(part, NONE) for part in self.index[tasks].tolist()]
        return bool(on) and all(one >= 0 and self._lost[one] <= until for one in on)
