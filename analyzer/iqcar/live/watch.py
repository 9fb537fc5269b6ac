"""Follows one application: reads what has come, and makes a window whenever one is asked for.

``spark-live://host:port``: for where the event log lags. The first line is a JSON object about the
stream; each further line is an event as the event log has it, from the start of the application.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from iqcar.base.files.opening import open_file
from iqcar.diagnosis import Settings
from iqcar.errors import IqcarError, UsageError
from iqcar.live.follow import LogTail, News, find_log
from iqcar.live.growing_log import GrowingLog
from iqcar.live.window import Window, window_of
from iqcar.logs.collect import NotAnEventLogError
from iqcar.logs.decode.streams import CHUNK_BYTES, why
from iqcar.logs.find.layouts import EventLog, LogPart
from iqcar.logs.ingest import LineSplitter, LineTally, nothing_read

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
    """Reads what a driver streams, as :class:`~iqcar.live.follow.LogTail` reads a log.

    Raises IqcarError if nobody answers there, or the answer is no such stream; UsageError if it is
    no address.

    Parameters
    ----------
    address : ``spark-live://host:port``.
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

    Parameters
    ----------
    path : as for :func:`iqcar.live.follow.find_log`, or ``spark-live://host:port``.
    settings : as of ``iqcar analyze``.
    window_ms : length of a window.
    within : as for :func:`~iqcar.logs.find.locate.locate`.
    clock : returns seconds that only grow.

    Attributes
    ----------
    notes : what went wrong so far, in sentences.
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

        Parameters
        ----------
        progress : called with the stored bytes read and those there are, now and then.

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
