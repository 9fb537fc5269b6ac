"""Columns of the waits that the metrics of tasks tell, in ms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from iqcar.logs.events.wait_metrics import DeclaredWaits, Wait

Numbers = NDArray[np.float64]

_NS_PER_MS = 1e6


def wait_columns(found: Numbers, rows: int, declared: DeclaredWaits) -> dict[str, Numbers]:
    """Sum the metrics of each task.

    Parameters
    ----------
    found : ndarray of shape (n, 4)
        Row, :class:`~iqcar.logs.events.wait_metrics.Wait`, accumulator id and update of each.
    rows : int
        Number of tasks.
    declared : DeclaredWaits

    Returns
    -------
    dict of str to ndarray of shape (rows,), ms
        ``scan_ms``, ``storage_read_ms``, ``gpu_wait_ms`` and ``vendor_write_ms``; NaN for a task
        that reports none.
    """
    row, kind, ids, update = found.T
    in_ns = np.isin(ids, np.array([*declared.nanoseconds], np.float64))
    value = np.where(in_ns & (kind != Wait.GPU), update / _NS_PER_MS, update)
    of_scan = np.isin(ids, np.array([*declared.scans], np.float64))
    present = set(np.unique(kind).tolist())

    def total(wanted: Wait) -> Numbers:
        times = np.full(rows, np.nan)
        if wanted in present:
            here = (kind == wanted) & (of_scan if wanted is Wait.OPERATOR else True)
            at = row[here].astype(np.intp)
            times[at] = 0.0
            np.add.at(times, at, value[here])
        return times

    scan = _first(total(Wait.SCAN), total(Wait.OPERATOR))
    buffering = _first(total(Wait.FILES), total(Wait.BUFFERING))
    # RAPIDS' scan time contains decoding on the GPU and the wait for it. Its time of buffering does
    # not, but several threads can spend it at once.
    scan = np.where(np.isnan(buffering), scan, np.minimum(scan, buffering))
    # The last two overlap: files are read by requests.
    storage = np.fmax(total(Wait.READING), total(Wait.REQUESTS))
    return {
        "scan_ms": _first(total(Wait.IO), scan),
        "storage_read_ms": _first(buffering, storage),
        "gpu_wait_ms": total(Wait.GPU),
        "vendor_write_ms": total(Wait.WRITE),
    }


def _first(values: Numbers, others: Numbers) -> Numbers:
    """Return the values, and others where they are NaN."""
    return np.where(np.isnan(values), others, values)
