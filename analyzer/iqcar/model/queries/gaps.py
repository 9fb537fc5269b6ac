"""Leaves long times without any query out of a picture: logs years apart are not one timeline."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from iqcar.base.units import DAY_MS
from iqcar.tables import TIMES, Tables
from iqcar.tables.arrays import Floats

SHARE = 0.03
"""Width that is left of such a time, as a share of the time with queries."""
_TIMES = {**TIMES, "samples": ("time_ms",)}


class Gap(NamedTuple):
    """A time without any query, and how much of it is left out."""

    start_ms: float
    end_ms: float
    left_out_ms: float


def gaps_of(tables: Tables) -> list[Gap]:
    """Find times without any query that are longer than a day and all others together."""
    starts, ends = (tables.queries[name].to_numpy(np.float64) for name in _TIMES["queries"])
    known = np.isfinite(starts) & (ends >= starts)
    order = np.argsort(starts[known], kind="stable")
    start, end = starts[known][order], np.maximum.accumulate(ends[known][order])
    quiet = start[1:] - end[:-1]
    long = np.flatnonzero(quiet > DAY_MS)
    if not len(long):
        return []
    busy = float(end[-1] - start[0]) - float(quiet[long].sum())
    kept = max(SHARE * busy, 1.0)
    return [
        Gap(float(end[at]), float(start[at + 1]), float(quiet[at]) - kept)
        for at in long.tolist()
        if quiet[at] > busy
    ]


def folded_ends(gaps: list[Gap]) -> list[float]:
    """Where each gap ends in tables from which the gaps are left out, in ms."""
    left_out = np.cumsum([gap.left_out_ms for gap in gaps]).tolist()
    return [gap.end_ms - before for gap, before in zip(gaps, left_out, strict=True)]


def fold(tables: Tables, gaps: list[Gap]) -> Tables:
    """Return the tables as if what is left out of the gaps had not been."""
    if not gaps:
        return tables
    real = np.array([moment for gap in gaps for moment in (gap.start_ms, gap.end_ms)])
    left_out = np.repeat(np.cumsum([gap.left_out_ms for gap in gaps]), 2)
    shift = np.concatenate([[0.0], left_out[:-1]])

    def folded(times: Floats) -> Floats:
        moved: Floats = times - np.interp(times, real, shift)
        return moved

    frames = {name: getattr(tables, name) for name in _TIMES}
    moved = {
        name: frame.assign(**{one: folded(frame[one].to_numpy(np.float64)) for one in _TIMES[name]})
        for name, frame in frames.items()
    }
    return tables.with_(**moved)
