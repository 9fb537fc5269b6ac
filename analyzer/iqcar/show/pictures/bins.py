"""Sums over time in equal bins without a loop over tasks, and columns packed for a page.

A page carries numbers as base64 of little-endian arrays.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iqcar.tables.arrays import Floats, Ints

TICKS = 2**32 - 2
"""Moments that a column of times can tell apart; one more number stands for an unknown time."""
WHOLE = 250
"""The byte that stands for a share of 1."""
UNKNOWN = 255
"""The byte that stands for a share that is not known."""
LEAST_COVERED = 1e-3
"""Share of a bin that must be told about for its mean to be known."""


@dataclass(frozen=True)
class Bins:
    """Equal spans of time, one after another.

    start_ms: start of the first
    width_ms: of each, > 0
    count: how many, ≥ 1
    """

    start_ms: float
    width_ms: float
    count: int

    @classmethod
    def over(cls, start_ms: float, end_ms: float, count: int) -> Bins:
        """Divide a span of time; one of no length still has a moment."""
        return cls(start_ms, max(end_ms - start_ms, 1.0) / count, count)

    def edges(self) -> Floats:
        """(count + 1,) borders in ms."""
        borders: Floats = self.start_ms + self.width_ms * np.arange(self.count + 1.0)
        return borders

    def amounts(
        self, group: Ints, groups: int, start: Floats, end: Floats, weight: Floats
    ) -> Floats:
        """Integrate spans over each bin, by group.

        group: (n,) group of each span, 0 to ``groups`` − 1
        start, end: (n,) ms; a span whose times are not finite, or reversed, counts nothing
        weight: (n,) how much the span is worth per ms
        Returns (groups, count) array, weight × ms
        """
        usable = np.isfinite(start) & np.isfinite(end) & (end > start) & (group >= 0)
        of, worth = group[usable], weight[usable]
        first = np.clip((start[usable] - self.start_ms) / self.width_ms, 0, self.count)
        last = np.clip((end[usable] - self.start_ms) / self.width_ms, 0, self.count)
        at = np.minimum(first.astype(np.int64), self.count - 1)
        until = np.minimum(last.astype(np.int64), self.count - 1)
        size = groups * (self.count + 1)
        row = of * (self.count + 1)
        within = at == until
        # A span fills the bins between its first and its last wholly: a step up and a step down.
        steps = np.bincount(row + at + 1, np.where(within, 0.0, worth), minlength=size)
        steps -= np.bincount(row + until, np.where(within, 0.0, worth), minlength=size)
        ends = np.bincount(
            row + at, worth * np.where(within, last - first, at + 1 - first), minlength=size
        )
        ends += np.bincount(
            row + until, worth * np.where(within, 0.0, last - until), minlength=size
        )
        shape = (groups, self.count + 1)
        total = np.cumsum(steps.reshape(shape), axis=1) + ends.reshape(shape)
        amounts: Floats = np.maximum(total[:, : self.count], 0.0) * self.width_ms
        return amounts

    def means(self, group: Ints, groups: int, start: Floats, end: Floats, values: Floats) -> Floats:
        """Mean of what spans tell about each bin; NaN where none does: (groups, count)."""
        told = np.where(np.isfinite(values), group, -1)
        known = np.nan_to_num(values)
        covered = self.amounts(told, groups, start, end, np.ones(len(values)))
        total = self.amounts(told, groups, start, end, known)
        # Sums of differences leave rests of rounding where nothing is.
        seen = covered > LEAST_COVERED * self.width_ms
        means: Floats = np.divide(total, covered, out=np.full(seen.shape, np.nan), where=seen)
        return means


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
