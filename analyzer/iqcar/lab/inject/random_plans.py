"""Makes random plans over several hosts: the same seed gives the same plan.

Each host takes turns between quiet and trouble, as the slaves of BigRoots' table IV do. Quiet times
are exponential, so that trouble comes at any time; its length varies evenly around the mean.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iqcar.errors import UsageError
from iqcar.lab.inject.anomalies import LONGEST_S, Anomaly, Pattern, check_cores
from iqcar.lab.inject.load_generators import check_loopback
from iqcar.lab.inject.plan import (
    LONGEST_PLAN_S,
    MOST_INJECTIONS,
    SHORTEST_MS,
    Injection,
    check_host,
    in_order,
    settings_of,
)

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
