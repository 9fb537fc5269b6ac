"""Computes the CPU time of each host that processes other than its executors used, by samples."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from iqcar.tables import Tables
from iqcar.tables.arrays import Floats, Ints, known_or_zero, share_of

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
