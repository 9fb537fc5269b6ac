"""Format durations, shares, names and sums for tables and sentences."""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence

from iqcar.enums import Request, Resource

SECOND_MS = 1_000.0
MINUTE_MS = 60_000.0
HOUR_MS = 3_600_000.0
DAY_MS = 24 * HOUR_MS

APPLICATION_WIDTH = 4
"""Characters at the end of an application's id that identify it: Spark's ids end in a counter."""
NAME_WIDTH = 48
"""Characters of a query's name in a table; SQL texts are longer than any screen."""

RESOURCE_NAMES = {
    Resource.SLOTS: "slots",
    Resource.EXECUTORS: "executors",
    Resource.CPU: "CPU",
    Resource.MEMORY: "memory",
    Resource.NETWORK: "network",
    Resource.IO: "IO",
}

REQUEST_NAMES = {
    Request.SLOT_WAIT: "a free slot",
    Request.EXECUTOR_WAIT: "an executor",
    Request.RUN_QUEUE: "the processor",
    Request.MONITOR_BLOCKED: "a lock",
    Request.NOTIFICATION_WAIT: "another thread's signal",
    Request.EXECUTION_MEMORY: "execution memory",
    Request.STORAGE_MEMORY: "storage memory",
    Request.SHUFFLE_FETCH: "shuffle blocks",
    Request.IO_READ: "reading",
    Request.IO_WRITE: "writing",
}


def duration(ms: float | None) -> str:
    """Format a duration: ``640 ms``, ``41.2 s``, ``12.5 min``, ``3.1 h``, ``9.0 days``.

    NaN is ``unknown``.
    """
    if ms is None or math.isnan(ms):
        return "unknown"
    if ms < SECOND_MS:
        return f"{ms:.0f} ms"
    if ms < 2 * MINUTE_MS:
        return f"{ms / SECOND_MS:.1f} s"
    if ms < 2 * HOUR_MS:
        return f"{ms / MINUTE_MS:.1f} min"
    if ms < 4 * DAY_MS:
        return f"{ms / HOUR_MS:.1f} h"
    return f"{ms / DAY_MS:.1f} days"


def signed(ms: float) -> str:
    """Format a change of time with its sign: ``+7.7 s``."""
    return f"{'+' if ms >= 0 else '−'}{duration(abs(ms))}"


def size(amount: float) -> str:
    """Format a number of bytes: ``512 B``, ``3.4 GB``."""
    for unit, bytes_each in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if amount >= bytes_each:
            return f"{amount / bytes_each:.1f} {unit}"
    return f"{amount:.0f} B"


def percent(share: float) -> str:
    """Format a share: ``62 %``; a positive share that rounds to 0 % becomes ``<1 %``."""
    if 0 < share < 0.005:
        return "<1 %"
    return f"{share:.0%}".replace("%", " %")


def short(name: str, width: int = NAME_WIDTH) -> str:
    """Return a name as one line of at most ``width`` characters, without control characters."""
    line = " ".join(printable(name).split())
    return line if len(line) <= width else line[: width - 1] + "…"


def printable(text: str, keep: str = "") -> str:
    """Replace control characters but some: a terminal would interpret those in names from a log."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(" " if c not in keep and unicodedata.category(c) in _UNSEEN else c for c in text)


_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
LINES = "\n\t"
"""Control characters that stay in texts of several lines."""


def resource_name(value: str) -> str:
    """Return the display name of a resource."""
    return RESOURCE_NAMES[Resource(value)]


def breakdown(parts: Mapping[str, float], names: Mapping[str, str] | None = None) -> str:
    """Format the parts of a sum, largest first, without those under a hundredth of it."""
    total = sum(parts.values())
    kept = [
        f"{(names or {}).get(key, key)} {duration(value)}"
        for key, value in sorted(parts.items(), key=lambda item: -item[1])
        if total > 0 and value >= total / 100
    ]
    return ", ".join(kept)


def run_numbers(ids: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return a short id for each run of a query: the end of the query's id, such as ``sql-14``.

    If runs of several applications share name and number, the end of the application's id
    precedes it: ``…1047/sql-14``.
    """
    ends = [query_id.rpartition("/")[2] for query_id in ids]
    times = Counter(zip(names, ends, strict=True))
    return [
        f"…{query_id.partition('/')[0][-APPLICATION_WIDTH:]}/{end}" if times[name, end] > 1 else end
        for query_id, name, end in zip(ids, names, ends, strict=True)
    ]
