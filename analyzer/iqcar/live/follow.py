"""Reads the lines of an event log as it grows: a file, a rolling folder, or a remote object.

Each call reads what has come since the last one, from where that stopped. A line whose end has not
come yet is kept back, and so is compressed data that cannot be decoded yet.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iqcar.errors import IqcarError, UsageError
from iqcar.logs.decode.streams import CHUNK_BYTES, DamageError, GrowingDecoder, why
from iqcar.logs.find.history_server import is_hosted
from iqcar.logs.find.layouts import (
    COMPACT,
    IN_PROGRESS,
    EventLog,
    LogPart,
    Unreadable,
    rolling_index,
)
from iqcar.logs.find.locate import locate, unpacked
from iqcar.logs.find.storage import forget_listings, is_url, open_stored
from iqcar.logs.ingest import LineSplitter, LineTally

OVERLAP_BYTES = 256
"""Stored bytes before the place to read on from that are read again: if they are others, the log
was replaced."""
HEAD_BYTES = 16 << 10
"""Bytes at the start of a local log that are read again, too (16 KiB): its application is there."""
MOST_MISSES = 5
"""Looks in a row that found no log, after which it counts as gone: Spark renames a log at its end,
and a store may be away for a moment."""


@dataclass(frozen=True)
class News:
    """What came of a log.

    Attributes
    ----------
    text : lines, each with its end.
    restart : why nothing that came before counts any more, in a sentence; empty if it does.
    note : what went wrong, in a sentence; empty if nothing did.
    """

    text: bytes = b""
    restart: str = ""
    note: str = ""


def find_log(path: str, within: Sequence[str] = ()) -> EventLog:
    """Find the log of the one application to follow.

    Raises IqcarError if there is none; UsageError if there are several, or it is in a zip.

    Parameters
    ----------
    path : a log, with or without ``.inprogress``, a rolling folder, a folder with the log of one
        running application, or the URL of one of these, or of an application on a History Server.
    within : as for :func:`~iqcar.logs.find.locate.locate`.
    """
    found = locate([path], within)
    if not any(isinstance(one, EventLog) for one in found):
        other = path.removesuffix(IN_PROGRESS) if path.endswith(IN_PROGRESS) else path + IN_PROGRESS
        found = [one for one in locate([other], within) if isinstance(one, EventLog)] or found
    logs = [one for one in found if isinstance(one, EventLog)]
    running = [one for one in logs if one.in_progress_hint]
    chosen = running or logs
    if not chosen:
        message = next((one.message for one in found if isinstance(one, Unreadable)), "no log")
        raise IqcarError(message.rstrip("."), path)
    if len(chosen) > 1:
        some = ", ".join(one.path for one in chosen[:3])
        what = (
            f"{len(running)} applications run" if running else "none of several applications runs"
        )
        raise UsageError(f"{what} here", path, f"name one log, such as {some}")
    if any(part.member for part in chosen[0].parts):
        raise UsageError("a zip does not grow", path, "use `iqcar analyze`")
    return chosen[0]


class LogTail:
    """Reads one log as it grows.

    Parameters
    ----------
    log : from :func:`find_log`.

    Attributes
    ----------
    tally : what was met so far.
    gone : whether the log is there no more.
    problem : why nothing further can be read; empty as long as something can.
    """

    def __init__(self, log: EventLog) -> None:
        self.log = log
        self.tally = LineTally()
        self.gone = False
        self.problem = ""
        self._within = log.parts[0].within
        self._rolling = _is_rolling(log)
        self._hosted: EventLog | None = None
        self._part: LogPart | None = None
        self._misses = self._total = 0
        self._start_part()

    @property
    def held_bytes(self) -> int:
        """Bytes of a last line whose end has not come yet."""
        return self._splitter.held_bytes

    @property
    def progress(self) -> tuple[int, int]:
        """Stored bytes read, and those that were there when they were last asked for."""
        return self.tally.bytes_stored, max(self.tally.bytes_stored, self._total)

    def _start_part(self) -> None:
        self._offset = 0
        self._before = self._head = b""
        self._decoder = GrowingDecoder()
        self._splitter = LineSplitter(self.tally)

    def poll(self) -> Iterator[News]:
        """Yield what has come since the last time, in blocks of about 1 MiB."""
        if self.gone or self.problem:
            return
        try:
            parts = self._parts_to_read()
            for number, part in enumerate(parts):
                if self._part is None or _key(part) != _key(self._part):
                    yield from self._next_part(part)
                self._part = part
                yield from self._read(part)
                if self._part is None:
                    return
                if number + 1 < len(parts) and (block := self._splitter.finish()):
                    yield News(block)
            self._misses = 0
        except FileNotFoundError:
            self._misses += 1
            if self._misses >= MOST_MISSES:
                self.gone = True
                yield News(note="the log is gone: it was removed, or cannot be found any more")
        except DamageError as error:
            self.problem = str(error)
            yield News(note=f"{error}; nothing further can be read")
        except IqcarError:
            raise
        except Exception as error:  # a remote store's own error type
            if not (isinstance(error, OSError) or is_url(self.log.parts[0].source)):
                raise
            self._misses += 1
            if self._misses >= MOST_MISSES:
                self.gone = True
            yield News(note=f"the log cannot be read: {why(error)}")

    def _parts_to_read(self) -> list[LogPart]:
        """Return the part that was read last, as it is now, and those after it."""
        if is_hosted(self.log.parts[0].source):
            now = self._downloaded()
            return [] if now is None else self._unread(now)
        if not self._rolling:
            if is_url(self.log.parts[0].source):
                forget_listings(self.log.parts[0].source)
            return [self.log.parts[0]]
        folder = self.log.parts[0].source.replace(os.sep, "/").rpartition("/")[0]
        if is_url(folder):
            forget_listings(folder)
        found = [one for one in locate([folder], self._within) if isinstance(one, EventLog)]
        now = next((one for one in found if one.path == self.log.path), None)
        if now is None:
            raise FileNotFoundError
        self.log = now
        return self._unread(now)

    def _downloaded(self) -> EventLog | None:
        """Download a log on a History Server if it has changed there; None if it has not."""
        found = locate([self.log.path])
        now = next((one for one in found if isinstance(one, EventLog)), None)
        if now is None:
            raise OSError(next(one.message for one in found if isinstance(one, Unreadable)))
        if self._hosted is not None and self._hosted == now:
            return None
        try:
            inside = unpacked(now)
        except DamageError as error:  # it may be another time
            raise OSError(str(error)) from error
        self._hosted, self._rolling = now, _is_rolling(inside)
        return inside

    def _unread(self, now: EventLog) -> list[LogPart]:
        after = -1 if self._part is None else _key(self._part)
        return [part for part in now.parts if _key(part) >= after and not self._is_merged(part)]

    def _is_merged(self, part: LogPart) -> bool:
        """Tell whether a part is a compact one that stands for parts that were read already."""
        compact = _name(part).endswith(COMPACT)
        return compact and self._part is not None and _name(part) != _name(self._part)

    def _next_part(self, part: LogPart) -> Iterator[News]:
        if self._part is not None and _key(part) > _key(self._part) + 1 and self._rolling:
            yield News(note=f"parts of the rolling log before {part.path} are missing")
        self._start_part()

    def _read(self, part: LogPart) -> Iterator[News]:
        with open_stored(part) as file:
            self._total = file.seek(0, os.SEEK_END)
            if self._total < self._offset:
                yield from self._restart(
                    f"the log shrank from {self._offset:,} to {self._total:,} bytes"
                )
                if self._part is None:
                    return
            first = max(self._offset - len(self._before), 0)
            if self._total > self._offset:
                # The head of a remote log is not asked for again: a request can cost megabytes.
                same = (
                    is_url(part.source) or file.seek(0) or file.read(len(self._head)) == self._head
                )
                file.seek(first)
                if not same or file.read(len(self._before)) != self._before:
                    yield from self._restart("the log was replaced by another one")
                    if self._part is None:
                        return
                    file.seek(0)
            # Not beyond its end as it was: a window is shown however fast the log grows.
            while self._offset < self._total and (data := file.read(CHUNK_BYTES)):
                self._head = self._head or data[:HEAD_BYTES]
                self._offset += len(data)
                self._before = (self._before + data)[-OVERLAP_BYTES:]
                self.tally.bytes_stored += len(data)
                for piece in self._decoder.add(data):
                    self.tally.bytes_decoded += len(piece)
                    if block := self._splitter.add(piece):
                        yield News(block)
                    self._splitter.check_mean()
        if block := self._splitter.take_ended():
            yield News(block)

    def _restart(self, reason: str) -> Iterator[News]:
        self.tally = LineTally()
        self._start_part()
        if self._rolling:
            self._part = None  # the next look starts at the first part
        yield News(restart=f"{reason}: it is read again from its beginning")


def _key(part: LogPart) -> int:
    """Return the place of a part in its log."""
    return rolling_index(_name(part)) or 0


def _name(part: LogPart) -> str:
    return part.member or part.source


def _is_rolling(log: EventLog) -> bool:
    return rolling_index(_name(log.parts[0])) is not None
