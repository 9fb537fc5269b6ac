"""Predict the mix without its heavy hitter, then run it so: predicted beside measured durations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from iqcar.demo.mix import HEAVY_HITTER
from iqcar.pipeline import read
from iqcar.tables import texts

if TYPE_CHECKING:
    from pathlib import Path

    from iqcar.diagnosis import Diagnosis
    from iqcar.whatif.what_if import WhatIf


@dataclass(frozen=True)
class Foretold:
    """One query: seconds as recorded, as predicted with the 80 % range, and as measured.

    The prediction is None where the model refuses one.
    """

    name: str
    recorded_s: float
    predicted_s: float | None
    low_s: float | None
    high_s: float | None
    measured_s: float

    @property
    def holds(self) -> bool | None:
        """Whether the measured duration is in the range; None without one."""
        if self.low_s is None or self.high_s is None:
            return None
        return self.low_s <= self.measured_s <= self.high_s


@dataclass(frozen=True)
class WhatIfCheck:
    """What-if beside what was measured.

    Attributes
    ----------
    without : str
        The query that was taken away.
    self_check : dict
        As in :class:`iqcar.whatif.what_if.WhatIf`.
    queries : tuple of Foretold
    log : Path
        Event log of the run without the query.
    """

    without: str
    self_check: dict[str, Any]
    queries: tuple[Foretold, ...]
    log: Path

    def to_dict(self) -> dict[str, Any]:
        """Return it as it stands in the demo's JSON."""
        return {
            "without": self.without,
            "self_check": self.self_check,
            "queries": [{**vars(query), "holds": query.holds} for query in self.queries],
        }


def predict_without(diagnosis: Diagnosis) -> WhatIf:
    """Predict the mix without its heavy hitter."""
    return diagnosis.what_if(remove=HEAVY_HITTER)


def check_what_if(predicted: WhatIf, log: Path) -> WhatIfCheck:
    """Put predictions beside the durations that the log of the other run tells."""
    queries = read([log]).queries
    measured = dict(zip(texts(queries, "name"), queries["duration_ms"] / 1e3, strict=True))
    rows = []
    for row in predicted.queries.to_dict("records"):
        said = [row[f"{which}_ms"] / 1e3 for which in ("predicted", "low", "high")]
        predicted_s, low, high = (float(value) if np.isfinite(value) else None for value in said)
        took, name = float(measured[row["name"]]), str(row["name"])
        rows.append(Foretold(name, row["recorded_ms"] / 1e3, predicted_s, low, high, took))
    return WhatIfCheck(HEAVY_HITTER, predicted.self_check, tuple(rows), log)
