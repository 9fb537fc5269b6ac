"""Predicts latency: Bagging Augmented ElasticNet (paper §3.1, algorithm 1), least squares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from iqcar.causes.topics.kernels.elastic_net import fit_each, path_errors
from iqcar.causes.topics.kernels.moments import covariances, products_about, second_moments
from iqcar.causes.topics.kernels.ranks import Ranks, standard_rows
from iqcar.causes.topics.kernels.resampling import folds_and_draws
from iqcar.causes.topics.profiles import as_profile, standardised

if TYPE_CHECKING:
    from iqcar.tables.arrays import Floats

OUTERMOST = 0.005
"""A wrong reading is off by orders of magnitude and rules a mean; stragglers are more than this."""
FEW_LEVELS = 16
"""Metrics of fewer values are counts: the rare large ones are what they tell."""
PATH_END = 1e-3
"""The smallest penalty tried, of the smallest that leaves no metric (as scikit-learn does)."""


@dataclass
class BaggedElasticNet:
    """Mean of ElasticNets fitted to bootstrap replicates of a job (BAE, algorithm 1).

    All fits read second moments only, so the tasks are visited once. The penalty is chosen once per
    job by cross-validation. Tasks are first put in the order of their latency: the result does not
    depend on the order in which they come.

    coef_: (metrics,) mean coefficient, of standardised metrics and latency.
    penalty_: float, λ as scikit-learn writes it.
    profile_: (metrics,) causality profile.
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

    def fit(self, metrics: Floats, latency: Floats, ranks: Ranks | None = None) -> BaggedElasticNet:
        """Learn from one job; see :class:`iqcar.causes.topics.profiles.BaseLearner`."""
        tasks, width = metrics.shape
        self.coef_, self.penalty_ = np.zeros(width), 0.0
        y = standardised(latency)
        if tasks > self.folds and y.any():
            ranks = ranks or Ranks.from_metrics(metrics)
            x = standard_rows(ranks.values, ranks.ordered, float(self.outermost), FEW_LEVELS)
            varying = np.flatnonzero(x.any(axis=1))
            if len(varying):
                order = _in_order(x[varying], y)
                kept = np.empty((tasks, len(varying) + 2))
                kept[:, 0], kept[:, 1:-1], kept[:, -1] = 1.0, x[varying].T[order], y[order]
                self.coef_[varying] = self._bagged(kept)
        self.profile_ = as_profile(self.coef_)
        return self

    def _bagged(self, values: Floats) -> Floats:
        """Coefficients from (tasks, 1 + metrics + 1): ones, metrics and latency."""
        weights = folds_and_draws(len(values), self.folds, self.replicates, self.random_state)
        moments = second_moments(values, weights)
        tests, bags = moments[: self.folds], moments[self.folds :]
        total = tests.sum(axis=0)
        _, cross = covariances(total[None])
        largest = float(np.abs(cross).max())
        if largest <= 0:
            return np.zeros(values.shape[1] - 2)
        penalties = largest / self.ratio * np.geomspace(1.0, PATH_END, self.penalties)
        outside = total - tests
        gram, cross = covariances(outside)
        errors = path_errors(gram, cross, products_about(tests, outside), penalties, self.ratio)
        self.penalty_ = self._choose(errors, penalties)
        gram, cross = covariances(bags)
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

    coef_: (metrics,) coefficients of standardised metrics and latency; the smallest of several
        solutions.
    profile_: (metrics,) causality profile.
    """

    coef_: Floats = field(init=False, repr=False)
    profile_: Floats = field(init=False, repr=False)

    def fit(self, metrics: Floats, latency: Floats, ranks: Ranks | None = None) -> LeastSquares:
        """Learn from one job; see :class:`iqcar.causes.topics.profiles.BaseLearner`."""
        x, y = standardised(metrics), standardised(latency)
        self.coef_ = np.asarray(np.linalg.lstsq(x, y, rcond=1e-10)[0], np.float64)
        self.profile_ = as_profile(np.where(np.abs(self.coef_) > 1e-9, self.coef_, 0.0))
        return self


def _in_order(x: Floats, y: Floats) -> NDArray[np.intp]:
    """Tasks by latency; those of the same latency by their metrics."""
    order = np.argsort(y)
    rising = y[order]
    if (rising[1:] > rising[:-1]).all():
        return order
    return np.lexsort((*x[::-1], y))
