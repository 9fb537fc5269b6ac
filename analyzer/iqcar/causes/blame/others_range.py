"""Gives the range of what each query lost to others, beside the amount that reports show."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from iqcar.causes.blame.attribute import Blame
from iqcar.enums import Resource
from iqcar.tables.arrays import Floats


class OthersRange(NamedTuple):
    """Range of what each query lost to others.

    low_ms, high_ms: (n_queries,), ms; NaN where no replay tells.
    decided_by: as in :class:`~iqcar.model.demand.others_cost.OthersCost`.
    """

    low_ms: Floats
    high_ms: Floats
    decided_by: tuple[Resource | None, ...]


def range_of_others(
    blame: Blame, lost_ms: Floats, executors_ms: Floats, duration_ms: Floats
) -> OthersRange:
    """Return ranges that hold what is said.

    lost_ms: (n_queries,), ms; what each query is said to have lost to others.
    executors_ms: (n_queries,), ms; the part of it in which it waited for executors: replays keep
        these waits, so they are in no range.
    """
    n, cost = len(lost_ms), blame.cost
    if cost is None:
        unknown = np.full(n, np.nan)
        return OthersRange(unknown, unknown, (None,) * n)
    low = np.minimum(cost.low_ms + executors_ms, lost_ms)
    high = np.maximum(cost.high_ms + executors_ms, lost_ms)
    return OthersRange(
        low,
        np.where(duration_ms > 0, np.fmin(high, duration_ms), high),
        cost.decided_by or (None,) * n,
    )
