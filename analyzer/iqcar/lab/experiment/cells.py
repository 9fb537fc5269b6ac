"""Fits the law of slowdowns, and chooses the next cell: a query under hogs at one level.

A query whose tasks take r of a device of capacity C shares it with k times as many hogs, fairly:
it gets C / (1 + k), so that nothing happens up to a knee and time grows linearly beyond it. Of own
rate and capacity only the ratio shows in slowdowns.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from iqcar.comparison.stats.student_t import t_quantile
from iqcar.lab.experiment.experiment_plan import LoadedPlan
from iqcar.lab.inject.anomalies import AnomalySettings
from iqcar.lab.inject.load_generators import (
    BLOCK_BYTES,
    STEP_BYTES,
    CpuSettings,
    IoSettings,
    MemorySettings,
    NetworkSettings,
)
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


@dataclass(frozen=True)
class Cell:
    """A query under the hogs of a resource at a level."""

    query: str
    resource: str
    level: float

    @property
    def curve(self) -> tuple[str, str]:
        """The curve that it is a point of."""
        return self.query, self.resource


@dataclass(frozen=True)
class Pair:
    """A run under hogs and the run beside it without; elapsed ms, NaN where one failed."""

    cell: Cell
    alone_ms: float
    loaded_ms: float

    @property
    def failed(self) -> bool:
        """Whether one of the two has no time."""
        return not (self.alone_ms > 0 and self.loaded_ms > 0)


def cells_of(plan: LoadedPlan) -> list[Cell]:
    """Return all cells of a plan; the strongest levels, which tell most, first."""
    return [
        Cell(query.name, resource, level)
        for level in reversed(plan.levels)
        for query in plan.queries
        for resource in plan.strengths
    ]


def at_level(full: AnomalySettings, level: float) -> AnomalySettings:
    """Return the settings of hogs at a share of their strength at level 1."""
    if isinstance(full, CpuSettings):
        wanted = level * full.processes * full.share
        processes = max(math.ceil(wanted), 1)
        return replace(full, processes=processes, share=min(wanted / processes, 1.0))
    if isinstance(full, MemorySettings):
        least = full.processes * STEP_BYTES
        return replace(full, size_bytes=max(round(level * full.size_bytes), least))
    processes = max(round(level * full.processes), 1)
    if isinstance(full, (IoSettings, NetworkSettings)):
        rate = full.rate_bytes_per_s
        slower = None if rate is None else level * rate
        if isinstance(full, IoSettings):
            size = max(round(level * full.size_bytes), processes * BLOCK_BYTES)
            return replace(full, processes=processes, size_bytes=size, rate_bytes_per_s=slower)
        return replace(full, processes=processes, rate_bytes_per_s=slower)
    return replace(full, processes=processes)


def streams(settings: AnomalySettings, full: AnomalySettings) -> float:
    """Return how many greedy users of the resource these hogs are like."""
    if isinstance(settings, CpuSettings):
        return settings.processes * settings.share
    if isinstance(settings, MemorySettings) and isinstance(full, MemorySettings):
        return settings.processes * settings.size_bytes / full.size_bytes
    return float(settings.processes)


def next_cell(plan: LoadedPlan, pairs: Sequence[Pair], at_once: Mapping[str, float]) -> Cell | None:
    """Choose the cell whose slowdown the fit so far predicts least certainly.

    Every cell comes once before any comes again; a cell that failed does not come again. The
    uncertainty is divided by the root of the runs of the cell, as the mean of them would be.

    Returns: None where all were repeated as often as the plan says.

    pairs: what was run.
    at_once: tasks that each query runs at once.
    """
    runs = Counter(pair.cell for pair in pairs)
    failed = {pair.cell for pair in pairs if pair.failed}
    left = [c for c in cells_of(plan) if runs[c] < plan.repeats and c not in failed]
    fresh = [cell for cell in left if runs[cell] == 0]
    if fresh or not left:
        return fresh[0] if fresh else None
    fits = {}
    for curve in {cell.curve for cell in left}:
        good = [pair for pair in pairs if pair.cell.curve == curve and not pair.failed]
        k = np.array([load(plan, pair.cell, at_once) for pair in good])
        fits[curve] = fit_law(k, np.array([pair.loaded_ms / pair.alone_ms for pair in good]))

    def uncertainty(cell: Cell) -> float:
        k = load(plan, cell, at_once)
        return fits[cell.curve].uncertainty(k) / math.sqrt(runs[cell])

    return max(left, key=uncertainty)


def load(plan: LoadedPlan, cell: Cell, at_once: Mapping[str, float]) -> float:
    """Return k, the hogs for each task of the query."""
    full = plan.strengths[cell.resource]
    return streams(at_level(full, cell.level), full) / max(at_once.get(cell.query, 1.0), 1e-9)
