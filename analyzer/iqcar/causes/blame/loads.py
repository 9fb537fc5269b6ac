"""Computes the load of each device during each task, by a sweep over all tasks of its host."""

from __future__ import annotations

import numpy as np

from iqcar.causes.blame.ratp import BYTES_REQUESTS, ONE_DEVICE, data_processed
from iqcar.causes.blame.task_intervals import SHORTEST_MS, BlameColumns, DomainSchedules, Pieces
from iqcar.causes.blame.usage_sweep import mean_of_others
from iqcar.enums import Request
from iqcar.model.demand.load import Load
from iqcar.model.waits.columns import ESTIMATED, evidence_column
from iqcar.tables.arrays import Flags, Floats, positive_or_zero, share_of

OCTAVES = 1
"""Octaves between the speeds at which the use by others is computed; two rank sources worse. They
are powers of two, so that logs that are read apart agree."""
SPEEDS = (2.0**4, 2.0**24)
"""Speeds in bytes per ms within which they lie: 16 KB/s to 16 GB/s."""
CORES = (2.0**-10, 1.0)
"""The same for the processor, in cores."""


def find_loads(pieces: Pieces, schedules: DomainSchedules) -> dict[Request, Load]:
    """Compute the load of the devices in which waiting is not the same as contention.

    These are disks and network, and the processor where the wait for it is estimated. One row per
    task.

    pieces: tasks, in pieces where profiles tell when they used a device.
    schedules: starts and ends of these pieces.
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
            by_device[device] = _load(pieces, schedules, moved, waited)
        found[request] = by_device[device]._replace(
            data=positive_or_zero(data_processed(columns, request)),
            wait_ms=positive_or_zero(columns.wait(request)),
        )
    estimated = is_estimated(columns)
    if estimated.any():
        cpu, wait_ms = (
            positive_or_zero(values)
            for values in (pieces.compute(), pieces.wait(Request.RUN_QUEUE))
        )
        load = _load(pieces, schedules, cpu, cpu + wait_ms, CORES)
        found[Request.RUN_QUEUE] = load._replace(data=np.where(estimated, load.data, 0.0))
    return found


def is_estimated(columns: BlameColumns) -> Flags:
    """Mark tasks whose wait for the processor is what nothing else explains."""
    flags: Flags = columns.waits[evidence_column(Request.RUN_QUEUE)].to_numpy() == ESTIMATED
    return flags


def _levels(speeds: Floats, band: tuple[float, float]) -> Floats:
    """Return the powers of two around all speeds, as far as they lie within the band."""
    low, high = np.log2(np.clip([speeds.min(initial=np.inf), speeds.max(initial=0.0)], *band))
    if low > high:
        return np.ones(1)
    powers = np.arange(np.floor(low / OCTAVES), np.ceil(high / OCTAVES) + 1) * OCTAVES
    levels: Floats = np.exp2(powers)
    return levels


def _load(
    pieces: Pieces,
    schedules: DomainSchedules,
    data: Floats,
    wait_ms: Floats,
    band: tuple[float, float] = SPEEDS,
) -> Load:
    """Compute the load of one device; each piece of a task counts by the time in the device."""
    columns, life = pieces.columns, np.maximum(pieces.span, SHORTEST_MS)
    busy = np.minimum(wait_ms / life, 1.0)
    speed = share_of(data, wait_ms)
    levels = _levels(speed[speed > 0], band)
    events = schedules.of(Request.IO_READ)
    others, siblings, taken = mean_of_others(
        events, speed, busy, span=pieces.span, life=life, levels=levels,
        owner=pieces.of_task(columns.owner()),
    )  # fmt: skip
    total_wait = pieces.total(wait_ms)
    of_life = np.minimum(share_of(total_wait, np.maximum(columns.span, SHORTEST_MS)), 1.0)
    if not pieces.undivided:
        weight = share_of(wait_ms, total_wait[pieces.task])
        others, siblings = (pieces.total(weight * tasks) for tasks in (others, siblings))
        taken = np.column_stack([pieces.total(weight * column) for column in taken.T])
    return Load(
        data=pieces.total(data), wait_ms=total_wait, others=others, own=siblings, busy=of_life,
        levels=levels, taken=taken, host=columns.host, stage=columns.stage, launch=columns.launch,
    )  # fmt: skip
