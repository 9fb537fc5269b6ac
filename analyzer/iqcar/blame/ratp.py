"""What each task lost to waiting: data processed, RATP and slowdown (paper §4.1, eq. 2 and 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from iqcar.blame.slots import slot_times, slots_offered
from iqcar.demand.capacity import best_seen, of_domain
from iqcar.enums import Domain, Request, SourceUsage
from iqcar.tables import LAST_PLAUSIBLE_MS
from iqcar.tables.arrays import known_or_zero, sum_known
from iqcar.waits import wait_column

if TYPE_CHECKING:
    import pandas as pd

    from iqcar.blame.slots import SlotTimes
    from iqcar.demand.capacity import Capacity
    from iqcar.tables import Tables
    from iqcar.tables.arrays import Floats, Ints

SHORTEST_MS = 1.0
"""Durations that something is divided by are at least Spark's resolution."""
ROUNDING = 1e-9
"""A slowdown, or what is left of a sum, that is below this share of it is rounding."""

BYTES_REQUESTS = (Request.SHUFFLE_FETCH, Request.IO_READ, Request.IO_WRITE)
"""Requests whose capacity is a speed: bytes per ms of a host's network or disk."""
ONE_DEVICE = {
    Request.SHUFFLE_FETCH: (Request.SHUFFLE_FETCH,),
    Request.IO_READ: (Request.IO_READ, Request.IO_WRITE),
    Request.IO_WRITE: (Request.IO_READ, Request.IO_WRITE),
}
"""Requests that keep the same device busy: a writer is in a reader's way."""


class Users(Protocol):
    """Who uses resources: tasks (:class:`TaskColumns`) or pieces of them."""

    @property
    def host(self) -> Ints:
        """Machine, −1 if unknown."""

    @property
    def executor(self) -> Ints:
        """Executor, −1 if unknown."""

    @property
    def launch(self) -> Floats:
        """Begin in ms, NaN if unknown."""

    @property
    def finish(self) -> Floats:
        """End in ms, NaN if unknown."""

    @property
    def span(self) -> Floats:
        """Length in ms."""

    @property
    def slots(self) -> SlotTimes:
        """Slots held."""

    @property
    def slots_offered(self) -> Floats:
        """Slots handed out in the application meanwhile."""

    def domain(self, request: Request) -> Ints:
        """Contention domain."""

    def wait(self, request: Request) -> Floats:
        """Wait in ms, NaN where unknown."""

    def compute(self) -> Floats:
        """Time on the processor in ms, NaN where unknown."""

    def number(self, column: str) -> Floats:
        """A column of ``tasks``."""

    def held(self) -> Floats:
        """Execution memory held in bytes, mean, NaN where unknown."""


@dataclass(frozen=True)
class TaskColumns:
    """The columns of every task that blame needs, checked and as plain arrays.

    ``launch``, ``finish`` and ``asked`` (launch less slot wait) are NaN for a task whose times
    make no sense; ``span`` is its duration in ms, 0 for such a task.
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
    slots: SlotTimes
    slots_offered: Floats

    @classmethod
    def from_tables(cls, tables: Tables, waits: pd.DataFrame) -> TaskColumns:
        """Take the columns from the tables."""
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
        slot_wait = waits[wait_column(Request.SLOT_WAIT)].to_numpy(np.float64)
        asked = launch - np.clip(slot_wait, 0.0, LAST_PLAUSIBLE_MS)
        app = _rows(tasks["app"], len(tables.applications))
        return cls(
            tables=tables,
            waits=waits,
            app=app,
            stage=_rows(tasks["stage"], len(tables.stages)),
            host=_rows(tasks["host"], len(tables.hosts)),
            executor=_rows(tasks["executor"], len(tables.executors)),
            launch=launch,
            finish=finish,
            asked=asked,
            span=np.where(sane, finish - launch, 0.0),
            slots=slot_times(tables, np.where(np.isnan(asked), launch, asked), launch, finish),
            slots_offered=slots_offered(app, asked, launch),
        )

    def wait(self, request: Request) -> Floats:
        """Return the waits in ms, NaN where unknown."""
        waited: Floats = self.waits[wait_column(request)].to_numpy(np.float64)
        return waited

    def compute(self) -> Floats:
        """Return the time on the processor in ms, NaN where unknown."""
        compute: Floats = self.waits["compute_ms"].to_numpy(np.float64)
        return compute

    def domain(self, request: Request) -> Ints:
        """Return the row of each task's contention domain, −1 where it has none."""
        by_domain = {
            Domain.APPLICATION: self.app,
            Domain.HOST: self.host,
            Domain.EXECUTOR: self.executor,
        }
        return by_domain[request.domain]

    def number(self, column: str) -> Floats:
        """Return a column of ``tasks`` as float64."""
        values: Floats = self.tables.tasks[column].to_numpy(np.float64)
        return values

    def held(self) -> Floats:
        """Return the execution memory held in bytes, on average over the task's life.

        Where nobody looked it is Spark's own metric, which is more: the peaks of its operators.
        """
        held: Floats = self.number("peak_memory_bytes").copy()
        records = self.tables.task_records
        task = records["task"].to_numpy(np.int64)
        mean = records["mean_held_bytes"].to_numpy(np.float64)
        seen = (task >= 0) & (task < len(held)) & np.isfinite(mean)
        task = task[seen]
        # The measuring begins after the launch and ends before the finish.
        measured = records["wall_ms"].to_numpy(np.float64)[seen]
        measured = np.minimum(measured / np.maximum(self.span[task], SHORTEST_MS), 1.0)
        held[task] = mean[seen] * known_or_zero(measured)
        return held


@dataclass(frozen=True)
class Loss:
    """What every task lost to one request; arrays with one entry per task.

    Attributes
    ----------
    wait : float64, ms
        Time it waited; 0 where unknown.
    ratp : float64, ms per data unit
        WT / DP (eq. 2); 0 where no data was processed.
    slowdown : float64
        S (eq. 3), ≥ 0.
    stretch : float64
        ``C_h / c_tt``, ≥ 1: what eq. 6 multiplies a source's used share of the capacity with.
    span : float64, ms
        T_tt: the time over which ``c_tt`` was measured.
    known : float64
        The part of S that has a known cause (β_known of eq. 4), ≤ S.
    lost : float64, ms
        Time lost, ``WT · S / (1 + S)``; its known part is ``lost · known / S``.
    """

    request: Request
    wait: Floats
    ratp: Floats
    slowdown: Floats
    stretch: Floats
    span: Floats
    known: Floats
    lost: Floats


def data_processed(columns: Users, request: Request) -> Floats:
    """Return the data each task processed for a request (paper table 4; NaN = unknown).

    Slots handed out for a slot wait; input bytes for processor and locks (input and shuffle
    read, else what it wrote); peak execution memory; bytes from other hosts; bytes read; bytes
    written to shuffle files, spill and output.
    """
    number = columns.number
    if request is Request.SLOT_WAIT:
        return columns.slots_offered
    if request is Request.SHUFFLE_FETCH:
        return number("remote_bytes")
    if request is Request.IO_READ:
        return number("input_bytes")
    written = sum_known(number("shuffle_write_bytes"), number("output_bytes"))
    if request is Request.IO_WRITE:
        return sum_known(written, number("disk_spilled_bytes"))
    if request in (Request.EXECUTION_MEMORY, Request.STORAGE_MEMORY):
        return number("peak_memory_bytes")
    read = sum_known(number("input_bytes"), number("remote_bytes"), number("local_bytes"))
    return np.where(read > 0, read, written)


def measure_loss(
    columns: TaskColumns,
    request: Request,
    capacity: dict[Request, Capacity],
    source_usage: SourceUsage,
) -> Loss:
    """Measure what every task lost to one request.

    Parameters
    ----------
    columns : TaskColumns
    request : Request
    capacity : dict
        From :func:`iqcar.blame.attribute.capacities`.
    source_usage : SourceUsage
        ``PAPER`` measures every request as data per waiting time against the best seen in the
        domain; the others measure a processor in cores, slots in slots, and memory and locks
        in the share of its life that a task was not waiting.

    Returns
    -------
    Loss
        All zero for a task whose wait is unknown. A wait without data (DP 0 or unknown) has no
        ideal to compare with: it is kept as a wait, and loses nothing.
    """
    wait = columns.wait(request)
    wait = np.where(wait > 0, wait, 0.0)
    data = data_processed(columns, request)
    ratp = np.where(data > 0, wait / np.where(data > 0, data, 1.0), 0.0)
    if source_usage is SourceUsage.PAPER:
        domain = columns.domain(request)
        best = of_domain(best_seen(data, wait, domain, domain.max(initial=-1) + 1), domain)
        span = wait if request is Request.SLOT_WAIT else columns.span
        return _against_speed(request, wait, ratp, best, span)
    if request in BYTES_REQUESTS:
        best = of_domain(capacity[request].per_host, columns.host)
        return _against_speed(request, wait, ratp, best, columns.span)
    if request is Request.SLOT_WAIT:
        return _slot_loss(columns, wait, ratp)
    if request is Request.RUN_QUEUE:
        return _processor_loss(columns, wait, ratp)
    worked = np.maximum(columns.span - wait, SHORTEST_MS)
    slowdown = wait / worked
    return Loss(
        request, wait, ratp, slowdown, 1 + slowdown, columns.span, np.zeros_like(wait), wait
    )


def _against_speed(
    request: Request, wait: Floats, ratp: Floats, capacity: Floats, span: Floats
) -> Loss:
    """Eq. 3 with the host's capacity: S = C_h / c_tt − 1, c_tt = 1 / RATP_tt at most C_h."""
    slowdown = known_or_zero(capacity * ratp) - 1.0
    slowdown = np.where(slowdown > ROUNDING, slowdown, 0.0)
    lost = wait * slowdown / (1.0 + slowdown)
    return Loss(request, wait, ratp, slowdown, 1 + slowdown, span, np.zeros_like(wait), lost)


def _slot_loss(columns: TaskColumns, wait: Floats, ratp: Floats) -> Loss:
    """A task that ran R after waiting W got R / (R + W) of a slot.

    T_tt is W + R, the time over which that share was measured, so that slots that stood idle
    while it waited leave their part of S unattributed. Waiting for the first executor is known.
    """
    ran = np.maximum(columns.span, SHORTEST_MS)
    slowdown = wait / ran
    known = np.minimum(columns.slots.no_executor_ms / ran, slowdown)
    return Loss(Request.SLOT_WAIT, wait, ratp, slowdown, 1 + slowdown, wait + ran, known, wait)


def _processor_loss(columns: TaskColumns, wait: Floats, ratp: Floats) -> Loss:
    """Against one core: c_tt = CPU / (CPU + wait); garbage collection is lost to a known cause."""
    measured = np.isfinite(columns.wait(Request.RUN_QUEUE))
    cpu = np.maximum(known_or_zero(columns.compute()), SHORTEST_MS)
    gc = np.where(measured, known_or_zero(columns.waits["gc_ms"].to_numpy(np.float64)), 0.0)
    gc = np.maximum(gc, 0.0)
    lost = wait + gc
    return Loss(
        Request.RUN_QUEUE, wait, ratp, lost / cpu, 1 + wait / cpu, columns.span, gc / cpu, lost
    )


def _rows(column: pd.Series[int], n: int) -> Ints:
    """Row numbers of another table, −1 for one that it does not have."""
    rows = column.to_numpy(np.int64)
    return np.where((rows >= 0) & (rows < n), rows, -1)
