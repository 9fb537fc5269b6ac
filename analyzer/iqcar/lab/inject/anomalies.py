"""Declares what all anomalies share: names, limits, settings, and the pace and end of a hog."""

from __future__ import annotations

import os
import socket
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

from iqcar.base.workers import usable_cores
from iqcar.enums import Kind
from iqcar.errors import UsageError

MOST_ORDER_BYTES = 1 << 20
STEP_S = 0.05
"""The longest that a hog sleeps without looking whether it shall stop."""
BURST_S = 0.2
"""How much of a pause a hog with a rate may catch up on."""


class Deadline:
    """The time of one hog, which ends by the clock or when it is told to stop.

    for_s: seconds from now.
    """

    def __init__(self, for_s: float) -> None:
        self.stopped = False
        self._end = time.monotonic() + for_s

    def over(self) -> bool:
        """Tell whether the hog shall end now."""
        return self.stopped or time.monotonic() >= self._end

    def sleep(self, seconds: float) -> None:
        """Sleep, but not past the end of the deadline."""
        wake = min(time.monotonic() + seconds, self._end)
        while not self.stopped and (left := wake - time.monotonic()) > 0:
            time.sleep(min(left, STEP_S))


def read_order_line(descriptor: int) -> bytes:
    """Read a line byte by byte: what follows belongs to the thread that waits for the end."""
    line = b""
    while not line.endswith(b"\n") and len(line) < MOST_ORDER_BYTES:
        more = os.read(descriptor, 1)
        if not more:
            break
        line += more
    return line


class Pace:
    """Keeps a hog at its rate: it sleeps after what it moved too fast.

    rate_bytes_per_s: None: as fast as it goes.
    """

    def __init__(self, rate_bytes_per_s: float | None) -> None:
        self._rate = rate_bytes_per_s
        self._due = time.monotonic()

    def moved(self, count: int, deadline: Deadline) -> None:
        """Count bytes, and sleep until they were allowed."""
        if self._rate is None:
            return
        now = time.monotonic()
        self._due = max(self._due, now - BURST_S) + count / self._rate
        deadline.sleep(self._due - now)


LONGEST_S = 3600.0
"""An injection lasts an hour at most: the longest in BigRoots is 10 s (table IV)."""
MOST_PROCESSES = 64
"""BigRoots launches eight for each anomaly; many more would exhaust process tables, not a core."""


class Anomaly(Kind):
    """What is injected (BigRoots section IV-A; memory is ours)."""

    CPU = "cpu", "Processes that compute and do nothing else."
    IO = "io", "Processes that write to a disk, and read it, past the page cache."
    NETWORK = "network", "Pairs of processes that send each other bytes over loopback."
    MEMORY = "memory", "Processes that hold memory and keep walking through it."


class Pattern(Kind):
    """Where and how injections may meet (the experiments of BigRoots section IV-B)."""

    SINGLE = "single", "One anomaly at a time on one host, which the seed picks."
    MIXED = "mixed", "Each anomaly on its own on one host, so that they meet there."
    MULTI_NODE = "multi-node", "One anomaly at a time on each host, each host on its own."


@dataclass(frozen=True)
class HogSpec:
    """What one hog of an injection needs beside the settings.

    index: its number among the injection's hogs, from 0.
    role: what it does where hogs of one injection differ.
    connection: an open socket that it inherits; the starter closes its own copy.
    """

    index: int
    role: str = ""
    connection: socket.socket | None = field(default=None, compare=False)


@dataclass(frozen=True)
class AnomalySettings(ABC):
    """How strong an anomaly is.

    Raises UsageError if a value is out of range.

    processes: how many hogs; 0 takes the anomaly's default.
    cores: cores that the hogs may run on; empty: any.
    """

    anomaly: ClassVar[Anomaly]

    processes: int = 0
    cores: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what is out of range, and put the default number of processes in."""
        object.__setattr__(self, "cores", tuple(sorted(set(self.cores))))
        check_cores(self.cores)
        if not 0 <= self.processes <= MOST_PROCESSES:
            raise UsageError(f"{self.processes} is not 1 to {MOST_PROCESSES}", "--processes")
        if self.processes == 0:
            object.__setattr__(self, "processes", self.default_processes())

    @abstractmethod
    def default_processes(self) -> int:
        """How many hogs where nobody said."""

    @abstractmethod
    def hog(self, spec: HogSpec, deadline: Deadline) -> dict[str, float]:
        """Be one hog until the turn is over; returns what was achieved, counts by name."""

    def check_room(self) -> None:  # noqa: B027 (most anomalies need no room)
        """Refuse what this host cannot bear now; raises IqcarError."""

    def hog_specs(self) -> list[HogSpec]:
        """One for each hog; raises IqcarError."""
        return [HogSpec(index) for index in range(self.processes)]


def check_cores(cores: tuple[int, ...], option: str = "--cores") -> None:
    """Refuse cores that hogs cannot be pinned to; raises UsageError."""
    if not cores:
        return
    if not hasattr(os, "sched_setaffinity"):
        raise UsageError("this system cannot pin processes to cores", option, "leave it out")
    usable = usable_cores()
    wrong = [core for core in cores if core not in usable]
    if wrong:
        named = ", ".join(map(str, usable))
        raise UsageError(f"core {wrong[0]} cannot be used", option, f"this host offers {named}")


def check_rate(rate_bytes_per_s: float | None) -> None:
    """Refuse a rate that moves nothing; raises UsageError."""
    if rate_bytes_per_s is not None and not 1 <= rate_bytes_per_s < float("inf"):
        raise UsageError(f"{rate_bytes_per_s} is no rate", "--rate", "write 50MB for 50 MB/s")
