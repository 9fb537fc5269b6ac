"""ElasticNet from second moments by coordinate descent: compiled, for thousands of small fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MAX_SWEEPS = 500
"""Sweeps over all coefficients at most; a path of penalties with warm starts needs about 10."""
TOLERANCE = 1e-6
"""A sweep that moves no coefficient by more than this, in standard deviations, is the last."""


@njit(cache=True, nogil=True)
def _descend(gram: Any, cross: Any, lasso: Any, ridge: Any, coef: Any) -> None:
    """Minimise ½ b'Gb − c'b + lasso·‖b‖₁ + ½ ridge·‖b‖², starting from `coef`, in place."""
    metrics = len(cross)
    gradient = cross.copy()
    for j in range(metrics):
        if coef[j] != 0.0:
            for k in range(metrics):
                gradient[k] -= gram[j, k] * coef[j]
    for _ in range(MAX_SWEEPS):
        moved = 0.0
        for j in range(metrics):
            own = gram[j, j]
            if own <= 0.0:
                continue
            old = coef[j]
            wanted = gradient[j] + own * old
            new = 0.0
            if wanted > lasso:
                new = (wanted - lasso) / (own + ridge)
            elif wanted < -lasso:
                new = (wanted + lasso) / (own + ridge)
            step = new - old
            if step != 0.0:
                coef[j] = new
                row = gram[j]
                for k in range(metrics):
                    gradient[k] -= row[k] * step
                moved = max(moved, abs(step))
        if moved <= TOLERANCE:
            return


@njit(cache=True, nogil=True)
def path_errors(grams: Any, crosses: Any, tests: Any, penalties: Any, ratio: Any) -> Any:
    """Squared error on each fold of a path of penalties, fitted on what is not in the fold.

    Parameters
    ----------
    grams, crosses : (folds, metrics, metrics), (folds, metrics)
        Second moments of the tasks outside each fold, centred there.
    tests : (folds, metrics + 1, metrics + 1)
        Second moments of the fold's metrics and latency (last) about the means outside it.
    penalties : (penalties,) falling
    ratio : share of the penalty that is lasso's

    Returns
    -------
    (folds, penalties) mean squared errors
    """
    folds, metrics = crosses.shape
    errors = np.empty((folds, len(penalties)))
    for f in range(folds):
        coef = np.zeros(metrics)
        moments = tests[f]
        for p in range(len(penalties)):
            penalty = penalties[p]
            _descend(grams[f], crosses[f], penalty * ratio, penalty * (1.0 - ratio), coef)
            error = moments[metrics, metrics]
            for j in range(metrics):
                if coef[j] != 0.0:
                    error -= 2.0 * coef[j] * moments[j, metrics]
                    for k in range(metrics):
                        error += coef[j] * coef[k] * moments[j, k]
            errors[f, p] = error
    return errors


@njit(cache=True, nogil=True)
def fit_each(grams: Any, crosses: Any, penalty: Any, ratio: Any) -> Any:
    """Coefficients of each replicate, (replicates, metrics), at one penalty."""
    replicates, metrics = crosses.shape
    coefs = np.zeros((replicates, metrics))
    for i in range(replicates):
        if i > 0:
            coefs[i] = coefs[i - 1]
        _descend(grams[i], crosses[i], penalty * ratio, penalty * (1.0 - ratio), coefs[i])
    return coefs
