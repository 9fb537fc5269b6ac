"""Averages the samples of a task's host over the time before, during and after the task."""

from __future__ import annotations

import numpy as np
import pandas as pd

from iqcar.causes.stragglers.feature_list import HOST_FEATURES, after, before
from iqcar.causes.stragglers.windows import Spans, Windows
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
        "host_disk_read": number("disk_read_bytes") / duration * _PER_S,
        "host_disk_write": number("disk_write_bytes") / duration * _PER_S,
        "host_network": (moved_in + moved_out) / duration * _PER_S,
        "host_net_in": moved_in / duration * _PER_S,
        "host_net_out": moved_out / duration * _PER_S,
        "host_memory": _share(number("mem_used_bytes"), np.where(total > 0, total, np.nan)),
        "host_memory_pressure": _share(number("stalled_memory_ms"), duration),
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
