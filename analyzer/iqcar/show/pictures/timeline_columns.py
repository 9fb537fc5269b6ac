"""Columns of numbers as a page can carry them: base64 of little-endian arrays."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iqcar.tables.arrays import Floats

TICKS = 2**32 - 2
"""Moments that a column of times can tell apart; one more number stands for an unknown time."""
WHOLE = 250
"""The byte that stands for a share of 1."""
UNKNOWN = 255
"""The byte that stands for a share that is not known."""


def packed(values: NDArray[Any], kind: str) -> dict[str, str]:
    """Pack a column: ``{"t": kind, "b": base64}``; kinds are u1, u2, u4 and f4."""
    array = np.ascontiguousarray(values, dtype=np.dtype(f"<{kind}"))
    return {"t": kind, "b": base64.b64encode(array.tobytes()).decode("ascii")}


def packed_shares(values: Floats, most: float) -> dict[str, Any]:
    """Pack values from 0 to ``most`` as ``{"most": most, "v": column}``, a byte each."""
    share = np.clip(values / (most or 1.0), 0.0, 1.0)
    scaled = np.where(np.isfinite(share), np.rint(np.nan_to_num(share) * WHOLE), UNKNOWN)
    return {"most": most, "v": packed(scaled, "u1")}


@dataclass(frozen=True)
class Clock:
    """Times in ms since the epoch as ticks after an origin; a tick is 1 ms but for long inputs."""

    origin_ms: float
    tick_ms: float

    @classmethod
    def of(cls, start_ms: float, end_ms: float) -> Clock:
        """Choose ticks that fit the span."""
        return cls(start_ms, max(1.0, (end_ms - start_ms) / TICKS))

    def one(self, ms: float) -> int:
        """One time in ticks."""
        return round((ms - self.origin_ms) / self.tick_ms)

    def column(self, ms: Floats) -> dict[str, str]:
        """Pack times; one that is not known is the largest number."""
        ticks = (ms - self.origin_ms) / self.tick_ms
        known = np.isfinite(ticks)
        return packed(np.where(known, np.clip(np.rint(ticks), 0, TICKS), TICKS + 1), "u4")
