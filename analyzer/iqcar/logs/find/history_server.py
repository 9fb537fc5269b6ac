"""Applications on a Spark History Server: listed, chosen by a URL, their logs downloaded.

Its REST API is asked: ``/api/v1/applications`` lists attempts, and ``…/ID[/ATTEMPT]/logs`` packs
the log of one into a zip as it sends it (Spark ≥ 1.4).
"""

from __future__ import annotations

import errno
import io
import os
import re
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from fnmatch import fnmatchcase
from heapq import nlargest
from math import inf, isfinite, nan
from typing import Any, BinaryIO, NamedTuple, cast
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import msgspec

from iqcar.base.units import moment, parse_moment, parse_time, short
from iqcar.errors import UsageError, did_you_mean
from iqcar.logs.decode.streams import DamageError, why
from iqcar.logs.find.http_client import TOKEN, answer, told
from iqcar.logs.find.layouts import EventLog, LogPart, ToldByServer, arrange
from iqcar.logs.text import redact_text

API = "/api/v1/applications"
MOST_LISTED = 20_000
"""Attempts listed, as many as `iqcar serve` shows; the server is asked for no more."""
MAX_LIST_BYTES = 64 << 20
"""Largest list (64 MiB); an attempt takes some 500 bytes."""
MAX_ZIP_BYTES = 4 << 30
"""Largest zip that is downloaded (4 GiB); a log of 10 GB of text takes about 1 GB."""
KEPT_ZIPS = 2
"""Downloads that a process keeps, in unnamed temporary files: a log is looked into before it is
read, and the parts of a rolling log are read one by one."""
CHOICES = ("user", "name", "since", "until", "status", "limit")
"""What a URL can choose applications by, behind its question mark."""
MOST_NAME = 1000
"""Characters kept of a name that a server tells."""
MOST_NAMED = 20
"""Newest applications named where one has to be chosen."""
DAY_MS = 86_400_000.0

_SERVER = re.compile(
    r"(?P<root>.*)/(?:history|api/v1/applications)/(?P<app>[^/]+)(?:/(?P<attempt>\d+))?(?:/.*)?$"
)
_LOGS = re.compile(r"https?://[^?#]+/api/v1/applications/[^/?#]+(?:/\d+)?/logs$", re.IGNORECASE)
_APP_ID = re.compile(r"[\w.-]{1,200}$", re.ASCII)


class Place(NamedTuple):
    """What a URL names.

    root: URL of the server, up to a gateway's prefix.
    app, attempt: an application and its attempt; empty for all.
    chosen: what the URL chooses by (:data:`CHOICES`).
    certain: whether its form tells that this is a History Server.
    """

    root: str
    app: str = ""
    attempt: str = ""
    chosen: tuple[tuple[str, str], ...] = ()
    certain: bool = False


def place_of(url: str) -> Place | None:
    """Read a URL as one of a History Server; None if it can be none.

    Raises UsageError if it holds a password, or chooses by what nobody knows.
    """
    if not re.match(r"https?://", url, re.IGNORECASE):
        return None
    parts = urlsplit(url)
    base = f"{parts.scheme.lower()}://{parts.netloc}"
    found = _SERVER.match(parts.path)
    query = parse_qsl(parts.query, keep_blank_values=True)
    path = parts.path.rstrip("/")
    if found is None:
        path = path.removesuffix(API).removesuffix("/history").rstrip("/")
        last = path.rpartition("/")[2]
        named = bool(last) and arrange("", [last])[0].named_by_spark
        known = all(name in CHOICES for name, _ in query)
        if "." in last or named or (path and not known):
            return None  # a file, perhaps with a signature behind it
    if "@" in parts.netloc:
        raise UsageError("holds a user or password", base.rpartition("@")[2], f"set {TOKEN}")
    if found is None:
        chosen = tuple(query)
        _check_choice(chosen, base + path)
        return Place(base + path, chosen=chosen, certain=path != parts.path.rstrip("/"))
    app = unquote(found["app"])
    if _APP_ID.match(app) is None:
        raise UsageError("names no application", base + path, "give http://HOST:18080/history/APP")
    return Place(base + found["root"], app, found["attempt"] or "", certain=True)


def _check_choice(chosen: tuple[tuple[str, str], ...], url: str) -> None:
    for name, value in chosen:
        if name not in CHOICES:
            advice = did_you_mean(name, CHOICES, f"there are {', '.join(CHOICES)}")
            raise UsageError(f"chooses by {name!r}, which nothing has", url, advice)
        if name in ("since", "until"):
            _moment(value, name)
        if name == "limit" and not (value.isdecimal() and 0 < int(value) <= MOST_LISTED):
            raise UsageError(f"is no number from 1 to {MOST_LISTED:,}: {value!r}", "limit")
        if name == "status" and value not in ("running", "completed"):
            raise UsageError(f"is neither running nor completed: {value!r}", "status")


def _moment(text: str, name: str) -> float:
    """Read a day (UTC), a point in time, or how long ago, as ms since the epoch."""
    if re.fullmatch(r"\d+d", text):
        return 1e3 * time.time() - int(text[:-1]) * DAY_MS
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        return float(parse_moment(f"{text}T00:00:00Z", name))
    if "-" in text or text.isdecimal():
        return float(parse_moment(text, name))
    return 1e3 * (time.time() - parse_time(text, name))


class SeveralError(UsageError):
    """A server has many applications, and none was chosen.

    lines: the newest, a line of text each.
    """

    def __init__(self, root: str, logs: Sequence[EventLog]) -> None:
        newest = [log for log in logs[:MOST_NAMED] if log.told]
        self.lines = [
            f"{moment(log.told.start_ms)}  {short(redact_text(log.told.user), 16):16}"
            f"  {short(redact_text(log.told.name), 40):40}  {log.path}"
            for log in newest
            if log.told
        ]
        super().__init__(
            f"{len(logs):,} applications are here",
            root,
            f"name one, such as {logs[0].path} (the newest), or choose, such as"
            f" {root}?user=ann&name=etl*&since=1d&limit=10",
        )


class _Attempt(msgspec.Struct, gc=False):
    attempt: str | None = msgspec.field(default=None, name="attemptId")
    start: float = msgspec.field(default=nan, name="startTimeEpoch")
    end: float = msgspec.field(default=nan, name="endTimeEpoch")
    updated: float = msgspec.field(default=nan, name="lastUpdatedEpoch")
    user: str | None = msgspec.field(default=None, name="sparkUser")
    completed: bool = False
    version: str | None = msgspec.field(default=None, name="appSparkVersion")


class _Listed(msgspec.Struct, gc=False):
    id: str
    attempts: list[_Attempt]
    name: str | None = None


def hosted_logs(place: Place) -> list[EventLog]:
    """List the logs that a URL names, the application that started last first.

    Each has one part, the zip; :func:`~iqcar.logs.find.locate.unpacked` finds what is in it.

    Raises DamageError if the server cannot be asked, RefusedError if it refuses, or answers with
    anything but a list of applications.
    """
    known = "applications", "History Server"
    if place.app:
        url = f"{place.root}{API}/{quote(place.app, safe='')}"
        listed = [told(url, MAX_LIST_BYTES, _Listed, *known)]
    else:
        url = f"{place.root}{API}?limit={MOST_LISTED}"
        listed = told(url, MAX_LIST_BYTES, list[_Listed], *known)
    logs = (_log(place.root, one, each) for one in listed for each in one.attempts)
    found = (log for log in logs if log is not None and _is_chosen(log, place))
    limit = next((int(value) for name, value in place.chosen if name == "limit"), MOST_LISTED)
    return nlargest(limit, found, key=lambda log: log.told.start_ms if log.told else -inf)


def _log(root: str, one: _Listed, each: _Attempt) -> EventLog | None:
    """Describe an attempt; None if its id is none that Spark makes."""
    attempt = each.attempt or ""
    if _APP_ID.match(one.id) is None or (attempt and not attempt.isdecimal()):
        return None
    inner = f"{one.id}/{attempt}" if attempt else one.id
    path = f"{root}/history/{inner}"
    told = ToldByServer(
        name=(one.name or "")[:MOST_NAME],
        application_id=one.id,
        attempt_id=attempt,
        user=(each.user or "")[:MOST_NAME],
        spark_version=(each.version or "")[:MOST_NAME],
        start_ms=each.start,
        end_ms=each.end if each.completed else nan,
        last_ms=each.updated,
        completed=each.completed,
    )
    changed = int(each.updated) if isfinite(each.updated) else 0
    part = LogPart(path, f"{root}{API}/{inner}/logs", 0, changed_ms=changed)
    return EventLog(path, (part,), not each.completed, attempt, told=told)


def _is_chosen(log: EventLog, place: Place) -> bool:
    told = cast("ToldByServer", log.told)
    if place.app and (told.application_id != place.app):
        return False
    if place.attempt and told.attempt_id != place.attempt:
        return False
    for name, value in place.chosen:
        wrong = (
            (name == "user" and not fnmatchcase(told.user, value))
            or (name == "name" and not fnmatchcase(told.name, value))
            or (name == "since" and not told.start_ms >= _moment(value, name))
            or (name == "until" and not told.start_ms <= _moment(value, name))
            or (name == "status" and told.completed != (value == "completed"))
        )
        if wrong:
            return False
    return True


def is_hosted(source: str) -> bool:
    """Tell whether a source is the zip of an application on a History Server."""
    return _LOGS.match(source) is not None


def open_zip(url: str) -> BinaryIO:
    """Open the zip of an application; downloads it unless it is kept. Raises as :func:`answer`."""
    with _KEEPING:
        kept = _KEPT.get(url)
        if kept is not None:
            _KEPT.move_to_end(url)
            return _View.of(kept)
    got = _download(url)
    with _KEEPING:
        _KEPT[url] = got
        while len(_KEPT) > KEPT_ZIPS:
            _KEPT.popitem(last=False)
        return _View.of(got)


def forget_zip(url: str) -> None:
    """Ask the server for a zip anew when it is opened next."""
    with _KEEPING:
        _KEPT.pop(url, None)


def _download(url: str) -> Any:
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed when nobody holds it any more
    with answer(url, MAX_ZIP_BYTES) as pieces:
        for piece in pieces:
            try:
                file.write(piece)
                file.flush()
            except OSError as error:
                raise DamageError(f"the zip cannot be kept here: {why(error)}") from error
    return file


_KEPT: OrderedDict[str, Any] = OrderedDict()
_KEEPING = threading.Lock()


class _View(io.RawIOBase):
    """A reader of a file that others read, too, each from a place of its own."""

    def __init__(self, file: Any) -> None:
        self._file = file  # keeps it open
        self._at = 0

    @classmethod
    def of(cls, file: Any) -> BinaryIO:
        return cast("BinaryIO", cls(file))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def fileno(self) -> int:
        return int(self._file.fileno())

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at}.get(whence)
        at = (os.fstat(self.fileno()).st_size if start is None else start) + offset
        if at < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._at = at
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        if hasattr(os, "pread"):  # a forked process has the same file, and reads elsewhere
            data = os.pread(self.fileno(), len(buffer), self._at)
        else:
            with _KEEPING:
                self._file.seek(self._at)
                data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
