"""Averages the samples of a task's host over the time before, during and after the task.

A span says that a quantity had a value from its start to its end (a sample of a host; a task that
ran). The integral over time up to any moment follows from prefix sums; a window's mean is a
difference of two of them, divided by how much of the window spans tell about.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.causes.stragglers.feature_list import HOST_FEATURES, after, before
from iqcar.tables import Tables
from iqcar.tables.arrays import Floats, Ints

LEAST_COVER = 0.5
"""Share of a window that samples must tell about for its mean to be known: with less than half, the
rest could turn the mean round."""


class _Moments(NamedTuple):
    """Where moments lie among the breakpoints, and how long after the one before them."""

    place: Ints
    since: Floats


@dataclass(frozen=True)
class Spans:
    """Spans of time by group, ordered once for any number of quantities.

    order: (2n,) breakpoints (starts, then ends, of the n spans) by group and time.
    axis: (2n,) float64, ms; time since the first breakpoint, each group after the one before.
    step: (2n,) float64, ms; time since the breakpoint before, 0 for the first of a group.
    origin: float64, ms; the first breakpoint of all.
    length: float64, ms; room on the axis for one group.
    groups: (n,) group of each span, ≥ 0.
    """

    order: Ints
    axis: Floats
    step: Floats
    origin: float
    length: float
    groups: Ints

    @classmethod
    def from_times(cls, group: Ints, start: Floats, end: Floats) -> Spans:
        """Order the breakpoints.

        group: (n,) ≥ 0.
        start, end: (n,), ms; finite, start ≤ end.
        """
        when = np.concatenate([start, end])
        origin = float(when.min(initial=np.inf)) if len(when) else 0.0
        length = float(when.max(initial=origin)) - origin + 1.0 if len(when) else 1.0
        axis = np.concatenate([group, group]) * length + (when - origin)
        order = np.argsort(axis, kind="stable")
        axis = axis[order]
        step = np.diff(axis, prepend=axis[:1])
        return cls(order=order, axis=axis, step=step, origin=origin, length=length, groups=group)

    def moments(self, group: Ints, when: Floats) -> _Moments:
        """Find moments on the axis; those outside of all spans lie at the nearest edge."""
        if not len(self.axis):
            return _Moments(np.full(len(when), -1), np.zeros(len(when)))
        inside = np.clip(when - self.origin, 0.0, self.length - 0.5)
        at = group * self.length + np.nan_to_num(inside)
        place = np.searchsorted(self.axis, at, side="right") - 1
        since = np.where(place >= 0, at - self.axis[np.maximum(place, 0)], 0.0)
        return _Moments(place, since)

    def integral(self, values: Floats, begin: _Moments, end: _Moments) -> Floats:
        """Integrate a quantity over windows: its value times ms, summed over spans.

        values: (n,) NaN where a span does not tell.
        begin, end: from :meth:`moments`.
        """
        if not len(values):
            return np.zeros(len(begin.place))
        known = np.isfinite(values)
        value = np.where(known, values, 0.0)
        slope = np.cumsum(np.concatenate([value, -value])[self.order])
        alive = np.cumsum(np.concatenate([known, known * -1])[self.order])
        # What rounding leaves where no span is would grow with time.
        slope = np.where(alive > 0, slope, 0.0)
        total = np.cumsum(self.step * np.concatenate([[0.0], slope[:-1]]))

        def up_to(moment: _Moments) -> Floats:
            place = np.maximum(moment.place, 0)
            reached = total[place] + slope[place] * moment.since
            return np.where(moment.place >= 0, reached, 0.0)

        return up_to(end) - up_to(begin)


class Windows:
    """Windows of time in groups, and the means of quantities over them."""

    def __init__(self, spans: Spans, group: Ints, begin: Floats, end: Floats) -> None:
        """Place the windows.

        group: (w,) −1 for a window without a group: its means are unknown.
        begin, end: (w,), ms.
        """
        known = (group >= 0) & np.isfinite(begin) & np.isfinite(end)
        safe = np.where(known, group, 0)
        self._spans = spans
        self._known = known
        self._length = np.where(known, end - begin, 0.0)
        self._begin = spans.moments(safe, np.where(known, begin, 0.0))
        self._end = spans.moments(safe, np.where(known, end, 0.0))

    def total(self, values: Floats) -> Floats:
        """Integrate a quantity over each window; 0 where nothing is known."""
        both = self._spans.integral(values, self._begin, self._end)
        return np.where(self._known, np.maximum(both, 0.0), 0.0)

    def mean(self, values: Floats) -> Floats:
        """Mean of a quantity over each window, NaN where spans tell of too little of it.

        Spans that overlap count each.
        """
        weight = np.where(np.isfinite(values), 1.0, np.nan)
        covered = self.total(weight)
        enough = (covered >= LEAST_COVER * self._length) & (covered > 0)
        mean: Floats = np.divide(
            self.total(values), covered, out=np.full(len(covered), np.nan), where=enough
        )
        return mean


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


WORTH_SAYING = 0.01
"""Share of tasks on sampled hosts from which it is said that samples do not tell about them."""
_PER_S = 1000.0


def sampled_quantities(samples: pd.DataFrame) -> dict[str, Floats]:
    """Quantities of :data:`HOST_FEATURES` in each sample, NaN where it does not tell."""

    def number(name: str) -> Floats:
        values: Floats = samples[name].to_numpy(np.float64)
        return values

    duration = number("duration_ms")
    total = number("mem_total_bytes")
    idle = number("cpu_idle") + np.nan_to_num(number("cpu_iowait"))
    moved_in, moved_out = number("net_in_bytes"), number("net_out_bytes")
    return {
        "host_cpu": np.clip(1.0 - idle / 100.0, 0.0, 1.0),
        "host_cpu_pressure": _share(number("stalled_cpu_ms"), duration),
        "host_throttled": _share(number("cgroup_throttled_ms"), duration),
        "host_disk": number("disk_busy"),
        "host_io_pressure": _share(number("stalled_io_ms"), duration),
        "container_io_pressure": _share(number("cgroup_stalled_io_ms"), duration),
        "host_disk_read": number("disk_read_bytes") / duration * _PER_S,
        "host_disk_write": number("disk_write_bytes") / duration * _PER_S,
        "host_network": (moved_in + moved_out) / duration * _PER_S,
        "host_net_in": moved_in / duration * _PER_S,
        "host_net_out": moved_out / duration * _PER_S,
        "host_memory": _share(number("mem_used_bytes"), np.where(total > 0, total, np.nan)),
        "host_memory_pressure": _share(number("stalled_memory_ms"), duration),
        "container_memory_pressure": _share(number("cgroup_stalled_memory_ms"), duration),
    }


def _share(part: Floats, whole: Floats) -> Floats:
    return np.clip(part / whole, 0.0, 1.0)


def host_columns(tables: Tables, offsets: Floats, edge_ms: float) -> dict[str, Floats]:
    """Means of the host's quantities during each task and in the windows around it (eq. 1 to 3, 6).

    One value per task; NaN where samples tell of less than half of the window.

    offsets: one per host, ms; what to take from a host's time to get the driver's.
    edge_ms: width of the windows before and after.
    """
    tasks, samples = tables.tasks, tables.samples
    launch = tasks["launch_ms"].to_numpy(np.float64)
    finish = tasks["finish_ms"].to_numpy(np.float64)
    task_host = tasks["host"].to_numpy(np.int64)
    host = samples["host"].to_numpy(np.int64)
    end = samples["time_ms"].to_numpy(np.float64)
    start = end - samples["duration_ms"].to_numpy(np.float64)
    usable = (host >= 0) & np.isfinite(start) & (end > start)
    samples, host, start, end = samples[usable], host[usable], start[usable], end[usable]
    if not len(samples):
        nothing = np.full(len(tasks), np.nan)
        return dict.fromkeys(_names(), nothing)
    start, end = start - offsets[host], end - offsets[host]
    spans = Spans.from_times(host, start, end)
    # A task of no length still had a moment.
    during = Windows(spans, task_host, launch, np.maximum(finish, launch + 1.0))
    head = Windows(spans, task_host, launch - edge_ms, launch)
    tail = Windows(spans, task_host, finish, finish + edge_ms)
    quantities = sampled_quantities(samples)
    columns = {}
    for feature in HOST_FEATURES:
        values = quantities[feature.name]
        columns[feature.name] = during.mean(values)
        if feature.cause:
            columns[before(feature)] = head.mean(values)
            columns[after(feature)] = tail.mean(values)
    return columns


def _names() -> list[str]:
    with_edges = [f for f in HOST_FEATURES if f.cause]
    return [
        *(f.name for f in HOST_FEATURES),
        *(before(f) for f in with_edges),
        *(after(f) for f in with_edges),
    ]


def untold_tasks(tables: Tables, host_cpu: Floats) -> tuple[int, int]:
    """Count the tasks on sampled hosts that no sample tells about, and all on sampled hosts."""
    host = tables.tasks["host"].to_numpy(np.int64)
    sampled = np.isin(host, np.unique(tables.samples["host"].to_numpy(np.int64)))
    return int((sampled & np.isnan(host_cpu)).sum()), int(sampled.sum())


def sample_doubts(untold: int, sampled: int) -> list[str]:
    """Say for how many tasks on sampled hosts the samples do not tell; empty if for few."""
    if untold <= WORTH_SAYING * max(sampled, 1):
        return []
    return [
        f"no sample tells what the host did during {untold} of {sampled} "
        "tasks on sampled hosts: it is unknown there, and no cause"
    ]
