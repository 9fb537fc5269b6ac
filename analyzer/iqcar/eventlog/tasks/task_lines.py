"""From the line of a task's end to its struct, as fast as a line can be read.

Most of a line's bytes are accumulables, of which hardly any is needed. In the spelling that Spark
itself writes they are cut out before decoding, and searched as bytes where a task may report scan
time. Any other spelling is decoded whole.
"""

from __future__ import annotations

import re
from math import isnan, nan
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from iqcar.eventlog.events.event_names import TASK_RECORD
from iqcar.eventlog.events.structs import NO_METRICS, NOT_FITTING, Accumulable, TaskEnd

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

INFO = b'"Reason":"Success"},"Task Info":{'
ACCUMULABLES = b',"Accumulables":['
METRICS = b',"Task Metrics":{'
"""No text within a string can look like these: its quotes would be escaped."""
INFO_WITHIN = (60, 250)
INFO_BYTES = 800
"""Where a task's info is looked for, and its length at most; else lines are decoded whole."""
_SLACK = 48
"""The end of a line, from the metrics on, is about as long as that of the line before."""

SCAN = b'"Name":"scan time'
_PEAK = b'"Name":"internal.metrics.peakExecutionMemory"'
_INTERNAL = b'"internal.metrics.'
RECORD = f'"Name":"{TASK_RECORD}","Update":"'.encode()
_END_OF_RECORD = b'","'
"""Within a record every quote is escaped, so this comes first at its end."""
_RESUBMITTED = "Resubmitted"
_UPDATE = re.compile(rb'"Name":"[^"]*","Update":"?(\d{1,18})"?[,}]')
_ID = b'"ID":'
_ID_BYTES = 40
_DIGITS = re.compile(rb'^"?(\d+(?:\.\d+)?)"?$')
_NS_PER_MS = 1e6


class TaskDecoder:
    """Decodes lines of task ends.

    Parameters
    ----------
    nanosecond_scans : set of int
        Accumulators of scan time that count in ns instead of ms; may grow while decoding.
    may_scan : callable
        Tells of (stage id, stage attempt) whether its tasks may report scan time. Its answers are
        kept until :meth:`forget`.
    """

    def __init__(
        self, nanosecond_scans: set[int], may_scan: Callable[[float, float], bool]
    ) -> None:
        self._nanosecond_scans = nanosecond_scans
        self._may_scan = may_scan
        self._answers: dict[tuple[float, float], bool] = {}
        self._decode = msgspec.json.Decoder(TaskEnd).decode
        self._decode_list = msgspec.json.Decoder(list[Accumulable]).decode
        self._decode_text = msgspec.json.Decoder(str).decode
        self._tail = 0

    def forget(self) -> None:
        """Ask anew which stages may report scan time: a stage was submitted."""
        self._answers.clear()

    def decode(self, line: bytes) -> TaskEnd:
        """Decode a line.

        Raises
        ------
        any of :data:`~iqcar.eventlog.events.structs.NOT_FITTING`
            If the line does not fit :class:`~iqcar.eventlog.events.structs.TaskEnd`.
        """
        find = line.find
        info = find(INFO, *INFO_WITHIN)
        start = find(ACCUMULABLES, info, info + INFO_BYTES) if info >= 0 else -1
        end = -1
        if start >= 0:
            end = find(METRICS, max(len(line) - self._tail - _SLACK, start))
            end = end if end >= 0 else find(METRICS, start)
        if end < 0:
            task = self._decode(line)
            self.look(task)
            return task
        self._tail = len(line) - end
        task = self._decode(line[:start] + b"}" + line[end:])
        if self._may(task.stage_id, task.stage_attempt):
            task.scan = self.scan_time(line, start, end)
        if isnan(task.metrics.peak_memory) and task.metrics is not NO_METRICS:
            task.peak = peak_memory(line, start, end)
        task.record = self.record(line, find(RECORD, start, end), end)
        return task

    def may_scan(self, stage_ids: Numbers, attempts: Numbers) -> NDArray[np.bool_]:
        """Tell of many tasks, by their stages, whether they may report scan time."""
        stages = list(zip(stage_ids.tolist(), attempts.tolist(), strict=True))
        asked = {stage: self._may(*stage) for stage in set(stages)}
        return np.fromiter(map(asked.__getitem__, stages), np.bool_, len(stages))

    def _may(self, stage_id: float, attempt: float) -> bool:
        stage = (stage_id, attempt)
        may = self._answers.get(stage)
        if may is None:
            may = self._answers[stage] = self._may_scan(stage_id, attempt)
        return may

    def look(self, task: TaskEnd) -> None:
        """Take what is needed from the accumulables of a task that was decoded whole."""
        scan, peak = nan, nan
        accumulables = self._list(task.info.accumulables)
        for one in accumulables:
            name = one.name or ""
            if name.startswith("internal.metrics."):
                peak = 0.0 if isnan(peak) else peak
            digits = _DIGITS.match(bytes(one.update))
            value = float(digits.group(1)) if digits else 0.0
            if name.startswith("scan time"):
                value = value / _NS_PER_MS if one.id in self._nanosecond_scans else value
                scan = value if isnan(scan) else scan + value
            elif name == "internal.metrics.peakExecutionMemory":
                peak = value
        task.scan = scan
        if isnan(task.metrics.peak_memory) and task.metrics is not NO_METRICS:
            task.peak = peak
        if task.reason.reason != _RESUBMITTED:  # it repeats the end of an attempt
            task.record = self._listed_record(accumulables) or self._listed_record(
                self._list(task.reason.updates)
            )

    def _list(self, raw: msgspec.Raw) -> list[Accumulable]:
        try:
            return self._decode_list(raw)
        except NOT_FITTING:
            return []

    def _listed_record(self, accumulables: list[Accumulable]) -> str:
        for one in accumulables:
            if one.name == TASK_RECORD:
                try:
                    return self._decode_text(one.update)
                except NOT_FITTING:
                    pass
        return ""

    def record(self, text: bytes, at: int, end: int) -> str:
        """Return the record whose :data:`RECORD` starts at a place; empty where it is damaged."""
        if at < 0:
            return ""
        start = at + len(RECORD) - 1
        stop = text.find(_END_OF_RECORD, start + 1, end)
        try:
            return self._decode_text(text[start : stop + 1])
        except NOT_FITTING:
            return ""

    def scan_time(self, line: bytes, start: int, end: int) -> float:
        """Sum the scan times between two places of a line; NaN if there is none."""
        total = nan
        at = line.find(SCAN, start, end)
        while at >= 0:
            update = _UPDATE.match(line, at)
            if update is not None:
                value = float(update.group(1))
                if self._nanosecond_scans and self._is_nanoseconds(line, at):
                    value /= _NS_PER_MS
                total = value if isnan(total) else total + value
            at = line.find(SCAN, at + len(SCAN), end)
        return total

    def _is_nanoseconds(self, line: bytes, at: int) -> bool:
        number = line.rfind(_ID, max(at - _ID_BYTES, 0), at)
        digits = line[number + len(_ID) : line.find(b",", number)] if number >= 0 else b""
        return digits.isdigit() and int(digits) in self._nanosecond_scans


def peak_memory(line: bytes, start: int, end: int) -> float:
    """Find peak memory, which before 3.1 is only an accumulable, left out where it is zero."""
    at = line.find(_PEAK, start, end)
    if at >= 0:
        update = _UPDATE.match(line, at)
        return float(update.group(1)) if update else nan
    return 0.0 if line.find(_INTERNAL, start, end) >= 0 else nan
