"""Groups tasks by stage and host; finds stragglers, and the means and quantiles of their peers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iqcar.causes.stragglers.feature_list import Feature
from iqcar.causes.stragglers.features import TaskFeatures
from iqcar.causes.stragglers.straggler_settings import StragglerSettings
from iqcar.enums import FeatureKind
from iqcar.tables.arrays import Flags, Floats, Ints, by_group_and_time, sum_by

ROUNDING = 1e-12
"""What is left of a sum of peers that is below this share of the sum is rounding."""


class Means(NamedTuple):
    """Means over the peers of some tasks; NaN where too few peers are known."""

    inter: Floats
    """Over tasks of the stage elsewhere."""
    intra: Floats
    """Over the others at the same place."""


@dataclass(frozen=True)
class ComparedTasks:
    """The tasks that are compared with each other, by stage.

    rows: (n,) rows of the features' frame.
    stage: (n,) number of each task's stage, from 0.
    cell: (n,) number of each task's stage and host.
    on_executor: (n,) number of each task's stage and executor; of its host where that is unknown.
    stages: how many of them there are.
    duration: (n,) float64, ms.
    median: (n,) float64, ms; of the task's stage.
    straggler: (n,) bool.
    least_peers: peers that a mean needs.
    """

    rows: Ints
    stage: Ints
    cell: Ints
    on_executor: Ints
    stages: int
    duration: Floats
    median: Floats
    straggler: Flags
    least_peers: int

    @classmethod
    def from_features(cls, features: TaskFeatures, settings: StragglerSettings) -> ComparedTasks:
        """Group the tasks that succeeded, in stages of enough tasks, and find the stragglers.

        A straggler's duration is more than ``settings.straggler`` times the stage's median
        (BigRoots §II-A).
        """
        frame = features.frame
        stage = frame["stage"].to_numpy(np.int64)
        duration = features.column("duration_ms")
        usable = (stage >= 0) & frame["compared"].to_numpy(bool)
        usable &= np.isfinite(duration) & (duration >= 0)
        size = np.bincount(stage[usable], minlength=int(stage.max(initial=-1)) + 1)
        usable[usable] = size[stage[usable]] >= settings.least_tasks
        rows = np.flatnonzero(usable)
        kept, number = np.unique(stage[rows], return_inverse=True)
        host = frame["host"].to_numpy(np.int64)[rows]
        hosts = int(host.max(initial=-1)) + 2
        executor = host if "executor" not in frame else frame["executor"].to_numpy(np.int64)[rows]
        place = np.where(executor >= 0, hosts + executor, host + 1)
        _, cell = np.unique(number * hosts + host + 1, return_inverse=True)
        _, on_executor = np.unique(
            number * (int(place.max(initial=0)) + 1) + place, return_inverse=True
        )
        took = duration[rows]
        median = quantile_by(number, took, len(kept), 0.5)[number]
        straggler = took > settings.straggler * median
        return cls(
            rows=rows, stage=number, cell=cell, on_executor=on_executor, stages=len(kept),
            duration=took, median=median, straggler=straggler, least_peers=settings.least_peers,
        )  # fmt: skip

    def value(self, features: TaskFeatures, feature: Feature) -> Floats:
        """A feature of the compared tasks as rules compare it: times as shares of the duration.

        The paper divides amounts by the stage's mean (table II), which changes no comparison
        within a stage; amounts stay as they are. Anything that is no finite number of 0 or more
        is unknown.
        """
        raw = features.column(feature.name)[self.rows]
        known = np.where(np.isfinite(raw) & (raw >= 0), raw, np.nan)
        if feature.kind is not FeatureKind.TIME:
            return known
        share: Floats = np.divide(
            known, self.duration, out=np.full(len(known), np.nan), where=self.duration > 0
        )
        return share

    def peer_means(self, values: Floats, tasks: Ints, places: Ints | None = None) -> Means:
        """Means over tasks of the stage on other hosts, and over the others on the same host.

        values: (n,) NaN where unknown: such a task is nobody's peer.
        tasks: positions of the tasks whose peers are meant.
        places: (n,) number of each task's stage and place; by default of its stage and host.
        """
        place = self.cell if places is None else places
        size = int(place.max(initial=-1)) + 1
        known = np.isfinite(values)
        value = np.where(known, values, 0.0)
        stage_sum = sum_by(self.stage, value, self.stages)
        stage_n = np.bincount(self.stage[known], minlength=self.stages)
        cell_sum = sum_by(place, value, size)
        cell_n = np.bincount(place[known], minlength=size)
        stage, cell = self.stage[tasks], place[tasks]
        inter = stage_sum[stage] - cell_sum[cell]
        inter = np.where(inter > ROUNDING * stage_sum[stage], inter, 0.0)
        intra = cell_sum[cell] - value[tasks]
        intra = np.where(intra > ROUNDING * cell_sum[cell], intra, 0.0)
        return Means(
            self._mean(inter, stage_n[stage] - cell_n[cell]),
            self._mean(intra, cell_n[cell] - known[tasks]),
        )

    def _mean(self, total: Floats, count: NDArray[Any]) -> Floats:
        enough = count >= self.least_peers
        mean: Floats = np.divide(total, count, out=np.full(len(total), np.nan), where=enough)
        return mean

    def quantiles(self, values: Floats, q: float, tasks: Ints) -> Floats:
        """Quantile of the stage of each of some tasks, looking only at the stages concerned."""
        wanted = np.zeros(self.stages, bool)
        wanted[self.stage[tasks]] = True
        among = wanted[self.stage]
        return quantile_by(self.stage[among], values[among], self.stages, q)[self.stage[tasks]]


def quantile_by(group: Ints, values: Floats, groups: int, q: float) -> Floats:
    """Quantile of the finite values of each group, between two values in proportion.

    Shape (groups,). NaN for a group without a finite value.
    """
    known = np.isfinite(values)
    if not known.any():
        return np.full(groups, np.nan)
    group, values = group[known], values[known]
    order = by_group_and_time(group, values)
    count = np.bincount(group, minlength=groups)
    first = np.cumsum(count) - count
    found = np.full(groups, np.nan)
    some = count > 0
    place = q * (count[some] - 1)
    low = np.floor(place).astype(np.int64)
    high = np.minimum(low + 1, count[some] - 1)
    ordered = values[order]
    below, above = ordered[first[some] + low], ordered[first[some] + high]
    found[some] = below + (above - below) * (place - low)
    return found
