"""Tells from samples of the hosts how busy their disks were: whether these can have been short."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from iqcar.tables import Tables

LEAST_BUSY = 0.01
"""Share of a sample from which a disk counts as in use."""


class DiskUse(NamedTuple):
    """How the disks of all hosts were used.

    busy: share of the time that the busiest disk of a host was busy, mean over its use.
    moved: bytes read and written.
    """

    busy: float
    moved: float


def disk_use(tables: Tables) -> DiskUse | None:
    """Sum the samples; None where no host that ran tasks was sampled."""
    samples = tables.samples
    busy = samples["disk_busy"].to_numpy(np.float64)
    lasted = samples["duration_ms"].to_numpy(np.float64)
    known = (busy >= LEAST_BUSY) & (lasted > 0)
    known &= np.isin(samples["host"].to_numpy(np.int64), tables.tasks["host"].to_numpy(np.int64))
    if not known.any():
        return None
    weight = (busy * lasted)[known]
    moved = sum(
        float(np.nan_to_num(samples[name].to_numpy(np.float64)).sum())
        for name in ("disk_read_bytes", "disk_write_bytes")
    )
    return DiskUse(float((busy[known] * weight).sum() / weight.sum()), moved)
