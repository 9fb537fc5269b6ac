"""Fits thousands of small ElasticNets to second moments by active sets: compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

MAX_SWEEPS = 500
"""Sweeps over all coefficients at most; with what is solved between them one or two will do."""
TOLERANCE = 1e-6
"""A sweep that moves no coefficient by more than this, in standard deviations, is the last."""


@njit(cache=True, nogil=True)
def _take_off(row: Any, step: Any, gradient: Any) -> None:
    for k in range(len(row)):
        gradient[k] -= row[k] * step


@njit(cache=True, nogil=True)
def _sweep(gram: Any, cross: Any, lasso: Any, ridge: Any, coef: Any, gradient: Any) -> Any:
    """Set one coefficient after the other to its best; says how far the furthest moved."""
    moved = 0.0
    for j in range(len(coef)):
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
            _take_off(gram[j], step, gradient)
            moved = max(moved, abs(step))
    return moved


@njit(cache=True, nogil=True)
def _solve(
    gram: Any, cross: Any, lasso: Any, ridge: Any, coef: Any, some: Any, root: Any, b: Any
) -> Any:
    """Go towards the best values of the coefficients that are not 0, until one of them is.

    Their signs given, the best values are the solution of linear equations. Whether none became 0:
    then `coef` are the best values of these coefficients.
    """
    size = 0
    for j in range(len(coef)):
        if coef[j] != 0.0:
            some[size] = j
            size += 1
    for m in range(size):  # Cholesky's root of the gram matrix, and forward substitution
        i = some[m]
        total = cross[i] - (lasso if coef[i] > 0.0 else -lasso)
        for n in range(m):
            product = gram[i, some[n]]
            for k in range(n):
                product -= root[m, k] * root[n, k]
            product /= root[n, n]
            root[m, n] = product
            total -= product * b[n]
        square = gram[i, i] + ridge
        for k in range(m):
            square -= root[m, k] * root[m, k]
        if square <= 0.0:
            return True
        root[m, m] = np.sqrt(square)
        b[m] = total / root[m, m]
    reach, blocking = 1.0, -1
    for m in range(size - 1, -1, -1):
        b[m] /= root[m, m]
        for n in range(m):
            b[n] -= root[m, n] * b[m]
        old = coef[some[m]]
        if not b[m] * old > 0.0 and old / (old - b[m]) < reach:
            reach, blocking = old / (old - b[m]), m
    for m in range(size):
        coef[some[m]] += reach * (b[m] - coef[some[m]])
    if blocking >= 0:
        coef[some[blocking]] = 0.0
    return blocking < 0


@njit(cache=True, nogil=True)
def _descend(
    gram: Any, cross: Any, lasso: Any, ridge: Any, coef: Any, gradient: Any, some: Any, root: Any,
    b: Any,
) -> None:  # fmt: skip
    """Minimise ½ b'Gb − c'b + lasso·‖b‖₁ + ½ ridge·‖b‖², starting from `coef`, in place.

    Sweeps alone take very long where metrics are nearly the same. They only have to tell which
    coefficients are not 0, and their signs: those are solved for, and the next sweep tells
    whether others have to move, too.
    """
    for _ in range(MAX_SWEEPS):
        while not _solve(gram, cross, lasso, ridge, coef, some, root, b):
            pass
        gradient[:] = cross
        for j in range(len(coef)):
            if coef[j] != 0.0:
                _take_off(gram[j], coef[j], gradient)
        if _sweep(gram, cross, lasso, ridge, coef, gradient) <= TOLERANCE:
            return


@njit(cache=True, nogil=True)
def path_errors(grams: Any, crosses: Any, tests: Any, penalties: Any, ratio: Any) -> Any:
    """Squared error on each fold of a path of penalties, fitted on what is not in the fold.

    Shape (folds, penalties) mean squared errors.

    grams, crosses: (folds, metrics, metrics), (folds, metrics) second moments of the tasks outside
        each fold, centred there.
    tests: (folds, metrics + 1, metrics + 1) second moments of the fold's metrics and latency (last)
        about the means outside it.
    penalties: (penalties,) falling.
    ratio: share of the penalty that is lasso's.
    """
    folds, metrics = crosses.shape
    errors = np.empty((folds, len(penalties)))
    gradient, b, root = np.empty(metrics), np.empty(metrics), np.empty((metrics, metrics))
    some = np.empty(metrics, np.int64)
    for f in range(folds):
        coef = np.zeros(metrics)
        moments = tests[f]
        for p in range(len(penalties)):
            penalty = penalties[p]
            lasso, ridge = penalty * ratio, penalty * (1.0 - ratio)
            _descend(grams[f], crosses[f], lasso, ridge, coef, gradient, some, root, b)
            error = moments[metrics, metrics]
            for j in range(metrics):
                if coef[j] != 0.0:
                    about = -2.0 * moments[j, metrics]
                    for k in range(metrics):
                        about += coef[k] * moments[j, k]
                    error += coef[j] * about
            errors[f, p] = error
    return errors


@njit(cache=True, nogil=True)
def fit_each(grams: Any, crosses: Any, penalty: Any, ratio: Any) -> Any:
    """Coefficients of each replicate, (replicates, metrics), at one penalty."""
    replicates, metrics = crosses.shape
    coefs = np.zeros((replicates, metrics))
    gradient, b, root = np.empty(metrics), np.empty(metrics), np.empty((metrics, metrics))
    some = np.empty(metrics, np.int64)
    lasso, ridge = penalty * ratio, penalty * (1.0 - ratio)
    for i in range(replicates):
        if i > 0:
            coefs[i] = coefs[i - 1]
        _descend(grams[i], crosses[i], lasso, ridge, coefs[i], gradient, some, root, b)
    return coefs
