"""The lives of tasks in pieces, so that blame knows when a task waited and when it used what.

Where the plugin recorded a profile, each of its intervals is a piece; before and after it lie
pieces in which the task neither waited nor used anything. A task without a profile is one piece.
What a task waited, computed and moved in all is divided among its pieces by the profile, and by
time where the profile does not tell. With this the sums of eq. 6 over pairs of tasks become sums
over pairs of pieces, which is the integral of eq. 5 at the profile's resolution.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from iqcar.enums import Request
from iqcar.tables.arrays import share_of, sum_by

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iqcar.blame.ratp import TaskColumns
    from iqcar.blame.slots import SlotTimes
    from iqcar.tables.arrays import Floats, Ints

T = TypeVar("T", bound=np.generic)

_MOVED_IN = {
    "input_bytes": Request.IO_READ,
    "remote_bytes": Request.SHUFFLE_FETCH,
    "shuffle_write_bytes": Request.IO_WRITE,
    "output_bytes": Request.IO_WRITE,
    "disk_spilled_bytes": Request.IO_WRITE,
}
"""Bytes that were moved while the task waited for them, column → request; any other column is
divided by time."""


@dataclass(frozen=True)
class Pieces:
    """Pieces of tasks; arrays with one entry per piece, disjoint within a task.

    Attributes
    ----------
    columns : TaskColumns
        The tasks.
    task : int64
        Row of the piece's task.
    launch, finish : float64, ms
        When the piece begins and ends; NaN as for the task.
    span : float64, ms
        Its length.
    interval : int64
        Its row in ``intervals``, −1 where no interval covers it.
    whole : bool
        Whether each task is one piece, in the order of tasks.
    """

    columns: TaskColumns
    task: Ints
    launch: Floats
    finish: Floats
    span: Floats
    interval: Ints
    whole: bool
    _shares: dict[str, Floats] = field(default_factory=dict, repr=False)

    @classmethod
    def one_each(cls, columns: TaskColumns) -> Pieces:
        """Each task is one piece."""
        n = len(columns.span)
        every, none = np.arange(n), np.full(n, -1)
        return cls(columns, every, columns.launch, columns.finish, columns.span, none, whole=True)

    @classmethod
    def from_intervals(cls, columns: TaskColumns) -> Pieces:
        """Cut tasks by their recorded intervals.

        A profile has the executor's clock and a task the driver's: a profile that does not lie
        within its task's life is moved there, by no more than it takes.
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
        # An interval reaches to the next one, so that pieces neither overlap nor leave gaps.
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
        return cls(columns, of_task, since, till, span, interval, whole=False)

    def of_task(self, values: NDArray[T]) -> NDArray[T]:
        """Look up each piece's task."""
        return values if self.whole else values[self.task]

    def total(self, values: Floats) -> Floats:
        """Sum the pieces of each task."""
        return sum_by(self.task, values, len(self.columns.span))

    def emphasis(self, request: Request) -> Floats:
        """How much more than on average over its life the task waited in each piece.

        0 where it did not wait, 1 in all pieces of a task that waited evenly.
        """
        if self.whole:
            return np.ones(len(self.task))
        even = share_of(self.span, self.columns.span[self.task])
        return np.where(even > 0, share_of(self._share(f"{request}_ms"), even), 1.0)

    def _share(self, column: str) -> Floats:
        """Part of the task's total that lies in each piece."""
        if column not in self._shares:
            life = self.columns.span[self.task]
            even = np.where(life > 0, share_of(self.span, life), 1.0)
            intervals = self.columns.tables.intervals
            share = even
            if column in intervals:
                recorded = intervals[column].to_numpy(np.float64)
                recorded = np.where(recorded > 0, recorded, 0.0)
                mine = np.where(self.interval >= 0, recorded[self.interval], 0.0)
                whole = self.total(mine)[self.task]
                share = np.where(whole > 0, share_of(mine, whole), even)
            self._shares[column] = share
        return self._shares[column]

    # --- what a source's use is measured from, as for whole tasks

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
        """Slot times of tasks; slots are held from launch to finish, whatever the piece."""
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
        return wait if self.whole else wait[self.task] * self._share(f"{request}_ms")

    def compute(self) -> Floats:
        """Time on the processor in ms in each piece, NaN where unknown."""
        compute = self.columns.compute()
        return compute if self.whole else compute[self.task] * self._share("cpu_ms")

    def number(self, column: str) -> Floats:
        """Bytes moved in each piece."""
        values = self.columns.number(column)
        if self.whole:
            return values
        request = _MOVED_IN.get(column)
        return values[self.task] * self._share(f"{request}_ms" if request else "")

    def held(self) -> Floats:
        """Execution memory held in bytes in each piece, NaN where unknown.

        Where no profile tells, a task held its mean all its life.
        """
        held = self.columns.held()
        if self.whole:
            return held
        recorded = self.columns.tables.intervals["held_bytes"].to_numpy(np.float64)
        mine = np.where(self.interval >= 0, recorded[self.interval], np.nan)
        seen = np.isfinite(mine)
        told = self.total(seen.astype(np.float64)) > 0
        return np.where(told[self.task], np.where(seen, mine, 0.0), held[self.task])
