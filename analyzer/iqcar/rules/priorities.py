"""Read the priorities that recurring queries had: weights of their recorded FAIR pools."""

from __future__ import annotations

import numpy as np

from iqcar.tables import Tables, texts

DEFAULT_POOL = "default"
"""Where Spark puts jobs that name no pool."""
FAIR = "FAIR"
"""The scheduler mode in which weights count."""


def recorded_priorities(tables: Tables) -> dict[str, float]:
    """Return the weight of the pool that each recurring query ran in.

    Parameters
    ----------
    tables : Tables
        ``queries``, ``applications`` and ``pools`` are used.

    Returns
    -------
    dict of fingerprint to float
        Of its last run whose pool's weight is recorded; empty for a log without the plugin.
    """
    weights: dict[tuple[int, str], float] = {}
    order = np.argsort(tables.pools["time_ms"].to_numpy(), kind="stable")
    pools = tables.pools.iloc[order]
    for app, name, weight in zip(
        pools["app"].tolist(), texts(pools, "name"), pools["weight"].tolist(), strict=True
    ):
        weights[app, name] = weight
    if not weights:
        return {}
    fair = [mode == FAIR for mode in texts(tables.applications, "scheduler_mode")]
    queries = tables.queries.iloc[np.argsort(tables.queries["start_ms"].to_numpy(), kind="stable")]
    found: dict[str, float] = {}
    for app, fingerprint, pool in zip(
        queries["app"].tolist(),
        texts(queries, "fingerprint"),
        texts(queries, "pool"),
        strict=True,
    ):
        weight = weights.get((app, pool or DEFAULT_POOL))
        if fingerprint and weight is not None and app >= 0 and fair[app]:
            found[fingerprint] = weight
    return found
