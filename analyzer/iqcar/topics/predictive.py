"""Predictive base learners (PR): Bagging Augmented ElasticNet (algorithm 1), least squares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from iqcar.topics.descent import fit_each, path_errors
from iqcar.topics.moments import second_moments
from iqcar.topics.profiles import as_profile, standardised

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

OUTERMOST = 0.005
"""A wrong reading is off by orders of magnitude and rules a mean; stragglers are more than this."""
FEW_LEVELS = 16
"""Metrics of fewer values are counts: the rare large ones are what they tell."""
PATH_END = 1e-3
"""The smallest penalty tried, of the smallest that leaves no metric (as scikit-learn does)."""


@dataclass
class BaggedElasticNet:
    """Mean of ElasticNets fitted to bootstrap replicates of a job (BAE, algorithm 1).

    All fits read second moments only, so the tasks are visited once. The penalty is chosen once
    per job by cross-validation. Tasks are first put in the order of their latency: the result does
    not depend on the order in which they come.

    Attributes
    ----------
    coef_ : (metrics,) mean coefficient, of standardised metrics and latency
    penalty_ : float, λ as scikit-learn writes it
    profile_ : (metrics,) causality profile
    """

    replicates: int = 32
    folds: int = 5
    penalties: int = 30
    ratio: float = 0.5
    """Share of the penalty that is lasso's."""
    cautious: bool = True
    """Whether to take the largest penalty within one standard error of the best."""
    outermost: float = OUTERMOST
    """Share of the readings at either end of a metric that count as the next one inside."""
    random_state: int = 0
    coef_: Floats = field(init=False, repr=False)
    penalty_: float = field(init=False, repr=False)
    profile_: Floats = field(init=False, repr=False)

    def fit(self, metrics: Floats, latency: Floats) -> BaggedElasticNet:
        """Learn from one job; see :class:`iqcar.topics.profiles.BaseLearner`."""
        x = standardised(winsorised(metrics, self.outermost))
        y = standardised(latency)
        tasks, width = x.shape
        self.coef_, self.penalty_ = np.zeros(width), 0.0
        of = np.flatnonzero(x.any(axis=0))
        if len(of) and tasks > self.folds and y.any():
            order = np.lexsort((*(x[:, j] for j in of[::-1]), y))
            kept = np.concatenate([np.ones((tasks, 1)), x[order][:, of], y[order, None]], axis=1)
            self.coef_[of] = self._bagged(kept)
        self.profile_ = as_profile(self.coef_)
        return self

    def _bagged(self, values: Floats) -> Floats:
        """Coefficients from (tasks, 1 + metrics + 1): ones, metrics and latency."""
        tasks = len(values)
        fold = np.arange(tasks) % self.folds
        within = (fold == np.arange(self.folds)[:, None]).astype(np.float64)
        drawn = np.random.default_rng(self.random_state).multinomial(
            tasks, np.full(tasks, 1.0 / tasks), size=self.replicates
        )
        moments = second_moments(values, np.concatenate([within, drawn]))
        tests, bags = moments[: self.folds], moments[self.folds :]
        whole = tests.sum(axis=0)
        _, cross = _centred(whole[None])
        largest = float(np.abs(cross).max())
        if largest <= 0:
            return np.zeros(values.shape[1] - 2)
        penalties = largest / self.ratio * np.geomspace(1.0, PATH_END, self.penalties)
        outside = whole - tests
        gram, cross = _centred(outside)
        errors = path_errors(gram, cross, _about(tests, outside), penalties, self.ratio)
        self.penalty_ = self._choose(errors, penalties)
        gram, cross = _centred(bags)
        coefs: Floats = fit_each(gram, cross, self.penalty_, self.ratio).mean(axis=0)
        return coefs

    def _choose(self, errors: Floats, penalties: Floats) -> float:
        mean = errors.mean(axis=0)
        best = int(np.argmin(mean))
        if self.cautious:
            slack = errors[:, best].std() / np.sqrt(max(len(errors) - 1, 1))
            best = int(np.argmax(mean <= mean[best] + slack))
        return float(penalties[best])


@dataclass
class LeastSquares:
    """Linear regression of latency on all metrics (the paper's simpler PR learner, appendix F).

    Attributes
    ----------
    coef_ : (metrics,) coefficients of standardised metrics and latency; the smallest of several
        solutions
    profile_ : (metrics,) causality profile
    """

    coef_: Floats = field(init=False, repr=False)
    profile_: Floats = field(init=False, repr=False)

    def fit(self, metrics: Floats, latency: Floats) -> LeastSquares:
        """Learn from one job; see :class:`iqcar.topics.profiles.BaseLearner`."""
        x, y = standardised(metrics), standardised(latency)
        self.coef_ = np.asarray(np.linalg.lstsq(x, y, rcond=1e-10)[0], np.float64)
        self.profile_ = as_profile(np.where(np.abs(self.coef_) > 1e-9, self.coef_, 0.0))
        return self


def winsorised(metrics: Floats, share: float) -> Floats:
    """Let a share of each metric's readings at either end, at least one, count as the next inside.

    Metrics of few values stay as they are, and all of them where the share is 0.
    """
    tasks = len(metrics)
    cut = max(int(np.ceil(share * tasks)), 1)
    if share <= 0 or tasks <= 2 * cut:
        return metrics
    ordered = np.sort(metrics, axis=0)
    levels = 1 + (ordered[1:] > ordered[:-1]).sum(axis=0)
    clipped: Floats = np.clip(metrics, ordered[cut], ordered[-1 - cut])
    return np.where(levels >= FEW_LEVELS, clipped, metrics)


def _centred(moments: Floats) -> tuple[Floats, Floats]:
    """Covariances of the metrics, and of metrics with latency, from sums of products."""
    count = moments[:, :1, :1]
    mean = moments[:, 0, :] / count[:, 0]
    covariance = moments / count - mean[:, :, None] * mean[:, None, :]
    gram = np.ascontiguousarray(covariance[:, 1:-1, 1:-1])
    return gram, np.ascontiguousarray(covariance[:, 1:-1, -1])


def _about(tests: Floats, outside: Floats) -> Floats:
    """Mean products in each fold about the means of the tasks outside it."""
    mean = outside[:, 0, 1:] / outside[:, :1, 0]
    count = tests[:, :1, :1]
    inside = tests[:, 0, 1:] / count[:, 0]
    products = tests[:, 1:, 1:] / count
    cross = inside[:, :, None] * mean[:, None, :]
    shifted: Floats = products - cross - cross.transpose(0, 2, 1)
    return np.ascontiguousarray(shifted + mean[:, :, None] * mean[:, None, :])
