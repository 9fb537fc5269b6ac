"""Looks at jobs with the base learners that Hound prints, and with its simpler ones (appendix F).

P. Zheng, B. C. Lee, *Hound: Causal Learning for Datacenter-scale Straggler Diagnosis*, SIGMETRICS
2018. Each set is a kind of `TopicSettings`: what finds topics takes one like ours. docs/topics.md
compares them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from iqcar.causes.topics.kernels.adaboost import weighted_effect
from iqcar.causes.topics.kernels.ranks import Ranks
from iqcar.causes.topics.learners import (
    CLIP,
    AdaBoostIPW,
    BaggedElasticNet,
    Learners,
    SignedSchweizerWolff,
    as_profile,
    significant,
    standardised,
    treatments,
)
from iqcar.causes.topics.topic_result import TopicSettings
from iqcar.enums import BaseModel, LearnerSet
from iqcar.tables.arrays import Floats

RIDGE = 1e-3
"""Keeps a logistic regression finite where metrics separate the treated from the others."""


@dataclass(frozen=True)
class PaperSettings(TopicSettings):
    """Topics found by the paper's learners."""

    LEARNERS: ClassVar[LearnerSet] = LearnerSet.PAPER

    def learners(self) -> Learners:
        """Bagged ElasticNet, Schweizer–Wolff, AdaBoost propensities."""
        return Learners(
            {
                BaseModel.PREDICTIVE: BaggedElasticNet(
                    cautious=False, outermost=0.0, random_state=self.seed
                ),
                BaseModel.DEPENDENCE: SignedSchweizerWolff(spearman=0.0, floor=0.0),
                BaseModel.CAUSAL: AdaBoostIPW(rounds=50, bins=32, at_median=True, significant=0.0),
            },
            log_latency=False,
            by_straggler=False,
        )


@dataclass(frozen=True)
class SimpleSettings(TopicSettings):
    """Topics found by the paper's baselines."""

    LEARNERS: ClassVar[LearnerSet] = LearnerSet.SIMPLE

    def learners(self) -> Learners:
        """Least squares, Pearson's correlation, logistic propensities."""
        return Learners(
            {
                BaseModel.PREDICTIVE: LeastSquares(),
                BaseModel.DEPENDENCE: PearsonCorrelation(),
                BaseModel.CAUSAL: LogisticIPW(),
            },
            log_latency=False,
            by_straggler=False,
        )


SETTINGS: dict[LearnerSet, type[TopicSettings]] = {
    one.LEARNERS: one for one in (TopicSettings, PaperSettings, SimpleSettings)
}
"""The settings of each set of learners."""


@dataclass
class PearsonCorrelation:
    """Linear correlation of each metric with latency (the paper's simpler DP learner).

    dependence_: (metrics,) in [−1, 1].
    profile_: (metrics,) causality profile.
    """

    dependence_: Floats = field(init=False, repr=False)
    profile_: Floats = field(init=False, repr=False)

    def fit(
        self, metrics: Floats, latency: Floats, ranks: Ranks | None = None
    ) -> PearsonCorrelation:
        """Learn from one job; see :class:`iqcar.causes.topics.learners.BaseLearner`."""
        x, y = standardised(metrics), standardised(latency)
        self.dependence_ = x.T @ y / max(len(y), 1)
        self.profile_ = as_profile(self.dependence_)
        return self


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
        """Learn from one job; see :class:`iqcar.causes.topics.learners.BaseLearner`."""
        x, y = standardised(metrics), standardised(latency)
        self.coef_ = np.asarray(np.linalg.lstsq(x, y, rcond=1e-10)[0], np.float64)
        self.profile_ = as_profile(np.where(np.abs(self.coef_) > 1e-9, self.coef_, 0.0))
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
        """Learn from one job; see :class:`iqcar.causes.topics.learners.BaseLearner`."""
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
