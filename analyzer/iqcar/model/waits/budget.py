"""Takes metrics that overlap from a time budget per task without counting twice."""

from __future__ import annotations

import numpy as np

from iqcar.tables.arrays import Floats


class Budget:
    """Time that is left of each task.

    total: (n_tasks,), ms.
    """

    def __init__(self, total: Floats) -> None:
        self.left: Floats = total.copy()

    def take(self, wanted: Floats) -> Floats:
        """Take the wanted time, at least 0 and at most what is left; NaN takes 0."""
        taken: Floats = np.minimum(np.maximum(known(wanted), 0.0), self.left)
        self.left = self.left - taken
        return taken


def known(values: Floats) -> Floats:
    """Replace NaN and infinities by zero."""
    finite: Floats = np.where(np.isfinite(values), values, 0.0)
    return finite
