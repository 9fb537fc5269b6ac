"""AdaBoost of stumps over binned metrics, and the effects it gives: compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

SMALLEST_ERROR = 1e-6
"""A stump that errs less than this would weigh without bound."""
NOTHING_LEARNED = 1e-9
"""A stump that is right in half of the weight ends the boosting."""


@njit(cache=True, nogil=True)
def _histogram(codes: Any, signed: Any, sums: Any) -> None:
    sums[:] = 0.0
    for i in range(len(codes)):
        sums[codes[i]] += signed[i]


@njit(cache=True, nogil=True)
def _reweigh(codes: Any, cut: Any, direction: Any, alpha: Any, scores: Any, signed: Any) -> None:
    """Add a stump to the scores and give weight to the tasks it is wrong about."""
    right, wrong = np.exp(-alpha), np.exp(alpha)
    total = 0.0
    for i in range(len(codes)):
        says = direction if codes[i] > cut else -direction
        scores[i] += alpha * says
        signed[i] *= right if says * signed[i] > 0 else wrong
        total += abs(signed[i])
    for i in range(len(codes)):
        signed[i] /= total


@njit(cache=True, nogil=True)
def boosted_scores(codes: Any, bins: Any, treated: Any, skipped: Any, rounds: Any) -> Any:
    """Score of each task, Σ αᵢ hᵢ: half the log odds of being treated (algorithm 2).

    Parameters
    ----------
    codes : (metrics, tasks) uint8, bin of every metric
    bins : (metrics,) bins of each metric
    treated : (tasks,) of −1 and 1
    skipped : the metric that is the treatment
    rounds : stumps at most

    Returns
    -------
    (tasks,) scores
    """
    metrics, tasks = codes.shape
    scores = np.zeros(tasks)
    signed = treated / tasks  # weight of a task, with the sign of its treatment
    sums = np.empty(256)
    for _ in range(rounds):
        total = signed.sum()
        best, best_metric, best_cut = total, -1, -1
        for j in range(metrics):
            if j == skipped or bins[j] < 2:
                continue
            _histogram(codes[j], signed, sums[: bins[j]])
            below = 0.0
            for b in range(bins[j] - 1):
                below += sums[b]
                edge = total - 2.0 * below
                if abs(edge) > abs(best) + 1e-12:
                    best, best_metric, best_cut = edge, j, b
        if abs(best) < NOTHING_LEARNED:
            break
        # The error counts tasks by weight; algorithm 2 prints it without, and diverges.
        error = min(max((1.0 - abs(best)) / 2.0, SMALLEST_ERROR), 0.5)
        alpha = 0.5 * np.log((1.0 - error) / error)
        direction = 1.0 if best > 0 else -1.0
        row = codes[max(best_metric, 0)]
        _reweigh(row, best_cut, direction, alpha, scores, signed)
        if error <= SMALLEST_ERROR:
            break
    return scores


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

    Parameters
    ----------
    codes, bins : as of :func:`boosted_scores`
    treated : (metrics, tasks) of −1 and 1; a row of one sign has no effect
    response : (tasks,)
    rounds, clip : stumps at most; smallest propensity

    Returns
    -------
    (2, metrics) effects and standard errors
    """
    metrics = len(codes)
    found = np.zeros((2, metrics))
    for j in range(metrics):
        size = treated[j].sum()
        if abs(size) >= len(response):
            found[1, j] = np.inf
            continue
        scores = boosted_scores(codes, bins, treated[j], j, rounds)
        propensity = np.minimum(np.maximum(1.0 / (1.0 + np.exp(-2.0 * scores)), clip), 1.0 - clip)
        effect, error = weighted_effect(treated[j], propensity, response)
        found[0, j] = effect
        found[1, j] = error
    return found
