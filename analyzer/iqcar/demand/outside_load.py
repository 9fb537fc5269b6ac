"""Compute the CPU time of each host that processes other than its executors used, by samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from iqcar.tables import Tables
    from iqcar.tables.arrays import Flags, Floats

_OWN = ("jvm_cpu_ms", "python_cpu_ms", "own_cpu_ms")


class OutsideLoad(NamedTuple):
    """CPU time of each host that processes other than its executors used.

    Attributes
    ----------
    outside_ms : ndarray of shape (n_hosts,), ms
        CPU time of those processes; 0 for a host that was not sampled.
    capacity_ms : ndarray of shape (n_hosts,), ms
        Available CPU time of the host while it was sampled.
    sampled_ms : ndarray of shape (n_hosts,), ms
        Elapsed time that was sampled.
    """

    outside_ms: Floats
    capacity_ms: Floats
    sampled_ms: Floats

    @property
    def share(self) -> float | None:
        """Share of all hosts' processors, 0 to 1; None where no host was sampled."""
        capacity = float(self.capacity_ms.sum())
        return float(self.outside_ms.sum()) / capacity if capacity > 0 else None


def outside_load(tables: Tables) -> OutsideLoad:
    """Sum the CPU time that other processes used on each host while it was sampled.

    Parameters
    ----------
    tables : Tables
        ``samples`` and ``hosts`` are used.
    """
    samples = tables.samples
    n = len(tables.hosts)
    host = samples["host"].to_numpy(np.int64)
    elapsed = samples["duration_ms"].to_numpy(np.float64)
    capacity = samples["cores"].to_numpy(np.float64) * elapsed
    used = samples["cpu_user"].to_numpy(np.float64) + samples["cpu_system"].to_numpy(np.float64)
    busy = used / 100.0 * capacity
    own = sum(
        (np.nan_to_num(samples[name].to_numpy(np.float64)) for name in _OWN), np.zeros(len(host))
    )
    known = (host >= 0) & (host < n)
    of_hosts = known & np.isfinite(busy) & (capacity > 0)

    def summed(values: Floats, rows: Flags) -> Floats:
        return np.bincount(host[rows], values[rows], n).astype(np.float64)

    outside = np.maximum(summed(busy, of_hosts) - summed(own, known), 0.0)
    return OutsideLoad(outside, summed(capacity, of_hosts), summed(elapsed, of_hosts))
