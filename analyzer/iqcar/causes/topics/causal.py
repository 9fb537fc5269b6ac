"""Estimates effects by inverse probability weighting (paper §3.1, algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from iqcar.causes.topics.kernels.adaboost import boosted_effects, weighted_effect
from iqcar.causes.topics.kernels.ranks import Ranks, codes_by_rank, medians, sides, two_means_cuts
from iqcar.causes.topics.profiles import as_profile, standardised

if TYPE_CHECKING:
    from iqcar.tables.arrays import Floats, Ints

    Codes = NDArray[np.uint8]
    Counts = Ints

CLIP = 0.05
"""Smallest propensity: one task stands for 20 at most."""
LEAST_SIDE = 0.05
"""A cluster of fewer tasks is taken for wrong readings, where there is another way to divide."""
RIDGE = 1e-3
"""Keeps a logistic regression finite where metrics separate the treated from the others."""


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
        """Learn from one job; see :class:`iqcar.causes.topics.profiles.BaseLearner`."""
        ranks = ranks or Ranks.from_metrics(metrics)
        codes, bins = binned(metrics, self.bins, ranks)
        treated = treatments(metrics, self.at_median, self.least_side, ranks)
        response = standardised(latency)
        self.effect_, self.error_ = boosted_effects(
            codes, bins, treated, response, self.rounds, self.clip
        )
        self.profile_ = as_profile(significant(self.effect_, self.error_, self.significant))
        return self


@dataclass
class LogisticIPW:
    """The same with propensities from logistic regression (the paper's simpler CA learner).

    effect_, error_, profile_: as of `AdaBoostIPW`.
    """

    clip: float = CLIP
    at_median: bool = True
    significant: float = 0.0
    effect_: Floats = field(init=False, repr=False)
    error_: Floats = field(init=False, repr=False)
    profile_: Floats = field(init=False, repr=False)

    def fit(self, metrics: Floats, latency: Floats, ranks: Ranks | None = None) -> LogisticIPW:
        """Learn from one job; see :class:`iqcar.causes.topics.profiles.BaseLearner`."""
        width = metrics.shape[1]
        treated = treatments(metrics, self.at_median, ranks=ranks)
        response, x = standardised(latency), standardised(metrics)
        self.effect_, self.error_ = np.zeros(width), np.full(width, np.inf)
        for j in range(width):
            if abs(treated[j].sum()) < len(response):
                e = np.clip(_logistic(np.delete(x, j, 1), treated[j]), self.clip, 1 - self.clip)
                self.effect_[j], self.error_[j] = weighted_effect(treated[j], e, response)
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
