"""The baseline that BigRoots is compared with: Pearson's correlation coefficient (eq. 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iqcar.causes.stragglers.straggler_result import Marks
from iqcar.enums import FeatureKind

if TYPE_CHECKING:
    from iqcar.causes.stragglers.features import TaskFeatures
    from iqcar.causes.stragglers.root_causes import ComparedTasks
    from iqcar.tables.arrays import Floats


@dataclass(frozen=True)
class PccSettings:
    """Thresholds of eq. 8; the paper searches for the best and prints none."""

    pearson: float = 0.5
    """Least |ρ| of the feature with the duration in the stage."""
    quantile: float = 0.8
    """The feature lies above this quantile of its stage."""


def pcc_marks(features: TaskFeatures, compared: ComparedTasks, settings: PccSettings) -> Marks:
    """Find the features that correlate with the duration and are large (eq. 8).

    Returns
    -------
    Marks
        ``ratio`` holds ρ. Measured waits take no part: the baseline is the paper's.
    """
    suspects = np.flatnonzero(compared.straggler)
    parts = []
    for position, feature in enumerate(features.features):
        if not feature.cause or feature.kind is FeatureKind.WAIT:
            continue
        values = compared.value(features, feature)
        pearson = correlation(compared, values)[compared.stage[suspects]]
        of = suspects[np.abs(pearson) > settings.pearson]
        bound = compared.quantiles(values, settings.quantile, of)
        kept = values[of] > bound
        of, bound = of[kept], bound[kept]
        rho = pearson[np.abs(pearson) > settings.pearson][kept]
        parts.append(
            Marks.make(
                of, position, values[of], np.full(len(of), np.nan), quantile=bound, ratio=rho
            )
        )
    return Marks.join(parts)


def correlation(compared: ComparedTasks, values: Floats) -> Floats:
    """Pearson's ρ of a feature with the duration in each stage; 0 where one of them is constant."""
    known = np.isfinite(values)
    stage = compared.stage[known]
    count = np.maximum(np.bincount(stage, minlength=compared.stages), 1)

    def centred(of: Floats) -> Floats:
        return of - (np.bincount(stage, of, compared.stages) / count)[stage]

    def total(of: Floats) -> Floats:
        sums: Floats = np.bincount(stage, of, compared.stages).astype(np.float64)
        return sums

    x, y = centred(values[known]), centred(compared.duration[known])
    both = np.sqrt(total(x * x)) * np.sqrt(total(y * y))
    # Against the size of the numbers: what rounding leaves of a constant is no variation.
    scale = np.sqrt(total(values[known] ** 2)) * np.sqrt(total(compared.duration[known] ** 2))
    rho: Floats = np.divide(total(x * y), both, out=np.zeros(len(both)), where=both > 1e-12 * scale)
    return rho
