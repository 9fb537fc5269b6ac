"""A plan for the FAIR scheduler: pools, and the queries assigned to each.

Spark's FAIR pools are flat and know a scheduling mode, an integer weight and a minimum share; no
cap, and nothing is taken away from a running task.
"""

from __future__ import annotations

from dataclasses import dataclass


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
