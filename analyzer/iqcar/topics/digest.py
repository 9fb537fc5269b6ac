"""What is kept of a job's stragglers: how far each is from the job's other tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iqcar.topics.jobs import Job
    from iqcar.topics.ranks import Ranks

    Floats = NDArray[np.float64]
    Small = NDArray[np.float32]

NORMAL_SPREAD = 1.4826
"""The median distance from the median times this is a normal law's standard deviation."""
LARGEST_DEVIATION = 1e6
"""A straggler is not further from the others than this: a float32 holds it."""
NO_SPREAD = 1e-12
"""Of the largest value: what rounding leaves of a constant."""


@dataclass(frozen=True)
class StragglerDigest:
    """A job's stragglers beside its other tasks.

    Attributes
    ----------
    deviations : (stragglers, metrics) float32; spreads above the centre; 0 where unknown, and
        where all tasks have the same value; the slowest straggler last
    slowness : (stragglers,) float32; latency in medians of the job's
    centre, spread : (metrics,) median of the other tasks, and their median distance from it as a
        standard deviation; that is the standard deviation itself where most of them have the same
        value, that of all tasks where all others have; 0 where there is none
    """

    deviations: Small
    slowness: Small
    centre: Floats
    spread: Floats


def digest_of(job: Job, ranks: Ranks) -> StragglerDigest:
    """Digest of a job's stragglers; `ranks` are those of the job's metrics."""
    slow = np.flatnonzero(job.slow)
    deviations = np.zeros((len(slow), len(ranks.values)), np.float32)
    places = np.zeros((2, len(ranks.values)))
    _deviate(ranks.values, ranks.order, ranks.ordered, job.slow, job.metrics, deviations, places)
    slowness = (job.latency_ms[slow] / job.median_ms).astype(np.float32)
    return StragglerDigest(deviations, slowness, places[0], places[1])


@njit(cache=True, nogil=True)
def _middle(rising: Any) -> Any:
    half = len(rising) // 2
    low = rising[half] if len(rising) % 2 else rising[half - 1]
    return low / 2.0 + rising[half] / 2.0


@njit(cache=True, nogil=True)
def _distances(rising: Any, centre: Any, into: Any) -> None:
    """Distances from the centre, the smallest first."""
    above = 0
    while above < len(rising) and rising[above] < centre:
        above += 1
    below = above - 1
    for i in range(len(rising)):
        up = rising[above] - centre if above < len(rising) else np.inf
        down = centre - rising[below] if below >= 0 else np.inf
        if up < down:
            into[i] = up
            above += 1
        else:
            into[i] = down
            below -= 1


@njit(cache=True, nogil=True)
def _deviation(values: Any) -> Any:
    size = np.abs(values).max()
    if size == 0.0:
        return 0.0
    spread = (values / size).std()
    return spread * size if spread > NO_SPREAD else 0.0


@njit(cache=True, nogil=True)
def _deviate(
    values: Any, order: Any, ordered: Any, slow: Any, readings: Any, deviations: Any, places: Any
) -> None:
    """Fill in deviations, and (2, metrics) centres and spreads; `readings` tell what is unknown."""
    metrics, tasks = values.shape
    rising = np.empty(tasks - slow.sum())
    distances = np.empty(len(rising))
    for j in range(metrics):
        n = 0
        for i in range(tasks):
            if not slow[order[j, i]]:
                rising[n] = ordered[j, i]
                n += 1
        centre = _middle(rising)
        _distances(rising, centre, distances)
        spread = NORMAL_SPREAD * _middle(distances)
        if spread == 0.0:
            spread = _deviation(rising)
        if spread == 0.0:
            spread = _deviation(ordered[j])
        places[0, j], places[1, j] = centre, spread
        if spread == 0.0:
            continue
        n = 0
        for i in range(tasks):
            if slow[i]:
                if not np.isnan(readings[i, j]):
                    away = (values[j, i] - centre) / spread
                    deviations[n, j] = min(max(away, -LARGEST_DEVIATION), LARGEST_DEVIATION)
                n += 1
