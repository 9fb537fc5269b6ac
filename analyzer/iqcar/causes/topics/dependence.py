"""Measures dependence on latency: Signed Schweizer–Wolff (paper §3.1), Pearson's correlation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from iqcar.causes.topics.kernels.copula import copula_distances, rank_bins
from iqcar.causes.topics.kernels.ranks import Ranks, codes_by_rank
from iqcar.causes.topics.profiles import as_profile, standardised

if TYPE_CHECKING:
    from iqcar.tables.arrays import Floats

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
        """Learn from one job; see :class:`iqcar.causes.topics.profiles.BaseLearner`."""
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
        """Learn from one job; see :class:`iqcar.causes.topics.profiles.BaseLearner`."""
        x, y = standardised(metrics), standardised(latency)
        self.dependence_ = x.T @ y / max(len(y), 1)
        self.profile_ = as_profile(self.dependence_)
        return self
