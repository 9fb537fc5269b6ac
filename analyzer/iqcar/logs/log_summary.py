"""What a log says of its application without being read whole: its first and last lines.

A folder of a History Server holds thousands of logs of up to gigabytes; a list of them needs the
name, the user and two times of each.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite, isnan, nan

import msgspec

from iqcar.base.units import DAYS, moment
from iqcar.enums import InputStatus
from iqcar.logs.collect import LONGEST_QUIET_MS, MAX_NAME
from iqcar.logs.decode.streams import HEAD_BYTES as CODEC_BYTES
from iqcar.logs.decode.streams import Codec, DamageError, decoded_pieces, detect
from iqcar.logs.events import lenient
from iqcar.logs.events.task_structs import NOT_FITTING, plain_name
from iqcar.logs.find.layouts import EventLog, LogPart, ToldByServer
from iqcar.logs.find.storage import open_part, open_source
from iqcar.logs.text import redact_text
from iqcar.tables import LAST_PLAUSIBLE_MS

MAX_HEAD_BYTES = 4 << 20
"""Decoded bytes looked at for the application's start (4 MiB). The environment before it takes
some 100 KB; more than a megabyte only where class paths have thousands of entries."""

ENOUGH_LINES = 200
"""Lines read after the application's start, to learn its first hosts: executors register there."""

TAIL_BYTES = 64 << 10
"""Bytes looked at for the application's end (64 KiB): it is the last event, a short one, seldom
followed by a few events that were late."""

WHOLE_BYTES = 1 << 20
"""Stored size up to which a compressed log is decoded to its end (1 MiB); a larger one's end is
not known before it is analysed, because its stream can only be read from the front."""

MAX_DECODED_BYTES = 64 << 20
"""Decoded bytes after which looking for the end of such a log is given up (64 MiB)."""

MAX_HOSTS = 1000
"""Hosts kept of one log."""


class _Named(msgspec.Struct, gc=False):
    host: str = msgspec.field(default="", name="Host")


class _EventLine(msgspec.Struct, gc=False):
    """The fields that the wanted events hold; no two of them use one name differently."""

    event: str = msgspec.field(default="", name="Event")
    version: str = msgspec.field(default="", name="Spark Version")
    name: str = msgspec.field(default="", name="App Name")
    id: str | None = msgspec.field(default=None, name="App ID")
    time: float = msgspec.field(default=nan, name="Timestamp")
    user: str | None = msgspec.field(default=None, name="User")
    attempt: str | None = msgspec.field(default=None, name="App Attempt ID")
    executor: _Named = msgspec.field(default_factory=_Named, name="Executor Info")
    task: _Named = msgspec.field(default_factory=_Named, name="Task Info")


_decode = msgspec.json.Decoder(_EventLine).decode
_WANTED = re.compile(
    rb'"(?:[\w.]*\.)?(?:SparkListener(?:LogStart|Application(?:Start|End)|ExecutorAdded|Task(?:Start|End))'
    rb'|DBCEventLoggingListenerMetadata)"'
)


_TIMES = re.compile(
    rb'"(?:Timestamp|Launch Time|Finish Time|(?:Submission|Completion) Time|time)":\s?'
    rb"(\d{1,15}(?:\.\d{1,3})?)[,}]"
)
"""Times of the driver in an event; in a text they would stand behind escaped quotes."""


@dataclass
class Peek:
    """What the first and last lines of a log say.

    name, application_id, attempt_id, user, spark_version: as Spark wrote them, without secrets;
        empty where not recorded.
    start_ms, end_ms, last_ms: since the epoch: its start, its end, and the last event that was
        seen; NaN where not seen.
    status: as far as it is known without reading the log.
    message: why it cannot be read, or what is doubtful; empty if nothing.
    hosts: hosts of the first and last executors and tasks: some of its hosts, not all.
    """

    name: str = ""
    application_id: str = ""
    attempt_id: str = ""
    user: str = ""
    spark_version: str = ""
    start_ms: float = nan
    end_ms: float = nan
    last_ms: float = nan
    status: InputStatus = InputStatus.COMPLETE
    message: str = ""
    hosts: frozenset[str] = frozenset()


def peek(log: EventLog) -> Peek:
    """Read the head and the tail of a log; never more, whatever is in it.

    Raises IqcarError if a URL needs a package that is not installed. All else that fails is told in
    the result.
    """
    if log.told is not None:
        return _as_told(log.told)
    lines = _Lines()
    damage = _read_head(log.parts[0], lines)
    found = lines.found
    if not lines.events:
        found.status = InputStatus.FAILED
        found.message = damage or "its first lines are no Spark events"
        return found
    end_known = lines.ended or _read_tail(log.parts[-1], lines)
    if not lines.ended and (end_known or log.in_progress_hint):
        found.status = InputStatus.IN_PROGRESS
    if log.problem:
        found.status, found.message = InputStatus.TRUNCATED, log.problem
    found.attempt_id = found.attempt_id or log.attempt_id
    found.end_ms = found.end_ms if found.end_ms >= found.start_ms else nan
    found.last_ms = found.last_ms if end_known else nan
    found.hosts = frozenset(lines.hosts)
    return _with_last(found)


def _as_told(told: ToldByServer) -> Peek:
    """Take what a server says for what the log does; its hosts are not known."""
    found = Peek(
        name=redact_text(told.name, MAX_NAME),
        application_id=redact_text(told.application_id, MAX_NAME),
        attempt_id=redact_text(told.attempt_id, MAX_NAME),
        user=redact_text(told.user, MAX_NAME),
        spark_version=redact_text(told.spark_version, MAX_NAME),
        start_ms=sensible(told.start_ms),
        end_ms=sensible(told.end_ms),
        last_ms=sensible(told.last_ms),
    )
    if not told.completed:
        found.status = InputStatus.IN_PROGRESS
    return _with_last(found)


def _with_last(found: Peek) -> Peek:
    if found.status is InputStatus.IN_PROGRESS and isfinite(found.last_ms):
        found.message = f"no end since {moment(found.last_ms, DAYS)}"
    return found


class _Lines:
    """Gathers what single lines say."""

    def __init__(self) -> None:
        self.found = Peek()
        self.started = self.ended = False
        self.hosts: set[str] = set()
        self.events = 0

    def add(self, line: bytes) -> None:
        """Take in a line, if it is a whole event of a wanted kind."""
        if not line.lstrip(b"\xef\xbb\xbf \t").startswith(b"{"):
            return
        is_event = b'"Event"' in line[:MAX_NAME]
        self.events += is_event
        if is_event:
            for time in _TIMES.findall(line):
                seen_ms = sensible(float(time))
                last_ms = self.found.last_ms
                if isnan(last_ms) or last_ms < seen_ms < last_ms + LONGEST_QUIET_MS:
                    self.found.last_ms = seen_ms
        if _WANTED.search(line, 0, MAX_NAME) is None:
            return
        try:
            seen = _decode(line)
        except NOT_FITTING:
            try:
                seen = lenient.fit(_EventLine, lenient.parse(line), lenient.BadNumbers())
            except ValueError:
                return
        self._take(plain_name(seen.event), seen)

    def _take(self, event: str, seen: _EventLine) -> None:
        found = self.found
        if event == "SparkListenerApplicationStart":
            self.started = True
            found.name = redact_text(seen.name, MAX_NAME)
            found.application_id = redact_text(seen.id, MAX_NAME)
            found.attempt_id = redact_text(seen.attempt, MAX_NAME)
            found.user = redact_text(seen.user, MAX_NAME)
            found.start_ms = sensible(seen.time)
        elif event == "SparkListenerApplicationEnd":
            self.ended, found.end_ms = True, sensible(seen.time)
        elif host := seen.executor.host or seen.task.host:
            if len(self.hosts) < MAX_HOSTS:
                self.hosts.add(redact_text(host, MAX_NAME))
        elif seen.version:
            found.spark_version = redact_text(seen.version, MAX_NAME)


def sensible(time_ms: float) -> float:
    """Return a time in ms since the epoch; NaN for one that no clock shows."""
    return time_ms if isfinite(time_ms) and 0 < time_ms < LAST_PLAUSIBLE_MS else nan


def _read_head(part: LogPart, lines: _Lines) -> str:
    """Read until some lines after the application's start; return why that failed, if it did."""
    held, size, after = b"", 0, 0
    try:
        with open_part(part) as stream:
            for chunk in decoded_pieces(stream):
                size += len(chunk)
                *whole, held = (held + chunk).split(b"\n")
                for line in whole:
                    lines.add(line)
                    after += lines.started
                    if after > ENOUGH_LINES:
                        return ""
                if size >= MAX_HEAD_BYTES:
                    return ""
    except DamageError as error:
        return str(error)
    lines.add(held)
    return "" if size else "empty: no event was written yet, or the log is not a Spark event log"


def _read_tail(part: LogPart, lines: _Lines) -> bool:
    """Read the last lines; tell whether the end of the log could be looked at."""
    try:
        with open_part(part) as stream:
            if not part.member and detect(stream.head(CODEC_BYTES)) is Codec.PLAIN:
                tail = _stored_tail(part)
            elif part.size_bytes <= WHOLE_BYTES:
                tail, size = b"", 0
                for chunk in decoded_pieces(stream):
                    size += len(chunk)
                    if size > MAX_DECODED_BYTES:
                        return False
                    tail = (tail + chunk)[-TAIL_BYTES:]
            else:
                return False
    except Exception:  # any backend's own error type: what is there was read once already
        return False
    for line in tail.split(b"\n")[1:]:
        lines.add(line)
    return True


def _stored_tail(part: LogPart) -> bytes:
    with open_source(part.source, part.within) as file:
        end = file.seek(0, 2)
        file.seek(max(0, end - TAIL_BYTES))
        return file.read(TAIL_BYTES)
