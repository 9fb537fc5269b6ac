"""The pool that a compiled plan puts the runs of a recurring query into."""

from __future__ import annotations

from iqcar.rules.rule import Pool, PoolPlan


def planned_pool(plan: PoolPlan, fingerprint: str) -> Pool | None:
    """Pool of the first assignment with this fingerprint; None for a query without a rule."""
    names = [a.pool for a in plan.assignments if fingerprint and a.fingerprint == fingerprint]
    return next((pool for pool in plan.pools if pool.name == names[0]), None) if names else None
