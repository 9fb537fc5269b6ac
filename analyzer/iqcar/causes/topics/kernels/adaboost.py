"""Computes effects by AdaBoost of stumps over binned metrics: compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

SMALLEST_ERROR = 1e-6
"""A stump that errs less than this would weigh without bound."""
NOTHING_LEARNED = 1e-9
"""A stump that is right in half of the weight ends the boosting."""
MOST_BLURRED = 1e3
"""Sums are taken anew when their rounding errors have grown by this: to some 1e-13 of the whole."""


@njit(cache=True, nogil=True)
def _places(codes: Any) -> Any:
    """Where each task counts in sums of (bins, metrics) laid out flat: (tasks, metrics)."""
    metrics, tasks = codes.shape
    places = np.empty((tasks, metrics), np.uint32)
    for j in range(metrics):
        for i in range(tasks):
            places[i, j] = codes[j, i] * metrics + j
    return places


@njit(cache=True, nogil=True)
def _count(places: Any, weight: Any, sums: Any) -> None:
    for j in range(len(places)):
        sums[places[j]] += weight


@njit(cache=True, nogil=True)
def _best_edges(row: Any, total: Any, below: Any, edges: Any) -> None:
    for j in range(len(row)):
        below[j] += row[j]
        edge = abs(total - 2.0 * below[j])
        edges[j] = edge if edge > edges[j] else edges[j]


@njit(cache=True, nogil=True)
def _best_stump(sums: Any, bins: Any, skipped: Any, below: Any, edges: Any, level: Any) -> Any:
    """Metric, cut and edge of the best stump: the first of those as good; −1, −1: none at all."""
    total = sums[:, 0].sum()
    below[:] = 0.0
    edges[:] = 0.0
    for b in range(len(sums) - 1):
        _best_edges(sums[b], total, below, edges)
    largest = abs(total)
    for j in range(len(bins)):
        if j != skipped and bins[j] > 1 and edges[j] > largest:
            largest = edges[j]
    level *= 1e-12
    if abs(total) >= largest - level:
        return -1, -1, total
    for j in range(len(bins)):
        if j != skipped and bins[j] > 1 and edges[j] >= largest - level:
            running = 0.0
            for b in range(bins[j] - 1):
                running += sums[b, j]
                edge = total - 2.0 * running
                if abs(edge) >= largest - level:
                    return j, b, edge
    return -1, -1, total


@njit(cache=True, nogil=True)
def _divide(row: Any, cut: Any, up: Any, high: Any, right: Any, wrong: Any) -> Any:
    """List the tasks that a stump is right and wrong about; says how many it is right about."""
    rights, wrongs = 0, 0
    for i in range(len(row)):
        hit = ((row[i] > cut) == up) == high[i]
        right[rights] = i
        wrong[wrongs] = i
        rights += hit
        wrongs += not hit
    return rights


@njit(cache=True, nogil=True)
def _boost(
    codes: Any, places: Any, bins: Any, treated: Any, skipped: Any, rounds: Any, odds: Any
) -> None:
    """Fill in exp(−z f) of each task, of its treatment z and its score f (algorithm 2).

    The weight of a task is that, divided by the sum over tasks: it needs no score. Weights are
    kept up to a common scale, so that a stump moves those of the smaller of two sides only, the
    tasks it is right or wrong about; and so it does with their sums per metric and bin.
    """
    metrics, tasks = codes.shape
    signed = treated / tasks  # weight of a task, with the sign of its treatment
    high = treated > 0
    most = max(bins.max(), 1)
    sums = np.zeros((most, metrics))
    flat = sums.reshape(most * metrics)
    below, edges = np.empty(metrics), np.empty(metrics)
    right, wrong = np.empty(tasks, np.int64), np.empty(tasks, np.int64)
    for i in range(tasks):
        _count(places[i], signed[i], flat)
    scale, shrunk, blurred = 1.0, 1.0, 1.0
    for _ in range(rounds):
        metric, cut, edge = _best_stump(sums, bins, skipped, below, edges, 1.0 / scale)
        edge *= scale
        if abs(edge) < NOTHING_LEARNED:
            break
        # The error counts tasks by weight; algorithm 2 prints it without, and diverges.
        error = min(max((1.0 - abs(edge)) / 2.0, SMALLEST_ERROR), 0.5)
        rights = _divide(codes[max(metric, 0)], cut, edge > 0, high, right, wrong)
        more, less = 0.5 / error, 0.5 / (1.0 - error)
        if 2 * rights < tasks:
            moved, factor = right[:rights], less / more
            scale *= more
            blurred *= more
        else:
            moved, factor = wrong[: tasks - rights], more / less
            scale *= less
        for i in moved:
            _count(places[i], signed[i] * (factor - 1.0), flat)
            signed[i] *= factor
        shrunk *= 2.0 * np.sqrt(error * (1.0 - error))
        if blurred > MOST_BLURRED:  # rounding errors in the sums have grown with the scale
            sums[:] = 0.0
            for i in range(tasks):
                signed[i] *= scale
                _count(places[i], signed[i], flat)
            scale, blurred = 1.0, 1.0
        if error <= SMALLEST_ERROR:
            break
    for i in range(tasks):
        odds[i] = abs(signed[i]) * (scale * shrunk * tasks)


@njit(cache=True, nogil=True)
def boosted_scores(codes: Any, bins: Any, treated: Any, skipped: Any, rounds: Any) -> Any:
    """Score of each task, Σ αᵢ hᵢ: half the log odds of being treated (algorithm 2).

    Shape (tasks,) scores.

    codes: (metrics, tasks) uint8, bin of every metric.
    bins: (metrics,) bins of each metric.
    treated: (tasks,) of −1 and 1.
    skipped: the metric that is the treatment.
    rounds: stumps at most.
    """
    odds = np.empty(codes.shape[1])
    _boost(codes, _places(codes), bins, treated, skipped, rounds, odds)
    return -treated * np.log(odds)


@njit(cache=True, nogil=True)
def weighted_effect(treated: Any, propensity: Any, response: Any) -> Any:
    """Hájek's estimate of the effect of a treatment, and its standard error.

    Each side's responses are weighted by the inverse of the propensity and divided by the sum of
    the weights, so that the effect does not depend on where the response's zero is.
    """
    sums = np.zeros(4)
    for i in range(len(treated)):
        side = 2 if treated[i] > 0 else 0
        weight = 1.0 / propensity[i] if treated[i] > 0 else 1.0 / (1.0 - propensity[i])
        sums[side] += weight
        sums[side + 1] += weight * response[i]
    if sums[0] <= 0.0 or sums[2] <= 0.0:
        return 0.0, np.inf
    low, high = sums[1] / sums[0], sums[3] / sums[2]
    variance = 0.0
    for i in range(len(treated)):
        if treated[i] > 0:
            variance += ((response[i] - high) / propensity[i] / sums[2]) ** 2
        else:
            variance += ((response[i] - low) / (1.0 - propensity[i]) / sums[0]) ** 2
    return high - low, np.sqrt(variance)


@njit(cache=True, nogil=True)
def boosted_effects(
    codes: Any, bins: Any, treated: Any, response: Any, rounds: Any, clip: Any
) -> Any:
    """Effect of every metric on the response with all others held, and its standard error.

    Shape (2, metrics) effects and standard errors.

    codes, bins: as of :func:`boosted_scores`.
    treated: (metrics, tasks) of −1 and 1; a row of one sign has no effect.
    response: (tasks,).
    rounds, clip: stumps at most; smallest propensity.
    """
    metrics, tasks = codes.shape
    found = np.zeros((2, metrics))
    places = _places(codes)
    odds, propensity = np.empty(tasks), np.empty(tasks)
    for j in range(metrics):
        size = treated[j].sum()
        if abs(size) >= tasks:
            found[1, j] = np.inf
            continue
        _boost(codes, places, bins, treated[j], j, rounds, odds)
        for i in range(tasks):
            squared = odds[i] * odds[i]
            e = 1.0 / (1.0 + squared)
            e = e if treated[j, i] > 0 else 1.0 - e
            propensity[i] = min(max(e, clip), 1.0 - clip)
        effect, error = weighted_effect(treated[j], propensity, response)
        found[0, j] = effect
        found[1, j] = error
    return found
