"""Plans of injections for the paper's single, mixed and multi-node experiments (§IV-B)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

LENGTH_S = 10
"""As long as each injection of table IV."""
GAP_S = 8
"""Quiet time before each single injection: longer than the tasks that it may still delay."""
TABLE_IV = (
    (0, 0, "cpu"), (0, 100, "io"),
    (1, 30, "cpu"), (1, 63, "cpu"), (1, 83, "cpu"),
    (2, 99, "io"),
    (3, 27, "network"), (3, 87, "io"), (3, 112, "network"),
    (4, 33, "io"), (4, 53, "cpu"), (4, 69, "io"), (4, 100, "cpu"),
)  # fmt: skip
"""Slave, second and anomaly; ten seconds each."""
MULTI_S = 126
"""Until the last injection of table IV has ended, and its tasks."""
ANOMALIES = ("cpu", "io", "network")


@dataclass(frozen=True)
class Part:
    """One experiment: its injections, in seconds from its start.

    name: quiet, an anomaly, mixed (all of them on one host) or multi-node (table IV).
    injections: (host number, second, seconds, anomaly)
    """

    name: str
    for_s: int
    injections: tuple[tuple[int, int, int, str], ...]


def parts(seed: int, hosts: int, times: int) -> list[Part]:
    """Make all experiments.

    seed: picks hosts, and the moments of the mixed one.
    hosts: at least 5 for table IV.
    times: injections of each single experiment.
    """
    pick = random.Random(seed)
    found = [Part("quiet", 2 * GAP_S, ())]
    last = times * (LENGTH_S + GAP_S)
    for anomaly in ANOMALIES:
        host = pick.randrange(hosts)
        turns = range(GAP_S, GAP_S + last, LENGTH_S + GAP_S)
        injections = tuple((host, at, LENGTH_S, anomaly) for at in turns)
        found.append(Part(anomaly, GAP_S + last, injections))
    host = pick.randrange(hosts)
    mixed = [(host, pick.randrange(last - LENGTH_S), LENGTH_S, one) for one in ANOMALIES]
    found.append(Part("mixed", last + GAP_S, tuple(mixed)))
    table = tuple((host, at, LENGTH_S, anomaly) for host, at, anomaly in TABLE_IV)
    found.append(Part("multi-node", MULTI_S, table))
    return found


def plan_of(
    part: Part, host: int, name: str, settings: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """One host's injections as a file for ``iqcar inject schedule --plan``."""
    injections = [
        {
            "host": name,
            "anomaly": anomaly,
            "after_ms": 1000 * at,
            "for_ms": 1000 * seconds,
            "settings": settings[anomaly],
        }
        for where, at, seconds, anomaly in part.injections
        if where == host
    ]
    return {"injections": injections}


def starts(found: Sequence[Part], from_ms: int) -> list[int]:
    """When each experiment starts, one after the other (epoch ms)."""
    moments, now = [], from_ms
    for part in found:
        moments.append(now)
        now += 1000 * part.for_s
    return moments
