"""Parse amounts and times, and write an injection as a line of text."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from iqcar.errors import UsageError
from iqcar.lab.inject.host_limits import megabytes

if TYPE_CHECKING:
    from iqcar.lab.inject.injection_log import Record

_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*(?:([kmgt]?)i?b?)", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_MOVED = {
    "written_bytes": "wrote",
    "read_bytes": "read",
    "sent_bytes": "sent",
    "received_bytes": "received",
}


def parse_size(text: str, option: str) -> int:
    """Read a size such as 512MB, 64KB, 1g; as in Spark, 1 KB is 1024 bytes; raises UsageError."""
    match = _SIZE.fullmatch(text.strip())
    size = int(float(match.group(1)) * 1024 ** _POWERS[match.group(2).lower()]) if match else 0
    if size < 1:
        raise UsageError(f"{text[:40]!r} is no size", option, "write 64KB, 512MB or 2GB")
    return size


def parse_moment(text: str, option: str) -> int:
    """Read a moment as epoch ms: ``2026-05-01T12:00:00`` (local, or with Z or +02:00), or epoch ms.

    Raises
    ------
    UsageError
        If it is none.
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


def one_line(record: Record) -> str:
    """Say what an injection was."""
    name = f"{record.anomaly} on {record.host}"
    if record.start_ms is None or record.end_ms is None:
        return f"{name}: {record.error or 'stopped before it began'}"
    seconds = (record.end_ms - record.start_ms) / 1000
    parts = [f"{seconds:.1f} s from {_clock(record.start_ms)}", _hogs(len(record.hogs))]
    done = record.achieved
    if "cores" in done:
        parts.append(f"{done['cores']:.2f} cores")
    for key, word in _MOVED.items():
        if done.get(key):
            rate = megabytes(int(done.get(f"{key}_per_s", 0)))
            parts.append(f"{word} {megabytes(int(done[key]))} ({rate}/s)")
    if "held_bytes" in done:
        parts.append(f"held {megabytes(int(done['held_bytes']))}")
    if record.stopped:
        parts.append(f"stopped by {record.stopped}")
    if record.error:
        parts.append(record.error)
    return f"{name}: {', '.join(parts)}"


def _hogs(count: int) -> str:
    return f"{count} hog{'' if count == 1 else 's'}"


def _clock(epoch_ms: int) -> str:
    moment = datetime.fromtimestamp(epoch_ms / 1000, timezone.utc).astimezone()
    return moment.isoformat(timespec="milliseconds")
