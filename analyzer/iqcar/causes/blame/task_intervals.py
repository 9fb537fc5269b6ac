"""Divides tasks into pieces by their recorded profiles, so that blame uses the times of waits.

Each interval of a profile that the plugin recorded is a piece; the pieces before and after the
profile have neither waits nor use. A task without a profile is one piece. The waits, CPU time and
bytes of a task are divided among its pieces by the profile, or by time where the profile has no
such series. The sums of eq. 6 over pairs of tasks become sums over pairs of pieces: the integral of
eq. 5 at the profile's resolution.

The number of slots changes with executors, so a second of waiting for one of 4 slots differs from
one for one of 400. The *slot clock* of an application advances by ``dt / N(t)``, where N is its
number of slots: a task that holds ``k`` slots for an overlap ``o`` on that clock uses ``k · o`` of
the capacity.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from iqcar.causes.blame.sweep import SOURCE_ENDS, SOURCE_STARTS, TARGET_ENDS, TARGET_STARTS
from iqcar.enums import Domain, Request
from iqcar.model.waits.columns import launch_wait, wait_column
from iqcar.model.waits.executor_shortage import NO_SLOTS, Shortage, find_shortages
from iqcar.model.waits.input_moved import input_moved
from iqcar.tables import LAST_PLAUSIBLE_MS, Tables
from iqcar.tables.arrays import (
    Floats,
    Ints,
    Schedule,
    by_group,
    by_time,
    known_or_zero,
    most_at_once,
    positive_or_zero,
    running_total,
    schedule,
    share_of,
    sum_by,
)


class SlotTimes(NamedTuple):
    """Slot clock readings of each task; NaN where its times or application are unknown.

    asked, launched, finished: (n_tasks,) readings when the task started to wait, was launched, and
        finished.
    no_executor_ms: (n_tasks,), ms; time it waited while its application had no slots and no other
        one held them.
    held: (n_tasks,) slots it held while it ran.
    unknown_cores: number of executors that ran tasks but whose cores are not in the log.
    """

    asked: Floats
    launched: Floats
    finished: Floats
    no_executor_ms: Floats
    held: Floats
    unknown_cores: int


def slot_times(
    tables: Tables,
    asked: Floats,
    launch: Floats,
    finish: Floats,
    order: Ints,
    shortages: Mapping[int, Shortage],
) -> SlotTimes:
    """Compute the slot clock readings of every task.

    tables: ``tasks``, ``executors`` and ``applications`` are used.
    asked, launch, finish: (n_tasks,), ms; times since the epoch; a task with a time that is not
        finite is left out.
    order: (3 · n_tasks,) :func:`iqcar.tables.arrays.by_time` of these three.
    shortages: mapping of application row to Shortage; when other applications held the slots that
        it lacked.
    """
    tasks, n = tables.tasks, len(tables.tasks)
    app = tasks["app"].to_numpy(np.int64)
    usable = (app >= 0) & np.isfinite(asked + launch + finish)
    rows = np.flatnonzero(usable)
    held = np.ones(n)
    if len(tables.applications):
        cpus = tables.applications["task_cpus"].to_numpy(np.float64)
        held[rows] = np.where(cpus > 0, cpus, 1.0)[app[rows]]
    blank = np.full(n, np.nan)
    if len(rows) == 0:
        return SlotTimes(
            asked=blank, launched=blank, finished=blank, no_executor_ms=np.zeros(n), held=held,
            unknown_cores=0,
        )  # fmt: skip

    offers = _offers(tables, rows, held, asked=asked, launch=launch, finish=finish)
    if len(rows) < n:
        place = np.cumsum(usable) - 1
        order = order[usable[order % n]]
        order = order // n * len(rows) + place[order % n]
    times = asked[rows], launch[rows], finish[rows]
    clock, closed = _clocks(app[rows], times, held[rows], order, offers)
    k = len(rows)
    columns = []
    for part in range(3):
        column = blank.copy()
        column[rows] = clock[part * k : (part + 1) * k]
        columns.append(column)
    no_executor = np.zeros(n)
    no_executor[rows] = np.maximum(closed[k : 2 * k] - closed[:k], 0.0)
    for victim, shortage in shortages.items():
        mine = rows[app[rows] == victim]
        held_elsewhere = shortage.short * (shortage.own < NO_SLOTS)
        elsewhere = shortage.during(held_elsewhere, asked[mine], launch[mine])
        no_executor[mine] = np.maximum(no_executor[mine] - elsewhere, 0.0)
    return SlotTimes(
        asked=columns[0], launched=columns[1], finished=columns[2], no_executor_ms=no_executor,
        held=held, unknown_cores=offers.unknown,
    )  # fmt: skip


def _clocks(
    app: Ints, times: tuple[Floats, Floats, Floats], held: Floats, order: Ints, offers: _Offers
) -> tuple[Floats, Floats]:
    """Read the slot clock, and the time without slots, at three times of each task and at changes.

    order: (3 · n_tasks,) :func:`iqcar.tables.arrays.by_time` of the times.
    """
    k, zero = len(app), np.zeros(len(app))
    group = np.concatenate([app] * 3 + [offers.app] * 2)
    when = np.concatenate([*times, offers.added, offers.removed])
    taken = np.concatenate([zero, held, -held, np.zeros(2 * len(offers.app))])
    offered = np.concatenate([zero, zero, zero, offers.cores, -offers.cores])
    changes = by_time(offers.added, offers.removed)
    moment = when[3 * k + changes]
    order = np.insert(order, np.searchsorted(when[order], moment, side="right"), 3 * k + changes)
    order = order[by_group(group[order])]
    moments, of_app = when[order], group[order]
    # A running task holds a slot even where its executor's event is missing or late.
    slots = np.maximum(np.cumsum(offered[order]), np.cumsum(taken[order]))
    open_ = slots > NO_SLOTS
    rates = open_ / np.where(open_, slots, 1.0), ~open_
    clock, closed = np.empty((2, len(order)))
    # Every clock starts anew: its readings are as exact as if there were no other application.
    for at, after in itertools.pairwise(np.flatnonzero(np.diff(of_app, prepend=-1, append=-1))):
        mine = order[at:after]
        step = np.diff(moments[at:after], append=moments[after - 1])
        for reading, rate in zip((clock, closed), rates, strict=True):
            reading[mine] = running_total(step * rate[at:after])
    return clock, closed


class _Offers(NamedTuple):
    app: Ints
    cores: Floats
    added: Floats
    removed: Floats
    unknown: int


def _offers(
    tables: Tables, rows: Ints, held: Floats, asked: Floats, launch: Floats, finish: Floats
) -> _Offers:
    """Return the slots of each executor, and the times from and until which it offers them."""
    executors = tables.executors
    if len(executors) == 0:
        nothing = np.zeros(0)
        return _Offers(np.zeros(0, np.int64), nothing, nothing, nothing, 0)
    cores = executors["cores"].to_numpy(np.float64).copy()
    executor = tables.tasks["executor"].to_numpy(np.int64)[rows]
    unknown = ~(cores > 0)
    blind = np.flatnonzero(unknown)
    seen = rows[(executor >= 0) & unknown[np.maximum(executor, 0)]]
    if len(seen):
        cores[unknown] = 0.0
        most = most_at_once(
            tables.tasks["executor"].to_numpy(np.int64)[seen],
            launch[seen],
            finish[seen],
            held[seen],
            len(cores),
        )
        cores[blind] = most[blind]
    cores = np.where(cores > 0, cores, 0.0)
    added = executors["added_ms"].to_numpy(np.float64)
    removed = executors["removed_ms"].to_numpy(np.float64)
    # An executor without recorded addition or removal counts as present throughout.
    added = np.where(np.isfinite(added), added, asked[rows].min())
    removed = np.where(np.isfinite(removed), removed, max(finish[rows].max(), added.max()))
    app = executors["app"].to_numpy(np.int64)
    # A clock that ran long before the first task asked would only round the readings.
    first = np.full(len(tables.applications) + 1, np.inf)
    np.minimum.at(first, tables.tasks["app"].to_numpy(np.int64)[rows], asked[rows])
    added = np.maximum(added, first[app])
    removed = np.maximum(removed, added)
    busy = np.count_nonzero(np.bincount(executor[executor >= 0], minlength=len(cores))[blind])
    used = (app >= 0) & (cores > 0) & np.isfinite(added)
    return _Offers(app[used], cores[used], added[used], removed[used], int(busy))


def slots_offered(app: Ints, asked: Floats, launch: Floats, by_launch: Ints) -> Floats:
    """Count the slots handed out in each task's application while it waited, itself included.

    Shape (n_tasks,). The data processed of a slot wait (iQCAR table 4), at least 1; NaN where the
    wait is unknown.

    app: (n_tasks,).
    asked, launch: (n_tasks,), ms.
    by_launch: (n_tasks,) rows in the order of launches.
    """
    offered = np.full(len(app), np.nan)
    rows = by_launch[((app >= 0) & np.isfinite(asked + launch))[by_launch]]
    rows = rows[by_group(app[rows])]
    _, first = np.unique(app[rows], return_index=True)
    for at, after in itertools.pairwise([*first, len(rows)]):
        of_app = rows[at:after]
        until = np.searchsorted(launch[of_app], launch[of_app], side="right")
        since = np.searchsorted(launch[of_app], asked[of_app], side="right")
        offered[of_app] = np.maximum(until - since, 1)
    return offered


SHORTEST_MS = 1.0
"""Lower bound of durations used as divisors: the resolution of Spark's times."""


@dataclass(frozen=True)
class BlameColumns:
    """The columns of tasks that blame is computed from, checked and as arrays of shape (n_tasks,).

    ``launch``, ``finish`` and ``asked`` (launch less slot wait) are NaN for a task with
    implausible times; ``span`` is its duration in ms, 0 for such a task. ``order`` is that of all
    these times (:func:`iqcar.tables.arrays.by_time`), shape (3 · n_tasks,): a task whose wait is
    unknown asked when it was launched.
    """

    tables: Tables
    waits: pd.DataFrame
    app: Ints
    stage: Ints
    host: Ints
    executor: Ints
    launch: Floats
    finish: Floats
    asked: Floats
    span: Floats
    order: Ints
    shortages: dict[int, Shortage]

    @cached_property
    def slots(self) -> SlotTimes:
        """Slot clock readings of each task; made where they are asked for."""
        times = (_known_asked(self.asked, self.launch), self.launch, self.finish)
        return slot_times(self.tables, *times, self.order, self.shortages)

    @cached_property
    def slots_offered(self) -> Floats:
        """Slots handed out in each task's application while it waited for one."""
        n = len(self.launch)
        by_launch = self.order[(self.order >= n) & (self.order < 2 * n)] - n
        return slots_offered(self.app, self.asked, self.launch, by_launch)

    @classmethod
    def from_tables(cls, tables: Tables, waits: pd.DataFrame) -> BlameColumns:
        """Build the columns from the tables."""
        tasks = tables.tasks
        launch = tasks["launch_ms"].to_numpy(np.float64)
        finish = tasks["finish_ms"].to_numpy(np.float64)
        with np.errstate(invalid="ignore"):
            sane = (
                (np.abs(launch) < LAST_PLAUSIBLE_MS)
                & (np.abs(finish) < LAST_PLAUSIBLE_MS)
                & (finish >= launch)
            )
        launch, finish = np.where(sane, launch, np.nan), np.where(sane, finish, np.nan)
        asked = launch - np.clip(launch_wait(waits), 0.0, LAST_PLAUSIBLE_MS)
        shortages = find_shortages(tables, asked, launch, finish)
        return cls(
            tables=tables, waits=waits, app=_rows(tasks["app"], len(tables.applications)),
            stage=_rows(tasks["stage"], len(tables.stages)),
            host=_rows(tasks["host"], len(tables.hosts)),
            executor=_rows(tasks["executor"], len(tables.executors)), launch=launch, finish=finish,
            asked=asked, span=np.where(sane, finish - launch, 0.0),
            order=by_time(_known_asked(asked, launch), launch, finish), shortages=shortages,
        )  # fmt: skip

    def wait(self, request: Request) -> Floats:
        """Return the waits in ms, NaN where unknown."""
        return np.asarray(self.waits[wait_column(request)], np.float64)

    def compute(self) -> Floats:
        """Return the time on the processor in ms, NaN where unknown."""
        return np.asarray(self.waits["compute_ms"], np.float64)

    def owner(self) -> Ints:
        """Return a number ≥ 0 that tasks of one query share; without a query, those of a stage."""
        query = self.tables.stages["query"].to_numpy(np.int64)
        owner = np.where(query >= 0, query, len(self.tables.queries) + np.arange(len(query)))
        return np.append(owner, len(self.tables.queries) + len(query))[self.stage]

    def domain(self, request: Request) -> Ints:
        """Return the row of each task's contention domain, −1 where it has none."""
        by_domain = {
            Domain.APPLICATION: self.app, Domain.HOST: self.host, Domain.EXECUTOR: self.executor,
            Domain.CLUSTER: self.app,
        }  # fmt: skip
        return by_domain[request.domain]

    def number(self, column: str) -> Floats:
        """Return a column of ``tasks`` as float64; input that was not counted is estimated."""
        if column == "input_bytes":
            return self.input_bytes
        values: Floats = self.tables.tasks[column].to_numpy(np.float64)
        return values

    @cached_property
    def input_bytes(self) -> Floats:
        """Input of each task, estimated where it was not counted."""
        return input_moved(self.tables)

    def held(self) -> Floats:
        """Return the mean execution memory held during each task, in bytes.

        Where the plugin did not sample it: Spark's peak, but nothing while the task waited for it.
        """
        waited = share_of(positive_or_zero(self.wait(Request.EXECUTION_MEMORY)), self.span)
        held: Floats = self.number("peak_memory_bytes") * (1.0 - np.minimum(waited, 1.0))
        records = self.tables.task_records
        task = records["task"].to_numpy(np.int64)
        mean = records["mean_held_bytes"].to_numpy(np.float64)
        seen = (task >= 0) & (task < len(held)) & np.isfinite(mean)
        task = task[seen]
        # Measuring starts after the launch and ends before the finish.
        measured = records["wall_ms"].to_numpy(np.float64)[seen]
        measured = np.minimum(measured / np.maximum(self.span[task], SHORTEST_MS), 1.0)
        held[task] = mean[seen] * known_or_zero(measured)
        return held


def _rows(column: pd.Series[int], n: int) -> Ints:
    """Return row numbers of another table, −1 for rows that it does not have."""
    rows = column.to_numpy(np.int64)
    return np.where((rows >= 0) & (rows < n), rows, -1)


def _known_asked(asked: Floats, launch: Floats) -> Floats:
    """Return when tasks asked for a slot; where that is not known, when they were launched."""
    return np.where(np.isnan(asked), launch, asked)


T = TypeVar("T", bound=np.generic)

_MOVED_IN = {
    "input_bytes": Request.IO_READ,
    "remote_bytes": Request.SHUFFLE_FETCH,
    "shuffle_write_bytes": Request.IO_WRITE,
    "output_bytes": Request.IO_WRITE,
    "disk_spilled_bytes": Request.IO_WRITE,
}
"""Columns of bytes that are divided among pieces like the wait for a request; any other column is
divided by time."""


@dataclass(frozen=True)
class Pieces:
    """Pieces of tasks, which do not overlap within a task.

    columns: the tasks.
    task: (n_pieces,) row of the piece's task.
    launch, finish: (n_pieces,), ms; start and end of the piece; NaN if those of the task are.
    span: (n_pieces,), ms; length of the piece.
    interval: (n_pieces,) row of the piece in ``intervals``, −1 where no interval covers it.
    undivided: whether each task is one piece, in the order of tasks.
    """

    columns: BlameColumns
    task: Ints
    launch: Floats
    finish: Floats
    span: Floats
    interval: Ints
    undivided: bool
    _shares: dict[str, Floats] = field(default_factory=dict, repr=False)

    @classmethod
    def one_each(cls, columns: BlameColumns) -> Pieces:
        """Return one piece per task."""
        n = len(columns.span)
        every, none = np.arange(n), np.full(n, -1)
        return cls(
            columns=columns, task=every, launch=columns.launch, finish=columns.finish,
            span=columns.span, interval=none, undivided=True,
        )  # fmt: skip

    @classmethod
    def from_intervals(cls, columns: BlameColumns) -> Pieces:
        """Divide tasks by their recorded intervals.

        Profiles use the executor's clock and tasks the driver's: a profile outside of its task's
        launch and finish is shifted into them, by as little as possible.
        """
        table = columns.tables.intervals
        task = table["task"].to_numpy(np.int64)
        start, end = (table[name].to_numpy(np.float64) for name in ("start_ms", "end_ms"))
        n = len(columns.span)
        with np.errstate(invalid="ignore"):
            usable = (task >= 0) & (task < n) & (end > start) & np.isfinite(start + end)
        usable[usable] = columns.span[task[usable]] > 0
        row = np.flatnonzero(usable)
        if len(row) == 0:
            return cls.one_each(columns)
        row = row[np.lexsort((start[row], task[row]))]
        task, start, end = task[row], start[row], end[row]
        is_first = np.diff(task, prepend=-1) != 0
        is_last = np.diff(task, append=-1) != 0
        first, last = np.flatnonzero(is_first), np.flatnonzero(is_last)
        launch, finish = columns.launch[task[first]], columns.finish[task[first]]
        latest = np.maximum(finish - (end[last] - start[first]), launch)
        moved = np.clip(start[first], launch, latest) - start[first]
        move = np.repeat(moved, last - first + 1)
        # Each interval is extended to the next one, so that pieces have no overlaps and no gaps.
        begin = np.minimum(start + move, columns.finish[task])
        until = np.where(is_last, end + move, np.append(begin[1:], 0.0))
        until = np.minimum(until, columns.finish[task])

        cut = np.zeros(n, dtype=bool)
        cut[task] = True
        uncut = np.flatnonzero(~cut)
        parts = [
            (uncut, columns.launch[uncut], columns.finish[uncut], np.full(len(uncut), -1)),
            (task[first], launch, begin[first], np.full(len(first), -1)),
            (task, begin, until, row),
            (task[first], until[last], finish, np.full(len(first), -1)),
        ]
        keep = [np.ones(len(uncut), bool), *(till > since for _, since, till, _ in parts[1:])]
        of_task, since, till, interval = (
            np.concatenate([part[which][kept] for part, kept in zip(parts, keep, strict=True)])
            for which in range(4)
        )
        span = np.where(np.isfinite(till - since), till - since, 0.0)
        return cls(
            columns=columns, task=of_task, launch=since, finish=till, span=span, interval=interval,
            undivided=False,
        )  # fmt: skip

    def of_task(self, values: NDArray[T]) -> NDArray[T]:
        """Return the value of each piece's task."""
        return values if self.undivided else values[self.task]

    def total(self, values: Floats) -> Floats:
        """Return the sum over the pieces of each task."""
        return sum_by(self.task, values, len(self.columns.span))

    def emphasis(self, request: Request) -> Floats:
        """Return the wait per ms in each piece relative to the task's average.

        0 where it did not wait, 1 in all pieces of a task that waited evenly.
        """
        if self.undivided:
            return np.ones(len(self.task))
        even = share_of(self.span, self.columns.span[self.task])
        return np.where(even > 0, share_of(self._share(f"{request}_ms"), even), 1.0)

    def _share(self, column: str) -> Floats:
        """Return the share of the task's total that falls in each piece."""
        if column not in self._shares:
            life = self.columns.span[self.task]
            even = np.where(life > 0, share_of(self.span, life), 1.0)
            intervals = self.columns.tables.intervals
            share = even
            if column in intervals:
                recorded = intervals[column].to_numpy(np.float64)
                recorded = np.where(recorded > 0, recorded, 0.0)
                in_piece = np.where(self.interval >= 0, recorded[self.interval], 0.0)
                in_task = self.total(in_piece)[self.task]
                share = np.where(in_task > 0, share_of(in_piece, in_task), even)
            self._shares[column] = share
        return self._shares[column]

    # --- columns as of whole tasks: see iqcar.causes.blame.ratp.Users

    @property
    def stage(self) -> Ints:
        """Stage of each piece's task."""
        return self.of_task(self.columns.stage)

    @property
    def host(self) -> Ints:
        """Machine of each piece's task."""
        return self.columns.host[self.task]

    @property
    def executor(self) -> Ints:
        """Executor of each piece's task."""
        return self.columns.executor[self.task]

    @property
    def slots(self) -> SlotTimes:
        """Slot times of tasks, not pieces: slots are held from launch to finish."""
        return self.columns.slots

    @property
    def slots_offered(self) -> Floats:
        """Slots handed out while each piece's task waited for one."""
        return self.columns.slots_offered[self.task]

    def domain(self, request: Request) -> Ints:
        """Contention domain of each piece's task."""
        return self.columns.domain(request)[self.task]

    def wait(self, request: Request) -> Floats:
        """Wait in ms in each piece, NaN where unknown."""
        wait = self.columns.wait(request)
        return wait if self.undivided else wait[self.task] * self._share(f"{request}_ms")

    def compute(self) -> Floats:
        """Time on the processor in ms in each piece, NaN where unknown."""
        compute = self.columns.compute()
        return compute if self.undivided else compute[self.task] * self._share("cpu_ms")

    def number(self, column: str) -> Floats:
        """Part of a column of ``tasks`` that falls in each piece."""
        values = self.columns.number(column)
        if self.undivided:
            return values
        request = _MOVED_IN.get(column)
        return values[self.task] * self._share(f"{request}_ms" if request else "")

    def held(self) -> Floats:
        """Execution memory held in bytes in each piece, NaN where unknown.

        A task without a profile of it holds its mean in all pieces.
        """
        held = self.columns.held()
        if self.undivided:
            return held
        recorded = self.columns.tables.intervals["held_bytes"].to_numpy(np.float64)
        in_piece = np.where(self.interval >= 0, recorded[self.interval], np.nan)
        seen = np.isfinite(in_piece)
        profiled = self.total(seen.astype(np.float64)) > 0
        return np.where(profiled[self.task], np.where(seen, in_piece, 0.0), held[self.task])


class DomainSchedules:
    """The schedule of each contention domain, built on first use.

    In the domain of an application whole tasks wait for slots and hold them; in the domains of
    hosts and executors the events are those of pieces of tasks.
    """

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._made: dict[Domain, Schedule] = {}

    def of(self, request: Request) -> Schedule:
        """Return the schedule of the request's contention domain."""
        domain = request.domain
        if domain not in self._made:
            self._made[domain] = self._make(request)
        return self._made[domain]

    def _make(self, request: Request) -> Schedule:
        pieces, columns = self._pieces, self._pieces.columns
        if request.domain is not Domain.APPLICATION:
            n, order = len(columns.launch), None
            if pieces.undivided:
                order = columns.order[columns.order >= n] - n
            return schedule(
                pieces.domain(request),
                (pieces.launch, TARGET_STARTS | SOURCE_STARTS),
                (pieces.finish, TARGET_ENDS | SOURCE_ENDS),
                order=order,
            )
        slots = columns.slots
        # Slot clocks never run backwards: their order is that of the times.
        return schedule(
            columns.app,
            (slots.asked, TARGET_STARTS),
            (slots.launched, TARGET_ENDS | SOURCE_STARTS),
            (slots.finished, SOURCE_ENDS),
            order=columns.order,
        )
