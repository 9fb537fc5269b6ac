"""Reads in samples of hosts the time of other processes, and which devices were full.

Tasks' times tell contention by how it varies. Where it does not, a stage that was always slow looks
like a slow format; the samples tell. They count only where the device did what the tasks report:
remote storage and the page cache leave a disk idle, and other programs fill it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.tables import Tables
from iqcar.tables.arrays import Floats, Ints, grown, known_or_zero, share_of

_OWN = ("jvm_cpu_ms", "python_cpu_ms", "own_cpu_ms")


class OutsideLoad(NamedTuple):
    """CPU time of each host that processes other than its executors used.

    outside_ms: (n_hosts,), ms; CPU time of those processes; 0 for a host that was not sampled.
    capacity_ms: (n_hosts,), ms; available CPU time of the host while it was sampled.
    sampled_ms: (n_hosts,), ms; elapsed time that was sampled.
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

    tables: ``samples``, ``hosts`` and ``tasks`` are used.
    """
    sums = np.zeros((3, len(tables.hosts)))
    for host, use in _uses(tables):
        busy, executors, capacity, sampled = use.sums[:, -1]
        sums[:, host] = max(busy - executors, 0.0), capacity, sampled
    return OutsideLoad(*sums)


def beside_tasks(tables: Tables, cpu_ms: Floats | None = None) -> Floats:
    """Estimate the processors of each host that something else than recorded tasks used meanwhile.

    Compilers and collectors of the JVM, the driver, and other programs take them. Shape (n_hosts,),
    processors. Mean over the time that tasks ran, by their number; NaN for a host that was not
    sampled while tasks ran.

    cpu_ms: (n_tasks,), ms; processor time of tasks and their Python workers; by default what
        Spark reports, which is without these.
    """
    tasks = tables.tasks
    launch, finish = (tasks[name].to_numpy(np.float64) for name in ("launch_ms", "finish_ms"))
    if cpu_ms is None:
        cpu_ms = tasks["cpu_ms"].to_numpy(np.float64)
    ran = np.isfinite(launch) & (finish > launch)
    rows = _rows_by_host(np.where(ran, tasks["host"].to_numpy(np.int64), -1), len(tables.hosts))
    beside = np.full(len(tables.hosts), np.nan)
    for host, use in _uses(tables):
        mine = rows[host]
        begin, end = launch[mine], finish[mine]
        amounts = [
            (use.times[1:], np.diff(use.times), _rate(use, 0)),
            (use.times[1:], np.diff(use.times), _rate(use, 3)),
            (end, end - begin, known_or_zero(cpu_ms[mine]) / (end - begin)),
            (end, end - begin, np.ones(len(mine))),
        ]
        times, (busy, seen, by_tasks, running) = _rates(amounts)
        weight = (np.round(seen) * np.maximum(np.round(running), 0.0))[:-1] * np.diff(times)
        if weight.sum() > 0:
            mean = float(((busy - by_tasks)[:-1] * weight).sum() / weight.sum())
            beside[host] = max(mean, 0.0)
    return beside


def _rate(use: _HostUse, row: int) -> Floats:
    """One of the sums of a host per ms, from each time to the next."""
    return share_of(np.diff(use.sums[row]), np.diff(use.times))


def outside_share(
    tables: Tables, host: Ints, begin: Floats, end: Floats, own_cpu_ms: Floats
) -> Floats:
    """Estimate the part of the other processor use during some intervals that was from outside.

    Shape (n_intervals,). CPU time of processes other than executors, divided by the CPU time of all
    but the task itself, from 0 to 1; in proportion to the part of the interval that was sampled,
    and 0 where nothing was.

    tables: ``samples``, ``hosts`` and ``tasks`` are used; times are compared as they were recorded.
    host: (n_intervals,) host row of each interval; −1 if unknown.
    begin, end: (n_intervals,), ms since the epoch.
    own_cpu_ms: (n_intervals,), ms; CPU time in the interval of the task that it belongs to, which
        is in nobody's way there.
    """
    share = np.zeros(len(host))
    span = end - begin
    usable = np.isfinite(span) & (span > 0)
    intervals = _rows_by_host(np.where(usable, host, -1), len(tables.hosts))
    for row, use in _uses(tables):
        here = intervals[row]
        busy, executors, _, sampled = use.during(begin[here], end[here])
        covered = np.minimum(sampled / span[here], 1.0)
        # A sample spreads the CPU time of an interval shorter than itself over its whole period.
        seen = covered * np.minimum(span[here] / use.period_ms, 1.0)
        outside = np.maximum(busy - executors, 0.0)
        others = np.maximum(executors - known_or_zero(own_cpu_ms[here]) * seen, 0.0)
        share[here] = covered * share_of(outside, outside + others)
    return share


@dataclass(frozen=True)
class _HostUse:
    """Processor use of one host: sums from its first sample up to some times.

    times: (n_times,), ms since the epoch.
    sums: (4, n_times), ms; CPU time of all processes, that of executors, available CPU time, and
        elapsed time, while the host was sampled.
    period_ms: median length of its samples.
    """

    times: Floats
    sums: Floats
    period_ms: float

    def during(self, begin: Floats, end: Floats) -> Floats:
        """Return the four sums from each begin to each end: ndarray of shape (4, n)."""
        return self._up_to(end) - self._up_to(begin)

    def _up_to(self, when: Floats) -> Floats:
        after = np.clip(np.searchsorted(self.times, when), 1, len(self.times) - 1)
        since, until = self.times[after - 1], self.times[after]
        part = np.clip(share_of(when - since, until - since), 0.0, 1.0)
        return self.sums[:, after - 1] * (1.0 - part) + self.sums[:, after] * part


def _uses(tables: Tables) -> Iterator[tuple[int, _HostUse]]:
    """Compute the processor use of each host that was sampled, with its row."""
    samples = tables.samples
    if len(samples) == 0:
        return
    host = samples["host"].to_numpy(np.int64)
    until, lasted, cores = (
        samples[name].to_numpy(np.float64) for name in ("time_ms", "duration_ms", "cores")
    )
    percent = samples["cpu_user"].to_numpy(np.float64) + samples["cpu_system"].to_numpy(np.float64)
    own = sum(
        (known_or_zero(samples[name].to_numpy(np.float64)) for name in _OWN), np.zeros(len(host))
    )
    timed = np.isfinite(until) & (lasted > 0)
    of_hosts = timed & np.isfinite(percent) & (cores > 0)
    unsampled, n = _unsampled_tasks(tables), len(tables.hosts)
    tasks = _rows_by_host(unsampled.host, n)
    executors_of = _rows_by_host(np.where(timed, host, -1), n)
    for row, whole in enumerate(_rows_by_host(np.where(of_hosts, host, -1), n)):
        if len(whole) == 0:
            continue
        mine = executors_of[row]
        begin, end, cpu_ms = (values[tasks[row]] for values in unsampled[1:])
        # Several programs can sample one host at a time: their mean counts.
        amounts = [
            (until[whole], lasted[whole], np.ones(len(whole))),
            (until[whole], lasted[whole], (percent * cores)[whole] / 100.0),
            (until[whole], lasted[whole], cores[whole]),
            (until[mine], lasted[mine], own[mine] / lasted[mine]),
            (end, end - begin, cpu_ms / (end - begin)),
        ]
        times, rates = _rates(amounts)
        samplers, busy, available, executors, others = rates
        seen = np.round(samplers) > 0
        each = np.where(seen, np.maximum(np.round(samplers), 1.0), 1.0)
        per_ms = np.stack([busy / each, executors + others, available / each, seen.astype(float)])
        grown = np.where(seen, per_ms, 0.0)[:, :-1] * np.diff(times)
        sums = np.concatenate([np.zeros((4, 1)), np.cumsum(grown, axis=1)], axis=1)
        yield row, _HostUse(times, sums, float(np.median(lasted[whole])))


def _rates(amounts: list[tuple[Floats, Floats, Floats]]) -> tuple[Floats, Floats]:
    """Sum rates that hold up to a time for a while: the times of change, and a sum per entry."""
    times = np.concatenate([t for until, lasted, _ in amounts for t in (until - lasted, until)])
    steps = np.zeros((len(amounts), len(times)))
    at = 0
    for number, (until, _, rate) in enumerate(amounts):
        n = len(until)
        steps[number, at : at + n], steps[number, at + n : at + 2 * n] = rate, -rate
        at += 2 * n
    order = np.argsort(times, kind="stable")
    return times[order], np.cumsum(steps[:, order], axis=1)


def _rows_by_host(host: Ints, n: int) -> list[Ints]:
    """Return the rows of each of ``n`` hosts; rows with another number are nobody's."""
    order = np.argsort(host, kind="stable")
    bounds = np.searchsorted(host[order], np.arange(n + 1))
    return [order[first:after] for first, after in itertools.pairwise(bounds)]


class _Tasks(NamedTuple):
    """Tasks on executors whose processes nobody sampled."""

    host: Ints
    begin: Floats
    end: Floats
    cpu_ms: Floats


def _unsampled_tasks(tables: Tables) -> _Tasks:
    """Return the tasks of executors that no sample tells the CPU time of."""
    tasks, samples = tables.tasks, tables.samples
    told = samples["executor"].to_numpy(np.int64)[np.isfinite(samples["jvm_cpu_ms"].to_numpy())]
    begin = tasks["launch_ms"].to_numpy(np.float64)
    end = tasks["finish_ms"].to_numpy(np.float64)
    cpu_ms = tasks["cpu_ms"].to_numpy(np.float64)
    rows = np.isfinite(begin) & (end > begin) & (cpu_ms > 0) & np.isfinite(cpu_ms)
    rows &= ~np.isin(tasks["executor"].to_numpy(np.int64), told)
    return _Tasks(tasks["host"].to_numpy(np.int64)[rows], begin[rows], end[rows], cpu_ms[rows])


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
