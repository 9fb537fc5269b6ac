"""Taking in the lines of tasks: by compiled code where it is worth loading it, else one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from iqcar.eventlog.events import structs as ev
from iqcar.eventlog.plugin.record_columns import RecordColumns
from iqcar.eventlog.tasks.task_columns import NUMBERS, TaskColumns
from iqcar.eventlog.tasks.task_lines import TaskDecoder, peak_memory
from iqcar.eventlog.tasks.task_templates import END_START, START_START

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from iqcar.eventlog.events.lines import Block
    from iqcar.eventlog.tasks.task_scanner import Scanned, TaskScanner

TASKS_AT_ONCE = 64
"""Tasks turned into columns together: below, numpy's fixed costs show; above, their structs and
lines (6 KB each) leave the processor's cache, which doubles the time."""

_STAGE_ID, _STAGE_ATTEMPT, _TASK_ID, _SCAN, _PEAK, _PEAK_ACCUMULABLE = (
    NUMBERS.index(name)
    for name in (
        "stage_id", "stage_attempt", "task_id", "scan_ms", "peak_memory_bytes", "peak_accumulable",
    )
)  # fmt: skip


class TaskIntake:
    """Collects tasks, block by block.

    Parameters
    ----------
    nanosecond_scans : set of int
        Accumulators of scan time that count in ns instead of ms; may grow while decoding.
    may_scan : callable
        Tells of (stage id, stage attempt) whether its tasks may report scan time.

    Attributes
    ----------
    columns : TaskColumns
        The tasks that ended.
    running : dict
        Lines of tasks that started and have not ended yet, by task id.
    records : RecordColumns
        What iqcar's own Spark plugin recorded of tasks.
    starts, ends : int
        Events taken in.
    """

    def __init__(
        self, nanosecond_scans: set[int], may_scan: Callable[[float, float], bool]
    ) -> None:
        self.columns = TaskColumns()
        self.running: dict[float, bytes] = {}
        self.records = RecordColumns()
        self.starts = self.ends = 0
        self._nanosecond_scans = nanosecond_scans
        self._decoder = TaskDecoder(nanosecond_scans, may_scan)
        self._decode_start = msgspec.json.Decoder(ev.TaskStart).decode
        self._scanner: TaskScanner | None = None
        self._may_compile = True
        self._scanned: tuple[bytes, Scanned, NDArray[np.int64]] | None = None
        self._lines: list[bytes] = []

    def forget(self) -> None:
        """Ask anew which stages may report scan time: a stage was submitted."""
        self._decoder.forget()

    def take(self, block: Block, compiled: bool) -> list[bytes]:
        """Take the lines of tasks out of a block; return the others.

        Task ends wait for :meth:`settle`: the other lines tell what is looked for in them.
        """
        scanner = self._load() if compiled else None
        lines = self._scan(scanner, block) if scanner else block.lines()
        others: list[bytes] = []
        for line in lines:
            if line.startswith(END_START):
                self._lines.append(line)
            elif line.startswith(START_START):
                try:
                    self.running[self._decode_start(line).info.task_id] = line
                    self.starts += 1
                except ev.NOT_FITTING:
                    others.append(line)
            else:
                others.append(line)
        return others

    def settle(self, other: Callable[[bytes], None]) -> None:
        """Take in the task ends of the last block; hand on those that are not well formed."""
        if self._scanned is not None:
            self._add_scanned(*self._scanned)
            self._scanned = None
        lines, self._lines = self._lines, []
        for first in range(0, len(lines), TASKS_AT_ONCE):
            self._decode(lines[first : first + TASKS_AT_ONCE], other)

    def _decode(self, lines: Sequence[bytes], other: Callable[[bytes], None]) -> None:
        tasks: list[ev.TaskEnd] = []
        for line in lines:
            try:
                tasks.append(self._decoder.decode(line))
            except ev.NOT_FITTING:
                self._add(tasks)
                tasks = []
                other(line)
        self._add(tasks)

    def add_start(self, task_id: float, line: bytes) -> None:
        """Take in a task start in an unusual spelling."""
        self.starts += 1
        self.running[task_id] = line

    def add_end(self, task: ev.TaskEnd) -> None:
        """Take in a task end in an unusual spelling."""
        self._decoder.look(task)
        self._add([task])

    def _add(self, tasks: Sequence[ev.TaskEnd]) -> None:
        self.ends += len(tasks)
        self.columns.add(tasks)
        for task in tasks:
            self.running.pop(task.info.task_id, None)
        self.records.add([(task.info.task_id, task.record) for task in tasks if task.record])

    def _load(self) -> TaskScanner | None:
        """Load the compiled code; None where there is none."""
        if self._scanner is None and self._may_compile:
            try:
                from iqcar.eventlog.tasks import accumulable_search, record_scanner, task_scanner
            except (ImportError, RuntimeError):
                self._may_compile = False  # numba finds no folder to keep its compiled code in
            else:
                self._scanner, self._search = task_scanner.TaskScanner(), accumulable_search
                self._record_scanner = record_scanner.RecordScanner()
        return self._scanner

    def _scan(self, scanner: TaskScanner, block: Block) -> list[bytes]:
        """Read a block by compiled code; return the lines that it does not take."""
        found, starts, ends = scanner.scan(block)
        self._scanned = (block.text, found, ends) if len(ends) else None
        ended = set(found.numbers[ends, _TASK_ID].tolist())
        started = found.numbers[starts, _TASK_ID].tolist()
        left = [row for row, task in enumerate(started) if task not in ended]
        for row, line in zip(left, block.lines(starts[left]), strict=True):
            self.running[started[row]] = line
        for task in ended:
            self.running.pop(task, None)
        self.starts += len(starts)
        return block.lines(np.flatnonzero(found.template < 0))

    def _add_scanned(self, text: bytes, found: Scanned, rows: NDArray[np.int64]) -> None:
        numbers, places = found.numbers[rows], found.accumulables[rows]
        scans, records = self._search.search(text, places)
        if self._nanosecond_scans:
            for row in np.flatnonzero(~np.isnan(scans)).tolist():
                scans[row] = self._decoder.scan_time(text, *places[row].tolist())
        stages = numbers[:, _STAGE_ID], numbers[:, _STAGE_ATTEMPT]
        numbers[:, _SCAN] = np.where(self._decoder.may_scan(*stages), scans, np.nan)
        for row in np.flatnonzero(np.isnan(numbers[:, _PEAK])).tolist():
            numbers[row, _PEAK_ACCUMULABLE] = peak_memory(text, *places[row].tolist())
        recorded = np.flatnonzero(records >= 0)
        if len(recorded):
            starts, ends = records[recorded], places[recorded, 1]
            self._add_records(text, numbers[recorded, _TASK_ID], starts, ends)
        self.columns.add_scanned(text, numbers, found.texts[rows], found.spans[rows])
        self.ends += len(rows)

    def _add_records(
        self,
        text: bytes,
        task_ids: NDArray[np.float64],
        starts: NDArray[np.int64],
        ends: NDArray[np.int64],
    ) -> None:
        chunk, read = self._record_scanner.scan(text, starts, ends, self.records.texts)
        others = []
        for row in np.flatnonzero(~read).tolist():
            record = self._decoder.record(text, int(starts[row]), int(ends[row]))
            if record:
                others.append((row, record))
        self.records.add_scanned(chunk, task_ids, np.flatnonzero(read), others)
