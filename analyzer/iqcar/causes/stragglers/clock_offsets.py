"""Estimates the offset of each host's clock from the driver's, from the plugin's records.

Spark times launch and finish by the driver's clock, the plugin times its record and its samples by
the host's. A record lies inside its task, so every task bounds the offset of its host's clock::

    start − launch ≥ offset ≥ start + wall − finish

An offset of 0 is taken where the bounds allow it, else the least one that they allow.
"""

from __future__ import annotations

import numpy as np

from iqcar.tables import Tables
from iqcar.tables.arrays import Floats

WORTH_SAYING_MS = 100.0
"""Offsets below it move no sample of a second into another task's window by much."""


def clock_offsets(tables: Tables) -> Floats:
    """Offset of each host's clock from the driver's in ms; 0 where nothing is known.

    One per host. What to take from a host's time to get the driver's.
    """
    hosts = len(tables.hosts)
    most, least = np.full(hosts, np.inf), np.full(hosts, -np.inf)
    records = tables.task_records
    if len(records):
        tasks = tables.tasks
        row = records["task"].to_numpy(np.int64)
        host = tasks["host"].to_numpy(np.int64)[row]
        start = records["start_ms"].to_numpy(np.float64)
        end = start + records["wall_ms"].to_numpy(np.float64)
        above = start - tasks["launch_ms"].to_numpy(np.float64)[row]
        below = end - tasks["finish_ms"].to_numpy(np.float64)[row]
        good = (host >= 0) & np.isfinite(above) & np.isfinite(below)
        np.minimum.at(most, host[good], above[good])
        np.maximum.at(least, host[good], below[good])
    known = np.isfinite(most) & np.isfinite(least)
    most, least = np.where(known, most, 0.0), np.where(known, least, 0.0)
    # Bounds that contradict each other are a clock that was set meanwhile: no one offset is right.
    middle = (most + least) / 2
    least_of_them: Floats = np.where(most < 0, most, np.where(least > 0, least, 0.0))
    return np.where(most < least, middle, least_of_them)


def clock_doubts(tables: Tables, offsets: Floats) -> list[str]:
    """Say which hosts' clocks are off, in one sentence; empty if none is by much."""
    off = np.flatnonzero(np.abs(offsets) >= WORTH_SAYING_MS)
    if not len(off):
        return []
    worst = int(off[np.argmax(np.abs(offsets[off]))])
    return [
        f"the clocks of {len(off)} hosts are not the driver's (up to {abs(offsets[worst]):.0f} ms "
        f"on {tables.hosts['host'].iloc[worst]}): their samples were moved by the least offset "
        "that their task records allow"
    ]
