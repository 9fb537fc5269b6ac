"""Writes and reads the log of injections, one JSON object per line: the truth for scores.

A line with event `start` is written when the first hog works, one with event `end` when the last
one has ended; that one is complete in itself. A start without an end means that the run was killed:
its hogs ended then too, but nobody wrote down when.
"""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec

from iqcar.base.files.derived import open_to_append
from iqcar.base.units import KIB, size
from iqcar.errors import IqcarError

VERSION = 1
START, END = "start", "end"
MOST_LINE_BYTES = 1 << 20
MOST_LOG_BYTES = 256 << 20


class HogTime(msgspec.Struct, frozen=True):
    """When one hog worked (epoch ms; end None where it was lost)."""

    pid: int
    start_ms: int
    end_ms: int | None


class InjectionRecord(msgspec.Struct, frozen=True):
    """One line of the log.

    event: ``start`` or ``end``.
    run, injection: which run of the command, and which injection of its plan, from 0.
    anomaly, host, machine: what was injected, on which host (a label), and the name of the machine
        that did it.
    planned_start_ms, planned_end_ms: epoch ms.
    start_ms, end_ms: epoch ms of the first hog's start and the last one's end; None where it never
        came to that.
    settings: how strong, as asked for.
    hogs: the processes.
    achieved: sums over the hogs: ``cpu_ms``, ``cores`` (CPU time per wall time) and the anomaly's
        own counts; ``…_per_s`` are rates over the time from start to end.
    stopped: the signal that ended it early; empty: none.
    error: why it failed; empty: it did not.
    """

    version: int
    event: str
    run: str
    injection: int
    anomaly: str
    host: str
    machine: str
    planned_start_ms: int
    planned_end_ms: int
    start_ms: int | None = None
    end_ms: int | None = None
    settings: dict[str, Any] = {}
    hogs: list[HogTime] = []
    achieved: dict[str, float] = {}
    stopped: str = ""
    error: str = ""

    def line(self) -> bytes:
        """Return the record as a line of the log."""
        return msgspec.json.encode(self) + b"\n"


def check_log(path: str) -> None:
    """Refuse early what could not be appended to later; raises IqcarError."""
    if Path(path).is_dir():
        raise IqcarError("is a folder", path, "name a file with --log")
    try:
        os.close(open_to_append(path))
    except OSError as error:
        raise IqcarError(f"cannot be written: {error.strerror}", path) from error


def append(path: str, record: InjectionRecord) -> None:
    """Append a record with one write, so that several runs can share a log; raises IqcarError."""
    try:
        descriptor = open_to_append(path)
        try:
            os.write(descriptor, record.line())
        finally:
            os.close(descriptor)
    except OSError as error:
        raise IqcarError(f"cannot be written: {error.strerror}", path) from error


def read_log(path: str) -> list[InjectionRecord]:
    """Read what was injected: the `end` of each injection, or its `start` where there is no end.

    Raises IqcarError if the file cannot be read, or a line in it is none of this log.
    """
    file = Path(path)
    decoder = msgspec.json.Decoder(InjectionRecord)
    found: dict[tuple[str, int], InjectionRecord] = {}
    try:
        if file.stat().st_size > MOST_LOG_BYTES:
            raise IqcarError("is larger than 256 MB: no log of injections", path)
        with file.open("rb") as lines:
            for number, line in enumerate(iter(lambda: lines.readline(MOST_LINE_BYTES), b""), 1):
                record = _decoded(decoder, line, f"{path}:{number}")
                key = record.run, record.injection
                if record.event == END or key not in found:
                    found[key] = record
    except OSError as error:
        raise IqcarError(f"cannot be read: {error.strerror}", path) from error
    return sorted(found.values(), key=lambda r: (r.planned_start_ms, r.run, r.injection))


def _decoded(
    decoder: msgspec.json.Decoder[InjectionRecord], line: bytes, where: str
) -> InjectionRecord:
    try:
        record = decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise IqcarError(f"is no record of an injection: {error}", where) from error
    start, end = record.start_ms, record.end_ms
    if record.event not in (START, END) or (start is not None and end is not None and end < start):
        raise IqcarError("is an impossible record of an injection", where)
    return record


_MOVED = {
    "written_bytes": "wrote",
    "read_bytes": "read",
    "sent_bytes": "sent",
    "received_bytes": "received",
}


def one_line(record: InjectionRecord) -> str:
    """Say what an injection was."""
    name = f"{record.anomaly} on {record.host}"
    if record.start_ms is None or record.end_ms is None:
        return f"{name}: {record.error or 'stopped before it began'}"
    seconds = (record.end_ms - record.start_ms) / 1000
    parts = [f"{seconds:.1f} s from {_clock(record.start_ms)}", _hogs(len(record.hogs))]
    done = record.achieved
    if "cores" in done:
        parts.append(f"{done['cores']:.2f} cores")
    for key, word in _MOVED.items():
        if done.get(key):
            rate = size(done.get(f"{key}_per_s", 0), KIB)
            parts.append(f"{word} {size(done[key], KIB)} ({rate}/s)")
    if "held_bytes" in done:
        parts.append(f"held {size(done['held_bytes'], KIB)}")
    if record.stopped:
        parts.append(f"stopped by {record.stopped}")
    if record.error:
        parts.append(record.error)
    return f"{name}: {', '.join(parts)}"


def _hogs(count: int) -> str:
    return f"{count} hog{'' if count == 1 else 's'}"


def _clock(epoch_ms: int) -> str:
    moment = datetime.fromtimestamp(epoch_ms / 1000, timezone.utc).astimezone()
    return moment.isoformat(timespec="milliseconds")
