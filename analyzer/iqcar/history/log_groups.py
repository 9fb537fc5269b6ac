"""Groups logs by time: applications that ran at once are diagnosed together.

Who made an application wait may be another application. Which ones ran at once is told by the first
and last lines of their logs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import TYPE_CHECKING

from iqcar.logs.find.log_parts import EventLog

if TYPE_CHECKING:
    from iqcar.logs.log_summary import Peek

MOST_LOGS = 40
"""Logs that are diagnosed together at most."""
MOST_BYTES = 1 << 30
"""Stored size of logs that are diagnosed together at most (1 GiB); a single log may be larger."""
UNKNOWN_MS = 3_600_000.0
"""How long an application is taken to run where its end is not known (1 h)."""


@dataclass(frozen=True)
class Groups:
    """Logs to diagnose together.

    Attributes
    ----------
    groups : list of list of EventLog
    cut : int
        How many groups begin while applications of the group before still ran: blame across that
        border is missing.
    """

    groups: list[list[EventLog]]
    cut: int


def group_logs(logs: Sequence[tuple[EventLog, Peek]]) -> Groups:
    """Group logs whose applications ran at once.

    Parameters
    ----------
    logs : sequence of (EventLog, Peek)

    Returns
    -------
    Groups
        In the order of their starts; logs without a known start are alone.
    """
    alone = [[log] for log, peek in logs if not isfinite(peek.start_ms)]
    timed = sorted(
        ((peek.start_ms, end_of(peek), log) for log, peek in logs if isfinite(peek.start_ms)),
        key=lambda one: (one[0], one[2].path),
    )
    groups: list[list[EventLog]] = []
    cut, until, size = 0, -inf, 0
    for start, end, log in timed:
        full = bool(groups) and (len(groups[-1]) >= MOST_LOGS or size + log.size_bytes > MOST_BYTES)
        if start >= until or full:
            cut += start < until
            groups.append([])
            size = 0
        groups[-1].append(log)
        size += log.size_bytes
        until = max(until, end)
    return Groups([*groups, *alone], cut)


def end_of(peek: Peek) -> float:
    """Return the end of an application in ms; a guess where its log does not tell."""
    end = peek.end_ms if isfinite(peek.end_ms) else peek.last_ms
    return end if isfinite(end) else peek.start_ms + UNKNOWN_MS
