"""Averages values over windows of time by group, without a loop over windows.

A span says that a quantity had a value from its start to its end (a sample of a host; a task that
ran). The integral over time up to any moment follows from prefix sums; a window's mean is a
difference of two of them, divided by how much of the window spans tell about.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from iqcar.tables.arrays import Floats, Ints

LEAST_COVER = 0.5
"""Share of a window that samples must tell about for its mean to be known: with less than half, the
rest could turn the mean round."""


class _Moments(NamedTuple):
    """Where moments lie among the breakpoints, and how long after the one before them."""

    place: Ints
    since: Floats


@dataclass(frozen=True)
class Spans:
    """Spans of time by group, ordered once for any number of quantities.

    order: (2n,) breakpoints (starts, then ends, of the n spans) by group and time.
    axis: (2n,) float64, ms; time since the first breakpoint, each group after the one before.
    step: (2n,) float64, ms; time since the breakpoint before, 0 for the first of a group.
    origin: float64, ms; the first breakpoint of all.
    length: float64, ms; room on the axis for one group.
    groups: (n,) group of each span, ≥ 0.
    """

    order: Ints
    axis: Floats
    step: Floats
    origin: float
    length: float
    groups: Ints

    @classmethod
    def from_times(cls, group: Ints, start: Floats, end: Floats) -> Spans:
        """Order the breakpoints.

        group: (n,) ≥ 0.
        start, end: (n,), ms; finite, start ≤ end.
        """
        when = np.concatenate([start, end])
        origin = float(when.min(initial=np.inf)) if len(when) else 0.0
        length = float(when.max(initial=origin)) - origin + 1.0 if len(when) else 1.0
        axis = np.concatenate([group, group]) * length + (when - origin)
        order = np.argsort(axis, kind="stable")
        axis = axis[order]
        step = np.diff(axis, prepend=axis[:1])
        return cls(order=order, axis=axis, step=step, origin=origin, length=length, groups=group)

    def moments(self, group: Ints, when: Floats) -> _Moments:
        """Find moments on the axis; those outside of all spans lie at the nearest edge."""
        if not len(self.axis):
            return _Moments(np.full(len(when), -1), np.zeros(len(when)))
        inside = np.clip(when - self.origin, 0.0, self.length - 0.5)
        at = group * self.length + np.nan_to_num(inside)
        place = np.searchsorted(self.axis, at, side="right") - 1
        since = np.where(place >= 0, at - self.axis[np.maximum(place, 0)], 0.0)
        return _Moments(place, since)

    def integral(self, values: Floats, begin: _Moments, end: _Moments) -> Floats:
        """Integrate a quantity over windows: its value times ms, summed over spans.

        values: (n,) NaN where a span does not tell.
        begin, end: from :meth:`moments`.
        """
        if not len(values):
            return np.zeros(len(begin.place))
        known = np.isfinite(values)
        value = np.where(known, values, 0.0)
        slope = np.cumsum(np.concatenate([value, -value])[self.order])
        alive = np.cumsum(np.concatenate([known, known * -1])[self.order])
        # What rounding leaves where no span is would grow with time.
        slope = np.where(alive > 0, slope, 0.0)
        total = np.cumsum(self.step * np.concatenate([[0.0], slope[:-1]]))

        def up_to(moment: _Moments) -> Floats:
            place = np.maximum(moment.place, 0)
            reached = total[place] + slope[place] * moment.since
            return np.where(moment.place >= 0, reached, 0.0)

        return up_to(end) - up_to(begin)


class Windows:
    """Windows of time in groups, and the means of quantities over them."""

    def __init__(self, spans: Spans, group: Ints, begin: Floats, end: Floats) -> None:
        """Place the windows.

        group: (w,) −1 for a window without a group: its means are unknown.
        begin, end: (w,), ms.
        """
        known = (group >= 0) & np.isfinite(begin) & np.isfinite(end)
        safe = np.where(known, group, 0)
        self._spans = spans
        self._known = known
        self._length = np.where(known, end - begin, 0.0)
        self._begin = spans.moments(safe, np.where(known, begin, 0.0))
        self._end = spans.moments(safe, np.where(known, end, 0.0))

    def total(self, values: Floats) -> Floats:
        """Integrate a quantity over each window; 0 where nothing is known."""
        both = self._spans.integral(values, self._begin, self._end)
        return np.where(self._known, np.maximum(both, 0.0), 0.0)

    def mean(self, values: Floats) -> Floats:
        """Mean of a quantity over each window, NaN where spans tell of too little of it.

        Spans that overlap count each.
        """
        weight = np.where(np.isfinite(values), 1.0, np.nan)
        covered = self.total(weight)
        enough = (covered >= LEAST_COVER * self._length) & (covered > 0)
        mean: Floats = np.divide(
            self.total(values), covered, out=np.full(len(covered), np.nan), where=enough
        )
        return mean
