"""Reads in samples of hosts whether the disks and networks that tasks used were full meanwhile.

Tasks' times tell contention by how it varies. Where it does not, a stage that was always slow looks
like a slow format; the samples tell. They count only where the device did what the tasks report:
remote storage and the page cache leave a disk idle, and other programs fill it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.tables.arrays import Floats, Ints, grown, known_or_zero, share_of

BUSY = 0.95
"""Share of a sample from which a disk or all processors are busy all the time: counters of time are
read a little late."""
NEAR_HIGHEST = 0.7
"""Part of the most that a device moved from which it may be full. Solid-state disks are busy with
one reader already, and can do more; rough ones do less with many readers."""
MOSTLY, HARDLY = 0.5, 0.02
"""Shares of the time that tasks spent in a device: one that was full for so much was short, one
that was full for so little was not."""
WAS_SHORT, WAS_NOT = 0.9, 0.01
"""Probabilities that tasks waited for another there. Tasks' own times can still say otherwise:
noise of 30 % looks like contention of one in twenty."""
COVERED = 0.1
"""Part of the time that tasks spent in a device which samples must tell: hosts are alike."""
LEAST_DONE, MOST_DONE = 0.5, 1.5
"""Bytes that samples count for each byte that tasks report: the same bytes, in the same unit."""
SOME_DONE = 0.05
"""The least for a device that was full: most may have come from the page cache."""
ABSURD = 100.0
"""A rate of so many times the usual one is none."""
AT_MOST = 1.05
"""Highest share that is one; where most are higher, the unit is another."""


class Use(NamedTuple):
    """What each task did in a kind of device: shapes (n_tasks,).

    moved: bytes.
    spent: ms; time that it was in the device.
    """

    host: Ints
    launch: Floats
    finish: Floats
    moved: Floats
    spent: Floats


class Sampled(NamedTuple):
    """What samples tell of a kind of device; NaN where they do not.

    contended: probability that tasks waited for another there.
    capacity: bytes per ms that it moved while it was full.
    highest: bytes per ms; the most that it moved.
    """

    contended: float = np.nan
    capacity: float = np.nan
    highest: float = np.nan


def sampled_disk(samples: pd.DataFrame, use: Use) -> Sampled:
    """Tell whether disks were full while tasks used them; samples as in ``tables.samples``."""
    period = _Periods.of(samples, use)
    lasted = period.lasted
    busy = _as_share(period.column("disk_busy"))
    pressure = _as_share(share_of(period.column("stalled_io_ms"), lasted))
    pressure = np.where(np.isnan(pressure), _as_share(period.column("psi_io") / 100.0), pressure)
    busy = np.where(np.isnan(busy), pressure, busy)
    rate = period.rate("disk_read_bytes") + period.rate("disk_write_bytes")
    known = np.isfinite(busy) & np.isfinite(rate)
    done, covered = period.done(rate, known)
    if not covered or not SOME_DONE <= done <= MOST_DONE:
        return Sampled()
    highest = float(rate[known].max())
    full = known & (busy >= BUSY) & (rate >= NEAR_HIGHEST * period.highest(rate))
    part = float(period.spent[full].sum() / period.spent[known].sum())
    if part >= MOSTLY:
        return Sampled(WAS_SHORT, float(np.median(rate[full])), highest)
    all_of_it = done >= LEAST_DONE
    idle = part <= HARDLY and all_of_it
    return Sampled(WAS_NOT if idle else np.nan, np.nan, highest if all_of_it else np.nan)


def sampled_network(samples: pd.DataFrame, use: Use) -> Sampled:
    """Tell whether networks moved much less than they can while tasks fetched.

    No sample tells that one was full: steady load moves the same at every moment, too.
    """
    period = _Periods.of(samples, use)
    received, sent = period.rate("net_in_bytes"), period.rate("net_out_bytes")
    rate = np.fmax(received, sent)
    known = np.isfinite(received)
    done, covered = period.done(received, known)
    if not covered or not LEAST_DONE <= done <= MOST_DONE:
        return Sampled()
    highest = float(rate[known].max())
    near = known & (rate >= NEAR_HIGHEST * highest)
    part = float(period.spent[near].sum() / period.spent[known].sum())
    return Sampled(WAS_NOT if part <= HARDLY else np.nan, np.nan, highest)


def sampled_processor(samples: pd.DataFrame, use: Use) -> Sampled:
    """Tell whether all processors of hosts computed while tasks did; whoever it was for.

    A container that may use some of them only says nothing of the host's.
    """
    period = _Periods.of(samples, use)
    whole = ~(period.column("cgroup_cpus") < period.column("cores"))
    computed = _as_share((period.column("cpu_user") + period.column("cpu_system")) / 100.0)
    known = whole & np.isfinite(computed)
    spent = float(period.spent[known].sum())
    if spent <= 0 or spent < COVERED * period.whole:
        return Sampled()
    part = float(period.spent[known & (computed >= BUSY)].sum()) / spent
    return Sampled(WAS_SHORT if part >= MOSTLY else WAS_NOT if part <= HARDLY else np.nan)


class _Periods(NamedTuple):
    """Samples of hosts, and what tasks did in the device during each.

    lasted: ms.
    moved, spent: as in :class:`Use`, spread evenly over tasks' lives.
    whole: ms; the same as the sum of ``spent``, sampled or not.
    """

    rows: pd.DataFrame
    lasted: Floats
    moved: Floats
    spent: Floats
    whole: float

    @classmethod
    def of(cls, samples: pd.DataFrame, use: Use) -> _Periods:
        """Take the samples that say of which host and time they are."""
        until, lasted = (samples[name].to_numpy(np.float64) for name in ("time_ms", "duration_ms"))
        host = samples["host"].to_numpy(np.int64)
        timed = np.isfinite(until) & np.isfinite(lasted) & (lasted > 0) & (host >= 0)
        rows = samples[timed]
        host, until, lasted = host[timed], until[timed], lasted[timed]
        moved, spent = np.zeros(len(rows)), np.zeros(len(rows))
        used = np.isfinite(use.launch) & (use.finish > use.launch) & (use.spent > 0)
        for one in np.unique(host):
            mine, tasks = host == one, np.flatnonzero(used & (use.host == one))
            for amount, of_tasks in ((moved, use.moved), (spent, use.spent)):
                upto = grown(use.launch[tasks], use.finish[tasks], of_tasks[tasks])
                amount[mine] = upto(until[mine]) - upto(until[mine] - lasted[mine])
        return cls(rows, lasted, moved, spent, float(use.spent[used].sum()))

    def column(self, name: str) -> Floats:
        """Return what the samples say; whatever is infinite is nothing."""
        values = self.rows[name].to_numpy(np.float64)
        return np.where(np.isfinite(values), values, np.nan)

    def rate(self, name: str) -> Floats:
        """Return bytes per ms of a column; NaN where they are less than none, or absurd."""
        rate = self.column(name) / self.lasted
        some = rate[(rate > 0) & (self.spent > 0)]
        most = ABSURD * float(np.median(some)) if len(some) else np.inf
        return np.where((rate >= 0) & (rate <= most), rate, np.nan)

    def highest(self, rate: Floats) -> Floats:
        """Return the most of each sample's host: one may be slower than the others."""
        host = self.rows["host"].to_numpy(np.int64)
        most = np.zeros(host.max(initial=0) + 1)
        np.maximum.at(most, host, known_or_zero(rate))
        of_host: Floats = most[host]
        return of_host

    def done(self, rate: Floats, known: np.ndarray) -> tuple[float, bool]:
        """Return bytes counted for each that tasks moved, and whether enough is sampled."""
        moved, spent = float(self.moved[known].sum()), float(self.spent[known].sum())
        counted = float((rate * self.lasted)[known & (self.spent > 0)].sum())
        return counted / moved if moved > 0 else np.nan, spent >= COVERED * max(self.whole, 1.0)


def _as_share(values: Floats) -> Floats:
    """Take values as shares, 0 to 1; NaN where they are none, and all where most are none."""
    none = (values < 0) | (values > AT_MOST)
    if np.count_nonzero(none) > MOSTLY * np.count_nonzero(np.isfinite(values)):
        return np.full(len(values), np.nan)
    return np.where(none, np.nan, values)
