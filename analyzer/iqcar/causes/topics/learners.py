"""Chooses the three base learners of a learner set."""

from __future__ import annotations

from iqcar.causes.topics.causal import AdaBoostIPW, LogisticIPW
from iqcar.causes.topics.dependence import PearsonCorrelation, SignedSchweizerWolff
from iqcar.causes.topics.predictive import BaggedElasticNet, LeastSquares
from iqcar.causes.topics.profiles import BaseLearner
from iqcar.enums import BaseModel, LearnerSet

LOG_LATENCY = frozenset({LearnerSet.RECOMMENDED})
"""Sets that learn from the logarithm of latency: a few huge latencies do not rule the means."""
BY_STRAGGLER = frozenset({LearnerSet.RECOMMENDED})
"""Sets whose mixtures are shared out straggler by straggler; others take the models' mean."""


def base_learners(chosen: LearnerSet, seed: int) -> dict[BaseModel, BaseLearner]:
    """One fresh learner per kind of model.

    seed: of what a learner draws. Every job gets the same, so that jobs can come in any order.
    """
    if chosen is LearnerSet.SIMPLE:
        return {
            BaseModel.PREDICTIVE: LeastSquares(),
            BaseModel.DEPENDENCE: PearsonCorrelation(),
            BaseModel.CAUSAL: LogisticIPW(),
        }
    if chosen is LearnerSet.PAPER:
        return {
            BaseModel.PREDICTIVE: BaggedElasticNet(
                cautious=False, outermost=0.0, random_state=seed
            ),
            BaseModel.DEPENDENCE: SignedSchweizerWolff(spearman=0.0, floor=0.0),
            BaseModel.CAUSAL: AdaBoostIPW(rounds=50, bins=32, at_median=True, significant=0.0),
        }
    return {
        BaseModel.PREDICTIVE: BaggedElasticNet(random_state=seed),
        BaseModel.DEPENDENCE: SignedSchweizerWolff(),
        BaseModel.CAUSAL: AdaBoostIPW(),
    }
