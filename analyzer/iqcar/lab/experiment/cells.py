"""Chooses the next cell of an experiment: a query under one resource's hogs at one level."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from iqcar.lab.experiment.experiment_plan import ExperimentPlan
from iqcar.lab.experiment.law import fit_law
from iqcar.lab.inject.anomalies import Settings
from iqcar.lab.inject.load_generators import (
    BLOCK_BYTES,
    STEP_BYTES,
    CpuSettings,
    IoSettings,
    MemorySettings,
    NetworkSettings,
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


def cells_of(plan: ExperimentPlan) -> list[Cell]:
    """Return all cells of a plan; the strongest levels, which tell most, first."""
    return [
        Cell(query.name, resource, level)
        for level in reversed(plan.levels)
        for query in plan.queries
        for resource in plan.strengths
    ]


def at_level(full: Settings, level: float) -> Settings:
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


def streams(settings: Settings, full: Settings) -> float:
    """Return how many greedy users of the resource these hogs are like."""
    if isinstance(settings, CpuSettings):
        return settings.processes * settings.share
    if isinstance(settings, MemorySettings) and isinstance(full, MemorySettings):
        return settings.processes * settings.size_bytes / full.size_bytes
    return float(settings.processes)


def next_cell(
    plan: ExperimentPlan, pairs: Sequence[Pair], at_once: Mapping[str, float]
) -> Cell | None:
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


def load(plan: ExperimentPlan, cell: Cell, at_once: Mapping[str, float]) -> float:
    """Return k, the hogs for each task of the query."""
    full = plan.strengths[cell.resource]
    return streams(at_level(full, cell.level), full) / max(at_once.get(cell.query, 1.0), 1e-9)
