"""Collects what a growing log says: decodes lines as they come, and drops what is over.

The cost of a line does not depend on how long the log is already: tasks that ended before the
window are dropped whenever they outnumber those within it.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from math import inf, isfinite, nan

import msgspec
import numpy as np

from iqcar.logs.collect import Collector
from iqcar.logs.events.task_structs import NOT_FITTING
from iqcar.logs.forget import Forgotten, copy_since, forget, forget_oldest
from iqcar.logs.tasks.task_lines import NUMBERS, TaskBlock, TaskDecoder
from iqcar.tables import LAST_PLAUSIBLE_MS

MOST_OPEN = 20_000
"""Jobs, stages or SQL executions kept that have not ended (20,000); hardly a thousand
run at once."""

ROWS_TO_FORGET = 20_000
"""Tasks taken in after which those that are over are dropped, at least."""
LONGEST_JUMP_MS = 86_400_000.0
"""A time that is a day later than all before is damage, unless the next event agrees."""
_START = b'{"Event":"SparkListenerApplicationStart"'
_LOG_START = b'{"Event":"SparkListenerLogStart"'
_STAGE, _ATTEMPT, _LAUNCH, _FINISH = (
    NUMBERS.index(name) for name in ("stage_id", "stage_attempt", "launch_ms", "finish_ms")
)


class _Launch(msgspec.Struct):
    time: float = msgspec.field(default=nan, name="Launch Time")


class _Start(msgspec.Struct):
    info: _Launch = msgspec.field(name="Task Info")


_decode_start = msgspec.json.Decoder(_Start).decode


class GrowingLog:
    """Collects what the lines of one log say.

    Parameters
    ----------
    keep_ms : how long before the newest event tasks are kept; infinite keeps all.

    Attributes
    ----------
    log : what the lines said, without what is over.
    forgotten : how much was over.
    newest_ms : time of the newest event, by the clocks that wrote the log; NaN before the first
        one.
    succeeded : tasks that succeeded and whose output is not lost, by stage id and attempt, of
        stages that have not completed.
    """

    def __init__(self, keep_ms: float) -> None:
        self.keep_ms = keep_ms
        self._decoder = TaskDecoder()
        self.start_again()

    def start_again(self) -> None:
        """Forget everything."""
        self.log = Collector()
        self.forgotten = Forgotten()
        self.newest_ms = nan
        self.succeeded: Counter[tuple[int, int]] = Counter()
        self.last_line = b""
        self._doubted_ms = nan
        self._kept_rows = 0

    def take(self, text: bytes) -> str:
        """Take in a block of lines.

        Raises NotAnEventLogError if none of the first lines is an event.

        Returns why what came before does not count any more, in a sentence; empty if it does:
        another application may begin in the middle of a log.
        """
        reason = ""
        for part in _applications(text):
            before = self._application()
            if before and (other := _names_another(part, before)):
                reason = f"another application begins here ({other}): all before it is left out"
                self.start_again()
            block = self._decoder.decode(part)
            self.log.add(part, block)
            self._see(part, block)
        self.last_line = text.rstrip().rpartition(b"\n")[2]
        if self.log.tasks.rows > 2 * self._kept_rows + ROWS_TO_FORGET:
            self.forget()
        if isfinite(self.keep_ms) and self._open > 2 * MOST_OPEN:
            forget_oldest(self.log, MOST_OPEN, self.forgotten)
        return reason

    @property
    def _open(self) -> int:
        """How many there are of the kind of which there are most."""
        return max(len(self.log.jobs), len(self.log.stages), len(self.log.sql.executions))

    def forget(self, now_ms: float = nan) -> None:
        """Drop what is over: what ended before the window that ends at a time, or newest event."""
        until = now_ms if isfinite(now_ms) else self.newest_ms
        if isfinite(self.keep_ms) and isfinite(until):
            forget(self.log, until - self.keep_ms, self.forgotten)
        self._kept_rows = self.log.tasks.rows
        open_ = {key for key, stage in self.log.stages.items() if not stage.completed}
        self.succeeded = Counter({key: n for key, n in self.succeeded.items() if key in open_})

    def copy_until(self, now_ms: float) -> Collector:
        """Return a copy of what is kept, in which what has not ended runs until a time."""
        since = now_ms - self.keep_ms if isfinite(self.keep_ms) else -inf
        return copy_since(self.log, since, now_ms)

    def _application(self) -> str:
        start = self.log.application
        return (start.id or start.name) if start is not None else ""

    def _see(self, text: bytes, block: TaskBlock) -> None:
        """Take note of times, and of tasks that succeeded."""
        numbers = np.frombuffer(block.rows).reshape(-1, len(NUMBERS) + 1)
        times = []
        if len(numbers):
            ended = numbers[:, [_LAUNCH, _FINISH]].ravel()
            far = ended > np.fmax(self.newest_ms, ended[:1]) + LONGEST_JUMP_MS
            times += [float(np.fmax.reduce(ended[~far], initial=nan)), *ended[far][-2:].tolist()]
            reasons = [texts[3] for texts in block.texts]
            for row in numbers[:, [_STAGE, _ATTEMPT, len(NUMBERS)]].tolist():
                reason = reasons[int(row[2])]
                if reason in ("Success", "Resubmitted") and isfinite(row[0] + row[1]):
                    key = (int(row[0]), int(row[1]))
                    self.succeeded[key] += 1 if reason == "Success" else -1
        for _, start, end in block.started[-1:]:
            with suppress(*NOT_FITTING):
                times.append(_decode_start(text[start:end]).info.time)
        began = self.log.application.time if self.log.application else nan
        for time in (began, *times, self.log.last_time, self.log.end):
            self._see_time(time)
        if self.log.last_time > self.newest_ms:
            self.log.last_time = self.newest_ms  # it is not believed

    def _see_time(self, time: float) -> None:
        if not 0 < time < LAST_PLAUSIBLE_MS or time <= self.newest_ms:
            return
        if time > self.newest_ms + LONGEST_JUMP_MS and not (
            abs(time - self._doubted_ms) < LONGEST_JUMP_MS
        ):
            self._doubted_ms = time
            return
        self.newest_ms = time


def _applications(text: bytes) -> list[bytes]:
    """Cut a block where an application starts, which few blocks have; before its log's start."""
    parts, start = [], 0
    at = text.find(_START)
    while at >= 0:
        log_start = text.rfind(_LOG_START, start, at)
        cut = log_start if log_start >= 0 else at
        if cut > start:
            parts.append(text[start:cut])
            start = cut
        at = text.find(_START, at + 1)
    return [*parts, text[start:]]


class _Application(msgspec.Struct):
    id: str | None = msgspec.field(default=None, name="App ID")
    name: str = msgspec.field(default="", name="App Name")


_decode_application = msgspec.json.Decoder(_Application).decode


def _names_another(text: bytes, known: str) -> str:
    """Return the application that a block starts, if it is another one."""
    at = text.find(_START)
    if at < 0:
        return ""
    try:
        found = _decode_application(text[at : text.find(b"\n", at)])
    except NOT_FITTING:
        return ""
    name = found.id or found.name
    return name if name != known else ""
