"""Pace a hog: the end of its time, and its speed limit."""

from __future__ import annotations

import time

STEP_S = 0.05
"""The longest that a hog sleeps without looking whether it shall stop."""
BURST_S = 0.2
"""How much of a pause a hog with a rate may catch up on."""


class Turn:
    """The time of one hog, which ends by the clock or when it is told to stop.

    Parameters
    ----------
    for_s : float
        Seconds from now.
    """

    def __init__(self, for_s: float) -> None:
        self.stopped = False
        self._end = time.monotonic() + for_s

    def over(self) -> bool:
        """Tell whether the hog shall end now."""
        return self.stopped or time.monotonic() >= self._end

    def sleep(self, seconds: float) -> None:
        """Sleep, but not past the end of the turn."""
        wake = min(time.monotonic() + seconds, self._end)
        while not self.stopped and (left := wake - time.monotonic()) > 0:
            time.sleep(min(left, STEP_S))


class Pace:
    """Keeps a hog at its rate: it sleeps after what it moved too fast.

    Parameters
    ----------
    rate_bytes_per_s : float or None
        None: as fast as it goes.
    """

    def __init__(self, rate_bytes_per_s: float | None) -> None:
        self._rate = rate_bytes_per_s
        self._due = time.monotonic()

    def moved(self, count: int, turn: Turn) -> None:
        """Count bytes, and sleep until they were allowed."""
        if self._rate is None:
            return
        now = time.monotonic()
        self._due = max(self._due, now - BURST_S) + count / self._rate
        turn.sleep(self._due - now)
