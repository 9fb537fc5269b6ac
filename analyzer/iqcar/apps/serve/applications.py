"""Describes the applications of the list: their neighbours, which come next, search and order."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from heapq import nlargest
from math import ceil, isnan
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType

from iqcar.apps.serve.cache import ApplicationLoss, FirstFinding, Identity, Summary
from iqcar.enums import InputStatus, Kind
from iqcar.logs.find.layouts import IN_PROGRESS, EventLog, LogPart
from iqcar.logs.find.storage import is_url
from iqcar.logs.log_summary import Peek

KEY_BYTES = 12
"""Bytes of a key (12, in 24 hexadecimal digits): unlikely to be the same for two of a billion."""

NS_PER_MS = 1_000_000
"""File systems tell times in ns, Spark in ms."""


def key_of(path: str) -> str:
    """Name a log for addresses: the same before and after Spark takes ``.inprogress`` away."""
    shown = path.removesuffix(IN_PROGRESS).encode("utf-8", "surrogatepass")
    return hashlib.sha256(shown).hexdigest()[: 2 * KEY_BYTES]


def identity_of(log: EventLog) -> Identity:
    """Look up what would change if the log did; of remote objects only the size is asked."""
    return tuple((part.source, part.member, *_state_of(part)) for part in log.parts)


def _state_of(part: LogPart) -> tuple[int, int]:
    """Return size and time of change (0 if not known), as they were at one moment."""
    if not is_url(part.source):
        with contextlib.suppress(OSError):
            status = Path(part.source).stat()
            return status.st_size, status.st_mtime_ns
    return part.size_bytes, part.changed_ms * NS_PER_MS


@dataclass
class Application:
    """An application as the list shows it.

    key: what addresses call it; made from the log's place, so it outlives the server.
    path: where its log is, as shown.
    log: None where the place holds no log that can be read.
    identity: what its log was when it was last looked at.
    peek: what its first and last lines say; None until they were read.
    summary: what the last analysis with the server's settings found, of this or an earlier state of
    the log; None if there was none.
    summary_is_current: whether that analysis was of the log as it is now.
    loss: what it lost and to whom, by the newest result about most applications with it.
    """

    key: str
    path: str
    log: EventLog | None
    identity: Identity = ()
    peek: Peek | None = None
    summary: Summary | None = None
    summary_is_current: bool = False
    loss: ApplicationLoss | None = None

    @property
    def name(self) -> str:
        """Name of the application; its file's where the log gives none."""
        return (self.peek.name if self.peek else "") or self.file_name

    @property
    def file_name(self) -> str:
        """Last part of the log's path."""
        last = self.path.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
        return last.rsplit("::", 1)[-1] or self.path

    @property
    def application_id(self) -> str:
        """Application id as Spark wrote it; empty where not recorded."""
        return self.peek.application_id if self.peek else ""

    @property
    def size_bytes(self) -> int:
        """Stored size of the log."""
        return self.log.size_bytes if self.log else 0

    @property
    def start_ms(self) -> float | None:
        """When it started, since the epoch."""
        return _known(self.peek.start_ms) if self.peek else None

    @property
    def end_ms(self) -> float | None:
        """When it ended: from the log's end or, where that was not looked at, from the analysis."""
        if self.peek is None or self.peek.status is InputStatus.IN_PROGRESS:
            return None
        end = _known(self.peek.end_ms)
        if end is None and self.summary and self.summary_is_current:
            end = self.summary.end_ms
        return end

    @property
    def ran_until_ms(self) -> float | None:
        """When it ended or, where the log has no end, its last event.

        Where that was not looked at, either, when the log was last written, if it is no copy.
        """
        if self.end_ms is not None:
            return self.end_ms
        last = _known(self.peek.last_ms) if self.peek else None
        if last is None and self.summary and self.summary_is_current:
            last = self.summary.end_ms
        if last is None and self.identity:
            last = self.identity[-1][3] / NS_PER_MS or None
            if last and self.start_ms is not None and last - self.start_ms > LONGEST_RUN_MS:
                return None
        return last

    @property
    def duration_ms(self) -> float | None:
        """Time from start to end."""
        start, end = self.start_ms, self.end_ms
        return end - start if start is not None and end is not None and end >= start else None

    @property
    def lost_ms(self) -> float | None:
        """Time its queries lost, to other applications too where it was analysed with them."""
        if self.loss is not None:
            return self.loss.lost_ms
        return self.summary.lost_ms if self.summary else None

    @property
    def is_readable(self) -> bool:
        """Whether its first lines were read, and say that it can be analysed."""
        if self.log is None or self.peek is None:
            return False
        return self.peek.status is not InputStatus.FAILED

    @property
    def finding(self) -> FirstFinding | None:
        """What would save most time; None if nothing would, or nobody knows."""
        return self.summary.first_finding if self.summary else None

    @property
    def hosts(self) -> frozenset[str]:
        """Hosts it ran on, as far as known."""
        if self.summary and self.summary.hosts:
            return frozenset(self.summary.hosts)
        return self.peek.hosts if self.peek else frozenset()


LONGEST_RUN_MS = 31 * 86_400_000.0
"""Time from a start to when a log was last written (a month) from which it may be a copy's time."""


def _known(number: float) -> float | None:
    return None if isnan(number) else number


class Neighbour(NamedTuple):
    """An application that shared hosts with another one for some time."""

    application: Application
    overlap_ms: float
    """Time that both ran."""
    hosts: tuple[str, ...]
    """Hosts known to have run both, in order."""


def neighbours_of(one: Application, others: Iterable[Application]) -> list[Neighbour]:
    """Find the applications that ran beside one, the longest beside it first.

    Hosts are compared by name. Before an application was analysed only some of its hosts are known
    (:class:`~iqcar.logs.log_summary.Peek`), so a neighbour may be missing; an application
    whose start is unknown has none. One without an end counts as running until its last event.
    """
    start, end = one.start_ms, one.ran_until_ms
    if start is None or end is None:
        return []
    hosts = one.hosts
    found = []
    for other in others:
        other_start, other_end = other.start_ms, other.ran_until_ms
        if other.key == one.key or other_start is None or other_end is None:
            continue
        overlap = min(end, other_end) - max(start, other_start)
        if overlap > 0 and (shared := hosts & other.hosts):
            found.append(Neighbour(other, overlap, tuple(sorted(shared))))
    found.sort(key=lambda each: (-each.overlap_ms, each.application.name, each.application.key))
    return found


MS_PER_HOUR = 3_600_000.0


MIB = 1 << 20
MOST_SMALL = 200
"""Newest of the small logs that are analysed unasked (200): their results fill no cache."""


class NextLogs:
    """Chooses what is analysed while nobody waits, each state of a log once.

    within_hours: how long ago an application may have ended, whatever its size; None for no time.
    small_mib: stored size up to which logs are analysed whenever they ended; 0 for none.
    asked: keys of applications that were asked for all at once.
    """

    def __init__(self, within_hours: float | None, small_mib: float) -> None:
        self._within_ms = -1.0 if within_hours is None else within_hours * MS_PER_HOUR
        self._small_bytes = small_mib * MIB
        self._chosen: dict[str, Identity] = {}
        self.asked: set[str] = set()

    @property
    def looks(self) -> bool:
        """Whether new logs are looked for although nobody asks."""
        return self._within_ms >= 0 or self._small_bytes > 0

    def choose(self, applications: Iterable[Application], now_ms: float) -> Application | None:
        """Return the one that ended last and has no result yet; None if there is none.

        What was chosen before is not chosen again until its log changes, so that a log whose
        analysis fails does not keep out the others.

        applications: all that are listed.
        now_ms: since the epoch.
        """
        listed = {one.key: one for one in applications}
        self._chosen = {key: was for key, was in self._chosen.items() if key in listed}
        self.asked = {key for key in self.asked if key in listed and self._is_open(listed[key])}
        small = (one for one in listed.values() if 0 < one.size_bytes <= self._small_bytes)
        wanted = {one.key for one in nlargest(MOST_SMALL, small, key=_age)}
        newest = max(
            (one for one in listed.values() if self._is_next(one, now_ms, wanted)),
            key=lambda one: (one.key in self.asked, *_age(one)),
            default=None,
        )
        if newest is not None:
            self._chosen[newest.key] = newest.identity
        return newest

    def _is_open(self, one: Application) -> bool:
        """Tell whether its log can be read and was neither analysed nor chosen as it is."""
        known = one.summary_is_current or self._chosen.get(one.key) == one.identity
        return one.is_readable and not known

    def _is_next(self, one: Application, now_ms: float, small: set[str]) -> bool:
        if not self._is_open(one) or one.key in self.asked:
            return one.key in self.asked
        if one.peek is None or one.peek.status is not InputStatus.COMPLETE:
            return False
        until = one.ran_until_ms
        return one.key in small or (until is not None and now_ms - until <= self._within_ms)


def _age(one: Application) -> tuple[float, str]:
    return one.ran_until_ms or 0.0, one.key


MAX_PAGE_SIZE = 500
"""Most applications on one page of the list."""

MAX_SEARCH = 200
"""Characters of a search."""


class SortBy(Kind):
    """The columns of the list, each of which it can be sorted by."""

    NAME = "name", "Name of the application."
    APPLICATION_ID = "application_id", "Application id as Spark wrote it."
    USER = "user", "User that ran it."
    SPARK_VERSION = "spark_version", "Spark version that wrote the log."
    START = "start_ms", "When it started."
    DURATION = "duration_ms", "How long it ran."
    STATUS = "status", "Whether its log is complete."
    SIZE = "size_bytes", "Stored size of its log."
    SAVES = "saves_ms", "Time that the first of its findings saves, once analysed."
    LOST = "lost_ms", "Time its queries lost, once analysed."
    WORST = "worst_name", "Its worst-hit query, once analysed."
    MOST_TO = "most_to_ms", "Time it lost to whom it lost most to, once analysed."


class ListOrder(Enum):
    """Direction of sorting; what is unknown comes last in both."""

    ASCENDING = "asc"
    DESCENDING = "desc"


class Wanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a request wants to see of the list: its query parameters."""

    q: Annotated[
        str,
        Meta(max_length=MAX_SEARCH),
        "Words that all must occur in name, application id, user, Spark version, "
        "status, file name, worst-hit query or whom it lost most to, whatever their case.",
    ] = ""
    sort: Annotated[SortBy, "Column to sort by."] = SortBy.START
    order: Annotated[ListOrder, "Direction; what is unknown comes last."] = ListOrder.DESCENDING
    status: Annotated[InputStatus | UnsetType, "Only applications whose log is in this state."] = (
        UNSET
    )
    page: Annotated[
        int,
        Meta(ge=1, le=1_000_000),
        "Page of the list, from 1; a page after the last is the last.",
    ] = 1
    size: Annotated[int, Meta(ge=1, le=MAX_PAGE_SIZE), "Applications on a page."] = 50


@dataclass(frozen=True)
class Page:
    """One page of the chosen applications."""

    applications: list[Application]
    number: int
    """From 1; a page after the last one is the last."""
    pages: int
    """At least 1."""
    chosen: int
    """Applications that match, on all pages."""
    total: int
    """Applications in all."""


def select(applications: Sequence[Application], wanted: Wanted) -> Page:
    """Search, sort and cut out one page; ties keep the order of names."""
    words = wanted.q.casefold().split()
    chosen = [
        one
        for one in applications
        if (wanted.status is UNSET or status_of(one) == wanted.status)
        and all(word in _searched(one) for word in words)
    ]
    value = _VALUES[wanted.sort]
    known = [one for one in chosen if value(one) not in (None, "")]
    unknown = [one for one in chosen if value(one) in (None, "")]
    unknown.sort(key=_name)
    known.sort(key=_name)
    known.sort(key=value, reverse=wanted.order is ListOrder.DESCENDING)
    ordered = known + unknown
    pages = max(1, ceil(len(ordered) / wanted.size))
    number = min(wanted.page, pages)
    first = (number - 1) * wanted.size
    return Page(
        ordered[first : first + wanted.size], number, pages, len(ordered), len(applications)
    )


def status_of(one: Application) -> InputStatus | None:
    """Return what is known of a log's state; None before its first lines were read."""
    return one.peek.status if one.peek else None


def _searched(one: Application) -> str:
    peek = one.peek
    about = (peek.application_id, peek.user, peek.spark_version, str(peek.status)) if peek else ()
    worst = (one.summary.worst_name or "") if one.summary else ""
    to = (one.loss.most_to or "") if one.loss else ""
    return "\n".join((one.name, one.file_name, worst, to, *about)).casefold()


def _name(one: Application) -> str:
    return one.name.casefold()


_VALUES: dict[SortBy, Callable[[Application], Any]] = {
    SortBy.NAME: _name,
    SortBy.APPLICATION_ID: lambda one: one.application_id,
    SortBy.USER: lambda one: one.peek.user.casefold() if one.peek else "",
    SortBy.SPARK_VERSION: lambda one: _version(one.peek.spark_version) if one.peek else None,
    SortBy.START: lambda one: one.start_ms,
    SortBy.DURATION: lambda one: one.duration_ms,
    SortBy.STATUS: lambda one: str(one.peek.status) if one.peek else "",
    SortBy.SIZE: lambda one: one.size_bytes,
    SortBy.SAVES: lambda one: one.finding.saves_ms if one.finding else None,
    SortBy.LOST: lambda one: one.lost_ms,
    SortBy.MOST_TO: lambda one: one.loss.most_to_ms if one.loss and one.loss.most_to else None,
    SortBy.WORST: lambda one: (one.summary.worst_name or "").casefold() if one.summary else "",
}


def _version(version: str) -> list[tuple[int, str]] | None:
    """Compare versions by their numbers: 3.10 comes after 3.9."""
    if not version:
        return None
    return [(int(part[:9]), "") if part.isdecimal() else (-1, part) for part in version.split(".")]
