"""Reads and checks plans of injections: anomaly, host, start, duration and strength."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
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
    Pattern,
    check_cores,
    check_disk,
    check_loopback,
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

    def as_json(self) -> dict[str, Any]:
        """Return what `read_plan` takes."""
        return {
            "host": self.host,
            "anomaly": str(self.anomaly),
            "after_ms": self.after_ms,
            "for_ms": self.for_ms,
            "settings": asdict(self.settings),
        }


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
    """Read a plan that `--dry-run --json` wrote or somebody wrote by hand.

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
        advice = "--dry-run --json - prints an example"
        raise UsageError(f"is no plan: {error}", path, advice) from error
    if not 1 <= len(entries) <= MOST_INJECTIONS:
        raise UsageError(f"has {len(entries)} injections, not 1 to {MOST_INJECTIONS}", path)
    return in_order(
        [_injection(entry, f"{path}: injections[{n}]") for n, entry in enumerate(entries)]
    )


def read_order(line: bytes) -> Injection:
    """Read one injection of a plan from a line of JSON; raises UsageError."""
    try:
        return _injection(msgspec.json.decode(line, type=_Entry), "the order")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"is no injection: {error}", "the order") from error


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


LENGTHS = (0.5, 1.5)
"""An injection lasts at least and at most this many times the mean length."""
GAP_PER_LENGTH = 2.0
"""Mean quiet time for each mean length unless told: a third of the time is trouble, so that there
are enough tasks with and without it. BigRoots' table IV has 3.7 (130 s of 5 × 122 s)."""


@dataclass(frozen=True)
class InjectedHost:
    """A host of the plan and what of this machine stands for it.

    host: the host's name as Spark knows it.
    cores: the cores that its Spark worker is pinned to; empty: any.
    folder: where its disk is loaded; empty: the system's folder for temporary files.
    """

    host: str
    cores: tuple[int, ...] = ()
    folder: str = ""


def parse_hosts(text: str) -> list[InjectedHost]:
    """Read hosts such as ``127.0.0.2=0,1:/data/a;127.0.0.3=2`` (cores and folder may be left out).

    Raises UsageError if a part cannot be understood or a host stands there twice.
    """
    places = []
    for part in filter(None, (part.strip() for part in text.split(";"))):
        host, _, rest = part.partition("=")
        cores, _, folder = rest.partition(":")
        check_host(host)
        places.append(InjectedHost(host, parse_cores(cores, "--hosts"), folder))
    if not places:
        raise UsageError("names no host", "--hosts", "write '127.0.0.2=0;127.0.0.3=1'")
    if len({place.host for place in places}) < len(places):
        raise UsageError("names a host twice", "--hosts")
    return places


def parse_cores(text: str, option: str) -> tuple[int, ...]:
    """Read cores such as ``0,2``; empty: any; raises UsageError."""
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    if not all(word.isascii() and word.isdigit() and len(word) <= 5 for word in words):
        raise UsageError(f"{text[:40]!r} are no cores", option, "write their numbers: 0,2")
    cores = tuple(map(int, words))
    check_cores(cores, option)
    return cores


def random_plan(
    seed: int,
    places: Sequence[InjectedHost],
    anomalies: Sequence[Anomaly],
    *,
    for_ms: int,
    mean_length_ms: int,
    mean_gap_ms: int | None = None,
    pattern: Pattern = Pattern.MULTI_NODE,
    strength: Mapping[Anomaly, dict[str, Any]] | None = None,
) -> list[Injection]:
    """Draw a plan.

    Raises UsageError if a value is out of range.

    Returns: In order of time; possibly none, where the time is short.

    seed: the same seed and arguments give the same plan, on every machine.
    places, anomalies: what to draw from.
    for_ms: nothing lasts longer than to this time after the plan's start.
    mean_length_ms, mean_gap_ms: mean length of injections, and of the quiet before each.
    pattern: where and how injections may meet.
    strength: settings beside cores, folder and addresses, which come from the place.
    """
    if not SHORTEST_MS <= for_ms <= LONGEST_PLAN_S * 1000:
        raise UsageError(f"{for_ms / 1000:g} s are not {SHORTEST_MS} ms to 24 h", "--for")
    longest_ms = min(for_ms, LONGEST_S * 1000 / LENGTHS[1])
    if not SHORTEST_MS <= mean_length_ms <= longest_ms:
        what = f"{mean_length_ms / 1000:g} s are not {SHORTEST_MS} ms to {longest_ms / 1000:g} s"
        raise UsageError(what, "--mean-length", "it has to fit into --for")
    gap_ms = GAP_PER_LENGTH * mean_length_ms if mean_gap_ms is None else mean_gap_ms
    if not 0 <= gap_ms <= LONGEST_PLAN_S * 1000:
        raise UsageError(f"{gap_ms / 1000:g} s are not 0 s to 24 h", "--mean-gap")
    anomalies = sorted(set(anomalies))
    if pattern is not Pattern.MULTI_NODE:
        names = sorted(place.host for place in places)
        chosen = _random(seed, "host").choice(names)
        places = [place for place in places if place.host == chosen]
    plan: list[Injection] = []
    for place in places:
        lanes = [[a] for a in anomalies] if pattern is Pattern.MIXED else [anomalies]
        for lane in lanes:
            # A stream of its own for each: another host changes nothing on this one.
            stream = _random(seed, "/".join([place.host, *lane]))
            now = 0.0
            while True:
                now += stream.expovariate(1 / gap_ms) if gap_ms else 0.0
                length_ms = max(SHORTEST_MS, stream.uniform(*LENGTHS) * mean_length_ms)
                anomaly = stream.choice(lane)
                start, end = round(now), min(round(now + length_ms), for_ms)
                if end - start < SHORTEST_MS:
                    break
                settings = settings_of(anomaly, _settings(place, anomaly, strength or {}))
                plan.append(Injection(place.host, start, end - start, settings))
                now += length_ms
                if len(plan) > MOST_INJECTIONS:
                    what = f"makes more than {MOST_INJECTIONS} injections"
                    raise UsageError(what, "--mean-length", "make it longer, or --for shorter")
    return in_order(plan)


def _random(seed: int, stream: str) -> random.Random:
    return random.Random(f"{seed}/{stream}")  # noqa: S311 (a plan is no secret)


def _settings(
    place: InjectedHost, anomaly: Anomaly, strength: Mapping[Anomaly, dict[str, Any]]
) -> dict[str, Any]:
    """Settings of an anomaly at a place."""
    values: dict[str, Any] = {"cores": list(place.cores), **strength.get(anomaly, {})}
    if anomaly is Anomaly.IO:
        values["folder"] = place.folder
    if anomaly is Anomaly.NETWORK:
        try:
            check_loopback(place.host, "--hosts")
        except UsageError:
            return values
        values["listen"] = place.host
    return values
