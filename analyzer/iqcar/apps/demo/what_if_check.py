"""Predict the mix in the pools of the rules: predicted beside measured durations."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from iqcar.diagnosis import Diagnosis, WhatIfs
from iqcar.pipeline import read
from iqcar.replay.whatif.what_if import WhatIf
from iqcar.tables import texts


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
    question : str
        What was changed, in words.
    self_check : dict
        As in :class:`iqcar.replay.whatif.what_if.WhatIf`.
    queries : tuple of Foretold
    """

    question: str
    self_check: dict[str, Any]
    queries: tuple[Foretold, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as it stands in the demo's JSON."""
        return {
            "question": self.question,
            "self_check": self.self_check,
            "queries": [{**vars(query), "holds": query.holds} for query in self.queries],
        }


def predict_in_pools(diagnosis: Diagnosis, rules: Path) -> WhatIf:
    """Predict the mix with each query in the FAIR pool that a file of rules gives it."""
    compiled = json.loads(rules.read_text("utf-8"))
    weights = {pool["name"]: pool["weight"] for pool in compiled["pools"]}
    pools = {one["fingerprint"]: weights[one["pool"]] for one in compiled["assignments"]}
    return WhatIfs(diagnosis).answer(pool=pools)


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
    return WhatIfCheck(predicted.question.sentence(), predicted.self_check, tuple(rows))
