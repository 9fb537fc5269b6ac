"""Search, sort and page the list of applications."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import ceil
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from iqcar.enums import InputStatus, Kind

if TYPE_CHECKING:
    from iqcar.apps.serve.applications import Application

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


class Order(Enum):
    """Direction of sorting; what is unknown comes last in both."""

    ASCENDING = "asc"
    DESCENDING = "desc"


class Wanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a request wants to see of the list: its query parameters."""

    q: Annotated[
        str,
        Meta(
            max_length=MAX_SEARCH,
            description="Words that all must occur in name, application id, user, Spark version, "
            "status, file name, worst-hit query or whom it lost most to, whatever their case.",
        ),
    ] = ""
    sort: Annotated[SortBy, Meta(description="Column to sort by.")] = SortBy.START
    order: Annotated[Order, Meta(description="Direction; what is unknown comes last.")] = (
        Order.DESCENDING
    )
    status: Annotated[
        InputStatus | UnsetType, Meta(description="Only applications whose log is in this state.")
    ] = UNSET
    page: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="Page of the list, from 1; a page after the last is the last.",
        ),
    ] = 1
    size: Annotated[int, Meta(ge=1, le=MAX_PAGE_SIZE, description="Applications on a page.")] = 50


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
    known.sort(key=value, reverse=wanted.order is Order.DESCENDING)
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
