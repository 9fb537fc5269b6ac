"""What hosts did over time: samples of processor, disk and network, and slots in use."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iqcar.causes.stragglers.host_features import clock_offsets, sampled_quantities
from iqcar.tables import Tables
from iqcar.tables.arrays import Flags, Floats

if TYPE_CHECKING:
    from iqcar.show.pictures.bins import Bins

QUANTITIES = {
    "host_cpu": "CPU in use",
    "host_disk": "busiest disk in use",
    "host_net_in": "network in",
    "host_net_out": "network out",
}
"""Sampled quantities that are drawn: two shares, then two rates in bytes per second."""


class HostSeries(NamedTuple):
    """Means over bins of time, by host; NaN where nobody sampled.

    Attributes
    ----------
    sampled : (hosts,) bool: whether the host was ever sampled
    quantities : by name of :data:`QUANTITIES`, (hosts, bins)
    running : (hosts, bins) slots in use
    offered : (hosts, bins) slots of the executors that were there; NaN if a host's are unknown
    """

    sampled: Flags
    quantities: dict[str, Floats]
    running: Floats
    offered: Floats


def host_series(tables: Tables, bins: Bins) -> HostSeries:
    """Bring samples to the driver's clock, and count slots, bin by bin."""
    hosts = len(tables.hosts)
    samples = tables.samples
    host = samples["host"].to_numpy(np.int64)
    sampled = np.zeros(hosts, bool)
    quantities = {name: np.full((hosts, bins.count), np.nan) for name in QUANTITIES}
    if len(samples) and hosts:
        told = (samples["duration_ms"] > 0).to_numpy(bool)
        with np.errstate(divide="ignore", invalid="ignore"):
            values = sampled_quantities(samples)
        end = samples["time_ms"].to_numpy(np.float64) - clock_offsets(tables)[host]
        start = end - samples["duration_ms"].to_numpy(np.float64)
        for name in QUANTITIES:
            quantities[name] = bins.means(host, hosts, start, end, values[name])
        some = host[np.isfinite(values["host_cpu"]) & told & (host >= 0)]
        sampled[some] = True
    tasks, executors = tables.tasks, tables.executors
    held = np.ones(len(tasks))
    app = tasks["app"].to_numpy(np.int64)
    if len(tables.applications):
        cpus = tables.applications["task_cpus"].to_numpy(np.float64)
        held = np.where((app >= 0) & (cpus[app] > 0), cpus[app], 1.0)
    running = bins.amounts(
        tasks["host"].to_numpy(np.int64),
        hosts,
        tasks["launch_ms"].to_numpy(np.float64),
        tasks["finish_ms"].to_numpy(np.float64),
        held,
    )
    added = executors["added_ms"].to_numpy(np.float64)
    removed = executors["removed_ms"].to_numpy(np.float64)
    cores = executors["cores"].to_numpy(np.float64)
    last = bins.start_ms + bins.width_ms * bins.count
    place = executors["host"].to_numpy(np.int64)
    offered = bins.amounts(
        place,
        hosts,
        np.where(np.isfinite(added), added, bins.start_ms),
        np.where(np.isfinite(removed), removed, last),
        np.nan_to_num(cores),
    )
    blind = place[(place >= 0) & ~(cores > 0)]
    offered[blind] = np.nan
    offered[~np.isin(np.arange(hosts), place)] = np.nan
    return HostSeries(sampled, quantities, running / bins.width_ms, offered / bins.width_ms)


def span_of(tables: Tables) -> tuple[float, float] | None:
    """First launch, submission or start, and last end, in ms; None where nothing has a time."""
    moments = [
        tables.tasks[["launch_ms", "finish_ms"]].to_numpy(np.float64).ravel(),
        tables.queries[["start_ms", "end_ms"]].to_numpy(np.float64).ravel(),
        tables.stages[["submission_ms", "completion_ms"]].to_numpy(np.float64).ravel(),
    ]
    every = np.concatenate(moments)
    every = every[np.isfinite(every) & (every > 0)]
    return (float(every.min()), float(every.max())) if len(every) else None
