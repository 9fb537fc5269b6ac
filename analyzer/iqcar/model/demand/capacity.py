"""Computes the best speed seen in each domain (eq. 3 as printed)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from iqcar.tables.arrays import Floats, Ints


def best_seen(data: Floats, wait_ms: Floats, domain: Ints, n_domains: int) -> Floats:
    """Return the highest DP / WT in each domain, as eq. 3 is printed; NaN where there is none."""
    moved = np.flatnonzero((data > 0) & (wait_ms > 0) & (domain >= 0))
    best = np.full(n_domains, -np.inf)
    np.maximum.at(best, domain[moved], data[moved] / wait_ms[moved])
    return np.where(np.isfinite(best), best, np.nan)


def of_domain(per_domain: Floats, domain: Ints) -> Floats:
    """Return the value of each task's domain; NaN where it has none."""
    if len(per_domain) == 0:
        return np.full(len(domain), np.nan)
    return np.where(domain >= 0, per_domain[np.maximum(domain, 0)], np.nan)
