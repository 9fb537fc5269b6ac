"""Compute how long the tasks of each stage spent in a device, run by run, from the event log."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from iqcar.enums import Request
from iqcar.model.waits.columns import wait_column
from iqcar.model.waits.measure import measure_waits
from iqcar.pipeline import read
from iqcar.tables import texts
from iqcar.tables.arrays import Floats, known_or_zero

IN_DEVICE = {
    "cpu": ("compute_ms", wait_column(Request.RUN_QUEUE)),
    "disk": (wait_column(Request.IO_READ), wait_column(Request.IO_WRITE)),
    "network": (wait_column(Request.SHUFFLE_FETCH),),
    "memory": ("duration_ms",),
}
"""Columns of waits whose sum is the time in each resource: work there and waiting for it."""
MOVED = {
    "cpu": (),
    "disk": ("input_bytes", "shuffle_write_bytes", "output_bytes", "disk_spilled_bytes"),
    "network": ("remote_bytes",),
    "memory": (),
}
"""Columns of tasks whose sum is what they moved in each resource."""
LEAST_MS = 50.0
LEAST_SHARE = 0.05
"""Time in a device, all tasks together, and as a share of all their time, below which it is not
worth a curve: what is left is the noise of clocks."""
_RUN = re.compile(r"\(run (\d{1,9})\)")


@dataclass(frozen=True)
class StageTime:
    """A stage of one run; stages of one label count as one.

    Attributes
    ----------
    device_ms : dict
        Mean time of a task in each resource.
    total_ms : dict
        The same, all tasks together.
    moved : dict
        Bytes that all tasks moved in each resource; 0 in processors and memory.
    task_ms : float
        All time of the tasks together.
    at_once : float
        Tasks that ran together on a machine with hogs, mean over the time in which any ran.
    """

    run: int
    label: str
    device_ms: dict[str, float]
    total_ms: dict[str, float]
    moved: dict[str, float]
    task_ms: float
    at_once: float

    def rate_per_s(self, resource: str) -> float:
        """Bytes that a task moved in a second there; 0 unknown."""
        total = self.total_ms[resource]
        return 1e3 * self.moved[resource] / total if total > 0 else 0.0

    def uses(self, resource: str) -> bool:
        """Whether its tasks spend enough time in the resource."""
        total = self.total_ms[resource]
        return total >= LEAST_MS and total >= LEAST_SHARE * self.task_ms


def stage_times(logs: Sequence[Path], hosts: Collection[str], machines: int = 1) -> list[StageTime]:
    """Return the stages of all runs, of tasks on hosts with hogs (all hosts where none is named).

    Parameters
    ----------
    logs : sequence of Path
        Event logs of the experiment's Spark.
    hosts : collection of str
        Names of hosts with hogs.
    machines : int
        How many machines these names stand for.
    """
    tables = read([str(log) for log in logs])
    waits = measure_waits(tables)
    runs = [_RUN.search(name) for name in texts(tables.queries, "name")]
    run_of_query = np.array([int(found[1]) if found else 0 for found in runs] + [0])
    tasks = tables.tasks
    run = run_of_query[tasks["query"].to_numpy(np.int64)]
    is_loaded = np.array([name in hosts for name in texts(tables.hosts, "host")] + [False])
    on_host = is_loaded[tasks["host"].to_numpy(np.int64)]
    if not on_host.any():
        on_host[:] = True
    launch, finish = (tasks[name].to_numpy(np.float64) for name in ("launch_ms", "finish_ms"))
    counted = on_host & (run > 0) & (finish >= launch) & (tasks["status"] == "success").to_numpy()
    labels = texts(tables.stages, "label")
    label = np.array([*labels, ""], dtype=object)[tasks["stage"].to_numpy(np.int64)]
    device = {
        name: np.sum([known_or_zero(waits[c].to_numpy(np.float64)) for c in columns], axis=0)
        for name, columns in IN_DEVICE.items()
    }
    moved = {
        name: sum(
            (known_or_zero(tasks[c].to_numpy(np.float64)) for c in columns), np.zeros(len(tasks))
        )
        for name, columns in MOVED.items()
    }
    found = []
    rows = np.flatnonzero(counted).tolist()
    for number, name in sorted({(int(run[row]), str(label[row])) for row in rows}):
        here = counted & (run == number) & (label == name)
        total = {resource: float(values[here].sum()) for resource, values in device.items()}
        lasted = finish[here] - launch[here]
        found.append(
            StageTime(
                number,
                name,
                {resource: value / len(lasted) for resource, value in total.items()},
                total,
                {resource: float(values[here].sum()) for resource, values in moved.items()},
                float(lasted.sum()),
                float(lasted.sum()) / max(_covered(launch[here], finish[here]), 1.0) / machines,
            )
        )
    return found


def _covered(launch: Floats, finish: Floats) -> float:
    """Time in which any of these tasks ran."""
    order = np.argsort(launch, kind="stable")
    begin, until = launch[order], np.maximum.accumulate(finish[order])
    before = np.append(begin[:1], until[:-1])
    return float(np.maximum(until - np.maximum(begin, before), 0.0).sum())
