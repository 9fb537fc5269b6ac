"""Estimates from a plain log how long tasks waited for execution memory that others held.

Spark reports each task's peak of execution memory, and settings tell how much an executor has. Of N
tasks that want memory each gets at least 1/2N of it; one that cannot get that, nor the less that it
wants, waits until another task ends. Who held how much at which moment is not recorded, so a task
counts as holding its peak from when it got it to its end.

A task waited no longer than until others left it what it wants, and no longer than nothing else
explains, less what is unexplained of tasks of its stage that had enough memory. A task that ended
before others left it enough did not wait for them.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.base.kernels import compiled
from iqcar.enums import Request
from iqcar.model.waits.columns import ESTIMATED, MISSING, evidence_column, wait_column
from iqcar.model.waits.executor_memory import known_memory, memory_settings
from iqcar.tables import LAST_PLAUSIBLE_MS, Tables
from iqcar.tables.arrays import (
    Flags,
    Floats,
    Ints,
    by_group_and_time,
    known_or_zero,
    most_at_once,
    positive_or_zero,
    sum_by,
)

TOO_MUCH = 1.05
"""Peaks of more than this times what there is show that the settings do not tell what there is."""
PARTS = (1.0, 0.95, 0.9)
"""Of what settings leave: a heap is smaller than its setting, and peaks are of different moments.
What explains most of an application is taken."""
ENOUGH = 3
"""Tasks of a stage that did not wait, from which what is unexplained of them means something."""
EARLY_MS, EARLY_SHARE = 50.0, 0.02
"""Before its end a task gives its memory back: at most so long, or for so much of the life of who
waits for it."""
LEAST_FOLLOWS = 0.6
"""Of each ms for which others left a task too little memory: what must be unexplained of it."""
LEAST_MS = 5.0
"""Shorter waits are rounding errors of Spark's times."""


class AppMemory(NamedTuple):
    """Execution memory that one executor of each application has, as far as peaks bear it out.

    bytes: (n_applications,), NaN where it is not known, and where no task held any.
    untold: applications whose settings do not say it.
    exceeded: applications in which a task held more than their settings say.
    """

    bytes: Floats
    untold: Ints
    exceeded: Ints


def memory_of_apps(tables: Tables) -> AppMemory:
    """Read the settings of all applications in which a task held execution memory."""
    app = tables.tasks["app"].to_numpy(np.int64)
    peak = positive_or_zero(tables.tasks["peak_memory_bytes"].to_numpy(np.float64))
    n = len(tables.applications)
    rows = np.flatnonzero((peak > 0) & (app >= 0) & (app < n))
    most, memory = np.zeros(n), np.full(n, np.nan)
    np.maximum.at(most, app[rows], peak[rows])
    settings = memory_settings(tables) if len(rows) else {}
    for one in np.flatnonzero(most > 0).tolist():
        memory[one] = known_memory(settings.get(one, {}))
    untold = np.flatnonzero((most > 0) & np.isnan(memory))
    exceeded = np.flatnonzero(most > TOO_MUCH * memory)
    memory[exceeded] = np.nan
    return AppMemory(memory, untold, exceeded)


class Holders:
    """Tasks that held execution memory in executors whose tasks wanted more than there is.

    peak, wanted, memory: (n_tasks,), bytes; held at most, this and what was spilled, and what the
        executor has.
    rows: (n_holders,) rows of these tasks, in an order that is that of no table.
    """

    def __init__(self, tables: Tables) -> None:
        tasks = tables.tasks
        self.peak, spilled, self.launch, self.finish = (
            tasks[name].to_numpy(np.float64)
            for name in ("peak_memory_bytes", "memory_spilled_bytes", "launch_ms", "finish_ms")
        )
        self.peak = positive_or_zero(self.peak)
        self.wanted = self.peak + positive_or_zero(spilled)
        app, self.executor = (tasks[name].to_numpy(np.int64) for name in ("app", "executor"))
        with np.errstate(invalid="ignore"):
            held = (np.abs(self.launch) < LAST_PLAUSIBLE_MS) & (self.finish > self.launch)
            held &= (np.abs(self.finish) < LAST_PLAUSIBLE_MS) & (self.peak > 0)
        n = len(tables.applications)
        held &= (app >= 0) & (app < n)
        held &= (self.executor >= 0) & (self.executor < len(tables.executors))
        of_app = np.append(memory_of_apps(tables).bytes, np.nan)
        self.memory = of_app[np.where(held, app, n)]
        rows = np.flatnonzero(np.isfinite(self.memory))
        rows = rows[self._are_crowded(rows, len(tables.executors))]
        number = tasks["task_id"].to_numpy(np.int64)
        order = (self.peak, self.finish, number, self.launch, self.executor)
        self.rows = rows[np.lexsort(tuple(column[rows] for column in order))]

    def _are_crowded(self, rows: Ints, executors: int) -> Flags:
        """Mark tasks of executors whose tasks wanted more at one time than there is."""
        executor = self.executor[rows]
        most = most_at_once(
            executor, self.launch[rows], self.finish[rows], self.wanted[rows], executors
        )
        crowded: Flags = most[executor] > min(PARTS) * self.memory[rows]
        return crowded

    @cached_property
    def events(self) -> tuple[Ints, Floats]:
        """Events of these tasks by executor and time, and their times, in ms.

        An event is the position of its task plus the number of tasks times what happens.
        """
        launch, finish = self.launch[self.rows], self.finish[self.rows]
        gives_up = finish + np.maximum(EARLY_MS, EARLY_SHARE * (finish - launch))
        when = np.concatenate([finish, gives_up, launch])
        # What ends gives its memory to what begins at the same time.
        event = by_group_and_time(np.tile(self.executor[self.rows], 3), when)
        return event, when[event]

    def spilled_beside_others(self) -> Ints:
        """Return the rows of tasks that spilled, though they held less than half of the memory."""
        rows = self.rows
        spilled = self.wanted[rows] > self.peak[rows]
        found: Ints = rows[spilled & (self.peak[rows] < 0.5 * self.memory[rows])]
        return found


def with_memory_waits(tables: Tables, waits: pd.DataFrame) -> pd.DataFrame:
    """Take waits for execution memory out of what is estimated as a wait for the processor.

    waits: frame of WAITS, of these tasks. Measured waits stay as they are.
    """
    queue, lacked = wait_column(Request.RUN_QUEUE), wait_column(Request.EXECUTION_MEMORY)
    rest, known = (waits[name].to_numpy(np.float64) for name in (queue, lacked))
    of_rest, evidence = (
        waits[evidence_column(request)].to_numpy()
        for request in (Request.RUN_QUEUE, Request.EXECUTION_MEMORY)
    )
    told = (of_rest == ESTIMATED) & (evidence == MISSING)
    if not told.any():
        return waits
    found = estimate_memory_waits(tables, np.where(told, rest, np.nan))
    waited = found > 0
    codes = np.where(waited, ESTIMATED, evidence).astype(evidence.dtype)
    return waits.assign(
        **{
            queue: np.where(waited, rest - found, rest),
            lacked: np.where(waited, found, known),
            evidence_column(Request.EXECUTION_MEMORY): codes,
        }
    )


def estimate_memory_waits(tables: Tables, unexplained: Floats) -> Floats:
    """Estimate how long tasks waited for execution memory: (n_tasks,), ms; 0 where they did not.

    unexplained: (n_tasks,), ms; time of each task that nothing else explains; NaN where it is not
        known.
    """
    holders = Holders(tables)
    best = np.zeros(len(unexplained))
    if len(holders.rows) == 0:
        return best
    app, stage = (tables.tasks[name].to_numpy(np.int64) for name in ("app", "stage"))
    n = len(tables.applications)
    app = np.where((app >= 0) & (app < n), app, n)
    wanting = (holders.peak > 0) & (holders.finish > holders.launch) & np.isfinite(unexplained)
    unexplained = known_or_zero(unexplained)
    for part in PARTS:
        blocked = blocked_for(holders, part)
        known = np.isfinite(blocked) & wanting
        most = _most_due(app, stage, blocked, unexplained, known)
        own = _unexplained_of_others(stage, unexplained, known, blocked)
        waited = np.minimum(np.maximum(unexplained - own, 0.0), most)
        more = sum_by(app, waited, n + 1) > sum_by(app, best, n + 1)
        best = np.where(more[app], waited, best)
    return np.where(best >= LEAST_MS, best, 0.0)


def possible_memory_waits(tables: Tables, waits: pd.DataFrame) -> Floats:
    """Return what may be waits for execution memory, told or not: (n_tasks,), ms.

    That is what was measured or estimated, and else what is unexplained of each task while others
    left it too little. Nothing is sure of the latter: memory does not explain its application.
    """
    holders = Holders(tables)
    queue, lacked = (
        positive_or_zero(waits[wait_column(request)].to_numpy(np.float64))
        for request in (Request.RUN_QUEUE, Request.EXECUTION_MEMORY)
    )
    estimated = waits[evidence_column(Request.RUN_QUEUE)].to_numpy() == ESTIMATED
    told = waits[evidence_column(Request.EXECUTION_MEMORY)].to_numpy() != MISSING
    if len(holders.rows) == 0:
        return lacked
    blocked = np.where(estimated, positive_or_zero(blocked_for(holders)), 0.0)
    return np.where(told, lacked, np.minimum(queue, blocked))


def blocked_for(holders: Holders, part: float = 1.0) -> Floats:
    """Return how long from its launch on others left each task too little memory: (n_tasks,), ms.

    part: of what settings leave an executor, what it has.

    0 for a task for which there was enough; NaN for one that ended before there was.
    """
    rows = holders.rows
    n = len(rows)
    event, when = holders.events
    got = np.full(n, np.nan)
    given = _Line(
        event=event, when=when, executor=np.tile(holders.executor[rows], 3),
        wanted=holders.wanted[rows], peak=holders.peak[rows], memory=part * holders.memory[rows],
        held=np.zeros(n), got=got, line=np.zeros(n, np.int64),
    )  # fmt: skip
    compiled(hand_out_memory)(given)
    blocked = np.zeros(len(holders.peak))
    blocked[rows] = np.minimum(got, holders.finish[rows]) - holders.launch[rows]
    return blocked


ENDS, GIVES_UP, LAUNCHED = range(3)


class _Line(NamedTuple):
    """Who holds memory, and who waits for it: events, then tasks, of which some stand in line."""

    event: Ints
    when: Floats
    executor: Ints
    wanted: Floats
    peak: Floats
    memory: Floats
    held: Floats
    got: Floats
    line: Ints


def hand_out_memory(given: _Line) -> None:
    """Hand memory out as Spark does, in the order of launches; ``got``: when each task got it."""
    event, when, executor, wanted = given.event, given.when, given.executor, given.wanted
    peak, memory, held, got, line = given.peak, given.memory, given.held, given.got, given.line
    n = len(given.wanted)
    here, in_use, wanting, size = -1, 0.0, 0, 0
    for e in range(len(given.event)):
        i, kind = event[e] % n, event[e] // n
        if executor[i] != here:
            here, in_use, wanting, size = executor[i], 0.0, 0, 0
        if kind == LAUNCHED:
            wanting += 1
            line[size] = i
            size += 1
        elif kind == ENDS:
            wanting -= 1
            in_use -= held[i]
            held[i] = -1.0
            if wanting == 0:
                in_use = 0.0
        left = 0
        for k in range(size):
            j = line[k]
            least = min(wanted[j], 0.5 * memory[j] / max(wanting, 1))
            free = memory[j] - in_use
            if free >= least * (1.0 - 1e-9):
                got[j] = when[e]
                if held[j] >= 0.0:
                    held[j] = min(peak[j], free)
                    in_use += held[j]
            elif kind != GIVES_UP or j != i:
                line[left] = j
                left += 1
        size = left


def _most_due(app: Ints, stage: Ints, blocked: Floats, unexplained: Floats, known: Flags) -> Floats:
    """Return the time that memory can explain of each task: (n_tasks,), ms.

    That is as long as it was blocked; 0 in applications in which more is not unexplained of tasks
    that were blocked for longer than others of their stage. Where all of a stage were alike,
    most of the time in which they were must be unexplained.
    """
    most = np.where(known, blocked, 0.0)
    rows = np.flatnonzero(known)
    longer, more = (_beyond_median(stage[rows], each[rows]) for each in (blocked, unexplained))
    differs = np.abs(longer) >= LEAST_MS
    for one in np.unique(app[most > 0]).tolist():
        mine = app[rows] == one
        told = mine & differs
        if told.any():
            follows = _weighted_median(more[told] / longer[told], np.abs(longer[told]))
        else:
            in_all = np.minimum(unexplained, blocked)[rows[mine]].sum()
            follows = in_all / blocked[rows[mine]].sum()
        if follows < LEAST_FOLLOWS:
            most[app == one] = 0.0
    return most


def _beyond_median(stage: Ints, values: Floats) -> Floats:
    each = pd.Series(values)
    return np.asarray(each - each.groupby(stage).transform("median"), np.float64)


def _weighted_median(values: Floats, weights: Floats) -> float:
    order = np.argsort(values, kind="stable")
    upto = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(upto, 0.5 * upto[-1])])


def _unexplained_of_others(
    stage: Ints, unexplained: Floats, known: Flags, blocked: Floats
) -> Floats:
    """Return the median of what is unexplained of the tasks of each stage that did not wait.

    Shape (n_tasks,), ms; 0 where nearly all tasks of the stage may have waited.
    """
    rows = np.flatnonzero(known & (blocked == 0))
    groups = pd.Series(unexplained[rows]).groupby(stage[rows])
    median = groups.median()[groups.size() >= ENOUGH]
    return np.asarray(median.reindex(stage).fillna(0.0), np.float64)
