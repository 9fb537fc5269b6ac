"""Run a plan: start each injection in time, end all, and report what they did."""

from __future__ import annotations

import secrets
import selectors
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from iqcar.lab.inject.injection_log import END, Record
from iqcar.lab.inject.plan import Injection, in_order
from iqcar.lab.inject.running_injection import UnderWay, epoch_ms

LEAD_S = 1.0
"""Hogs are started this long before their time, so that all of them begin on it."""
POLL_S = 0.1
"""The longest time until a signal is obeyed."""


@dataclass
class Stop:
    """Why a run shall end early: the number of a signal; 0: it shall not."""

    signal: int = 0

    @property
    def name(self) -> str:
        """The signal's name; empty: none."""
        return signal.Signals(self.signal).name if self.signal else ""


@contextmanager
def stopping() -> Iterator[Stop]:
    """Turn SIGINT, SIGTERM and SIGHUP into a wish to stop, as long as the block runs."""
    stop = Stop()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {n: signal.signal(n, lambda n, _: setattr(stop, "signal", n)) for n in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run(
    plan: Sequence[Injection],
    *,
    start_ms: int | None = None,
    tell: Callable[[Record], object] = lambda record: None,
    progress: Callable[[float], object] = lambda seconds: None,
    stop: Stop | None = None,
) -> list[Record]:
    """Carry out a plan; returns when its last hog has ended.

    Parameters
    ----------
    plan : sequence of Injection
        In any order.
    start_ms : int, optional
        Epoch ms that the plan counts from; by default as soon as the first hogs are ready.
    tell : callable
        Takes each record as it is made: an injection's start, then its end.
    progress : callable
        Takes the seconds since the plan's start, about ten times a second.
    stop : Stop, optional
        Looked at all the time; what has not begun when it is set is never told.

    Returns
    -------
    list of Record
        The end of each injection that was begun, in the order they ended. One that failed has an
        ``error``.
    """
    if start_ms is None:
        start_ms = round((time.time() + LEAD_S) * 1000)
    stop = stop or Stop()
    run_id = secrets.token_hex(8)
    waiting = list(enumerate(in_order(plan)))[::-1]
    under_way: list[UnderWay] = []
    done: list[Record] = []
    with selectors.DefaultSelector() as selector:
        try:
            while waiting or under_way:
                if stop.signal:
                    waiting = []
                    for trouble in under_way:
                        trouble.stop(stop.name)
                while waiting and start_ms + waiting[-1][1].after_ms <= epoch_ms() + LEAD_S * 1000:
                    number, injection = waiting.pop()
                    under_way.append(UnderWay(injection, number, run_id, start_ms, selector))
                for key, _ in selector.select(POLL_S):
                    key.data.read(selector)
                progress(epoch_ms() / 1000 - start_ms / 1000)
                for trouble in list(under_way):
                    for record in trouble.news():
                        tell(record)
                        if record.event == END:
                            under_way.remove(trouble)
                            done.append(record)
        finally:
            for trouble in under_way:
                trouble.kill()
    return done
