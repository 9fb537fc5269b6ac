"""Follows an application's log and diagnoses window after window of it.

``spark-live://host:port``: for where the event log lags. The first line is a JSON object about the
stream; each further line is an event as the event log has it, from the start of the application.

Each call reads what has come since the last one, from where that stopped. A line whose end has not
come yet is kept back, and so is compressed data that cannot be decoded yet.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from iqcar.base.files.derived import open_file
from iqcar.diagnosis import Settings
from iqcar.errors import IqcarError, UsageError
from iqcar.live.growing_log import GrowingLog
from iqcar.live.window import Window, window_of
from iqcar.logs.collect import NotAnEventLogError
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
from iqcar.logs.ingest import LineSplitter, LineTally, nothing_read

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

    text: lines, each with its end.
    restart: why nothing that came before counts any more, in a sentence; empty if it does.
    note: what went wrong, in a sentence; empty if nothing did.
    """

    text: bytes = b""
    restart: str = ""
    note: str = ""


def find_log(path: str, within: Sequence[str] = ()) -> EventLog:
    """Find the log of the one application to follow.

    Raises IqcarError if there is none; UsageError if there are several, or it is in a zip.

    path: a log, with or without ``.inprogress``, a rolling folder, a folder with the log of one
        running application, or the URL of one of these, or of an application on a History Server.
    within: as for :func:`~iqcar.logs.find.locate.locate`.
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

    log: from :func:`find_log`.

    tally: what was met so far.
    gone: whether the log is there no more.
    problem: why nothing further can be read; empty as long as something can.
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


SCHEME = "spark-live://"
TOKEN = "IQCAR_LIVE_TOKEN"  # noqa: S105
"""Environment variable with the token that the driver asks for, which is sent as the first line.
Where it is not set, that of a driver of the same user on this machine is found in a file."""
TOKEN_FILE = "~/.iqcar/live-{host}-{address:x}-{port}.token"  # noqa: S105
MAX_TOKEN_BYTES = 4096
CONNECT_S = 10.0
"""Seconds in which the driver must answer (10)."""
MAX_HEADER_BYTES = 64 << 10
"""Bytes of the first line (64 KiB)."""
MAX_POLL_BYTES = 64 << 20
"""Bytes taken in at a time (64 MiB), however fast they come: then a window is shown. A driver keeps
36 MB, and lets a follower that is too slow miss events and tells it how many."""


class DriverTail:
    """Reads what a driver streams, as :class:`~iqcar.live.watch.LogTail` reads a log.

    Raises IqcarError if nobody answers there, or the answer is no such stream; UsageError if it is
    no address.

    address: ``spark-live://host:port``.
    """

    def __init__(self, address: str) -> None:
        self.tally = LineTally()
        self.gone = False
        self.problem = ""
        self.log = EventLog(address, (LogPart(address, address, 0),), in_progress_hint=True)
        self._splitter = LineSplitter(self.tally)
        self._socket, shown = _connect(address)
        try:
            self._first = self._header(address)
        except IqcarError:
            # A driver that has just begun to listen writes its token a moment later.
            if shown is None or _kept_token(shown.path) == shown.token:
                raise
            self._socket, _ = _connect(address)
            self._first = self._header(address)

    @property
    def held_bytes(self) -> int:
        """Bytes of a last line whose end has not come yet."""
        return self._splitter.held_bytes

    @property
    def progress(self) -> tuple[int, int]:
        """Bytes read, twice: how many there are nobody knows."""
        return self.tally.bytes_stored, self.tally.bytes_stored

    def poll(self) -> Iterator[News]:
        """Yield what has come since the last time."""
        data, self._first = self._first, b""
        until = self.tally.bytes_stored + MAX_POLL_BYTES
        while not self.gone and self.tally.bytes_stored < until:
            self.tally.bytes_stored += len(data)
            self.tally.bytes_decoded += len(data)
            if data and (block := self._splitter.add(data)):
                yield News(block)
            try:
                data = self._socket.recv(CHUNK_BYTES)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                data = b""
            self.gone = not data
        if block := self._splitter.take_ended():
            yield News(block)

    def _header(self, address: str) -> bytes:
        """Read the first line; return what came behind it."""
        came = b""
        until = time.monotonic() + CONNECT_S
        try:
            while b"\n" not in came and len(came) < MAX_HEADER_BYTES:
                self._socket.settimeout(max(until - time.monotonic(), 0.001))
                data = self._socket.recv(MAX_HEADER_BYTES)
                if not data:
                    break
                came += data
            msgspec.json.decode(came.partition(b"\n")[0], type=dict)
        except (OSError, msgspec.MsgspecError) as error:
            self._socket.close()
            said = why(error) if isinstance(error, OSError) else "its first line is no header"
            advice = f"is it the address of spark.iqcar.live, and {TOKEN} its token"
            raise IqcarError(f"no stream of a driver: {said}", address, advice) from error
        self._socket.setblocking(False)
        return came.partition(b"\n")[2]


def token_file(address: str, port: int) -> Path:
    """Return where a driver of this user on this machine keeps the token for an address."""
    name = socket.gethostname()
    host = "".join(c if c.isascii() and (c.isalnum() or c in ".-") else "_" for c in name)
    number = int(ip_address(address.partition("%")[0]))
    return Path(TOKEN_FILE.format(host=host, address=number, port=port)).expanduser()


def _kept_token(path: Path) -> str:
    """Return the token that a driver of this user wrote; empty where there is none."""
    try:
        with open_file(str(path)) as file:
            return file.read(MAX_TOKEN_BYTES).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def is_here(there: str, here: str) -> bool:
    """Tell whether the other end of a connection is on this machine, from both addresses."""
    return there == here or ip_address(there.partition("%")[0]).is_loopback


class _Kept(NamedTuple):
    """The token that was kept on this machine, and where; empty where there was none."""

    path: Path
    token: str


def _connect(address: str) -> tuple[socket.socket, _Kept | None]:
    """Connect and show the token; return what was kept here, None if another one was shown."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if not host or port is None:
        raise UsageError("is no address of a driver", address, f"write {SCHEME}host:port")
    try:
        connected = socket.create_connection((host, port), CONNECT_S)
        token, kept = os.environ.get(TOKEN), None
        there = connected.getpeername()[0]
        if not token and is_here(there, connected.getsockname()[0]):
            path = token_file(there, port)
            token = _kept_token(path)  # it is for nobody on another machine
            kept = _Kept(path, token)
        if token:
            connected.sendall(token.encode() + b"\n")
    except OSError as error:
        raise IqcarError(f"the driver does not answer: {why(error)}", address) from error
    return connected, kept


MOST_NOTES = 20
"""Notes kept, the last ones."""


class Watch:
    """One application that is followed.

    path: as for :func:`iqcar.live.watch.find_log`, or ``spark-live://host:port``.
    settings: as of ``iqcar analyze``.
    window_ms: length of a window.
    within: as for :func:`~iqcar.logs.find.locate.locate`.
    clock: returns seconds that only grow.

    notes: what went wrong so far, in sentences.
    """

    def __init__(
        self,
        path: str,
        settings: Settings,
        window_ms: float,
        within: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self.settings = settings
        self.tail: LogTail | DriverTail
        if path.startswith(SCHEME) and not within:
            self.tail = DriverTail(path)
        else:
            self.tail = LogTail(find_log(path, within))
        self.growing = GrowingLog(window_ms)
        self.notes: list[str] = []
        self._clock = clock
        self._heard = clock()
        self._quiet_ms = 0.0

    @property
    def ended(self) -> bool:
        """Whether the application has ended."""
        return self.growing.log.ended

    @property
    def over(self) -> bool:
        """Whether nothing more will come: the application ended, or its log cannot be read on."""
        return self.ended or self.tail.gone or bool(self.tail.problem)

    @property
    def state(self) -> str:
        """Return ``running``, ``ended``, or ``gone`` where the log cannot be read on."""
        return "ended" if self.ended else "gone" if self.over else "running"

    def read(self, progress: Callable[[int, int], None] | None = None) -> bool:
        """Take in what has come of the log.

        Raises IqcarError if it is no event log.

        progress: called with the stored bytes read and those there are, now and then.

        Returns whether anything has come.
        """
        came = False
        for news in self.tail.poll():
            if news.restart:
                self._note(news.restart)
                self.growing.start_again()
            if news.note:
                self._note(news.note)
            if news.text:
                came = True
                self._take(news.text)
                if progress is not None:
                    progress(*self.tail.progress)
        if self.growing.log.malformed and self.growing.log.events == 0:
            raise self._no_log()
        now = self._clock()
        self._heard = now if came else self._heard
        self._quiet_ms = (now - self._heard) * 1e3
        return came

    def window(self, expected: bool = False) -> Window | None:
        """Diagnose the last minutes; None as long as the log has no event."""
        return window_of(
            self.growing,
            self.tail.log,
            self.tail.tally if self.over else LineTally(),
            self.settings,
            quiet_ms=self._quiet_ms,
            expected=expected,
            notes=tuple(self.notes),
        )

    def last_words(self) -> str:
        """Say why nothing more will come; empty as long as something may."""
        held = self.tail.held_bytes
        cut = f"; {held:,} bytes of a line without an end were left out" if held else ""
        if self.ended:
            return f"the application has ended{cut}"
        if self.tail.gone:
            return f"the log is gone{cut}"
        if self.tail.problem:
            return f"{self.tail.problem.rstrip('.')}; nothing further can be read"
        return ""

    def _take(self, text: bytes) -> None:
        try:
            reason = self.growing.take(text)
        except NotAnEventLogError:
            raise self._no_log() from None
        if reason:
            self._note(reason)

    def _no_log(self) -> IqcarError:
        return IqcarError(nothing_read(self.tail.tally, self.growing.log).rstrip("."), self.path)

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes = [*self.notes, note][-MOST_NOTES:]
