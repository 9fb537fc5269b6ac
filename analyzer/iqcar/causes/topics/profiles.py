"""Scales effects to causality profiles: the weight of each metric in one job (paper §3.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from iqcar.causes.topics.kernels.ranks import Ranks
    from iqcar.tables.arrays import Floats


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
    result: Floats = np.where(varies, centred / np.where(varies, spread, 1.0), 0.0)
    return result
