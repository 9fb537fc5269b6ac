"""Load this host while a query runs: the hogs of ``iqcar inject``, until they are told to stop."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from iqcar.errors import IqcarError
from iqcar.inject.injection_log import END, START, Record
from iqcar.inject.plan import Injection
from iqcar.inject.run_plan import Stop, run
from iqcar.inject.running_injection import epoch_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iqcar.inject.anomalies import Settings

LEAD_MS = 500
"""Hogs are started this long before they begin, so that they begin together."""
PATIENCE_S = 30.0
"""Hogs that have not begun after this will not: they take a second."""


class StoppedError(Exception):
    """The experiment shall end; what ran was ended."""


@contextmanager
def hogs(
    settings: Settings | None, host: str, longest_s: float, stop: Stop
) -> Iterator[list[Record]]:
    """Keep hogs working while the block runs, until it shall stop; None: no hogs.

    Yields
    ------
    list of Record
        After the block it holds how the injection ended.

    Raises
    ------
    IqcarError
        If the hogs cannot be started. Those that end early show in the record's ``error``.
    StoppedError
        If it shall stop before they began.
    """
    done: list[Record] = []
    if settings is None:
        yield done
        return
    over, begun = Stop(), threading.Event()
    injection = Injection(host, 0, round(longest_s * 1000), settings)

    def tell(record: Record) -> None:
        if record.event in (START, END):
            begun.set()

    def look(_: float) -> None:
        over.signal = over.signal or stop.signal

    def work() -> None:
        start_ms = epoch_ms() + LEAD_MS
        try:
            done.extend(run([injection], start_ms=start_ms, tell=tell, progress=look, stop=over))
        finally:
            begun.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        begun.wait(PATIENCE_S)
        if stop.signal:
            raise StoppedError
        if done or not begun.is_set():
            why = done[0].error if done else "they did not begin"
            raise IqcarError(f"hogs cannot be started: {why}", str(settings.anomaly))
        yield done
    finally:
        over.signal = signal.SIGTERM
        thread.join()
