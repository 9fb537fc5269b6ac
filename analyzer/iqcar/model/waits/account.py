"""Divides each task's duration into parts and waits, step by step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from iqcar.enums import REQUESTS, Request
from iqcar.model.waits.columns import (
    ACCOUNT,
    IN_TASK_REQUESTS,
    MISSING,
    WAITS,
    evidence_column,
    wait_column,
)
from iqcar.tables.arrays import Flags, Floats, Ints, known_or_zero


class Budget:
    """Time that is left of each task.

    total: (n_tasks,), ms.
    """

    def __init__(self, total: Floats) -> None:
        self.left: Floats = total.copy()

    def take(self, wanted: Floats) -> Floats:
        """Take the wanted time, at least 0 and at most what is left; NaN takes 0."""
        taken: Floats = np.minimum(np.maximum(known_or_zero(wanted), 0.0), self.left)
        self.left = self.left - taken
        return taken


Codes = NDArray[np.int8]

UNATTRIBUTED = "unattributed_ms"


@dataclass(frozen=True)
class Account:
    """Parts of the duration, waits and their evidence for a set of tasks.

    duration: (n_tasks,), ms.
    parts: dict of column name to (n_tasks,), ms; every column of ``ACCOUNT`` except
        ``unattributed_ms``.
    waits: dict of Request to (n_tasks,), ms; NaN where the wait is missing.
    evidence: dict of Request to (n_tasks,); codes of the evidence.
    """

    duration: Floats
    parts: dict[str, Floats]
    waits: dict[Request, Floats]
    evidence: dict[Request, Codes]

    @classmethod
    def blank(cls, duration: Floats) -> Account:
        """Return an account with all parts zero and all waits missing."""
        n = len(duration)
        return cls(
            duration,
            {name: np.zeros(n) for name, _ in ACCOUNT if name != UNATTRIBUTED},
            {r: np.full(n, np.nan) for r in REQUESTS},
            {r: np.full(n, MISSING, np.int8) for r in REQUESTS},
        )

    def put(self, request: Request, wait: Floats, evidence: int | Ints, where: Flags) -> None:
        """Set the waits for a request where they are known, and mark the others as missing."""
        self.waits[request] = np.where(where, wait, np.nan)
        self.evidence[request] = np.where(where, evidence, MISSING).astype(np.int8)

    def replace(self, rows: Ints, other: Account) -> None:
        """Replace everything but the slot wait of some tasks by a better account of them."""
        for name, values in other.parts.items():
            self.parts[name][rows] = values
        for request in IN_TASK_REQUESTS:
            self.waits[request][rows] = other.waits[request]
            self.evidence[request][rows] = other.evidence[request]

    def frame(self) -> pd.DataFrame:
        """Return the table :data:`WAITS`; time that no part or wait explains is unattributed."""
        none = np.zeros(len(self.duration))
        in_parts = sum(map(known_or_zero, self.parts.values()), none)
        waited = sum((known_or_zero(self.waits[r]) for r in IN_TASK_REQUESTS), none)
        explained = in_parts + waited
        return WAITS.frame(
            {
                "duration_ms": self.duration,
                **self.parts,
                UNATTRIBUTED: np.maximum(self.duration - explained, 0.0),
                **{wait_column(r): self.waits[r] for r in REQUESTS},
                **{evidence_column(r): self.evidence[r] for r in REQUESTS},
            }
        )
