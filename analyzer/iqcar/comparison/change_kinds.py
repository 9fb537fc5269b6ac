"""Name the kind of a change from the parts that changed most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iqcar.comparison.comparison_tables import PART_NAMES
from iqcar.enums import ChangeKind

if TYPE_CHECKING:
    import pandas as pd

    from iqcar.comparison.side_means import SideMeans

LEAST_DATA_RATIO = 1.1
"""Ratio of bytes read from which a stage that changed the same way is said to have other data."""
LEAST_PARTITIONS_RATIO = 1.1
"""Ratio of numbers of partitions from which they are said to differ."""
LEAST_SKEW_RATIO = 1.3
"""Ratio of (most data of a task over the mean) from which data is said to be more uneven."""
WAITS = (
    "slots_ms",
    "executors_ms",
    "run_queue_ms",
    "shuffle_fetch_ms",
    "io_read_ms",
    "io_write_ms",
)
"""Parts that grow where others hold what a stage needs."""


def kind_of_stage(
    category: int, effect: pd.DataFrame, sides: tuple[SideMeans, SideMeans]
) -> ChangeKind:
    """Return the kind of one category's change, in the order of the evidence's strength."""
    change = effect["contribution_ms"].iloc[category]
    before, after = (
        {name: float(side.measure[name][category]) for name in side.measure} for side in sides
    )
    if before["time_ms"] == 0 or after["time_ms"] == 0:
        return ChangeKind.ADDED if before["time_ms"] == 0 else ChangeKind.REMOVED
    if abs(_log_ratio(before, after, "partitions")) >= np.log(LEAST_PARTITIONS_RATIO):
        return ChangeKind.STRUCTURE
    data = _log_ratio(before, after, "bytes")
    if abs(data) >= np.log(LEAST_DATA_RATIO) and (data > 0) == (change > 0):
        return ChangeKind.DATA
    skew = _log_ratio(before, after, "bytes_max_over_mean")
    if abs(skew) >= np.log(LEAST_SKEW_RATIO) and (skew > 0) == (change > 0):
        return ChangeKind.SKEW
    grown = {name: (after[name] - before[name]) * np.sign(change) for name in PART_NAMES}
    most = max(grown, key=lambda name: grown[name])
    return ChangeKind.CONTENTION if most in WAITS else ChangeKind.RATE


def _log_ratio(before: dict[str, float], after: dict[str, float], name: str) -> float:
    if not (before[name] > 0 and after[name] > 0):
        return 0.0
    return float(np.log(after[name] / before[name]))
