"""Computes deviations of a job's stragglers, and which topics explain them: compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from iqcar.tables.arrays import Flags, Floats

Floats32 = NDArray[np.float32]

NORMAL_QUARTILES = 1.3489795
"""Interquartile range of a normal distribution in its standard deviations."""
NOTHING = 1e-12
"""What rounding leaves of a constant, relative to its size."""
MOST_STEPS = 50
STILL = 1e-4
"""Expectation and maximisation end when no share moves by more than this, a part of a straggler."""


@njit(cache=True, nogil=True)
def _prepare(values: Any, into: Any) -> None:
    """Logarithms of positive numbers; others by the largest size, so that nothing overflows."""
    positive = values.min() > 0.0
    largest = max(abs(values.min()), abs(values.max()))
    for i in range(len(values)):
        if positive:
            into[i] = np.log(values[i])
        else:
            into[i] = values[i] / largest if largest > 0.0 else 0.0


@njit(cache=True, nogil=True)
def _quantile(ordered: Any, share: float) -> float:
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return float(ordered[low] + (at - low) * (ordered[high] - ordered[low]))


@njit(cache=True, nogil=True)
def _spread(ordered: Any) -> float:
    """Robust standard deviation; the plain one where most are the same; 0 for a constant."""
    size = max(abs(ordered[0]), abs(ordered[-1]))
    width = _quantile(ordered, 0.75) - _quantile(ordered, 0.25)
    if width <= NOTHING * size:
        width = NORMAL_QUARTILES * ordered.std()
    return float(width / NORMAL_QUARTILES) if width > NOTHING * size else 0.0


def deviate(values: Floats, slow: Flags, farthest: float) -> tuple[Floats32, Floats32]:
    """Deviations of stragglers from the normal tasks' median, and products of those of the normal.

    values: (metrics, tasks) finite.
    slow: (tasks,) which are stragglers.
    farthest: standard deviations at which a deviation is cut off.

    What is returned:
    (stragglers, metrics) float32.
    (metrics, metrics) float32, mean products of the normal tasks' deviations; about 1 with itself.
    """
    stragglers, rest = _deviations(values, slow, farthest)
    # Not in compiled code: there Numba multiplies matrices with SciPy, which is not needed else.
    products = rest @ rest.T / max(rest.shape[1], 1)
    return stragglers, products.astype(np.float32)


@njit(cache=True, nogil=True)
def _deviations(values: Any, slow: Any, farthest: Any) -> Any:
    """Deviations of stragglers, (stragglers, metrics), and of the others, (metrics, others)."""
    metrics, tasks = values.shape
    many = int(slow.sum())
    deviation = np.zeros((metrics, tasks))
    scaled = np.empty(tasks)
    normal = np.empty(tasks - many)
    for j in range(metrics):
        _prepare(values[j], scaled)
        at = 0
        for i in range(tasks):
            if not slow[i]:
                normal[at] = scaled[i]
                at += 1
        normal.sort()
        middle, spread = _quantile(normal, 0.5), _spread(normal)
        nothing = NOTHING * max(abs(normal[0]), abs(normal[-1]))
        for i in range(tasks):
            off = scaled[i] - middle
            if spread > 0.0:
                off /= spread
            elif abs(off) > nothing:
                off = farthest if off > 0.0 else -farthest
            else:
                off = 0.0
            deviation[j, i] = min(max(off, -farthest), farthest)
    stragglers = np.empty((many, metrics), np.float32)
    rest = np.empty((metrics, tasks - many))
    for j in range(metrics):
        row, normal_row = 0, 0
        for i in range(tasks):
            if slow[i]:
                stragglers[row, j] = deviation[j, i]
                row += 1
            else:
                rest[j, normal_row] = deviation[j, i]
                normal_row += 1
    return stragglers, rest


@njit(cache=True, nogil=True)
def _evidence(stragglers: Any, normal: Any, keywords: Any, shift: float) -> Any:
    """How many times likelier a straggler is with a topic than without: (stragglers, topics)."""
    many, topics = len(stragglers), len(keywords)
    likelier = np.empty((many, topics))
    for k in range(topics):
        used = np.flatnonzero(keywords[k])
        variance = 0.0
        for a in used:
            for b in used:
                variance += keywords[k, a] * keywords[k, b] * normal[a, b]
        # Keywords of which normal tasks have no spread at all deviate by as much as is possible.
        length = np.sqrt(variance) if variance > NOTHING else 1.0
        for i in range(many):
            score = 0.0
            for a in used:
                score += keywords[k, a] * stragglers[i, a]
            likelier[i, k] = np.exp(shift * score / length - shift * shift / 2.0)
    return likelier


@njit(cache=True, nogil=True)
def explain(
    stragglers: Any, normal: Any, keywords: Any, prior: Any, none: float, shift: float
) -> Any:
    """How surely each straggler has each topic, where all of them are explained best.

    A straggler with a topic has that topic's keywords, weighed and in normal tasks' standard
    deviations, moved by `shift`; one with no topic is as normal tasks are. Shape (stragglers,
    topics) responsibility of each topic; what a row lacks to 1 is that of none.

    stragglers, normal: as of :func:`deviate`.
    keywords: (topics, metrics) weight of each metric, negative where it is lowered.
    prior: (topics,) stragglers that every topic is given beforehand; 0 excludes it.
    none: stragglers that no topic is given beforehand.
    shift: standard deviations.
    """
    many, topics = len(stragglers), len(keywords)
    likelier = _evidence(stragglers, normal, keywords, shift)
    mass = prior.sum() + none
    part = np.empty((many, topics))
    if mass <= 0.0:
        return np.zeros((many, topics))
    share, rest = prior / mass, none / mass
    sums = np.empty(topics)
    for _ in range(MOST_STEPS):
        sums[:] = prior
        nobody = none
        for i in range(many):
            total = rest
            for k in range(topics):
                part[i, k] = share[k] * likelier[i, k]
                total += part[i, k]
            for k in range(topics):
                part[i, k] /= total
                sums[k] += part[i, k]
            nobody += rest / total
        sums /= many + mass
        moved = np.abs(sums - share).max()
        share[:] = sums
        rest = nobody / (many + mass)
        if moved * many < STILL:
            break
    return part
