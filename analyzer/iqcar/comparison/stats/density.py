"""Computes how values vary: C² of each category, and the density of durations.

Spectroscope's browsing (CMU-PDL-10-107, sections 4.3 and 5.4).

Paper: Spectroscope | §4.3, §5.4: C², density | exact; no ranges, no train schedules |
  tests/comparison/test_density.py
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from iqcar.tables.arrays import Flags, Floats, Ints, sum_by

HIGH_VARIATION = 1.0
"""C² above which a category varies much (section 5.4): an exponential distribution has 1."""
GRID_POINTS = 512
"""Points of a density: more than a picture has pixels to show."""
MARGIN_BANDWIDTHS = 4.0
"""Bandwidths that a density goes on beyond the values: all but 1e-4 of a kernel."""
LEAST_BANDWIDTH = 0.05
"""Bandwidth of log2 durations at least, where all are equal: 4 % of a duration."""


def variation(category: Ints, value: Floats, n: int) -> Floats:
    """Return the squared coefficient of variation C² = (σ/μ)² of every category.

    Over runs it shows what runs of equal work differ by: contention, and what else changes from run
    to run. Over the tasks of a stage it shows how unevenly its work is divided.

    ``category``, (n_rows,): number of the category, < ``n``. ``value``, (n_rows,): durations or
    bytes, ≥ 0; NaN is left out. ``n``: number of categories. Returns (n,): with the unbiased
    variance; NaN for fewer than two values or a mean of 0. Above :data:`HIGH_VARIATION` is high; of
    fewer than ten values it is unreliable.
    """
    known = np.isfinite(value)
    category, value = category[known], value[known]
    order = np.lexsort((value, category))  # sums do not depend on the order of rows
    category, value = category[order], value[order]
    count = np.bincount(category, minlength=n)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = sum_by(category, value, n) / count
        relative = value / mean[category] - 1
        c2 = sum_by(category, relative**2, n) / (count - 1)
    return np.where((count > 1) & (mean > 0), c2, np.nan)


class Density(NamedTuple):
    """How durations are distributed, on a logarithmic axis."""

    ms: Floats
    """(GRID_POINTS,), ms: durations, evenly spaced in log2; empty if there is none."""
    density: Floats
    """(GRID_POINTS,): share of the durations per factor of two; its integral over log2 is 1."""
    bandwidth: float
    """Standard deviation of the kernel, in log2."""

    def modes(self) -> Floats:
        """Return the durations where the density is highest among its neighbours, ms."""
        rises = np.diff(self.density)
        peak: Flags = np.zeros(len(self.density), bool)
        peak[1:-1] = (rises[:-1] > 0) & (rises[1:] <= 0)
        return self.ms[peak]


def density(duration_ms: Floats) -> Density:
    """Estimate the density of log2 durations with a Gaussian kernel (section 4.3, figure 4).

    The text takes a bandwidth that is "optimal for a mixture of normals" without a formula: here it
    is Silverman's rule (1986, equation 3.31), which keeps modes apart by the quartiles. Durations
    are counted on a grid first, so that the cost does not depend on their number beyond that.

    ``duration_ms``, (n,), ms: those that are NaN or not positive are left out.
    """
    known = np.isfinite(duration_ms) & (duration_ms > 0)
    log = np.log2(duration_ms[known])
    if not len(log):
        return Density(np.zeros(0), np.zeros(0), 0.0)
    low, high = np.percentile(log, [25, 75])
    spread = min(float(np.std(log)), float(high - low) / 1.34) or float(np.std(log))
    bandwidth = max(0.9 * spread * len(log) ** -0.2, LEAST_BANDWIDTH)
    edge = MARGIN_BANDWIDTHS * bandwidth
    grid = np.linspace(log.min() - edge, log.max() + edge, GRID_POINTS)
    step = grid[1] - grid[0]
    # Each duration is shared out between the two grid points beside it.
    place = np.clip((log - grid[0]) / step, 0, GRID_POINTS - 1)
    left = np.minimum(place.astype(np.int64), GRID_POINTS - 2)
    right_part = place - left
    weight = sum_by(left, 1 - right_part, GRID_POINTS) + sum_by(left + 1, right_part, GRID_POINTS)
    apart = np.subtract.outer(grid, grid) / bandwidth
    kernel = np.exp(-0.5 * apart**2) / (np.sqrt(2 * np.pi) * bandwidth)
    return Density(np.exp2(grid), kernel @ weight / len(log), bandwidth)
