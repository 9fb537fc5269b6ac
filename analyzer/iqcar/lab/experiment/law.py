"""Fits the law of slowdown under hogs: ``slowdown = max(1, (1 + k) · r/C)``.

A query whose tasks take r of a device of capacity C shares it with k times as many hogs, fairly:
it gets C / (1 + k), so that nothing happens up to a knee and time grows linearly beyond it. Of own
rate and capacity only the ratio shows in slowdowns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iqcar.comparison.stats.student_t import t_quantile
from iqcar.tables.arrays import Floats

COVERAGE = 0.8
"""Of intervals, as in ``iqcar whatif``."""
LEAST_NOISE = 0.02
"""Spread of log slowdowns that is assumed at least: a few pairs that agree by luck prove little."""
GRID = 400
"""Values of r/C that are tried: steps of about 1 % between the smallest that shows and 1."""


@dataclass(frozen=True)
class Fit:
    """A fitted law.

    share: r/C, in [0, 1]. More than 1 cannot be told from 1: alone it is as slow as the device.
    low, high: 80 % interval; low is 0 where no slowdown is within it.
    residual: root mean square of log(measured / fitted).
    candidates, weights: (n,); values of r/C that were tried, and their likelihood, which sums to 1.
    """

    share: float
    low: float
    high: float
    residual: float
    candidates: Floats
    weights: Floats

    @property
    def identified(self) -> bool:
        """Whether some slowdown is certain."""
        return self.low > 0

    def predict(self, k: float) -> tuple[float, float, float]:
        """Return the slowdown under k hogs for each task, low and high."""
        said = slowdown(np.array([self.share, self.low, self.high]), k)
        return float(said[0]), float(said[1]), float(said[2])

    def uncertainty(self, k: float) -> float:
        """Standard deviation of the logarithm of the predicted slowdown."""
        said: Floats = np.log(slowdown(self.candidates, k))
        mean = float(self.weights @ said)
        return float(np.sqrt(max(float(self.weights @ (said - mean) ** 2), 0.0)))


def slowdown(share: Floats, k: Floats | float) -> Floats:
    """Return max(1, (1 + k) · r/C)."""
    found: Floats = np.maximum(1.0, (1.0 + np.asarray(k)) * share)
    return found


def fit_law(k: Floats, measured: Floats) -> Fit:
    """Fit r/C to slowdowns by least squares of their logarithms, with a profile interval.

    k: (n,); hogs for each task; n ≥ 1, at least one k > 0.
    measured: (n,); time with hogs / time of the run beside it without.
    """
    # Below the first value even the strongest load shows nothing: it stands for all of them.
    tried = np.geomspace(1.0 / (1.0 + k.max()), 1.0, GRID)
    off = np.log(measured)[None, :] - np.log(slowdown(tried[:, None], k[None, :]))
    squares = (off**2).sum(axis=1)
    best = int(np.argmin(squares))
    left = max(len(k) - 1, 1)
    variance = max(float(squares[best]) / left, LEAST_NOISE**2)
    quantile = float(t_quantile([0.5 - COVERAGE / 2], np.array([float(left)]))[0, 0])
    more = (squares - squares[best]) / variance
    within = tried[more <= quantile**2]
    weights = np.exp(-0.5 * more)
    flat = within[0] <= tried[0]
    return Fit(
        share=float(tried[best]),
        low=0.0 if flat else float(within[0]),
        high=float(within[-1]),
        residual=float(np.sqrt(squares[best] / len(k))),
        candidates=tried,
        weights=weights / weights.sum(),
    )
