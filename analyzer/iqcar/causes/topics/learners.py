"""Looks at one job with three kinds of base learners (Hound §3.1).

Paper: Hound | §3.1 | leaves it: log latency, ranks on a grid, dependence above chance |
  tests/causes/topics/test_topic_learners.py
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from iqcar.causes.topics.kernels.adaboost import boosted_effects
from iqcar.causes.topics.kernels.copula import copula_distances, rank_bins
from iqcar.causes.topics.kernels.elastic_net import (
    covariances,
    fit_each,
    folds_and_draws,
    path_errors,
    products_about,
    second_moments,
)
from iqcar.causes.topics.kernels.ranks import (
    Ranks,
    codes_by_rank,
    medians,
    sides,
    standard_rows,
    two_means_cuts,
)
from iqcar.enums import BaseModel
from iqcar.tables.arrays import Floats, Ints

Codes = NDArray[np.uint8]
Counts = Ints


class BaseLearner(Protocol):
    """A learner of one job, in scikit-learn's manner: `fit` learns, names it learned end in `_`."""

    profile_: Floats
    """Effect of each metric on latency in [−1, 1]; the sizes sum to 1 if any is not 0."""

    def fit(self, metrics: Floats, latency: Floats, ranks: Ranks | None = None) -> BaseLearner:
        """Learn from one job.

        metrics: (tasks, metrics) finite numbers.
        latency: (tasks,) finite numbers.
        ranks: of these metrics, where they were sorted before.
        """
        ...


def as_profile(effects: Floats) -> Floats:
    """Scale effects so that their sizes sum to 1; all zeros where there is no effect."""
    finite = np.where(np.isfinite(effects), effects, 0.0)
    largest = float(np.abs(finite).max(initial=0.0))
    if largest == 0:
        return np.zeros(len(finite))
    finite = finite / largest  # so that neither tiny nor huge effects overflow the sum
    profile: Floats = finite / np.abs(finite).sum()
    return profile


def standardised(values: Floats) -> Floats:
    """Columns with mean 0 and standard deviation 1; a constant column becomes zeros.

    values: (tasks,) or (tasks, metrics) finite numbers.
    """
    size = np.abs(values).max(axis=0, initial=0.0)
    scaled = values / np.where(size > 0, size, 1.0)
    centred = scaled - scaled.mean(axis=0)
    spread = centred.std(axis=0)
    # What rounding leaves of a constant is no spread.
    varies = spread > 1e-12
    return np.where(varies, centred / np.where(varies, spread, 1.0), 0.0)


GRID = 128
"""Ranks looked at per variable; as good as all of them (a sample of tasks is not)."""
SIGN_SPEARMAN = 1.5
"""L1 − L2 is a sixth of Spearman's ρ, whose standard error is 1/√tasks: below this over √tasks its
sign means little. At 2 standard errors causes that only stragglers show are left out, too."""
NULL_DISTANCE = 1.5
"""Without any dependence the measure is about this over √tasks: less is none."""


@dataclass
class SignedSchweizerWolff:
    """Distance of each metric's copula with latency from independence, signed (SSW).

    dependence_: (metrics,) in [−1, 1]; 0 where there is none to tell from chance.
    profile_: (metrics,) causality profile.
    """

    grid: int = GRID
    spearman: float = SIGN_SPEARMAN
    """ε as Spearman's ρ times √tasks."""
    floor: float = NULL_DISTANCE
    """Smallest dependence that counts, times √tasks."""
    dependence_: Floats = field(init=False, repr=False)
    profile_: Floats = field(init=False, repr=False)

    def fit(
        self, metrics: Floats, latency: Floats, ranks: Ranks | None = None
    ) -> SignedSchweizerWolff:
        """Learn from one job; see :class:`iqcar.causes.topics.learners.BaseLearner`."""
        tasks, width = metrics.shape
        self.dependence_ = np.zeros(width)
        if tasks > 1:
            ranks = ranks or Ranks.from_metrics(metrics)
            of_latency, v, wv = rank_bins(latency, self.grid)
            codes, bins, u, wu = codes_by_rank(ranks.order, ranks.ordered, self.grid)
            distance, bounds = copula_distances(codes, bins, u, wu, of_latency, v, wv)
            size = np.minimum(12.0 * distance * tasks * tasks / (tasks * tasks - 1.0), 1.0)
            root = np.sqrt(tasks)
            # The paper prints the third case of its sign as L2 − L1 < ε; it is L1 − L2 < −ε.
            clear = (np.abs(bounds) > self.spearman / root / 6.0) & (size > self.floor / root)
            self.dependence_ = np.where(clear, -np.sign(bounds) * size, 0.0)
        self.profile_ = as_profile(self.dependence_)
        return self


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
        """Learn from one job; see :class:`iqcar.causes.topics.learners.BaseLearner`."""
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


def _in_order(x: Floats, y: Floats) -> NDArray[np.intp]:
    """Tasks by latency; those of the same latency by their metrics."""
    order = np.argsort(y)
    rising = y[order]
    if (rising[1:] > rising[:-1]).all():
        return order
    return np.lexsort((*x[::-1], y))


CLIP = 0.05
"""Smallest propensity: one task stands for 20 at most."""
LEAST_SIDE = 0.05
"""A cluster of fewer tasks is taken for wrong readings, where there is another way to divide."""


@dataclass
class AdaBoostIPW:
    """Effect of each metric's being high, other metrics held by boosted propensities (AIPW).

    effect_: (metrics,) in standard deviations of latency (Hájek's weights).
    error_: (metrics,) its standard error; inf where a metric has one value.
    profile_: (metrics,) causality profile.
    """

    rounds: int = 20
    bins: int = 8
    clip: float = CLIP
    at_median: bool = False
    """Whether a treatment is a value above the median; by default the higher of two clusters."""
    least_side: float = LEAST_SIDE
    """Smallest share of the tasks in either cluster."""
    significant: float = 1.0
    """An effect counts from this many standard errors on."""
    effect_: Floats = field(init=False, repr=False)
    error_: Floats = field(init=False, repr=False)
    profile_: Floats = field(init=False, repr=False)

    def fit(self, metrics: Floats, latency: Floats, ranks: Ranks | None = None) -> AdaBoostIPW:
        """Learn from one job; see :class:`iqcar.causes.topics.learners.BaseLearner`."""
        ranks = ranks or Ranks.from_metrics(metrics)
        codes, bins = binned(metrics, self.bins, ranks)
        treated = treatments(metrics, self.at_median, self.least_side, ranks)
        response = standardised(latency)
        self.effect_, self.error_ = boosted_effects(
            codes, bins, treated, response, self.rounds, self.clip
        )
        self.profile_ = as_profile(significant(self.effect_, self.error_, self.significant))
        return self


def significant(effects: Floats, errors: Floats, least: float) -> Floats:
    """Effects of at least so many standard errors; the others are 0."""
    sure = np.isfinite(errors)
    sure &= np.abs(effects) > least * np.where(sure, errors, 0.0)
    return np.where(sure, effects, 0.0)


def binned(metrics: Floats, most: int, ranks: Ranks | None = None) -> tuple[Codes, Counts]:
    """Bins of every metric, (metrics, tasks), and how many each has; all its values where few."""
    ranks = ranks or Ranks.from_metrics(metrics)
    codes, counts, _, _ = codes_by_rank(ranks.order, ranks.ordered, most)
    return codes, counts


def treatments(
    metrics: Floats, at_median: bool, least_side: float = LEAST_SIDE, ranks: Ranks | None = None
) -> Floats:
    """Which values are high, (metrics, tasks) of −1 and 1; a constant metric has no high ones."""
    ranks = ranks or Ranks.from_metrics(metrics)
    cuts = medians(ranks.ordered) if at_median else two_means_cuts(ranks.ordered, least_side)
    high: Floats = sides(ranks.values, cuts, at_median)
    return high


@dataclass(frozen=True)
class Learners:
    """The base learners of a job, and what is done with what they find.

    log_latency: whether they learn from the logarithm of latency, so that a few huge latencies do
        not rule the means.
    by_straggler: whether mixtures are shared out straggler by straggler; else the models' mean.
    """

    of_model: dict[BaseModel, BaseLearner]
    log_latency: bool = True
    by_straggler: bool = True


def recommended(seed: int) -> Learners:
    """One fresh learner per kind of model: the paper's, with what was more accurate.

    seed: of what a learner draws. Every job gets the same, so that jobs can come in any order.
    """
    return Learners(
        {
            BaseModel.PREDICTIVE: BaggedElasticNet(random_state=seed),
            BaseModel.DEPENDENCE: SignedSchweizerWolff(),
            BaseModel.CAUSAL: AdaBoostIPW(),
        }
    )
