"""Tell which applications ran with the plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from iqcar.tables.arrays import Flags
    from iqcar.tables.specs import Tables


def recorded_applications(tables: Tables) -> Flags:
    """Return whether the plugin recorded any task of each application.

    Returns ndarray of shape (n_applications,), bool.
    """
    recorded = np.zeros(len(tables.applications), bool)
    task = tables.task_records["task"].to_numpy(np.int64)
    app = tables.tasks["app"].to_numpy(np.int64)[task]
    recorded[app[(app >= 0) & (app < len(recorded))]] = True
    return recorded
