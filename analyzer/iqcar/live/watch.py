"""Follows one application: reads what has come, and makes a window whenever one is asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from iqcar.diagnosis import Settings
from iqcar.errors import IqcarError
from iqcar.live.driver_stream import SCHEME, DriverTail
from iqcar.live.follow import LogTail, find_log
from iqcar.live.growing_log import GrowingLog
from iqcar.live.window import Window, window_of
from iqcar.logs.collect import NotAnEventLogError
from iqcar.logs.events.lines import LineTally
from iqcar.logs.input_status import nothing_read

MOST_NOTES = 20
"""Notes kept, the last ones."""


class Watch:
    """One application that is followed.

    Parameters
    ----------
    path : as for :func:`iqcar.live.follow.find_log`, or ``spark-live://host:port``.
    settings : as of ``iqcar analyze``.
    window_ms : length of a window.
    within : as for :func:`~iqcar.logs.find.locate.locate`.
    clock : returns seconds that only grow.

    Attributes
    ----------
    notes : what went wrong so far, in sentences.
    """

    def __init__(
        self,
        path: str,
        settings: Settings,
        window_ms: float,
        within: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self.settings = settings
        self.tail: LogTail | DriverTail
        if path.startswith(SCHEME) and not within:
            self.tail = DriverTail(path)
        else:
            self.tail = LogTail(find_log(path, within))
        self.growing = GrowingLog(window_ms)
        self.notes: list[str] = []
        self._clock = clock
        self._heard = clock()
        self._quiet_ms = 0.0

    @property
    def ended(self) -> bool:
        """Whether the application has ended."""
        return self.growing.log.ended

    @property
    def over(self) -> bool:
        """Whether nothing more will come: the application ended, or its log cannot be read on."""
        return self.ended or self.tail.gone or bool(self.tail.problem)

    @property
    def state(self) -> str:
        """Return ``running``, ``ended``, or ``gone`` where the log cannot be read on."""
        return "ended" if self.ended else "gone" if self.over else "running"

    def read(self, progress: Callable[[int, int], None] | None = None) -> bool:
        """Take in what has come of the log.

        Raises IqcarError if it is no event log.

        Parameters
        ----------
        progress : called with the stored bytes read and those there are, now and then.

        Returns
        -------
        bool
            Whether anything has come.
        """
        came = False
        for news in self.tail.poll():
            if news.restart:
                self._note(news.restart)
                self.growing.start_again()
            if news.note:
                self._note(news.note)
            if news.text:
                came = True
                self._take(news.text)
                if progress is not None:
                    progress(*self.tail.progress)
        if self.growing.log.malformed and self.growing.log.events == 0:
            raise self._no_log()
        now = self._clock()
        self._heard = now if came else self._heard
        self._quiet_ms = (now - self._heard) * 1e3
        return came

    def window(self, expected: bool = False) -> Window | None:
        """Diagnose the last minutes; None as long as the log has no event."""
        return window_of(
            self.growing,
            self.tail.log,
            self.tail.tally if self.over else LineTally(),
            self.settings,
            quiet_ms=self._quiet_ms,
            expected=expected,
            notes=tuple(self.notes),
        )

    def last_words(self) -> str:
        """Say why nothing more will come; empty as long as something may."""
        held = self.tail.held_bytes
        cut = f"; {held:,} bytes of a line without an end were left out" if held else ""
        if self.ended:
            return f"the application has ended{cut}"
        if self.tail.gone:
            return f"the log is gone{cut}"
        if self.tail.problem:
            return f"{self.tail.problem.rstrip('.')}; nothing further can be read"
        return ""

    def _take(self, text: bytes) -> None:
        try:
            reason = self.growing.take(text)
        except NotAnEventLogError:
            raise self._no_log() from None
        if reason:
            self._note(reason)

    def _no_log(self) -> IqcarError:
        return IqcarError(nothing_read(self.tail.tally, self.growing.log).rstrip("."), self.path)

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes = [*self.notes, note][-MOST_NOTES:]
