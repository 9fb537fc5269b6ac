"""Estimate the capacities of hosts from the tasks of all groups, as the local engine does.

How much crowding slows a device, and the capacity of a host with few tasks, are taken from all
hosts together. So the groups tell how fast their tasks moved data, and are told the capacities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iqcar.blame.attribute import speeds
from iqcar.blame.ratp import TaskColumns
from iqcar.blame.schedule import Agenda
from iqcar.blame.task_intervals import Pieces
from iqcar.demand.capacity import Capacity, host_capacity
from iqcar.enums import Request, SourceUsage
from iqcar.tables import texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from iqcar.tables import Tables
    from iqcar.tables.arrays import Floats, Ints


class Moved(NamedTuple):
    """Tasks that moved data: how much, how long it took, how crowded the device was, and where."""

    data: Floats
    wait_ms: Floats
    crowd: Floats
    host: Ints


@dataclass(frozen=True)
class HostSpeeds:
    """How fast the tasks of a group of logs moved data.

    Attributes
    ----------
    hosts : names of the group's hosts
    moved : by request
    """

    hosts: list[str]
    moved: dict[Request, Moved]

    @classmethod
    def from_tasks(cls, tables: Tables, waits: pd.DataFrame) -> HostSpeeds:
        """Collect them as :func:`iqcar.blame.attribute.attribute` does."""
        columns = TaskColumns.from_tables(tables, waits)
        agenda = Agenda(Pieces.one_each(columns), SourceUsage.ACTIVE)
        moved = {}
        for request, speed in speeds(columns, agenda.schedule_of(Request.IO_READ)).items():
            rows = np.flatnonzero((speed.data > 0) & (speed.wait_ms > 0))
            moved[request] = Moved(
                speed.data[rows], speed.wait_ms[rows], speed.crowd[rows], columns.host[rows]
            )
        return cls(texts(tables.hosts, "host"), moved)


@dataclass(frozen=True)
class Known:
    """Capacities of all hosts, by request, with the row of each host's name."""

    rows: dict[str, int]
    capacities: dict[Request, Capacity]

    def capacities_of(self, hosts: Sequence[str]) -> dict[Request, Capacity]:
        """Take the capacities of some hosts, in their order."""
        rows = np.array([self.rows[host] for host in hosts], np.int64)
        return {
            request: Capacity(capacity.per_host[rows], capacity.borrowed[rows], capacity.tasks)
            for request, capacity in self.capacities.items()
        }


def capacities_of(groups: Sequence[HostSpeeds]) -> Known:
    """Estimate every host's capacity from the tasks of all groups."""
    rows: dict[str, int] = {}
    for group in groups:
        for host in group.hosts:
            rows.setdefault(host, len(rows))
    found = {}
    for request in groups[0].moved if groups else ():
        parts = [group.moved[request] for group in groups]
        names = [np.array([*(rows[host] for host in group.hosts), -1]) for group in groups]
        places = [name[part.host] for name, part in zip(names, parts, strict=True)]
        found[request] = host_capacity(
            np.concatenate([part.data for part in parts]),
            np.concatenate([part.wait_ms for part in parts]),
            np.concatenate(places),
            len(rows),
            np.concatenate([part.crowd for part in parts]),
        )
    return Known(rows, found)
