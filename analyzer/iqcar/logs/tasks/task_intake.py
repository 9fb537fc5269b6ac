"""Takes in the tasks of one log, block by block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from iqcar.logs.events.task_structs import TaskEnd
from iqcar.logs.plugin.record_columns import RecordColumns
from iqcar.logs.tasks.task_columns import TaskColumns
from iqcar.logs.tasks.task_lines import NUMBERS, TaskBlock, TaskDecoder, record_at

if TYPE_CHECKING:
    from iqcar.logs.tasks.record_scanner import RecordScanner


_TASK_ID = NUMBERS.index("task_id")


class TaskIntake:
    """Collects tasks.

    Attributes
    ----------
    columns : the tasks that ended.
    running : lines of tasks that started and have not ended yet, by task id.
    records : what iqcar's own Spark plugin recorded of tasks.
    starts, ends : events taken in.
    """

    def __init__(self) -> None:
        self.columns = TaskColumns()
        self.running: dict[float, bytes] = {}
        self.records = RecordColumns()
        self.starts = self.ends = 0
        self._decoder = TaskDecoder()
        self._scanner: RecordScanner | None = None
        self._may_compile = True

    def take(self, text: bytes, block: TaskBlock, compiled: bool) -> None:
        """Take in the tasks of a block of the log.

        Parameters
        ----------
        text : the block.
        block : what was decoded of it.
        compiled : whether compiled code, which takes a while to load, is worth it for its records.
        """
        first_row = self.columns.rows
        numbers = self.columns.add(block)
        task_ids = numbers[:, _TASK_ID]
        self.ends += len(task_ids)
        if block.waits:
            self.columns.add_waits(np.frombuffer(block.waits).reshape(-1, 4), first_row)
        self.starts += block.starts
        for task_id, start, end in block.started:
            self.running[task_id] = text[start:end]
        for task_id in self.running.keys() & set(task_ids.tolist()):
            del self.running[task_id]
        if block.records or block.listed:
            self._add_records(text, task_ids, block, compiled)

    def since(self, time_ms: float) -> TaskIntake:
        """Return a copy without the tasks that ended before a time, and without their records."""
        part = TaskIntake()
        part.columns = self.columns.since(time_ms)
        part.records = self.records.of_tasks(part.columns.task_ids())
        part.running = dict(self.running)
        part.starts, part.ends = self.starts, self.ends
        return part

    def add_start(self, task_id: float, line: bytes) -> None:
        """Take in a task start in an unusual spelling."""
        self.starts += 1
        self.running[task_id] = line

    def add_end(self, task: TaskEnd) -> None:
        """Take in a task end in an unusual spelling."""
        self.take(b"", self._decoder.block_of([task]), compiled=False)

    def add_unfinished(self, tasks: Sequence[TaskEnd]) -> None:
        """Append tasks that never ended."""
        self.columns.add(self._decoder.block_of(list(tasks)))
        self.running.clear()

    def _add_records(
        self, text: bytes, task_ids: NDArray[np.float64], block: TaskBlock, compiled: bool
    ) -> None:
        rows, starts, ends = np.frombuffer(block.records, np.int64).reshape(-1, 3).T
        scanner = self._load() if compiled and len(rows) else None
        read = np.zeros(len(rows), np.bool_)
        if scanner is not None:
            chunk, read = scanner.scan(text, starts, ends, self.records.texts)
        left = np.flatnonzero(~read)
        places = zip(rows[left].tolist(), starts[left].tolist(), ends[left].tolist(), strict=True)
        others = [(row, record_at(text, at, end)) for row, at, end in places] + block.listed
        others = sorted((row, record) for row, record in others if record)
        if scanner is None:
            self.records.add([(task_ids[row], record) for row, record in others])
        else:
            self.records.add_scanned(chunk, task_ids, rows[read], others)

    def _load(self) -> RecordScanner | None:
        """Load the compiled code; None where there is none."""
        if self._scanner is None and self._may_compile:
            try:
                from iqcar.logs.tasks.record_scanner import RecordScanner
            except (ImportError, RuntimeError):
                self._may_compile = False  # numba finds no folder to keep its compiled code in
            else:
                self._scanner = RecordScanner()
        return self._scanner
