"""Score causes against injected anomalies, per straggler and resource (BigRoots eq. 9).

The anomaly generator loads three features: CPU, disk and network. Each straggler has one decision
for each of them. Eq. 9 prints FPR = FN / (FP + TN); table V's own numbers are FP / (FP + TN).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESOURCES = ("cpu", "io", "network")
"""Anomalies, in the order of the columns of truth and decisions."""
CLEAR_SHARE = 0.5
"""An injection that was there for this share of a straggler is beyond doubt."""

Flags = NDArray[np.bool_]
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
class Injected:
    """One injection as it was: host, anomaly, and its time by the log (epoch ms)."""

    host: str
    anomaly: str
    start_ms: float
    end_ms: float


@dataclass(frozen=True)
class Counts:
    """Decisions: right and wrong, positive and negative."""

    tp: int
    tn: int
    fp: int
    fn: int

    @property
    def tpr(self) -> float | None:
        """Share of affected features that were found; None without any."""
        return self.tp / (self.tp + self.fn) if self.tp + self.fn else None

    @property
    def fpr(self) -> float | None:
        """Share of unaffected features that were named; None without any."""
        return self.fp / (self.fp + self.tn) if self.fp + self.tn else None

    @property
    def accuracy(self) -> float | None:
        """Share of right decisions; None without any."""
        whole = self.tp + self.tn + self.fp + self.fn
        return (self.tp + self.tn) / whole if whole else None

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        counts = {"tp": self.tp, "tn": self.tn, "fp": self.fp, "fn": self.fn}
        return {**counts, "tpr": self.tpr, "fpr": self.fpr, "accuracy": self.accuracy}


def overlaps(
    host: Sequence[str],
    launch_ms: NDArray[np.float64],
    finish_ms: NDArray[np.float64],
    injected: Sequence[Injected],
) -> NDArray[np.float64]:
    """How long each straggler shared its host with each anomaly, in ms.

    Injections of one anomaly on one host never overlap, so their times add up.
    """
    found = np.zeros((len(host), len(RESOURCES)))
    named = np.array(host, dtype=object)
    for one in injected:
        both = np.minimum(finish_ms, one.end_ms) - np.maximum(launch_ms, one.start_ms)
        column = RESOURCES.index(one.anomaly)
        found[:, column] += np.where(named == one.host, np.maximum(both, 0.0), 0.0)
    return found


def begun(
    host: Sequence[str],
    launch_ms: NDArray[np.float64],
    finish_ms: NDArray[np.float64],
    injected: Sequence[Injected],
    lead_ms: float,
) -> Flags:
    """Which stragglers ran while processes of an injection started on their host.

    The anomaly generator starts its processes up to ``lead_ms`` before an injection begins; on a
    host with part of a core that is a load already.
    """
    leads = [Injected(i.host, RESOURCES[0], i.start_ms - lead_ms, i.start_ms) for i in injected]
    started: Flags = overlaps(host, launch_ms, finish_ms, leads)[:, 0] > 0
    return started


def truth_of_the_paper(shared_ms: NDArray[np.float64]) -> Flags:
    """An injection that overlaps a straggler affected it (§IV-B1)."""
    affected: Flags = shared_ms > 0
    return affected


def could_delay(
    shared_ms: NDArray[np.float64], duration_ms: NDArray[np.float64], reads: Flags, starting: Flags
) -> tuple[Flags, Flags]:
    """What was injected that could delay a straggler, by what its task is known to do.

    A disk delays tasks that read files, and traffic over loopback nobody: the paper's first reason
    why it misses what it counts as affected (§IV-B4). Its last one is short overlaps.

    shared_ms: ndarray of float64, (stragglers, resources)
    duration_ms: ndarray of float64, (stragglers,)
    reads: whether the task reads files.
    starting: whether an injection's processes started meanwhile (:func:`begun`).
    Returns truth (what was there for at least half of the straggler, and could delay it) and
    counted (which decisions are beyond doubt: not those of a shorter overlap, nor of the processor
    during traffic over loopback or while an injection starts, which take some of it).
    """
    able = np.ones(shared_ms.shape, bool)
    able[:, RESOURCES.index("io")] = reads
    able[:, RESOURCES.index("network")] = False
    share = shared_ms / np.maximum(duration_ms, 1.0)[:, np.newaxis]
    truth: Flags = able & (share >= CLEAR_SHARE)
    doubtful = able & (share > 0) & ~truth
    taken = starting | (shared_ms[:, RESOURCES.index("network")] > 0)
    cpu = RESOURCES.index("cpu")
    doubtful[:, cpu] |= taken & ~truth[:, cpu]
    return truth, ~doubtful


def count(truth: Flags, named: Flags, counted: Flags | None = None) -> Counts:
    """Count decisions (eq. 9).

    truth, named: what was affected, and what was named as a cause.
    counted: which decisions count; by default all.
    """
    counted = np.ones_like(truth) if counted is None else counted
    return Counts(
        tp=int((truth & named & counted).sum()),
        tn=int((~truth & ~named & counted).sum()),
        fp=int((~truth & named & counted).sum()),
        fn=int((truth & ~named & counted).sum()),
    )


def curve(points: Sequence[Counts]) -> list[tuple[float, float]]:
    """The ROC curve of one threshold's values: (FPR, TPR) in order, from (0, 0) to (1, 1)."""
    known = {(p.fpr, p.tpr) for p in points if p.fpr is not None and p.tpr is not None}
    return sorted({(0.0, 0.0), (1.0, 1.0), *known})


def area(points: Sequence[tuple[float, float]]) -> float:
    """Area under a ROC curve, by trapezoids."""
    x, y = np.array(sorted(points)).T
    return float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2))


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
    """One host's injections as a file for ``iqcar-lab inject schedule --plan``."""
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
