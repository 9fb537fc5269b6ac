"""Says what a query lost to others, and its range: every report takes the words from here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from iqcar.base.units import duration, percent
from iqcar.diagnosis import Diagnosis
from iqcar.enums import Resource
from iqcar.say.section import range_words
from iqcar.tables.arrays import Floats

NOTHING = 0.02
"""Share of its run up to which a query may have lost nothing to others."""
MUCH = 0.1
"""Share of its run from which it matters that a query may have lost it."""
_TELLS = {
    Resource.IO: "with the plugin's disk samples it can",
    Resource.NETWORK: "the plugin's samples show how busy the network was",
    Resource.CPU: "with the waits that the plugin measures it can",
    Resource.MEMORY: "with the waits for memory that the plugin measures it can",
}
"""What tells how much was lost to each resource."""


@dataclass(frozen=True)
class LostToOthers:
    """What a query, or runs of one, lost to other queries.

    ran_ms: its duration; NaN if unknown.
    lost_ms, low_ms, high_ms: the amount and its range, NaN where no replay tells the range.
    decided_by: the resource whose use would narrow the range most if it were recorded.
    """

    ran_ms: float
    lost_ms: float
    low_ms: float = float("nan")
    high_ms: float = float("nan")
    decided_by: Resource | None = None

    @property
    def is_open(self) -> bool:
        """Whether nothing and much are both likely, so that no amount can be said."""
        low, high = NOTHING * self.ran_ms, MUCH * self.ran_ms
        return bool(self.ran_ms > 0 and self.low_ms <= low and self.high_ms >= high)

    @property
    def why_open(self) -> str:
        """What would tell the amount; empty where the range is no wider than usual."""
        if not self.is_open:
            return ""
        if self.decided_by is None:
            return "this log cannot tell"
        return f"this log cannot tell; {_TELLS[self.decided_by]}"

    @property
    def amount(self) -> str:
        """``12.0 s (8.0 s … 15.0 s), 30 % of its run``."""
        if self.is_open:
            return f"between 0 and {percent(min(self.high_ms / self.ran_ms, 1.0))} of its run"
        said = self._with_range
        share = min(self.lost_ms / self.ran_ms, 1.0) if self.ran_ms > 0 else 0.0
        return f"{said}, {percent(share)} of its run" if share > 0 else said

    @property
    def short(self) -> str:
        """``12.0 s (8.0 s … 15.0 s)``, as in a table."""
        if self.is_open:
            return f"0 … {duration(self.high_ms)}"
        return self._with_range if self.lost_ms > 0 else ""

    @property
    def _with_range(self) -> str:
        said, within = duration(self.lost_ms), range_words(self.low_ms, self.high_ms)
        told = duration(self.low_ms) != duration(self.high_ms)
        return f"{said} ({within})" if np.isfinite(self.low_ms) and told else said

    @property
    def words(self) -> str:
        """What was lost to others, as the end of a sentence; empty where it is nothing."""
        if self.is_open:
            return f"to other queries {self.amount}: {self.why_open}"
        return f"to other queries {self.amount}" if self.lost_ms > 0 else ""


class OthersLosses:
    """What every query lost to others."""

    def __init__(self, diagnosis: Diagnosis, lost: Floats) -> None:
        """Take in a diagnosis; ``lost``: what each query is said to have lost at most."""
        self.ran = diagnosis.tables.queries["duration_ms"].to_numpy(np.float64)
        self.lost = np.minimum(diagnosis.lost_to_others_ms(), lost)
        self._within = diagnosis.others_range

    def of(self, runs: Sequence[int]) -> LostToOthers:
        """Sum the runs of a query."""
        rows = list(runs)
        ran, lost = float(self.ran[rows].sum()), self.lost[rows]
        within = self._within
        low, high = within.low_ms[rows], within.high_ms[rows]
        known = np.isfinite(low)
        if not known.any():
            return LostToOthers(ran, float(lost.sum()))
        width = np.where(known, high - low, 0.0)
        widest = within.decided_by[rows[int(width.argmax())]]
        least, most = (float(np.where(known, ms, lost).sum()) for ms in (low, high))
        said = float(lost.sum())
        return LostToOthers(ran, said, min(least, said), max(most, said), widest)

    @property
    def most_open(self) -> int:
        """Row of the query that may have lost most of those of which that is open; −1 if none."""
        open_ = [row for row in range(len(self.ran)) if self.of([row]).is_open]
        return max(open_, key=lambda row: float(self._within.high_ms[row]), default=-1)
