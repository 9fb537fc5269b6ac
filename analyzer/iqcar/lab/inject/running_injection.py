"""A running injection: the processes of its hogs, their messages, and its record."""

from __future__ import annotations

import json
import os
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from iqcar.errors import IqcarError
from iqcar.lab.inject.anomalies import Order
from iqcar.lab.inject.injection_log import END, START, VERSION, HogTime, Record
from iqcar.lab.inject.plan import Injection

GRACE_S = 5.0
"""A hog that has not ended this long after its end is killed."""
HELD_NOT_MOVED = ("held_bytes",)
"""Counts of bytes that make no rate."""


@contextmanager
def _pinned(cores: tuple[int, ...]) -> Iterator[None]:
    """Run on these cores, as processes started meanwhile will from their first instruction."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def epoch_ms() -> int:
    """Return the time by the clock that Spark's logs use."""
    return round(time.time() * 1000)


@dataclass
class _Hog:
    """A hog's process and what it has said."""

    process: subprocess.Popen[bytes]
    heard: bytes = b""
    start_ms: int | None = None
    end_ms: int | None = None
    achieved: dict[str, float] = field(default_factory=dict)
    error: str = ""
    gone: bool = False

    def read(self, selector: selectors.BaseSelector) -> None:
        """Take what it says; at its end reap it."""
        assert self.process.stdout  # noqa: S101 (both are pipes)
        more = os.read(self.process.stdout.fileno(), 1 << 16)
        if more:
            self.heard += more
            return
        selector.unregister(self.process.stdout)
        self.process.stdout.close()
        code = self.process.wait()
        self.gone = True
        self.take()
        if self.start_ms is not None and self.end_ms is None:
            self.end_ms = epoch_ms()
            self.error = self.error or f"hog {self.process.pid} was lost (exit code {code})"

    def take(self) -> None:
        """Understand the whole lines that were heard."""
        *lines, self.heard = self.heard.split(b"\n")
        for line in map(json.loads, lines):
            self.start_ms = line.get("started_ms", self.start_ms)
            self.end_ms = line.get("ended_ms", self.end_ms)
            self.achieved = line.get("achieved", self.achieved)
            self.error = line.get("error", self.error)

    def let_go(self) -> None:
        """Tell it to stop, as its starter's death would."""
        if self.process.stdin and not self.process.stdin.closed:
            self.process.stdin.close()


class UnderWay:
    """An injection whose hogs have been started."""

    def __init__(
        self,
        injection: Injection,
        number: int,
        run_id: str,
        plan_start_ms: int,
        selector: selectors.BaseSelector,
    ) -> None:
        self._injection = injection
        self._planned = (plan_start_ms + injection.after_ms, plan_start_ms + injection.until_ms)
        self._latest_s = self._planned[1] / 1000 + GRACE_S
        self._identity = (run_id, number)
        self._hogs: list[_Hog] = []
        self._told_start = False
        self._stopped = self._error = ""
        orders: list[Order] = []
        try:
            injection.settings.check_room()
            orders = injection.settings.orders()
            for order in orders:
                self._start(order)
        except (IqcarError, OSError) as error:
            self._error = str(error)
            self._let_go()
        finally:
            for order in orders:
                if order.connection:
                    order.connection.close()
        for hog in self._hogs:
            if hog.process.stdout:
                selector.register(hog.process.stdout, selectors.EVENT_READ, hog)

    def _start(self, order: Order) -> None:
        fd = order.connection.fileno() if order.connection else None
        wish = {
            "anomaly": str(self._injection.anomaly),
            "settings": asdict(self._injection.settings),
            "index": order.index,
            "role": order.role,
            "fd": fd,
            "start_ms": self._planned[0],
            "end_ms": self._planned[1],
        }
        with _pinned(self._injection.settings.cores):
            process = subprocess.Popen(
                [sys.executable, "-m", "iqcar.lab.inject.hog"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                pass_fds=() if fd is None else (fd,),
                start_new_session=True,  # Ctrl-C reaches this process only, which then ends them
            )
        self._hogs.append(_Hog(process))
        if process.stdin:
            process.stdin.write(json.dumps(wish).encode() + b"\n")

    def stop(self, reason: str) -> None:
        """End it before its time."""
        if not self._stopped:
            self._stopped = reason
            self._latest_s = time.time() + GRACE_S
            self._let_go()

    def _let_go(self) -> None:
        for hog in self._hogs:
            hog.let_go()

    def kill(self) -> None:
        """End it at once."""
        self._let_go()
        for hog in self._hogs:
            if not hog.gone:
                hog.process.kill()
                hog.process.wait()

    def news(self) -> Iterator[Record]:
        """Return records that have become due."""
        for hog in self._hogs:
            hog.take()
            if hog.error and not self._error:
                self._error = hog.error
                self._let_go()
        if not self._told_start and any(hog.start_ms is not None for hog in self._hogs):
            self._told_start = True
            yield self._record(START)
        if all(hog.gone for hog in self._hogs):
            yield self._record(END)
        elif time.time() > self._latest_s:
            for hog in self._hogs:
                hog.process.kill()

    def _record(self, event: str) -> Record:
        times = [
            HogTime(hog.process.pid, hog.start_ms, hog.end_ms if event == END else None)
            for hog in self._hogs
            if hog.start_ms is not None
        ]
        start = min((t.start_ms for t in times), default=None)
        end = max((t.end_ms for t in times if t.end_ms is not None), default=None)
        error = self._error
        if event == END and not (error or self._stopped) and len(times) < len(self._hogs):
            error = f"{len(self._hogs) - len(times)} of {len(self._hogs)} hogs never started"
        return Record(
            version=VERSION,
            event=event,
            run=self._identity[0],
            injection=self._identity[1],
            anomaly=str(self._injection.anomaly),
            host=self._injection.host,
            machine=socket.gethostname(),
            planned_start_ms=self._planned[0],
            planned_end_ms=self._planned[1],
            start_ms=start,
            end_ms=end,
            settings=asdict(self._injection.settings),
            hogs=times,
            achieved=_achieved(self._hogs, start, end) if event == END else {},
            stopped=self._stopped,
            error=error,
        )


def _achieved(hogs: list[_Hog], start_ms: int | None, end_ms: int | None) -> dict[str, float]:
    """Sums over the hogs, and rates over the time from the first start to the last end."""
    sums: dict[str, Any] = {}
    for hog in hogs:
        for name, count in hog.achieved.items():
            sums[name] = sums.get(name, 0) + count
    if start_ms is None or end_ms is None or end_ms <= start_ms:
        return sums
    rates = {
        f"{name}_per_s": round(count * 1000 / (end_ms - start_ms))
        for name, count in sums.items()
        if name.endswith("_bytes") and name not in HELD_NOT_MOVED
    }
    if "cpu_ms" in sums:
        rates["cores"] = round(sums["cpu_ms"] / (end_ms - start_ms), 3)
    return sums | rates
