"""Tells which amounts are large enough to delay a task.

The paper has a floor for times (§III-B) but none for amounts and hosts: a result of 4 KB where the
peers' have 2 KB, or a processor busy for 6 % of the time instead of 3 %, would be root causes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iqcar.enums import FeatureKind
from iqcar.tables.arrays import Flags, Floats

if TYPE_CHECKING:
    from iqcar.causes.stragglers.feature_list import Feature

SLOWEST_MS = {"ms": 1.0, "bytes": 0.01, "count": 10.0}
"""Longest time one unit plausibly takes: 10 µs a byte (100 kB/s, slow parsing and remote storage),
10 ms a record (a call to a service for each)."""


def can_matter(
    feature: Feature, value: Floats, duration: Floats, greatest: float, floor: float
) -> Flags:
    """Tell where a feature is large enough to delay a task.

    For amounts: whether the slowest plausible handling takes more than the floor's share of the
    duration. For shares of a host's time: whether they are above the floor. For rates, whose limit
    nobody records: whether they are above the floor's share of the greatest.

    value: the feature as rules compare it.
    duration: ms; durations of the same tasks.
    greatest: the largest value of the feature among all tasks compared.
    floor: share of the duration that a time needs.
    """
    if feature.kind is FeatureKind.NUMERICAL and feature.unit in SLOWEST_MS:
        matters: Flags = value * SLOWEST_MS[feature.unit] > floor * duration
        return matters
    if feature.kind is FeatureKind.RESOURCE:
        return value > floor * (1.0 if feature.unit == "share" else greatest)
    return np.ones(len(value), bool)
