"""Time that is handed out once, so that evidence that overlaps is not counted twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from iqcar.tables.arrays import Floats


class Budget:
    """Time that is handed out once: each taker gets at most what is left."""

    def __init__(self, total: Floats) -> None:
        self.left: Floats = total.copy()

    def take(self, wanted: Floats) -> Floats:
        """Take what is wanted, ≥ 0 and at most what is left; what is unknown takes nothing."""
        taken: Floats = np.minimum(np.maximum(known(wanted), 0.0), self.left)
        self.left = self.left - taken
        return taken


def known(values: Floats) -> Floats:
    """Replace what is unknown by zero, for sums that have checked for it already."""
    finite: Floats = np.where(np.isfinite(values), values, 0.0)
    return finite
