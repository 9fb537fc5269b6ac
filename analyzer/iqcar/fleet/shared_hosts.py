"""Groups applications that met on hosts, and estimates the devices of hosts from all groups.

What a device can do, and whether anybody ever waited for another in it, is estimated from all hosts
together. So the groups send a sample of the load of their tasks, and receive the devices.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd

from iqcar.causes.blame.attribute import find_loads
from iqcar.causes.blame.task_intervals import BlameColumns, DomainSchedules, Pieces
from iqcar.enums import Request
from iqcar.fleet.packing import together
from iqcar.logs.merge import Columns, hosts_of
from iqcar.model.demand.device import Device, Load
from iqcar.model.demand.estimate import ENOUGH_BYTES, LEAST, fit_sampled, usable
from iqcar.tables import Tables, texts

HOUR_MS = 3_600_000.0
MOST_TASKS = 1_000_000
"""Tasks of a group at most: their diagnosis takes some 3 GB of an executor's memory."""


@dataclass(frozen=True)
class Ran:
    """Where and when an application ran.

    Attributes
    ----------
    hosts : names
    start_ms, end_ms : −∞ and ∞ where unknown
    tasks : how many it ran
    """

    hosts: tuple[str, ...]
    start_ms: float
    end_ms: float
    tasks: int

    @classmethod
    def from_columns(cls, columns: Columns, tasks: int) -> Ran:
        """Tell it of the tables of one log."""
        application: Any = columns["applications"]
        start, end = (float(application[name][0]) for name in ("start_ms", "end_ms"))
        return cls(
            tuple(hosts_of(columns)),
            start if math.isfinite(start) else -math.inf,
            end if math.isfinite(end) else math.inf,
            tasks,
        )


@dataclass(frozen=True)
class Cut:
    """A group that was too large to be diagnosed together.

    Attributes
    ----------
    applications, hosts, tasks : how many it has
    parts : how many it was cut into
    apart : applications that shared a host at some time with one of another part
    start_ms, end_ms : when the group began and ended
    """

    applications: int
    hosts: int
    tasks: int
    parts: int
    apart: int
    start_ms: float
    end_ms: float


def meeting_groups(
    ran: Mapping[int, Ran], most_tasks: int = MOST_TASKS
) -> tuple[dict[int, int], tuple[Cut, ...]]:
    """Group applications that shared a host at the same time, directly or through others.

    A group of more tasks than allowed is cut by the hours in which its applications started: parts
    are made of whole hours where an hour has no more tasks than allowed, else of applications in
    the order of their start. What applications of different parts did to each other is lost.

    Parameters
    ----------
    ran : where and when each application ran, by the number of its log
    most_tasks : tasks of a group at most; a larger application is a group by itself

    Returns the group of each log, numbered from 0 in the order of the first log of each; and groups
    that were cut, the largest first.
    """
    spells = _spells(ran)
    members: dict[int, list[int]] = {}
    for log, group in together(spells).items():
        members.setdefault(group, []).append(log)
    parts, cuts = [], []
    for logs in members.values():
        tasks = sum(ran[log].tasks for log in logs)
        if tasks <= most_tasks or len(logs) == 1:
            parts.append(logs)
            continue
        of_group = _cut(logs, ran, most_tasks)
        parts += of_group
        cuts.append(_told(logs, of_group, ran, spells))
    parts.sort(key=min)
    groups = {log: number for number, logs in enumerate(parts) for log in logs}
    return groups, tuple(sorted(cuts, key=lambda cut: -cut.tasks))


def _spells(ran: Mapping[int, Ran]) -> dict[int, list[str]]:
    """Name the spells in which each host was used without pause, for each log that took part."""
    users: dict[str, list[int]] = {}
    for log in sorted(ran):
        for host in ran[log].hosts:
            users.setdefault(host, []).append(log)
    spells: dict[int, list[str]] = {log: [] for log in ran}
    for host, logs in users.items():
        number, until = 0, -math.inf
        for log in sorted(logs, key=lambda log: ran[log].start_ms):
            number += ran[log].start_ms >= until
            until = max(until, ran[log].end_ms)
            spells[log].append(f"{number} {host}")
    return spells


def _cut(logs: Sequence[int], ran: Mapping[int, Ran], most_tasks: int) -> list[list[int]]:
    """Cut a group into parts of at most so many tasks, at full hours if possible."""

    def hour(log: int) -> float:
        start = ran[log].start_ms
        return start // HOUR_MS if math.isfinite(start) else start

    ordered = sorted(logs, key=lambda log: (ran[log].start_ms, log))
    parts: list[list[int]] = []
    room = 0
    for _, of_hour in groupby(ordered, key=hour):
        started = list(of_hour)
        tasks = sum(ran[log].tasks for log in started)
        pieces = [started] if tasks <= most_tasks else [[log] for log in started]
        if tasks > most_tasks:
            room = 0
        for piece in pieces:
            needed = sum(ran[log].tasks for log in piece)
            if not parts or needed > room:
                parts.append([])
                room = most_tasks
            parts[-1] += piece
            room -= needed
    return [sorted(part) for part in parts]


def _told(
    logs: Sequence[int],
    parts: Sequence[Sequence[int]],
    ran: Mapping[int, Ran],
    spells: Mapping[int, Sequence[str]],
) -> Cut:
    part_of = {log: number for number, part in enumerate(parts) for log in part}
    users: dict[str, list[int]] = {}
    for log in logs:
        for spell in spells[log]:
            users.setdefault(spell, []).append(log)
    apart: set[int] = set()
    for sharing in users.values():
        in_all = _met(sharing, ran)
        by_part = groupby(sorted(sharing, key=part_of.__getitem__), key=part_of.__getitem__)
        in_part = {log: n for _, some in by_part for log, n in _met(list(some), ran).items()}
        apart |= {log for log in sharing if in_all[log] > in_part[log]}
    return Cut(
        applications=len(logs), hosts=len({host for log in logs for host in ran[log].hosts}),
        tasks=sum(ran[log].tasks for log in logs), parts=len(parts), apart=len(apart),
        start_ms=min(ran[log].start_ms for log in logs),
        end_ms=max(ran[log].end_ms for log in logs),
    )  # fmt: skip


def _met(logs: Sequence[int], ran: Mapping[int, Ran]) -> dict[int, int]:
    """Count the applications that ran at the same time as each, itself included."""
    starts = sorted(ran[log].start_ms for log in logs)
    ends = sorted(ran[log].end_ms for log in logs)
    return {
        log: bisect_left(starts, ran[log].end_ms) - bisect_right(ends, ran[log].start_ms)
        for log in logs
    }


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
        columns = BlameColumns.from_tables(tables, waits)
        pieces = Pieces.from_intervals(columns)
        schedules = DomainSchedules(pieces)
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
