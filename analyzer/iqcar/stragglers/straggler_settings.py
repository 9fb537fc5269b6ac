"""Thresholds of the search for causes, each with its default and the reason for it."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

from iqcar.enums import CauseEvidence
from iqcar.errors import UsageError

PAPER = "paper"
"""Word that stands for :meth:`StragglerSettings.of_the_paper` in a text of settings."""


@dataclass(frozen=True)
class StragglerSettings:
    """What counts as a straggler, and what as its cause (BigRoots §III).

    The paper prints 1.5, 0.2 and the two categories of peers. It tunes λq, λp, λe and the edge
    width by experiment and prints none of them; ours were chosen on stages with planted causes.
    """

    straggler: float = 1.5
    """A straggler took more than this times the stage's median duration (§II-A, from Mantri)."""
    quantile: float = 0.8
    """λq: a cause lies above this quantile of its stage (eq. 5). A fifth of a stage's tasks may
    share a cause, as many as one slow host of five runs."""
    ratio: float = 1.5
    """λp: a cause is more than this times its peers' mean (eq. 5); what is not as far off as the
    duration does not explain it."""
    edge: float = 0.5
    """λe: use of the host that was not at least this share of itself right before or right after
    the task was the task's own (eq. 6, read as its text says: drop it if both edges are low); 0 is
    no edge detection."""
    edge_ms: float = 3000.0
    """Width of the windows before and after the task: three samples of a second."""
    floor: float = 0.2
    """A time counts from this share of the task's duration on (§III-B)."""
    explains: float = 0.25
    """A measured wait counts if it explains this share of the straggler's time over the median:
    with less, at least three quarters of the delay had another cause."""
    least_tasks: int = 4
    """Stages of fewer tasks have no stragglers: their median is one of the tasks compared."""
    least_peers: int = 2
    """Fewer peers than this have no mean to be compared with."""
    worth: bool = True
    """Whether an amount counts only if it can matter (see :mod:`iqcar.stragglers.relevance`); the
    paper has a floor for times only."""
    slow_hosts: bool = True
    """Whether a straggler that nothing explains is put down to its host where the stage's other
    tasks there were slow too."""
    evidence: CauseEvidence = CauseEvidence.AUTO
    """What decides whether a resource delayed a straggler."""

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        bounds = {
            "straggler": (1, 1e6), "quantile": (0, 1), "ratio": (1, 1e6), "edge": (0, 1e6),
            "edge_ms": (1, 1e9), "floor": (0, 1), "explains": (0, 1), "least_tasks": (2, 1e9),
            "least_peers": (1, 1e9),
        }  # fmt: skip
        for name, (low, high) in bounds.items():
            value = getattr(self, name)
            if not (math.isfinite(value) and low <= value <= high):
                raise UsageError(f"{value} is not from {low} to {high:g}", f"settings: {name}")

    @classmethod
    def of_the_paper(cls) -> StragglerSettings:
        """Return the method as printed: no minimum of tasks or worth, no measured waits."""
        return cls(
            least_tasks=2, least_peers=1, worth=False, slow_hosts=False,
            evidence=CauseEvidence.PAPER,
        )  # fmt: skip

    @classmethod
    def parse(cls, text: str) -> StragglerSettings:
        """Read ``name=value,name=value``; the word ``paper`` first starts from the paper's.

        Raises
        ------
        UsageError
            If a name is unknown or a value does not fit it.
        """
        found = cls()
        types: dict[str, Any] = {f.name: type(f.default) for f in fields(cls)}
        for part in (one.strip() for one in text.split(",") if one.strip()):
            if part == PAPER:
                found = cls.of_the_paper()
                continue
            name, sign, value = (piece.strip() for piece in part.partition("="))
            if name not in types or not sign:
                raise UsageError(
                    f"{part!r} is no setting", "--settings", f"use NAME=VALUE of {', '.join(types)}"
                )
            found = replace(found, **{name: _read(name, value, types[name])})
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return {**plain, "evidence": str(self.evidence)}


def _read(name: str, value: str, of: type) -> Any:
    if of is bool:
        if value in ("true", "false"):
            return value == "true"
        raise UsageError(f"{value!r} is neither true nor false", f"settings: {name}")
    try:
        return of(value)
    except ValueError:
        if of is CauseEvidence:
            words = f"one of {', '.join(CauseEvidence)}"
        else:
            words = "a whole number" if of is int else "a number"
        raise UsageError(f"{value!r} is not {words}", f"settings: {name}") from None
