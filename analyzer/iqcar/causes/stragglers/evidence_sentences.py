"""Writes evidence as text: "shuffle read 412.0 MB, 9.2 × the mean of its stage's other tasks"."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from iqcar.causes.stragglers.cause_evidence import INTRA
from iqcar.causes.stragglers.feature_list import SLOW_HOST
from iqcar.enums import FeatureKind

if TYPE_CHECKING:
    from iqcar.causes.stragglers.feature_list import Feature

_KILO = 1000.0
_MANY = 1000.0
"""A multiple above it is written without its digits: the peers had next to nothing."""

_DISCRETE = {
    "locality": "ran at locality ANY or RACK_LOCAL, most normal tasks of its stage near their data",
    "first_on_executor": "was among the first tasks of its executor, most normal tasks were not",
}
_PEERS = (
    *("tasks on other hosts", "other tasks on its host", "other tasks", "tasks on other hosts"),
    "tasks on other executors",
)


def quantity(value: float, unit: str) -> str:
    """Write a value with its unit: ``640 ms``, ``41.2 s``, ``1.3 GB``, ``12 %``, ``5,100``."""
    if not math.isfinite(value):
        return "unknown"
    if unit == "share":
        return "<1 %" if 0 < value < 0.005 else f"{100 * value:.0f} %"
    if unit == "ms":
        return f"{value:.0f} ms" if value < _KILO else f"{value / _KILO:.1f} s"
    if unit in ("bytes", "bytes/s"):
        per = "/s" if unit == "bytes/s" else ""
        for name in ("B", "KB", "MB", "GB", "TB"):
            if value < _KILO or name == "TB":
                return f"{value:.0f} {name}{per}" if name == "B" else f"{value:.1f} {name}{per}"
            value /= _KILO
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def unit_of(feature: Feature) -> str:
    """Unit of a mark's value: shares of the duration for times, else the feature's own."""
    return "share" if feature.kind is FeatureKind.TIME else feature.unit


def sentence_of(
    feature: Feature,
    value: float,
    peer_mean: float,
    ratio: float,
    peers: int,
    explained: float,
    delay_ms: float,
) -> str:
    """Say in a plain sentence, without a full stop, what the numbers of one cause say."""
    if feature.kind is FeatureKind.DISCRETE:
        default = f"had {feature.phrase}, most normal tasks of its stage did not"
        return _DISCRETE.get(feature.name, default)
    unit = unit_of(feature)
    own, theirs = quantity(value, unit), quantity(peer_mean, unit)
    if feature.kind is FeatureKind.WAIT:
        expected = f" where {theirs} were to be expected" if peer_mean >= 1 else ""
        return (
            f"waited {own} for {feature.phrase}{expected}: {quantity(explained, 'share')} of its "
            f"{quantity(delay_ms, 'ms')} over the stage's median"
        )
    if feature is SLOW_HOST:
        return (
            f"the stage's other tasks on its host took {own} on average, {ratio:.1f} × those on "
            f"other hosts ({theirs})"
        )
    those = _PEERS[peers]
    where = f"the mean of its stage's {those}"
    if feature.kind is FeatureKind.RESOURCE:
        there = "" if peers == INTRA else " there"
        where = f"the mean while its stage's {those} ran{there}"
    took = " of its time" if feature.kind is FeatureKind.TIME else ""
    if math.isinf(ratio) or ratio > _MANY:
        nothing = "none" if peer_mean == 0 else f"next to none ({theirs})"
        return f"{feature.phrase} {own}{took}, its stage's {those} {nothing}"
    return f"{feature.phrase} {own}{took}, {ratio:.1f} × {where} ({theirs})"
