"""Compute the load of each device during each task, by a sweep over all tasks of its host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iqcar.blame.ratp import BYTES_REQUESTS, ONE_DEVICE, SHORTEST_MS, data_processed
from iqcar.blame.sweep import usage_during
from iqcar.demand.load import Load
from iqcar.enums import Request
from iqcar.tables.arrays import positive_or_zero, share_of
from iqcar.waits import ESTIMATED, evidence_column

if TYPE_CHECKING:
    from iqcar.blame.ratp import TaskColumns
    from iqcar.tables.arrays import Flags, Floats, Schedule

LEVELS = 6
"""Speeds at which it is known what others would take; more gain nothing."""


def find_loads(columns: TaskColumns, events: Schedule) -> dict[Request, Load]:
    """Compute the load of the devices in which waiting is not the same as contention.

    These are disks and network, and the processor where the wait for it is estimated.

    Parameters
    ----------
    columns : TaskColumns
    events : Schedule
        Launches and finishes by host.

    Returns
    -------
    dict of Request to Load
        One row per task.
    """
    found: dict[Request, Load] = {}
    by_device: dict[tuple[Request, ...], Load] = {}
    for request in BYTES_REQUESTS:
        device = ONE_DEVICE[request]
        data, wait = (
            {part: positive_or_zero(values) for part, values in each.items()}
            for each in (
                {part: data_processed(columns, part) for part in device},
                {part: columns.wait(part) for part in device},
            )
        )
        if device not in by_device:
            moved = sum(data.values(), np.zeros(len(columns.span)))
            by_device[device] = _load(columns, events, moved, sum(wait.values(), 0.0 * moved))
        found[request] = by_device[device]._replace(data=data[request], wait_ms=wait[request])
    cpu, estimated = positive_or_zero(columns.compute()), _estimated(columns)
    if estimated.any():
        wait_ms = positive_or_zero(columns.wait(Request.RUN_QUEUE))
        load = _load(columns, events, cpu, cpu + wait_ms)
        found[Request.RUN_QUEUE] = load._replace(data=np.where(estimated, cpu, 0.0))
    return found


def _estimated(columns: TaskColumns) -> Flags:
    """Mark tasks whose wait for the processor is what nothing else explains."""
    flags: Flags = columns.waits[evidence_column(Request.RUN_QUEUE)].to_numpy() == ESTIMATED
    return flags


def _load(columns: TaskColumns, events: Schedule, data: Floats, wait_ms: Floats) -> Load:
    life = np.maximum(columns.span, SHORTEST_MS)
    busy = np.minimum(wait_ms / life, 1.0)
    speed = share_of(data, wait_ms)
    moving = speed[speed > 0]
    levels = np.ones(1)
    if len(moving):
        levels = np.unique(np.quantile(moving, np.linspace(0.05, 1.0, LEVELS)))
    rates = np.empty((len(life), len(levels) + 1))
    rates[:, 0] = busy
    rates[:, 1:] = busy[:, None] * np.minimum(speed[:, None], levels)
    everyone = usage_during(events, rates, np.ones(len(life), dtype=bool))
    others = np.maximum(everyone - rates * columns.span[:, None], 0.0) / life[:, None]
    every_row = np.broadcast_to(levels, (len(life), len(levels)))
    return Load(data, wait_ms, others[:, 0], every_row, others[:, 1:], columns.host, columns.stage)
