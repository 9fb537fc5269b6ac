"""Looks at a job with Hound's base learners exactly as printed, and with its simpler ones.

P. Zheng, B. C. Lee: *Hound: Causal Learning for Datacenter-scale Straggler Diagnosis*, SIGMETRICS
2018, §3.1, algorithms 1 and 2, appendix F. A learner is a function of X, (tasks, metrics), and y,
(tasks,), to the effect of each metric; :mod:`iqcar.papers.hound` makes profiles of them. Symbols:
I `REPLICATES`, `ROUNDS`; λ₁, λ₂ `ridge`, `lasso`; C(u, v) `copula`; Z and e(X) `z`, `e`.

Where the print leaves a choice:

- Algorithm 1 prints neither λ₁ and λ₂, nor I, nor an intercept. Taken: λ₂ = 2 λ₁, as λ₁ has the
  least error on five folds; 50; none, as metrics and latency are standardised first, which is how
  coefficients are "re-scaled" (§3.1). Its minimum is one, so coordinate descent stands for LARS-EN.
- SSW has the third case of its sign as L₂ − L₁ < ε, which holds for negative dependence, too.
  Taken: L₁ − L₂ < −ε. ε is not printed: 0.
- Algorithm 2's weak classifier is C4.5 (appendix G): a whole tree makes no error, and α no value.
  Taken: one split of fewest errors. No error, or nothing but errors, counts as half of one, and
  e(X) stays half a task from 0 and 1, where Δ has no value.
- Its ε is a share of M tasks x_m. Taken: of the M drawn, which it was trained on; of all tasks, D
  left out, e(X) would end near 0 and 1.
- §3.1 writes Z as 0 and 1, algorithm 2 as −1 and 1. "High" has no cut: above the median, here.
- Δ as printed is not divided by the sums of its weights, so that it depends on where latency's zero
  is, which is not printed. Taken: its mean; latency is standardised.

Paper: Hound | algorithm 1: BAE | exact; another solver of the same minimum |
  tests/papers/test_hound_learners_printed.py
Paper: Hound | §3.1: SSW | exact; the sign's misprint mended |
  tests/papers/test_hound_learners_printed.py
Paper: Hound | algorithm 2, IPW | exact; splits for C4.5 |
  tests/papers/test_hound_learners_printed.py
Paper: Hound | appendix F: simpler learners | exact | tests/papers/test_hound_learners_printed.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from iqcar.enums import BaseModel
from iqcar.tables.arrays import Floats, Ints

PrintedLearner: TypeAlias = Callable[[Floats, Floats, np.random.Generator], Floats]
"""From X and y to the effects; draws from the generator."""
REPLICATES, ROUNDS = 50, 50
FOLDS = 5
PENALTIES = np.geomspace(1.0, 1e-3, 20)
"""λ₂ looked at, of the least that leaves no metric."""
SWEEPS = 100


def standardised(values: Floats) -> Floats:
    """Columns with mean 0 and standard deviation 1; a constant column becomes zeros."""
    size = np.abs(values).max(axis=0, initial=0.0)
    scaled = values / np.where(size > 0, size, 1.0)
    centred = scaled - scaled.mean(axis=0)
    spread = centred.std(axis=0)
    # What rounding leaves of a constant is no spread.
    varies = spread > 1e-12
    return np.where(varies, centred / np.where(varies, spread, 1.0), 0.0)


def least_squares(x: Floats, y: Floats, rng: np.random.Generator) -> Floats:
    """Return coefficients of all metrics; of several solutions the smallest (appendix F)."""
    return np.asarray(np.linalg.lstsq(standardised(x), standardised(y), rcond=1e-10)[0], np.float64)


def pearson(x: Floats, y: Floats, rng: np.random.Generator) -> Floats:
    """Return the linear correlation of each metric with latency (appendix F)."""
    return np.asarray(standardised(x).T @ standardised(y) / max(len(y), 1), np.float64)


def bagged_elastic_net(x: Floats, y: Floats, rng: np.random.Generator) -> Floats:
    """Average the coefficients of bootstrap replicates (BAE, algorithm 1)."""
    x, y = standardised(x), standardised(y)
    lasso = _cross_validated(x, y, rng)
    fitted = []
    for _ in range(REPLICATES):
        drawn = rng.integers(len(y), size=len(y))
        fitted.append(elastic_net(x[drawn], y[drawn], lasso / 2, lasso))
    return np.asarray(np.mean(fitted, axis=0), np.float64)


def elastic_net(x: Floats, y: Floats, ridge: float, lasso: float) -> Floats:
    """Minimise ‖y − Xβ‖² + λ₁ ‖β‖² + λ₂ ‖β‖₁ (algorithm 1); ridge > 0."""
    gram, cross = x.T @ x, x.T @ y
    beta = np.zeros(len(cross))
    for _ in range(SWEEPS):
        before = beta.copy()
        for j in range(len(beta)):
            rest = cross[j] - gram[j] @ beta + gram[j, j] * beta[j]
            beta[j] = np.sign(rest) * max(abs(rest) - lasso / 2, 0.0) / (gram[j, j] + ridge)
        if np.abs(beta - before).max(initial=0.0) < 1e-5:
            break
    return beta


def _cross_validated(x: Floats, y: Floats, rng: np.random.Generator) -> float:
    """Return the λ₂ of least error on what it was not fitted to; 1 where nothing varies."""
    largest = 2 * float(np.abs(x.T @ y).max(initial=0.0))
    if largest == 0:
        return 1.0
    fold = rng.permutation(len(y)) % FOLDS
    errors = np.zeros(len(PENALTIES))
    for k in range(FOLDS):
        inside = fold != k
        for number, share in enumerate(PENALTIES):
            lasso = share * largest
            beta = elastic_net(x[inside], y[inside], lasso / 2, lasso)
            errors[number] += ((y[~inside] - x[~inside] @ beta) ** 2).sum()
    return largest * float(PENALTIES[np.argmin(errors)])


def schweizer_wolff(x: Floats, y: Floats, rng: np.random.Generator) -> Floats:
    """Measure SSW of each metric with latency: 12 / (N² − 1) Σ |C − uv|, signed (§3.1)."""
    return np.array([ssw(column, y) for column in x.T])


def ssw(x: Floats, y: Floats, epsilon: float = 0.0) -> float:
    """Return SSW(X, Y) of observed pairs: in [−1, 1], unless many values are equal."""
    n = len(y)
    x_upto, y_upto = x[:, None] <= x[None, :], y[:, None] <= y[None, :]
    u, v = x_upto.mean(axis=0), y_upto.mean(axis=0)
    copula = x_upto.T.astype(np.float64) @ y_upto.astype(np.float64) / n
    swd = 12 / (n**2 - 1) * np.abs(copula - np.outer(u, v)).sum()
    l1 = (np.minimum.outer(u, v) - copula).mean()
    l2 = (copula - np.maximum(np.add.outer(u, v) - 1, 0)).mean()
    # Equal bounds differ by what rounding leaves.
    sign = 0.0 if abs(l1 - l2) <= max(epsilon, 1e-12) else float(np.sign(l2 - l1))
    return sign * float(swd)


def adaboost_ipw(x: Floats, y: Floats, rng: np.random.Generator) -> Floats:
    """Estimate Δ of each metric's being high, the others held by boosted propensities (AIPW)."""
    return _effects(x, y, lambda others, z: boosted_propensities(others, z, rng))


def logistic_ipw(x: Floats, y: Floats, rng: np.random.Generator) -> Floats:
    """The same with e(X) = exp(βX) / (1 + exp(βX)) (§3.1, appendix F)."""
    return _effects(x, y, _logistic_propensities)


def _logistic_propensities(x: Floats, z: Floats) -> Floats:
    half = 0.5 / len(z)
    return np.clip(_logistic(standardised(x), z), half, 1 - half)


def _effects(x: Floats, y: Floats, propensities: Callable[[Floats, Floats], Floats]) -> Floats:
    found, r = np.zeros(x.shape[1]), standardised(y)
    for j, column in enumerate(x.T):
        high = column > np.median(column)
        if high.any():
            z = np.where(high, 1.0, -1.0)
            found[j] = ipw(high.astype(np.float64), r, propensities(np.delete(x, j, 1), z))
    return found


def ipw(z: Floats, r: Floats, e: Floats) -> float:
    """Return Δ = E[ZR / e(X)] − E[(1 − Z) R / (1 − e(X))], Z being 0 or 1 (§3.1)."""
    return float((z * r / e).mean() - ((1 - z) * r / (1 - e)).mean())


def boosted_propensities(x: Floats, z: Floats, rng: np.random.Generator) -> Floats:
    """Return e(X) = P{Z = 1 | X} of each task, Z being −1 or 1 (algorithm 2)."""
    m = len(z)
    d, f = np.full(m, 1 / m), np.zeros(m)
    order = np.argsort(x, axis=0, kind="stable")
    for _ in range(ROUNDS):
        drawn = np.bincount(rng.choice(m, m, p=d), minlength=m)
        h = weak_classifier(x, z, drawn, order)
        error = float(np.clip(drawn[h != z].sum() / m, 0.5 / m, 1 - 0.5 / m))
        alpha = 0.5 * np.log((1 - error) / error)
        f += alpha * h
        d = d * np.exp(-alpha * z * h)
        d /= d.sum()
    return np.clip(1 / (1 + np.exp(-2 * f)), 0.5 / m, 1 - 0.5 / m)


def weak_classifier(x: Floats, z: Floats, drawn: Ints, order: Ints) -> Floats:
    """Return h(X) in {−1, 1}: the split with fewest errors on the drawn, or none.

    drawn: (tasks,) how often each was.
    order: (tasks, metrics) tasks by rising values.
    """
    weight = drawn * z
    upto = np.cumsum(weight[order], axis=0)
    rising = np.take_along_axis(x, order, 0)
    gain = weight.sum() - 2 * upto[:-1]  # of saying 1 above the cut, −1 up to it
    gain[rising[1:] == rising[:-1]] = 0.0
    if not gain.size or np.abs(gain).max() <= abs(weight.sum()):
        return np.full(len(z), 1.0 if weight.sum() >= 0 else -1.0)
    cut, metric = np.unravel_index(int(np.argmax(np.abs(gain))), gain.shape)
    side = 1.0 if gain[cut, metric] > 0 else -1.0
    return np.where(x[:, metric] > rising[cut, metric], side, -side)


RIDGE = 1e-3
"""Keeps a logistic regression finite where metrics separate the treated from the others."""


def _logistic(x: Floats, treated: Floats) -> Floats:
    """Propensities by Newton's method with a small ridge."""
    design = np.concatenate([np.ones((len(x), 1)), x], axis=1)
    coef = np.zeros(design.shape[1])
    wanted = (treated + 1.0) / 2.0
    ridge = RIDGE * len(x)
    p = np.full(len(x), 0.5)
    for _ in range(25):
        weight = np.maximum(p * (1.0 - p), 1e-9)
        slope = design.T @ (wanted - p) - ridge * coef
        curve = (design * weight[:, None]).T @ design + ridge * np.eye(len(coef))
        step = np.linalg.solve(curve, slope)
        coef += step
        p = 1.0 / (1.0 + np.exp(-np.clip(design @ coef, -30, 30)))
        if np.abs(step).max() < 1e-8:
            break
    return p


PRINTED: Mapping[BaseModel, PrintedLearner] = {
    BaseModel.PREDICTIVE: bagged_elastic_net,
    BaseModel.DEPENDENCE: schweizer_wolff,
    BaseModel.CAUSAL: adaboost_ipw,
}
"""The learners of §3.1."""
SIMPLER: Mapping[BaseModel, PrintedLearner] = {
    BaseModel.PREDICTIVE: least_squares,
    BaseModel.DEPENDENCE: pearson,
    BaseModel.CAUSAL: logistic_ipw,
}
"""Those of appendix F."""
