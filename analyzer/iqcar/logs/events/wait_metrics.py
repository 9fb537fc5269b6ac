"""Finds the metrics that tell waits among a task's accumulables: Spark's own and vendors'.

Accumulables are most of the bytes of a log, so they are searched as bytes. Which of the metrics a
log holds is learned from some tasks of each block, and only those are looked for in the others.
Processes that decode tasks import this file, so it must be quick to import.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache
from math import isnan, nan

import msgspec


class Wait(IntEnum):
    """What a metric tells; docs/event-logs.md lists the metrics and who writes them."""

    SCAN = 0
    """Time to fetch batches from a scan, on the task's thread."""
    IO = 1
    """Time that the task's thread waited for input."""
    BUFFERING = 2
    """Time that threads took to read files and buffer what they read."""
    FILES = 3
    """The part of it that was spent in the file system."""
    READING = 4
    """Time in the file system's read calls, extrapolated from a sample of them."""
    REQUESTS = 5
    """Duration of requests to the object store, of all threads."""
    OPERATOR = 6
    """Time in an operator of Photon; a wait where the operator is a scan."""
    WRITE = 7
    """Time to write shuffle files."""
    GPU = 8
    """Time that the task waited to be let onto the GPU."""
    NATIVE_PEAK = 9
    """Most memory that an operator of Photon held, bytes."""
    NATIVE_SPILL = 10
    """What an operator of Photon spilled to disks, bytes."""


_NAMES = (
    (Wait.SCAN, "scan time"),
    (Wait.IO, "io wait time"),
    (Wait.BUFFERING, "buffer time"),
    (Wait.FILES, "time to read fs data"),
    (Wait.READING, "filesystem read time (sampled)"),
    (Wait.REQUESTS, "cloud storage request duration"),
    (Wait.OPERATOR, "cumulative time"),
    (Wait.GPU, "gpuSemaphoreWait"),
    (Wait.NATIVE_PEAK, "peak memory usage"),
    (Wait.NATIVE_SPILL, "num bytes spilled to disk due to memory pressure"),
)
"""Metrics by their names; Spark's own has more text behind it in Spark 2 and in connectors."""

_WITHIN = ((Wait.WRITE, "part of shuffle file write"), (Wait.IO, "time IO wait"))
"""Metrics by a part of their names."""

EVERY = 64
"""In a block, all metrics are looked for in the longest task of each stage and in every 64th task.
A task leaves out a metric that is zero; where it matters, the longest task has it."""

_START, _UPDATE_START = b'"Name":"', b',"Update":'
_KNOWN = re.compile(
    _START + b"(?:" + b"|".join(re.escape(name).encode() for _, name in _NAMES) + b")"
)
_PARTS = tuple(part.encode() for _, part in _WITHIN)
_ID_START, _ID_BYTES, _COMMA = b'"ID":', 40, 44
_DIGITS = 18
"""Digits of an id and of an update at most."""
_TOLD = re.compile(
    rb'"Name":"[^"]*","Update":"?(?:(\d{1,18})|(\d{1,6}):(\d\d):(\d\d\.\d{3}))"?[,}]'
)
"""The update is a number, or hours, minutes and seconds: so RAPIDS writes what is no SQL metric."""


class DeclaredWaits(msgspec.Struct, gc=False):
    """What plans say of the metrics that tell waits.

    nanoseconds: accumulators that count in ns; others count in ms.
    scans: accumulators of the time in an operator that scans.
    """

    nanoseconds: set[int] = msgspec.field(default_factory=set)
    scans: set[int] = msgspec.field(default_factory=set)

    def add(self, number: int, name: str, kind: str, node: str) -> None:
        """Take in the metric of a plan's node, with its accumulator and Spark's type of metric."""
        # Early versions of Gluten declare that time, which is in ns, as one in ms.
        if kind == "nsTiming" or name == "io wait time":
            self.nanoseconds.add(number)
        if "Scan" in node:
            self.scans.add(number)


@lru_cache(maxsize=1024)
def wait_of(name: str) -> Wait | None:
    """Return what the metric of a name tells; None if no wait."""
    if name.startswith("scan time"):
        return Wait.SCAN
    for kind, known in _NAMES:
        if name == known:
            return kind
    for kind, part in _WITHIN:
        if part in name:
            return kind
    return None


Place = tuple[int, float, float, int, int]
"""Row of a task, its stage id and run time, and where its accumulables start and end in a block."""


def find_waits(text: bytes, tasks: Sequence[Place]) -> array[float]:
    """Find the metrics that tell waits in the accumulables of a block's tasks.

    text: the block.

    Returns (shape (n × 4,)) row of the task, :class:`Wait`, accumulator id, and update as logged of
    each. The id is NaN if it is unknown; a time of hours, minutes and seconds is in ms.
    """
    found: list[float] = []
    find, startswith = text.find, text.startswith
    end_of_tasks = tasks[-1][4] if tasks else 0
    for name, wait in _held_by(text, tasks).items():
        needle, kind = name + _UPDATE_START, float(wait)
        width, spelled, number = len(needle), _ID_START, nan
        before = len(spelled)
        at = find(needle, tasks[0][3], end_of_tasks)
        for row, _, _, start, end in tasks:
            if at < 0:
                break
            while 0 <= at < end:
                if at >= start:  # else it is between the accumulables of two tasks
                    if not startswith(spelled, at - before):
                        spelled, number = _id_before(text, at, start)
                        before = len(spelled)
                    after = at + width
                    stop = find(b",", after, after + _DIGITS + 1)
                    update = text[after:stop].strip(b'"') if stop >= 0 else b""
                    value = float(update) if update.isdigit() else _value_at(text, at)
                    if value is not None:
                        found += row, kind, number, value
                at = find(needle, at + width, end_of_tasks)
    return array("d", found)


def _id_before(text: bytes, at: int, start: int) -> tuple[bytes, float]:
    """Return the id that stands before a name, as text and as number; NaN if there is none."""
    before = text.rfind(_ID_START, max(at - _ID_BYTES, start), at)
    digits = text[before + len(_ID_START) : at - 1]
    if before < 0 or not digits.isdigit() or len(digits) > _DIGITS or text[at - 1] != _COMMA:
        return _ID_START, nan
    return text[before:at], float(digits)


def _held_by(text: bytes, tasks: Sequence[Place]) -> dict[bytes, Wait]:
    """Return the metrics that some of the tasks hold, by their names as they stand in the text."""
    longest: dict[float, tuple[float, Place]] = {}
    for task in tasks:
        _, stage, time, _, _ = task
        known = longest.get(stage)
        if known is None or time > known[0] or isnan(known[0]):
            longest[stage] = (time, task)
    needles: dict[bytes, Wait] = {}
    for _, _, _, first, last in (*(task for _, task in longest.values()), *tasks[::EVERY]):
        starts = [match.start() for match in _KNOWN.finditer(text, first, last)]
        for part in _PARTS:
            at = text.find(part, first, last)
            starts += [text.rfind(_START, first, at)] if at >= 0 else []
        for start in starts:
            end = text.find(b'"', start + len(_START), last) + 1
            kind = wait_of(text[start + len(_START) : end - 1].decode("utf-8", "replace"))
            if start >= 0 and kind is not None:
                needles[text[start:end]] = kind
    return needles


def value_of(update: bytes) -> float | None:
    """Return an update that was cut out of its line, in the unit of the log; None if it is none."""
    return _value_at(b'"Name":"","Update":' + update + b",", 0)


def _value_at(text: bytes, at: int) -> float | None:
    told = _TOLD.match(text, at)
    if told is None:
        return None
    if told[1] is not None:
        return float(told[1])
    hours, minutes, seconds = (float(part) for part in told.groups()[1:])
    return 1000.0 * (3600 * hours + 60 * minutes + seconds)
