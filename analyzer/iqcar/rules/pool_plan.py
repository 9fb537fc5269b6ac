"""A plan for the FAIR scheduler: pools, and the queries assigned to each.

Spark's FAIR pools are flat and know a scheduling mode, an integer weight and a minimum share;
nothing is taken away from a running task. The plugin's pools know a cap besides.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Pool:
    """One FAIR pool, in Spark's words."""

    name: str
    weight: int = 1
    """Slots in proportion to the other pools that want some; 1 or more."""
    min_share: int = 0
    """Slots it gets before weights count."""
    mode: str = "FIFO"
    """FIFO or FAIR among the pool's own task sets."""
    cap: int | None = None
    """Most tasks of the pool that run at once; None: as many as it gets slots."""
    cap_share: float | None = None
    """The same as a share of the slots at that moment, at least one; the smaller of both acts."""
    strict: bool = False
    """Whether slots that nobody else wants stand free rather than go to a pool at its cap."""

    @property
    def is_capped(self) -> bool:
        """Whether it has a cap."""
        return self.cap is not None or self.cap_share is not None

    def to_dict(self) -> dict[str, Any]:
        """Return it as it stands in JSON: without a cap where it has none."""
        found = asdict(self)
        given = {"cap": self.cap is not None, "cap_share": self.cap_share is not None}
        given["strict"] = self.is_capped
        return {name: value for name, value in found.items() if given.get(name, True)}


@dataclass(frozen=True)
class Assignment:
    """Which query goes into a pool: all of the fields that are not empty must match."""

    pool: str
    rule_id: str
    fingerprint: str = ""
    description: str = ""
    job_group: str = ""


@dataclass(frozen=True)
class PoolPlan:
    """Pools and assignments; queries that match none stay in the pool they chose themselves."""

    pools: tuple[Pool, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    notes: tuple[str, ...] = ()
    """What was decided where rules contradict each other or cannot act, in sentences."""
