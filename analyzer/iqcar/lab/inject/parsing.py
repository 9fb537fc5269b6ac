"""Parses sizes and moments of injections."""

from __future__ import annotations

import re
from datetime import datetime

from iqcar.errors import UsageError

_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*(?:([kmgt]?)i?b?)", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(text: str, option: str) -> int:
    """Read a size such as 512MB, 64KB, 1g; as in Spark, 1 KB is 1024 bytes; raises UsageError."""
    match = _SIZE.fullmatch(text.strip())
    size = int(float(match.group(1)) * 1024 ** _POWERS[match.group(2).lower()]) if match else 0
    if size < 1:
        raise UsageError(f"{text[:40]!r} is no size", option, "write 64KB, 512MB or 2GB")
    return size


def parse_moment(text: str, option: str) -> int:
    """Read a moment as epoch ms: ``2026-05-01T12:00:00`` (local, or with Z or +02:00), or epoch ms.

    Raises UsageError if it is none.
    """
    words = text.strip()
    if re.fullmatch(r"[0-9]{12,14}", words):
        return int(words)
    try:
        moment = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", words))
        return round(moment.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        advice = "write 2026-05-01T12:00:00 or milliseconds since 1970"
        raise UsageError(f"{text[:40]!r} is no moment", option, advice) from None
