"""Estimates how much later each query ended because of wasted work.

A stage would have ended earlier without it for two reasons. A partition whose first attempt failed
could have been done by then: it ends as late as its first launch and the duration of the attempt
that succeeded say. And slots that wasted attempts held would have been free for other tasks of the
stage: a task launched when a tenth of the stage's slot time so far need not have been used could
have been launched a tenth earlier. Where nothing of a stage runs after an executor was lost, until
another one is there, tasks launched later would have been launched so much earlier. The stage ends
when its last partition does.

All of it is counted on the clock of the stage, which stands still while none of its attempts runs,
and scaled to the stage's share of its query's elapsed time: while it waits for another stage to run
again, the time counts there. So no time counts twice, and a query's sum is at most its duration.

A stage that runs again because its shuffle output was lost has the same id if the job that wrote it
still runs, else another one: with adaptive execution each exchange is a job of its own, and what
reads it lists the stage again under a new id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.causes.blame.demand_weights import elapsed_shares
from iqcar.enums import WasteCause
from iqcar.tables import NONE, Tables
from iqcar.tables.arrays import (
    Flags,
    Floats,
    Ints,
    by_group_and_time,
    running_total,
    share_of,
    sum_by,
)

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


PASSIVE = (WasteCause.SPECULATION, WasteCause.CANCELLED, WasteCause.NOT_NEEDED)
"""Causes of attempts that nobody waited for: all that they can cost is their slots."""
OF_EXECUTORS = (WasteCause.EXECUTOR_LOST, WasteCause.PREEMPTED)
"""Causes that take slots away: nothing of a stage may run until there is another executor."""


class _Members(NamedTuple):
    """The attempts of stages with wasted work, on the clocks of the stages, one after the other.

    group: (n_members,) position of query and work.
    part: (n_members,) position of query and partition.
    cause: (n_members,) position in ``CAUSES``; −1 for the first success of its partition.
    launch, finish: (n_members,), ms.
    elsewhere, speculative: (n_members,) whether the partition had succeeded first in another query;
        whether it is a copy, which was launched when its original seemed slow, not when a slot was
        free.
    base, length: (n_groups,), ms; where the clock of each group starts, and how long it runs.
    """

    group: Ints
    part: Ints
    cause: Ints
    launch: Floats
    finish: Floats
    elsewhere: Flags
    speculative: Flags
    base: Floats
    length: Floats


def waste_delays(tables: Tables, attempts: Attempts, wasted: pd.DataFrame) -> Floats:
    """Estimate what wasted work cost each query.

    Shape (n_queries, len(CAUSES)), ms. Elapsed time; the sum of a row is at most the query's
    duration.

    wasted: frame of WASTED_TASKS.
    """
    elapsed = np.zeros((len(tables.queries), len(CAUSES)))
    task = wasted["task"].to_numpy(np.int64)
    query = tables.tasks["query"].to_numpy(np.int64)
    known = (query[task] >= 0) & (attempts.work[task] >= 0)
    if not known.any():
        return elapsed
    key = np.where((query >= 0) & (attempts.work >= 0), query * MANY + attempts.work, -1)
    groups = np.unique(key[task[known]])
    cause = np.full(len(key), -1, np.int64)
    cause[task] = wasted["cause"].cat.codes.to_numpy(np.int64)
    group = np.searchsorted(groups, key)
    usable = attempts.ended & np.isfinite(attempts.launch + attempts.finish)
    rows = np.flatnonzero(usable & (np.append(groups, -2)[group] == key))
    stage = tables.tasks["stage"].to_numpy(np.int64)[rows]
    stages, first = np.unique(stage, return_index=True)
    of_stage = group[rows][first]
    budget = sum_by(of_stage, elapsed_shares(tables)[stages], len(groups))
    members = _on_clocks(
        tables, attempts, rows, group=group[rows], cause=cause, stages=stages,
        group_of_stage=of_stage, n=len(groups),
    )  # fmt: skip
    delays = _delays_by_cause(members, len(groups)) * share_of(budget, members.length)[:, None]
    np.add.at(elapsed, groups // MANY, delays)
    return elapsed


def _on_clocks(
    tables: Tables,
    attempts: Attempts,
    rows: Ints,
    group: Ints,
    cause: Ints,
    stages: Ints,
    group_of_stage: Ints,
    n: int,
) -> _Members:
    """Read the clock of each group at the launches and finishes of its attempts."""
    start, end = _active(tables, stages)
    runs = start < end
    start, end, of_stage = start[runs], end[runs], group_of_stage[runs]
    whose = np.concatenate([of_stage, of_stage, group, group])
    when = np.concatenate([start, end, attempts.launch[rows], attempts.finish[rows]])
    changes = np.concatenate([np.ones(len(start)), -np.ones(len(end)), np.zeros(2 * len(rows))])
    order = by_group_and_time(whose, when)
    step = np.diff(when[order], append=0.0)
    last = np.diff(whose[order], append=-1) != 0
    step[last | (np.cumsum(changes[order]) < 0.5)] = 0.0
    clock = np.empty(len(order))
    clock[order] = running_total(step)
    base, top = np.full(n, np.inf), np.zeros(n)
    np.minimum.at(base, whose, clock)
    np.maximum.at(top, whose, clock)
    base = np.minimum(base, top)
    # Each clock gets twice its room: a task may be expected to end after its stage did.
    launch, finish = clock[2 * len(start) :].reshape(2, -1) + base[group]
    _, part = np.unique(group * MANY + attempts.partition[rows], return_inverse=True)
    own = cause[rows] < 0
    here = np.zeros(int(part.max(initial=-1)) + 1, bool)
    here[part[own]] = True
    elsewhere = (attempts.first[rows] >= 0) & ~here[part]
    copy = tables.tasks["speculative"].to_numpy(bool)[rows]
    length = top - base
    return _Members(
        group=group, part=part, cause=cause[rows], launch=launch, finish=finish,
        elsewhere=elsewhere, speculative=copy, base=2 * base, length=length,
    )  # fmt: skip


def _active(tables: Tables, stages: Ints) -> tuple[Floats, Floats]:
    """Return from when until when stages ran, within their queries; as their elapsed shares say."""
    frame = tables.stages.iloc[stages]
    query = frame["query"].to_numpy(np.int64)
    start, first, end = (
        frame[name].to_numpy(np.float64)
        for name in ("submission_ms", "first_launch_ms", "completion_ms")
    )
    start = np.where(np.isnan(start), first, start)
    limits = tables.queries.iloc[np.maximum(query, 0)]
    start = np.fmax(start, limits["start_ms"].to_numpy(np.float64))
    end = np.fmin(end, limits["end_ms"].to_numpy(np.float64))
    return start, end


def _delays_by_cause(members: _Members, n: int) -> Floats:
    """Divide the delay of each group among its causes: ndarray of shape (n_groups, n_causes), ms.

    What all causes cost together is divided in the proportion of what each would cost alone.
    """
    wasted = members.cause >= 0
    together = _delay(members, wasted, n)
    alone = np.zeros((n, len(CAUSES)))
    task_ms = np.zeros((n, len(CAUSES)))
    lasted = members.finish - members.launch
    np.add.at(task_ms, (members.group[wasted], members.cause[wasted]), lasted[wasted])
    for code in np.unique(members.cause[wasted]).tolist():
        alone[:, code] = _delay(members, members.cause == code, n)
    shares = np.where(alone.sum(axis=1, keepdims=True) > 0, alone, task_ms)
    return share_of(shares, shares.sum(axis=1, keepdims=True)) * together[:, None]


def _delay(members: _Members, without: Flags, n: int) -> Floats:
    """How much earlier each group would have ended without some of its wasted attempts.

    Shape (n_groups,), ms.
    """
    group, part, launch, finish = members.group, members.part, members.launch, members.finish
    passive = _is_one_of(members.cause, PASSIVE)
    useful, waited_for = members.cause < 0, ~passive
    ended = _latest(group[waited_for], finish[waited_for], n, members.base)

    # Partitions that are done once: from their first launch, as long as their success took.
    parts = int(part.max(initial=-1)) + 1
    begun, took = np.full(parts, np.inf), np.full(parts, np.nan)
    took[part[useful]] = (finish - launch)[useful]
    retried = without & waited_for & ~members.elsewhere
    counts = useful | retried
    np.minimum.at(begun, part[counts], launch[counts])
    owner = np.zeros(parts, np.int64)
    owner[part] = group
    failed = np.isfinite(begun) & np.isnan(took)
    if failed.any():
        took[failed] = _expected(members, useful, retried, part=part, owner=owner, n=n)[failed]
    done = np.flatnonzero(np.isfinite(begun))
    # What was done later than at first frees its slot there, and needs one at first.
    late = useful & (begun[part] < launch)
    first = np.union1d(part[late], np.flatnonzero(failed))
    saved = [_Held(launch[without], finish[without]), _Held(launch[late], finish[late])]
    pauses = _pauses(members, without & _is_one_of(members.cause, OF_EXECUTORS))
    earlier = _Earlier(members, saved, _Held(begun[first], begun[first] + took[first]), pauses)
    chosen = np.zeros(parts, bool)
    chosen[part[useful & members.speculative & (begun[part] == launch)]] = True
    would_begin = np.where(chosen[done], begun[done], earlier(owner[done], begun[done]))
    would_end = would_begin + took[done]

    # Wasted attempts of other causes stay.
    stay = np.flatnonzero(~useful & ~without & waited_for)
    would_stay = earlier(group[stay], launch[stay]) + (finish - launch)[stay]
    would = _latest(
        np.concatenate([owner[done], group[stay]]),
        np.concatenate([would_end, would_stay]),
        n,
        members.base,
    )
    return np.maximum(ended - would, 0.0)


def _is_one_of(cause: Ints, causes: Sequence[WasteCause]) -> Flags:
    return np.isin(cause, [CAUSES.index(one) for one in causes])


def _pauses(members: _Members, lost: Flags) -> _Held:
    """Times in which nothing of a group runs, after one of some attempts ended."""
    order = np.argsort(members.launch, kind="stable")
    launches, finishes = members.launch[order], np.sort(members.finish)
    since, row = np.unique(members.finish[lost], return_index=True)
    after = np.searchsorted(launches, since, side="right")
    none_runs = after == np.searchsorted(finishes, since, side="right")
    whose = np.append(members.group[order], -1)[after]
    pause = none_runs & (whose == members.group[lost][row])
    return _Held(since[pause], launches[after[pause]])


def _latest(group: Ints, when: Floats, n: int, least: Floats) -> Floats:
    latest: Floats = least.copy()
    np.maximum.at(latest, group, when)
    return latest


def _expected(
    members: _Members, useful: Flags, retried: Flags, part: Ints, owner: Ints, n: int
) -> Floats:
    """Expected duration of partitions that never succeeded: the median of their stage's successes.

    Where nothing succeeded, that of the partition's first attempt. Shape (n_parts,), ms.
    """
    lasted = members.finish - members.launch
    median = np.full(n, np.nan)
    rows = np.flatnonzero(useful)
    rows = rows[np.lexsort((lasted[rows], members.group[rows]))]
    if len(rows):
        of_group, start, count = np.unique(
            members.group[rows], return_index=True, return_counts=True
        )
        low, high = lasted[rows][start + (count - 1) // 2], lasted[rows][start + count // 2]
        median[of_group] = (low + high) / 2
    own = np.full(len(owner), np.nan)
    tries = np.flatnonzero(retried)
    tries = tries[np.lexsort((lasted[tries], -members.launch[tries]))]
    own[part[tries]] = lasted[tries]  # what is assigned last stays: the first attempt
    return np.where(np.isnan(median[owner]), own, median[owner])


class _Earlier:
    """When tasks could have been launched, had slots been used for other attempts.

    saved: slot time that would not have been used.
    needed: slot time that would have been used instead.
    pauses: times that would not have been waited.
    """

    def __init__(
        self, members: _Members, saved: Sequence[_Held], needed: _Held, pauses: _Held
    ) -> None:
        self._saved, self._needed, self._pauses = saved, needed, pauses
        self._begin = np.full(len(members.base), np.inf)
        np.minimum.at(self._begin, members.group, members.launch)
        self._all = _Held(members.launch, members.finish)

    def __call__(self, group: Ints, when: Floats) -> Floats:
        """Return the times, given those of the launches: ndarray of shape (n,), ms."""
        begin = self._begin[group]
        held = self._all(when) - self._all(begin)
        free = sum((one(when) - one(begin) for one in self._saved), np.zeros(len(when)))
        free -= self._needed(when) - self._needed(begin)
        paused = self._pauses(when) - self._pauses(begin)
        ran = when - begin - paused
        earlier: Floats = begin + ran * (1.0 - np.clip(share_of(free, held), 0.0, 1.0))
        return earlier


class _Held:
    """Slot time held until a time, by attempts on an axis of time."""

    def __init__(self, launch: Floats, finish: Floats) -> None:
        when = np.concatenate([[0.0], launch, finish])
        order = np.argsort(when, kind="stable")
        level = np.cumsum(
            np.concatenate([[0.0], np.ones(len(launch)), -np.ones(len(finish))])[order]
        )
        self._when = when[order]
        self._held = running_total(level * np.diff(self._when, append=self._when[-1]))

    def __call__(self, when: Floats) -> Floats:
        """Return the slot time held until each time: ndarray of shape (n,), ms."""
        return np.interp(when, self._when, self._held)
