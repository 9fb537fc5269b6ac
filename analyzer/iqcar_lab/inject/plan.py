"""Reads and checks plans of injections: anomaly, host, start, duration and strength."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import msgspec

from iqcar.errors import UsageError
from iqcar_lab.inject.anomalies import (
    LONGEST_S,
    Anomaly,
    AnomalySettings,
    CpuSettings,
    IoSettings,
    MemorySettings,
    NetworkSettings,
    check_cores,
    check_disk,
    check_memory,
)

SETTINGS: dict[Anomaly, type[AnomalySettings]] = {
    Anomaly.CPU: CpuSettings,
    Anomaly.IO: IoSettings,
    Anomaly.NETWORK: NetworkSettings,
    Anomaly.MEMORY: MemorySettings,
}
SHORTEST_MS = 100
"""A hog's Python needs about this long to start; what is shorter may never happen."""
LONGEST_PLAN_S = 24 * 3600.0
MOST_INJECTIONS = 10_000
MOST_PLAN_BYTES = 16 << 20
LONGEST_HOST_NAME = 255
"""The longest name that DNS knows."""


@dataclass(frozen=True)
class Injection:
    """One anomaly on one host over one interval.

    Raises UsageError if a value is out of range.

    host: the host's name as Spark knows it: a label for the log; the hogs run here.
    after_ms, for_ms: from the plan's start to the injection's, and how long it lasts.
    settings: which anomaly, and how strong.
    """

    host: str
    after_ms: int
    for_ms: int
    settings: AnomalySettings

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        check_host(self.host)
        if not SHORTEST_MS <= self.for_ms <= LONGEST_S * 1000:
            what = f"{self.for_ms / 1000:g} s are not {SHORTEST_MS} ms to {LONGEST_S:g} s"
            raise UsageError(what, "--for")
        if not 0 <= self.after_ms <= LONGEST_PLAN_S * 1000:
            raise UsageError(f"{self.after_ms} ms are not 0 to 24 h from the start", "the plan")

    @property
    def until_ms(self) -> int:
        """From the plan's start to the injection's end."""
        return self.after_ms + self.for_ms

    @property
    def anomaly(self) -> Anomaly:
        """What is injected."""
        return self.settings.anomaly


def check_host(host: str) -> None:
    """Refuse a name that would spoil a log; raises UsageError."""
    if not host or len(host) > LONGEST_HOST_NAME or not host.isprintable() or " " in host:
        raise UsageError(f"{host[:40]!r} is no host name", "--host")


def settings_of(anomaly: Anomaly, values: dict[str, Any]) -> AnomalySettings:
    """Make settings from a program's or a file's values; raises UsageError."""
    kind = SETTINGS[anomaly]
    known = {field.name for field in fields(kind)}
    unknown = sorted(values.keys() - known)
    if unknown:
        advice = f"take {', '.join(sorted(known))}"
        raise UsageError(f"{anomaly} has no setting {unknown[0][:40]!r}", "", advice)
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, UsageError):
            raise error.__cause__ from error
        raise UsageError(str(error), f"settings of {anomaly}") from error


def check_room(plan: Iterable[Injection]) -> None:
    """Refuse a plan whose injections together take too much memory or disk at some time.

    Raises IqcarError if the most that is asked for at once is more than this host can bear now.
    """
    memory = [(i, i.settings) for i in plan if isinstance(i.settings, MemorySettings)]
    disks = defaultdict(list)
    for injection in plan:
        if isinstance(injection.settings, IoSettings):
            disks[injection.settings.folder].append((injection, injection.settings))
    if memory:
        check_memory(_most_at_once((i, s.size_bytes) for i, s in memory))
    for folder, used in disks.items():
        check_disk(folder, _most_at_once((i, s.size_bytes) for i, s in used))


def _most_at_once(sizes: Iterable[tuple[Injection, int]]) -> int:
    changes = []
    for injection, size in sizes:
        changes += [(injection.after_ms, size), (injection.until_ms, -size)]
    most = now = 0
    for _, change in sorted(changes):  # ends come before starts at the same time
        now += change
        most = max(most, now)
    return most


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    host: str
    anomaly: str
    after_ms: int
    for_ms: int
    settings: dict[str, Any] = {}


class _PlanFile(msgspec.Struct):
    injections: list[_Entry]


def read_plan(path: str) -> list[Injection]:
    """Read a plan.

    Raises UsageError if the file cannot be read or an injection in it is impossible.
    """
    file = Path(path)
    try:
        if file.stat().st_size > MOST_PLAN_BYTES:
            raise UsageError("is larger than 16 MB: no plan", path)
        entries = msgspec.json.decode(file.read_bytes(), type=_PlanFile).injections
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", path) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"is no plan: {error}", path) from error
    if not 1 <= len(entries) <= MOST_INJECTIONS:
        raise UsageError(f"has {len(entries)} injections, not 1 to {MOST_INJECTIONS}", path)
    return in_order(
        [_injection(entry, f"{path}: injections[{n}]") for n, entry in enumerate(entries)]
    )


def _injection(entry: _Entry, where: str) -> Injection:
    try:
        anomaly = Anomaly(entry.anomaly)
    except ValueError:
        what = f"{entry.anomaly[:40]!r} is none of {', '.join(Anomaly)}"
        raise UsageError(what, f"{where}.anomaly") from None
    try:
        settings = settings_of(anomaly, entry.settings)
        return Injection(entry.host, entry.after_ms, entry.for_ms, settings)
    except UsageError as error:
        raise UsageError(str(error), where) from error


def in_order(plan: Sequence[Injection]) -> list[Injection]:
    """Sort injections by time, host and anomaly."""
    return sorted(plan, key=lambda i: (i.after_ms, i.host, i.anomaly, i.for_ms))


def parse_cores(text: str, option: str) -> tuple[int, ...]:
    """Read cores such as ``0,2``; empty: any; raises UsageError."""
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    if not all(word.isascii() and word.isdigit() and len(word) <= 5 for word in words):
        raise UsageError(f"{text[:40]!r} are no cores", option, "write their numbers: 0,2")
    cores = tuple(map(int, words))
    check_cores(cores, option)
    return cores
