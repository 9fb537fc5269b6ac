"""Scores of causes against what was injected: BigRoots eq. 9, per straggler and resource.

The anomaly generator loads three features: CPU, disk and network. Each straggler has one decision
for each of them. Eq. 9 prints FPR = FN / (FP + TN); table V's own numbers are FP / (FP + TN).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESOURCES = ("cpu", "io", "network")
"""Anomalies, in the order of the columns of truth and decisions."""
CLEAR_SHARE = 0.5
"""An injection clearly affected a straggler if it was there for at least half of its time."""

Flags = NDArray[np.bool_]


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

    Returns
    -------
    ndarray of float64, (stragglers, len(RESOURCES))
        Injections of one anomaly on one host never overlap, so their times add up.
    """
    found = np.zeros((len(host), len(RESOURCES)))
    named = np.array(host, dtype=object)
    for one in injected:
        both = np.minimum(finish_ms, one.end_ms) - np.maximum(launch_ms, one.start_ms)
        column = RESOURCES.index(one.anomaly)
        found[:, column] += np.where(named == one.host, np.maximum(both, 0.0), 0.0)
    return found


def truth_of_the_paper(shared_ms: NDArray[np.float64]) -> Flags:
    """An injection that overlaps a straggler affected it (§IV-B1)."""
    affected: Flags = shared_ms > 0
    return affected


def clear_truth(shared_ms: NDArray[np.float64], duration_ms: NDArray[np.float64]) -> Flags:
    """Decisions in which nothing is in doubt, to count only these.

    A straggler is in doubt where an injection overlapped less than half of it; and where traffic
    over loopback did, because it keeps nobody from a network and takes processor time instead.
    """
    share = shared_ms / np.maximum(duration_ms, 1.0)[:, np.newaxis]
    network = RESOURCES.index("network")
    sure: Flags = (share == 0) | (share >= CLEAR_SHARE)
    return sure & (shared_ms[:, network] == 0)[:, np.newaxis]


def count(truth: Flags, named: Flags, counted: Flags | None = None) -> Counts:
    """Count decisions (eq. 9).

    Parameters
    ----------
    truth, named : ndarray of bool, (stragglers, resources)
        What was affected, and what was named as a cause.
    counted : ndarray of bool, optional
        Which decisions count; by default all.
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
