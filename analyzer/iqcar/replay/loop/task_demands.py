"""Estimates what every task needs in each device, and what the devices of each host can do.

This is the abduction step of a what-if question: from what a recorded task took to what it would
take alone. Of the time W in a device, the share c was lost to others (:mod:`iqcar.model.demand`),
so that alone the task needs ``A = W · (1 − c)`` and takes ``B / A`` of the device.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import pandas as pd

from iqcar.causes.blame.ratp import MOST_LOST, Users, data_processed
from iqcar.enums import Request
from iqcar.model.demand.estimate import ENOUGH_MS, Learned
from iqcar.model.demand.host_samples import (
    Sampled,
    Use,
    beside_tasks,
    sampled_disk,
    sampled_network,
    sampled_processor,
)
from iqcar.model.waits.columns import ESTIMATED, evidence_column, wait_column
from iqcar.model.waits.input_moved import input_moved
from iqcar.replay.loop.device_sharing import DEVICES, PHASES
from iqcar.tables import Tables
from iqcar.tables.arrays import (
    Flags,
    Floats,
    known_or_zero,
    most_at_once,
    positive_or_zero,
    share_of,
)

if TYPE_CHECKING:
    from iqcar.model.demand.estimate import Demand


def cores_of_hosts(tables: Tables) -> tuple[Floats, Flags]:
    """Return the processors of each host, and whether they were measured.

    Both of shape (n_hosts,). From samples of the host; else as many as tasks that ran there at
    once, at least one: Spark is mostly told to run one task per processor.
    """
    n = len(tables.hosts)
    samples = tables.samples
    host = samples["host"].to_numpy(np.int64)
    seen = samples["cores"].to_numpy(np.float64)
    limit = samples["cgroup_cpus"].to_numpy(np.float64)
    seen = np.fmin(seen, np.where(limit > 0, limit, np.nan))
    known = (host >= 0) & (seen > 0)
    cores = np.zeros(n)
    np.maximum.at(cores, host[known], seen[known])
    measured = cores > 0
    tasks = tables.tasks
    launch, finish = (tasks[c].to_numpy(np.float64) for c in ("launch_ms", "finish_ms"))
    at = tasks["host"].to_numpy(np.int64)
    ran = np.isfinite(launch + finish) & (at >= 0)
    most = most_at_once(at[ran], launch[ran], finish[ran], np.ones(int(ran.sum())), n)
    return np.where(measured, cores, np.maximum(most, 1.0)), measured


READ, FETCH, COMPUTE, WAIT, WRITE = range(PHASES)
"""Phases of a task, as in :class:`iqcar.replay.loop.loop_input.Devices`."""
REQUEST = {READ: Request.IO_READ, FETCH: Request.SHUFFLE_FETCH, WRITE: Request.IO_WRITE}
DISK, NETWORK, PROCESSOR = range(DEVICES)
PHASES_OF = {DISK: (READ, WRITE), NETWORK: (FETCH,), PROCESSOR: (COMPUTE,)}
MEASURED, INFERRED, ASSUMED = "measured", "inferred", "assumed"
FASTER = 1.3
"""A task that was faster than a device's capacity by more than this factor did not use it."""
HEADROOM = 2.0
"""A device that was never short can do at least what was seen at most; assume this times it."""


class Way(NamedTuple):
    """How tasks use devices: nothing in a plain log says it.

    rounds: times that a task goes through its phases.
    proportional: whether a device that is short slows all by one factor, instead of max–min fairly.
    slowing: part of its capacity that a disk loses with each further task in it.
    """

    rounds: int = 4
    proportional: bool = False
    slowing: float = 0.0


ONCE = (Way(1), Way(1, slowing=0.03), Way(1, proportional=True, slowing=0.03))
"""Ways that are tried where there are many tasks: events per task are a quarter."""
WAYS = (Way(), Way(slowing=0.03), Way(proportional=True, slowing=0.03), *ONCE)
"""Those that are tried."""


@dataclass(frozen=True)
class TaskDemands:
    """What tasks need and devices can do; rows as in ``tables.tasks`` and ``tables.hosts``.

    spent: (n_tasks, 5), ms; time of each task in each phase, as recorded; a row sums to the task's
        duration.
    alone: (n_tasks, 5), ms; the same if nobody else used the devices.
    use: (n_tasks, 5), bytes per ms or cores; what the task takes of a device meanwhile.
    gc: (n_tasks,), ms; garbage collection, a part of the phase WAIT.
    capacity: (n_hosts, 3), bytes per ms or cores; of each host's disk, network and processors; inf
        where nothing ran.
    evidence: (n_hosts, 3); how each is known: measured, inferred or assumed.
    estimated: (n_tasks,); whether the wait for a processor is what nothing else explains.
    python: (n_tasks,); whether what nothing else explains is Python workers' time, which compute.
    way: how tasks use devices.
    sampled: what samples of hosts tell of disks and networks, by device.
    beside: (n_hosts,), processors; used by something else than recorded tasks while these ran; NaN
        where nobody sampled it.
    """

    spent: Floats
    alone: Floats
    use: Floats
    gc: Floats
    capacity: Floats
    evidence: np.ndarray
    beside: Floats
    estimated: Flags
    python: Flags
    way: Way
    sampled: dict[int, Sampled] = field(default_factory=dict)
    learned: Learned = field(default_factory=Learned)

    def scaled(self, factor: Floats) -> TaskDemands:
        """Return the demands with the time alone times a factor of each task and phase."""
        return replace(self, alone=self.alone * factor, use=share_of(self.use, factor))


def task_demands(tables: Tables, waits: pd.DataFrame, demand: Demand) -> TaskDemands:
    """Estimate the demands of all tasks of some tables.

    waits: From :func:`iqcar.model.waits.measure.measure_waits`.
    demand: From :func:`iqcar.causes.blame.attribute.attribute`.
    """
    n = len(tables.tasks)
    duration = positive_or_zero(waits["duration_ms"].to_numpy(np.float64))
    spent, alone, use = (np.zeros((n, PHASES)) for _ in range(3))
    columns, host = _Columns(tables), tables.tasks["host"].to_numpy(np.int64)
    for phase, request in REQUEST.items():
        wait = positive_or_zero(waits[wait_column(request)].to_numpy(np.float64))
        moved = positive_or_zero(data_processed(cast("Users", columns), request))
        quickest = np.zeros(n)
        if request in demand.devices and demand.devices[request].identified:
            quickest = moved / demand.devices[request].per_host[host]
        # What was faster than the device did not come from it: the page cache, another disk.
        from_it = (moved > 0) & (wait * FASTER >= quickest)
        spent[:, phase] = np.where(from_it, wait, 0.0)
        unlost = np.clip(wait * (1.0 - _lost(demand, request, n)), np.minimum(quickest, wait), wait)
        alone[:, phase] = np.where(from_it, unlost, 0.0)
        use[:, phase] = share_of(moved, alone[:, phase])
    cpu = positive_or_zero(waits["compute_ms"].to_numpy(np.float64))
    queue = positive_or_zero(waits[wait_column(Request.RUN_QUEUE)].to_numpy(np.float64))
    estimated = waits[evidence_column(Request.RUN_QUEUE)].to_numpy() == ESTIMATED
    unlost = (cpu + queue) * (1.0 - _lost(demand, Request.RUN_QUEUE, n))
    spent[:, COMPUTE] = cpu + queue
    alone[:, COMPUTE] = np.where(estimated, np.maximum(unlost, cpu), cpu)
    use[:, COMPUTE] = share_of(cpu, alone[:, COMPUTE])
    # Parts that overlap take at most the whole.
    most = np.minimum(share_of(duration, spent.sum(axis=1)), 1.0)[:, None]
    over = most < 1.0
    spent, alone = np.where(over, spent * most, spent), np.where(over, alone * most, alone)
    rest = np.maximum(duration - spent.sum(axis=1), 0.0)
    spent[:, WAIT] = alone[:, WAIT] = rest
    runs_python = np.append(tables.stages["python"].to_numpy(bool), False)
    python = runs_python[tables.tasks["stage"].to_numpy(np.int64)] & estimated
    gc = np.minimum(known_or_zero(waits["gc_ms"].to_numpy(np.float64)), rest)
    capacity, evidence = _capacities(tables, demand, alone, use, duration)
    return TaskDemands(
        spent=spent, alone=alone, use=use, gc=gc, capacity=capacity, evidence=evidence,
        beside=beside_tasks(tables, cpu), estimated=estimated, python=python, way=Way(),
        sampled=_sampled(tables, spent, alone * use),
    )  # fmt: skip


def _sampled(tables: Tables, spent: Floats, moved: Floats) -> dict[int, Sampled]:
    """Read in samples of hosts what devices did while tasks used them."""
    tasks, found = tables.tasks, {}
    launch, finish = (tasks[c].to_numpy(np.float64) for c in ("launch_ms", "finish_ms"))
    by_device = (
        (DISK, sampled_disk), (NETWORK, sampled_network), (PROCESSOR, sampled_processor)
    )  # fmt: skip
    for device, tell in by_device:
        phases = list(PHASES_OF[device])
        amounts = moved[:, phases].sum(axis=1), spent[:, phases].sum(axis=1)
        use = Use(tasks["host"].to_numpy(np.int64), launch, finish, *amounts)
        found[device] = tell(tables.samples, use)
    return found


class _Columns:
    """Columns of tasks, for :func:`iqcar.causes.blame.ratp.data_processed`."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def number(self, column: str) -> Floats:
        if column == "input_bytes":
            return input_moved(self.tables)
        values: Floats = self.tables.tasks[column].to_numpy(np.float64)
        return values


def _lost(demand: Demand, request: Request, n: int) -> Floats:
    """Share of the time in a device that each task lost to others there, never all of it.

    A task without any time alone would have moved nothing.
    """
    found = demand.contention.get(request)
    return np.zeros(n) if found is None else np.minimum(found.to_tasks, MOST_LOST)


def _capacities(
    tables: Tables, demand: Demand, alone: Floats, use: Floats, duration: Floats
) -> tuple[Floats, np.ndarray]:
    """Capacity of each host's devices, and how it is known."""
    n_hosts = len(tables.hosts)
    capacity = np.full((n_hosts, DEVICES), np.inf)
    evidence = np.full((n_hosts, DEVICES), ASSUMED, dtype=object)
    tasks = tables.tasks
    launch, finish = (tasks[c].to_numpy(np.float64) for c in ("launch_ms", "finish_ms"))
    host = tasks["host"].to_numpy(np.int64)
    ran = np.isfinite(launch + finish) & (host >= 0) & (duration > 0)
    for device, phases in ((DISK, (READ, WRITE)), (NETWORK, (FETCH,))):
        known = (demand.devices.get(REQUEST[phase]) for phase in phases)
        found = next((one for one in known if one is not None and one.identified), None)
        moved = (alone[:, phases] * use[:, phases]).sum(axis=1)
        rate = share_of(moved, duration)
        at_once = most_at_once(host[ran], launch[ran], finish[ran], rate[ran], n_hosts)
        # Hosts are alike, and none was short of what a single task had.
        fastest = use[:, phases][alone[:, phases] >= ENOUGH_MS]
        fast = float(np.quantile(fastest, 0.98)) if len(fastest) else 0.0
        most = max(float(at_once.max(initial=0.0)), fast)
        capacity[:, device] = HEADROOM * most if most > 0 else np.inf
        if found is not None:
            capacity[:, device] = found.per_host
            evidence[:, device] = INFERRED
    cores, measured = cores_of_hosts(tables)
    found = demand.devices.get(Request.RUN_QUEUE)
    capacity[:, PROCESSOR] = cores
    evidence[measured, PROCESSOR] = MEASURED
    if found is not None and found.identified:
        inferred = ~measured
        capacity[inferred, PROCESSOR] = found.per_host[inferred]
        evidence[inferred, PROCESSOR] = INFERRED
    return capacity, evidence
