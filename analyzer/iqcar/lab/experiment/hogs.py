"""Load hosts while a query runs: the hogs of ``iqcar inject``, until they are told to stop."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iqcar.errors import IqcarError
from iqcar.lab.experiment.other_host import inject_there
from iqcar.lab.inject.anomalies import Settings
from iqcar.lab.inject.injection_log import END, START, Record
from iqcar.lab.inject.plan import Injection
from iqcar.lab.inject.run_plan import POLL_S, Stop, run
from iqcar.lab.inject.running_injection import epoch_ms

if TYPE_CHECKING:
    from iqcar.lab.experiment.experiment_plan import Place

LEAD_MS = 500
"""Hogs are started this long before they begin, so that they begin together."""
PATIENCE_S = 30.0
"""Hogs that have not begun after this will not: they take a second, and a connection a few."""


class StoppedError(Exception):
    """The experiment shall end; what ran was ended."""


@dataclass
class Load:
    """How hogs ended.

    Attributes
    ----------
    error : str
        Why those of some machine ended early; empty: none did.
    cores : float or None
        Processor time of all by time; None where not told.
    """

    error: str = ""
    cores: float | None = None


class _Hogs(threading.Thread):
    """The hogs of one machine."""

    def __init__(self, injection: Injection, place: Place, stop: Stop) -> None:
        super().__init__(daemon=True)
        self._injection, self._place, self._experiment = injection, place, stop
        self.over = Stop()
        self.begun = False
        self.ended = False
        self.error = ""
        self.cores: float | None = None

    def run(self) -> None:
        try:
            if self._place.command:
                inject_there(
                    self._injection, self._place.command, self._tell, self._look, self.over
                )
            else:
                run(
                    [self._injection], start_ms=epoch_ms() + LEAD_MS, tell=self._tell,
                    progress=self._look, stop=self.over,
                )  # fmt: skip
        except IqcarError as error:
            self.error = str(error)

    def _tell(self, record: Record) -> None:
        self.begun = self.begun or record.event == START
        if record.event == END:
            early = "" if self.over.signal else "they ended early"
            self.ended, self.error = True, record.error or early
            self.cores = record.achieved.get("cores")

    def _look(self, _: float) -> None:
        self.over.signal = self.over.signal or self._experiment.signal


@contextmanager
def hogs(
    settings: Settings | None, places: Sequence[Place], longest_s: float, stop: Stop
) -> Iterator[Load]:
    """Keep hogs working while the block runs, until it shall stop; None: no hogs.

    Yields
    ------
    Load
        Filled after the block.

    Raises
    ------
    IqcarError
        If the hogs of some place cannot be started.
    StoppedError
        If it shall stop before they began.
    """
    load = Load()
    if settings is None:
        yield load
        return
    for_ms = round(longest_s * 1000)
    all_hogs = [_Hogs(Injection(place.host, 0, for_ms, settings), place, stop) for place in places]
    for each in all_hogs:
        each.start()
    try:
        until = time.monotonic() + PATIENCE_S
        while not all(each.begun for each in all_hogs):
            if stop.signal:
                raise StoppedError
            if any(not each.is_alive() for each in all_hogs) or time.monotonic() > until:
                break
            time.sleep(POLL_S / 10)
        for each, place in zip(all_hogs, places, strict=True):
            if not each.begun or each.ended:
                why = each.error or "they did not begin"
                raise IqcarError(f"hogs cannot be started on {place.host}: {why}")
        yield load
    finally:
        for each in all_hogs:
            each.over.signal = signal.SIGTERM
        for each, place in zip(all_hogs, places, strict=True):
            each.join()
            if each.error:
                load.error = f"{place.host}: {each.error}"
            if each.cores is not None:
                load.cores = (load.cores or 0.0) + each.cores
