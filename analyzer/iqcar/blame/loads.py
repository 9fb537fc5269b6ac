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
    from iqcar.blame.task_intervals import Pieces
    from iqcar.tables.arrays import Flags, Floats, Schedule

MOST_LEVELS = 16
"""Most speeds at which the use by others is computed: powers of two, else of four, and so on. They
are the same for all logs, so that logs that are read apart agree."""


def find_loads(pieces: Pieces, events: Schedule) -> dict[Request, Load]:
    """Compute the load of the devices in which waiting is not the same as contention.

    These are disks and network, and the processor where the wait for it is estimated.

    Parameters
    ----------
    pieces : Pieces
        Tasks, in pieces where profiles tell when they used a device.
    events : Schedule
        Starts and ends of pieces by host.

    Returns
    -------
    dict of Request to Load
        One row per task.
    """
    columns = pieces.columns
    found: dict[Request, Load] = {}
    by_device: dict[tuple[Request, ...], Load] = {}
    for request in BYTES_REQUESTS:
        device = ONE_DEVICE[request]
        if device not in by_device:
            nothing = np.zeros(len(pieces.span))
            moved = sum((positive_or_zero(data_processed(pieces, r)) for r in device), nothing)
            waited = sum((positive_or_zero(pieces.wait(r)) for r in device), nothing)
            by_device[device] = _load(pieces, events, moved, waited)
        found[request] = by_device[device]._replace(
            data=positive_or_zero(data_processed(columns, request)),
            wait_ms=positive_or_zero(columns.wait(request)),
        )
    estimated = _estimated(columns)
    if estimated.any():
        cpu, wait_ms = (
            positive_or_zero(values)
            for values in (pieces.compute(), pieces.wait(Request.RUN_QUEUE))
        )
        load = _load(pieces, events, cpu, cpu + wait_ms)
        found[Request.RUN_QUEUE] = load._replace(data=np.where(estimated, load.data, 0.0))
    return found


def _estimated(columns: TaskColumns) -> Flags:
    """Mark tasks whose wait for the processor is what nothing else explains."""
    flags: Flags = columns.waits[evidence_column(Request.RUN_QUEUE)].to_numpy() == ESTIMATED
    return flags


def _levels(speeds: Floats) -> Floats:
    """Return powers of two around the speeds; of four, and so on, where there would be too many."""
    if not len(speeds):
        return np.ones(1)
    low, high = np.log2(speeds.min()), np.log2(speeds.max())
    step = 1
    while (high - low) / step > MOST_LEVELS - 2:
        step *= 2
    powers = np.arange(np.floor(low / step), np.ceil(high / step) + 1) * step
    levels: Floats = np.exp2(powers)
    return levels


def _load(pieces: Pieces, events: Schedule, data: Floats, wait_ms: Floats) -> Load:
    """Compute the load of one device; each piece of a task counts by the time in the device."""
    columns, life = pieces.columns, np.maximum(pieces.span, SHORTEST_MS)
    busy = np.minimum(wait_ms / life, 1.0)
    speed = share_of(data, wait_ms)
    moving = speed[speed > 0]
    levels = _levels(moving)
    rates = np.empty((len(life), len(levels) + 1))
    rates[:, 0] = busy
    rates[:, 1:] = busy[:, None] * np.minimum(speed[:, None], levels)
    everyone = usage_during(events, rates, np.ones(len(life), dtype=bool))
    others = np.maximum(everyone - rates * pieces.span[:, None], 0.0) / life[:, None]
    total_wait = pieces.total(wait_ms)
    if not pieces.whole:
        weight = share_of(wait_ms, total_wait[pieces.task])
        others = np.column_stack([pieces.total(weight * column) for column in others.T])
    every_row = np.broadcast_to(levels, (len(others), len(levels)))
    return Load(
        pieces.total(data), total_wait, others[:, 0], every_row, others[:, 1:],
        columns.host, columns.stage, columns.launch,
    )  # fmt: skip
