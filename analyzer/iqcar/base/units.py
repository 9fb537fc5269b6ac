"""Reads and writes times, sizes and shares: one way for all that users type and see."""

from __future__ import annotations

import math
import re

from iqcar.errors import UsageError

SECOND_MS = 1_000.0
MINUTE_MS = 60_000.0
HOUR_MS = 3_600_000.0
DAY_MS = 24 * HOUR_MS

_MS = {"ms": 1.0, "s": SECOND_MS, "": SECOND_MS, "m": MINUTE_MS, "min": MINUTE_MS, "h": HOUR_MS}
_MS |= {"d": DAY_MS, "day": DAY_MS, "days": DAY_MS}
_TIME = re.compile(r"([+\-−]?)\s*(\d{1,18}(?:\.\d{1,18})?)\s*([a-z]*)", re.ASCII)
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*(?:([kmgt]?)i?b?)", re.IGNORECASE | re.ASCII)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_FACTOR = re.compile(r"(\d+(?:\.\d+)?)\s*[x×]?")


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


def parse_share(text: str, option: str) -> float:
    """Read ``5%``, ``5 %`` or ``0.05``; raises UsageError."""
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise UsageError(f"is no share: {text!r}", option, "give 5% or 0.05") from None
