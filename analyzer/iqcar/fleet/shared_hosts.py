"""Estimate the devices of hosts from the tasks of all groups, as the local engine does.

What a device can do, and whether anybody ever waited for another in it, is estimated from all hosts
together. So the groups send a sample of the load of their tasks, and receive the devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from iqcar.causes.blame.loads import find_loads
from iqcar.causes.blame.ratp import TaskColumns
from iqcar.causes.blame.task_intervals import DomainSchedules, Pieces
from iqcar.enums import Request, SourceUsage
from iqcar.model.demand.contention import ENOUGH_BYTES, usable
from iqcar.model.demand.device import Device
from iqcar.model.demand.estimate import LEAST, fit_sampled
from iqcar.model.demand.load import Load
from iqcar.tables import Tables, texts


@dataclass(frozen=True)
class HostLoads:
    """A sample of what the tasks of a group of logs did in the devices of its hosts.

    Attributes
    ----------
    hosts : names of the group's hosts
    stages : number of the group's stages
    loads : by request
    """

    hosts: list[str]
    stages: int
    loads: dict[Request, Load]

    @classmethod
    def from_tasks(cls, tables: Tables, waits: pd.DataFrame) -> HostLoads:
        """Collect them as :func:`iqcar.causes.blame.attribute.attribute` does."""
        columns = TaskColumns.from_tables(tables, waits)
        pieces = Pieces.from_intervals(columns)
        schedules = DomainSchedules(pieces, SourceUsage.ACTIVE)
        loads = {
            request: load.sample(usable(load, LEAST.get(request, ENOUGH_BYTES)))
            for request, load in find_loads(pieces, schedules).items()
        }
        return cls(texts(tables.hosts, "host"), len(tables.stages), loads)


@dataclass(frozen=True)
class SharedDevices:
    """Devices of all hosts, by request, with the row of each host's name."""

    rows: dict[str, int]
    devices: dict[Request, Device]

    def of_hosts(self, hosts: Sequence[str]) -> dict[Request, Device]:
        """Return the devices of some hosts, in their order."""
        rows = np.array([self.rows[host] for host in hosts], np.int64)
        return {
            request: device._replace(slower=device.slower[rows])
            for request, device in self.devices.items()
        }


def shared_devices(groups: Sequence[HostLoads]) -> SharedDevices:
    """Estimate the devices of all hosts from the tasks of all groups."""
    rows: dict[str, int] = {}
    for group in groups:
        for host in group.hosts:
            rows.setdefault(host, len(rows))
    before = np.cumsum([0, *(group.stages for group in groups)])
    loads = {}
    for request in Request:
        parts = [
            group.loads[request]._replace(
                host=np.array([rows[host] for host in group.hosts], np.int64)[
                    group.loads[request].host
                ],
                stage=group.loads[request].stage + offset,
            )
            for group, offset in zip(groups, before, strict=False)
            if request in group.loads
        ]
        if parts:
            loads[request] = _joined(parts)
    return SharedDevices(rows, fit_sampled(loads, len(rows)))


def _joined(parts: Sequence[Load]) -> Load:
    """Join loads whose numbers of levels differ: the highest level counts several times."""
    width = max(part.taken.shape[1] for part in parts)

    def wide(values: np.ndarray) -> np.ndarray:
        return np.pad(values, ((0, 0), (0, width - values.shape[1])), mode="edge")

    even = [
        part._replace(
            levels=wide(np.broadcast_to(part.levels, part.taken.shape)), taken=wide(part.taken)
        )
        for part in parts
    ]
    joined = Load(*(np.concatenate(column) for column in zip(*even, strict=True)))
    return joined.sample(np.arange(len(joined.data)))
