"""Reads what users type, and writes what they see: times, sizes, shares, names; one way for all."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone

from iqcar.enums import Request, Resource
from iqcar.errors import UsageError

SECOND_MS = 1_000.0
MINUTE_MS = 60_000.0
HOUR_MS = 3_600_000.0
DAY_MS = 24 * HOUR_MS

DAYS, MINUTES, SECONDS = "%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S"
"""How exactly a point in time is written."""
SHORTEST_MS = 10.0
"""Shortest time that anything can last: the kernel counts processor time in ticks of 10 ms."""
KIB = 1024.0
"""Bytes of a KB as Spark and users mean it; reports write sizes in powers of 1000."""
MOST_SHIFT_MS = 31 * DAY_MS
MOST_MOMENT_MS = 365 * 1000 * DAY_MS
"""A thousand years after 1970: a time in a log beyond them, or before 1970, is damage."""
MOST_FACTOR = 1000.0
MOST_COUNT = 100_000

_NUMBER = r"\d{1,18}(?:\.\d{1,18})?"
_TIME = re.compile(rf"([+−-]?)({_NUMBER}(?:e[+-]?\d{{1,2}})?)\s*(ms|s|min|m|h|days?|d)?", re.ASCII)
_MS = {
    "ms": 1.0, "s": SECOND_MS, None: SECOND_MS, "min": MINUTE_MS, "m": MINUTE_MS, "h": HOUR_MS,
    "d": DAY_MS, "day": DAY_MS, "days": DAY_MS,
}  # fmt: skip
_SIZE = re.compile(rf"({_NUMBER})\s*(?:([kmgtp])i?b?|b)?", re.IGNORECASE | re.ASCII)
_PRICE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:/\s*h)?")
_FACTOR = re.compile(r"(\d+(?:\.\d+)?)\s*[x×]?")

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
    Request.THROTTLED: "the CPU limit",
    Request.EXECUTION_MEMORY: "execution memory",
    Request.STORAGE_MEMORY: "storage memory",
    Request.PAGE_FAULT: "pages of memory",
    Request.SHUFFLE_FETCH: "shuffle blocks",
    Request.IO_READ: "reading",
    Request.IO_WRITE: "writing",
}


_UNITS = ((1.0, "ms"), (SECOND_MS, "s"), (MINUTE_MS, "min"), (HOUR_MS, "h"), (DAY_MS, "days"))
_LIMITS_MS = (SECOND_MS, 2 * MINUTE_MS, 2 * HOUR_MS, 4 * DAY_MS)
"""From where on a time is written in the next unit."""
_COLUMN_LIMITS_MS = (SECOND_MS, HOUR_MS, DAY_MS, 40 * DAY_MS)
"""The same for the largest time of a column of unlike ones."""


def _unit(ms: float, limits: Sequence[float]) -> tuple[float, str]:
    return _UNITS[sum(ms >= limit for limit in limits)]


def duration(ms: float | None) -> str:
    """Format a duration: ``640 ms``, ``41.2 s``, ``12.5 min``, ``3.1 h``, ``9.0 days``.

    NaN is ``unknown``.
    """
    if ms is None or math.isnan(ms):
        return "unknown"
    each, unit = _unit(ms, _LIMITS_MS)
    return f"{ms / each:.{int(each > 1)}f} {unit}"


def one_unit(column: Iterable[float | None]) -> Callable[[float | None], str]:
    """Return what formats the durations of a column, all in one unit and with equal digits.

    Where :func:`duration` would take several, the unit is that of the largest, but not so large
    that small ones could not be told apart.
    """
    times = [abs(ms) for ms in column if ms and math.isfinite(ms)]  # 0 fits any unit
    one = len({_unit(ms, _LIMITS_MS) for ms in times}) <= 1
    each, unit = _unit(max(times, default=0.0), _LIMITS_MS if one else _COLUMN_LIMITS_MS)
    digits = 0 if each == 1 else 1 if all(ms >= each / 20 for ms in times) else 2

    def write(ms: float | None) -> str:
        if ms is None or math.isnan(ms):
            return "unknown"
        amount = f"{ms / each:.{digits if ms else 0}f} {unit}"
        return f"<{10**-digits:.{digits}f} {unit}" if 0 < ms < each / 2 / 10**digits else amount

    return write


def signed(ms: float, write: Callable[[float], str] = duration) -> str:
    """Format a change of time with its sign: ``+7.7 s``."""
    return f"{'+' if ms >= 0 else '−'}{write(abs(ms))}"


def exact_time(ms: float) -> str:
    """Format a time as one types it: ``90 s`` is ``1.5 min``."""
    for unit, each in (("h", HOUR_MS), ("min", MINUTE_MS), ("s", SECOND_MS)):
        if ms >= each:
            return f"{ms / each:g} {unit}"
    return f"{ms:g} ms"


def moment(ms: float | None, form: str = SECONDS) -> str:
    """Format a point in time: ``2024-03-01 12:30:05`` in UTC; empty where unknown or in no year."""
    if ms is None or not 0 <= ms < MOST_MOMENT_MS:
        return ""
    return f"{datetime.fromtimestamp(ms / 1e3, timezone.utc):{form}}"


def size(amount: float, kilo: float = 1e3) -> str:
    """Format a number of bytes: ``512 B``, ``3.4 GB``; with a kilo of 1024 as it was typed."""
    for power, unit in ((4, "TB"), (3, "GB"), (2, "MB"), (1, "KB")):
        if amount >= kilo**power:
            return f"{amount / kilo**power:.1f} {unit}"
    return f"{amount:.0f} B"


def percent(share: float, digits: int = 0) -> str:
    """Format a share: ``62 %``; a positive share that rounds to 0 % becomes ``<1 %``."""
    if digits == 0 and 0 < share < 0.005:
        return "<1 %"
    return f"{share:.{digits}%}".replace("%", " %")


def count_of(number: int, thing: str) -> str:
    """A number of things: ``1 task``, ``2,000 tasks``; the plural ends with s, or ies for y."""
    if number == 1:
        return f"1 {thing}"
    return f"{number:,} {f'{thing[:-1]}ies' if thing.endswith('ry') else f'{thing}s'}"


def change_words(change_percent: float, digits: int = 0) -> str:
    """Write a change: ``-12 %``; nothing has no sign."""
    if abs(change_percent) < 0.5 / 10**digits:
        return "0 %"
    return f"{change_percent:+.{digits}f} %"


def read_time(text: str) -> float | None:
    """Read a time in ms: 500ms, 1s, 2min or 2m, 1h, 3 days, +10m, -30s; a bare number is seconds.

    None if it is no time.
    """
    matched = _TIME.fullmatch(text.strip())
    if matched is None:
        return None
    return (-1 if matched[1] in ("-", "−") else 1) * float(matched[2]) * _MS[matched[3]]


def parse_time(text: str, option: str) -> float:
    """Read how long something lasts, in seconds; raises UsageError."""
    ms = read_time(text)
    if ms is None or ms < SHORTEST_MS:
        raise UsageError(f"is no time of 10 ms or more: {text!r}", option, "give 500ms, 1s or 2min")
    return ms / SECOND_MS


def parse_shift(option: str, given: str | float) -> float:
    """Read how much later or earlier something is, in ms, at most a month; raises UsageError."""
    ms = float(given) if isinstance(given, (int, float)) else read_time(given)
    if ms is None:
        raise UsageError(f"is no time: {given!r}", option, "give +10m, -30s or +1h")
    if not abs(ms) <= MOST_SHIFT_MS:
        raise UsageError(f"is more than a month: {given!r}", option, "give +10m, -30s or +1h")
    return ms


def parse_moment(text: str, option: str) -> int:
    """Read a point in time as epoch ms; raises UsageError.

    Such as ``2026-05-01T12:00:00`` (local, or with Z or +02:00), or epoch ms.
    """
    words = text.strip()
    if re.fullmatch(r"[0-9]{12,14}", words):
        return int(words)
    try:
        return round(datetime.fromisoformat(re.sub("[zZ]$", "+00:00", words)).timestamp() * 1e3)
    except (ValueError, OverflowError, OSError):
        advice = "give one like 2026-10-01T04:00, or milliseconds since 1970"
        raise UsageError(f"is no time: {text[:40]!r}", option, advice) from None


def read_size(text: str, unit: str = "") -> float | None:
    """Read a number of bytes: 512MB, 64k, 1.5g; as in Spark, 1 KB is 1024 bytes.

    None if it is no size. A bare number is of a unit: k, m, g, t, p or bytes.
    """
    matched = _SIZE.fullmatch(text.strip())
    if matched is None:
        return None
    bare = text.strip()[-1:].isdigit()
    letter = unit if bare else (matched[2] or "").lower()
    return float(matched[1]) * KIB ** " kmgtp".index(letter or " ")


def parse_size(text: str, option: str) -> int:
    """Read a number of bytes above 0, as :func:`read_size`; raises UsageError."""
    amount = int(read_size(text) or 0)
    if amount < 1:
        raise UsageError(f"is no size: {text[:40]!r}", option, "give 64KB, 512MB or 2GB")
    return amount


def read_share(text: str) -> float | None:
    """Read ``5%``, ``5 %`` or ``0.05``; None if it is no share."""
    words = text.strip()
    try:
        return float(words.removesuffix("%")) / (100 if words.endswith("%") else 1)
    except ValueError:
        return None


def parse_share(text: str, option: str) -> float:
    """Read a share as :func:`read_share`; raises UsageError."""
    share = read_share(text)
    if share is None:
        raise UsageError(f"is no share: {text!r}", option, "give 5% or 0.05")
    return share


def parse_change(option: str, given: int | str) -> int:
    """Read how many more or fewer: +8 or -8; raises UsageError."""
    try:
        number = int(given)
    except ValueError:
        raise UsageError(f"is no change: {given!r}", option, "give +8 or -8") from None
    if number == 0 or abs(number) > MOST_COUNT:
        raise UsageError(
            f"changes nothing or too much: {given}", option, f"give +1 to +{MOST_COUNT}, or fewer"
        )
    return number


def parse_count(option: str, given: int | str) -> int:
    """Read a number of things; raises UsageError."""
    try:
        number = int(given)
    except ValueError:
        number = 0
    if not 1 <= number <= MOST_COUNT:
        raise UsageError(
            f"is no number from 1 to {MOST_COUNT}: {given!r}", option, "give a whole number"
        )
    return number


def parse_factor(option: str, given: float | str) -> float:
    """Read a factor such as ``2x`` or 0.5; raises UsageError."""
    matched = _FACTOR.fullmatch(str(given).strip())
    factor = float(matched[1]) if matched else math.nan
    if not 1 / MOST_FACTOR <= factor <= MOST_FACTOR:
        raise UsageError(f"is no factor or number above 0: {given!r}", option, "give 2x or 0.5")
    return factor


def parse_price(text: str, option: str = "--price") -> float:
    """Read ``0.4/h``: the price of something for an hour; raises UsageError."""
    matched = _PRICE.fullmatch(text.strip())
    if matched is None:
        raise UsageError(f"is no price: {text!r}", option, "give 0.4/h")
    return float(matched[1])


def short(name: str, width: int = NAME_WIDTH) -> str:
    """Return a name as one line of at most ``width`` characters, without control characters.

    A number is cut off whole, where much of the name is left without it.

    >>> short("job-group-6625579578828", 16)
    'job-group-…'
    """
    line = " ".join(printable(name).split())
    if len(line) <= width:
        return line
    cut = line[: width - 1]
    whole = cut.rstrip("0123456789.,") if line[width - 1].isdigit() else cut
    return (whole if len(whole) >= width // 2 else cut) + "…"


def cut(text: str, width: int) -> str:
    """Return a text of at most ``width`` characters; no number, and where it can no word, is cut.

    >>> cut("Total size of 1,234 MB is too large", 18)
    'Total size of…'
    """
    if len(text) <= width:
        return text
    kept = text[: width - 1]
    at = kept.rfind(" ") if text[width - 1] != " " else width - 1
    kept = kept[:at] if at > width // 2 else kept.rstrip("0123456789.,") or kept
    return f"{kept.rstrip()}…"


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
