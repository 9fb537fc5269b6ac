"""Computes how much of a resource each task used: the source term u_st of eq. 6."""

from __future__ import annotations

import numpy as np

from iqcar.causes.blame.ratp import ONE_DEVICE, Loss, Users, data_processed, of_domain
from iqcar.causes.blame.task_intervals import SHORTEST_MS, Pieces, TaskColumns
from iqcar.enums import Request
from iqcar.model.demand.contention import NEGLIGIBLE, Contention, StageRates
from iqcar.model.demand.estimate import Demand
from iqcar.model.demand.outside_load import outside_share
from iqcar.model.waits.columns import ESTIMATED, evidence_column
from iqcar.tables.arrays import Floats, Ints, most_at_once, positive_or_zero, share_of


def share_of_executors(pieces: Pieces, request: Request) -> Floats:
    """Return the part of each task's slowdown that is not the doing of programs outside executors.

    Threads that wait for a processor wait for whoever uses one, in proportion to the use: what
    programs outside the executors used of it, by the samples of the host at that moment, stays
    unattributed (eq. 4). Each piece of a task counts by the wait in it. Shape (n_tasks,). From 0 to
    1; 1 for every other request, and where no host was sampled.
    """
    tables = pieces.columns.tables
    if request is not Request.RUN_QUEUE or len(tables.samples) == 0:
        return np.ones(len(pieces.columns.span))
    outside = outside_share(tables, pieces.host, pieces.launch, pieces.finish, pieces.compute())
    weight = pieces.span * pieces.emphasis(request)
    return 1.0 - share_of(pieces.total(weight * outside), pieces.total(weight))


def used_share(columns: Users, request: Request, demand: Demand) -> Floats:
    """Return ``u_st = c_st / C_h`` ≥ 0 of each source, a task or a piece of one.

    Shape (n_tasks,) or (n_pieces,). Cores for the processor, slots for slots, else a share of the
    capacity; 0 where the source used nothing or its use is unknown.

    request: what the target waits for.
    demand: devices, and own rates of stages in them.
    """
    if request is Request.SLOT_WAIT:
        return columns.slots.held
    if request in ONE_DEVICE:
        return _device_share(columns, request, demand)
    life = np.maximum(columns.span, SHORTEST_MS)
    if request in (Request.EXECUTION_MEMORY, Request.STORAGE_MEMORY):
        return _memory_share(columns)
    if request is Request.RUN_QUEUE:
        return np.minimum(positive_or_zero(columns.compute()) / life, 1.0)
    # Holders of locks are not recorded; a task cannot hold a lock while waiting for it.
    return np.clip(1.0 - positive_or_zero(columns.wait(request)) / life, 0.0, 1.0)


def most_explicable(columns: TaskColumns, loss: Loss, found: Contention | None) -> Floats:
    """Return the largest part of each task's slowdown that other tasks can explain.

    An estimated CPU wait is the unexplained rest of a task's time, and may contain much that is no
    CPU wait (calls to the driver, sleep, storage that reports no scan time). Others explain of it
    only what the load of the processor does. A measured wait needs no such bound. Shape (n_tasks,).
    Infinite where nothing bounds it.

    found: what the tasks lost at the request's device, if that is known.
    """
    unbounded = np.full(len(loss.wait), np.inf)
    if loss.request is not Request.RUN_QUEUE:
        return unbounded
    estimated = columns.waits[evidence_column(loss.request)].to_numpy() == ESTIMATED
    if found is None:
        return np.where(estimated, 0.0, unbounded)
    in_device = positive_or_zero(columns.compute()) + loss.wait
    explained = np.minimum(share_of(found.to_tasks * in_device, loss.wait), 1.0)
    return np.where(estimated, loss.slowdown * explained, unbounded)


def _device_share(columns: Users, request: Request, demand: Demand) -> Floats:
    """Return the used part of the capacity of a device; reads and writes share a disk.

    Where nobody is likely to have waited for another, the capacity is unknown: a source then counts
    by its time in the device.
    """
    life, devices = np.maximum(columns.span, SHORTEST_MS), demand.devices
    known = [part for part in ONE_DEVICE[request] if part in devices]
    share = np.zeros(len(life))
    for part in ONE_DEVICE[request]:
        # An unknown speed (output has no write time) is that of the device's other request.
        speeds = np.full(1 + int(columns.host.max(initial=0)), np.nan)
        if known:
            speeds = devices[part if part in known else known[0]].per_host
        ideal = positive_or_zero(data_processed(columns, part)) / of_domain(speeds, columns.host)
        used = np.minimum(positive_or_zero(ideal) / life, 1.0)
        if part in demand.rates and devices[part].contended >= NEGLIGIBLE:
            used *= _shared(demand.rates[part], columns.stage)
        else:
            time = columns.wait(part)
            used = np.where(time > 0, positive_or_zero(time) / life, used)
        share += used
    return np.minimum(share, 1.0)


def _shared(rates: StageRates, stage: Ints) -> Floats:
    """Return the probability that each user shares the device; 1 where its stage is unknown."""
    last = max(int(stage.max(initial=0)), int(rates.stage.max(initial=0)))
    shared = np.ones(last + 2)
    shared[rates.stage] = rates.shared
    return shared[stage]


def _memory_share(columns: Users) -> Floats:
    """Return memory held as a share of the maximum that the executor's tasks held at one time."""
    held = positive_or_zero(columns.held())
    rows = np.flatnonzero((held > 0) & (columns.executor >= 0) & (columns.span > 0))
    executor = columns.executor[rows]
    most = most_at_once(
        executor,
        columns.launch[rows],
        columns.finish[rows],
        held[rows],
        int(executor.max(initial=-1)) + 1,
    )
    share = np.zeros(len(held))
    share[rows] = held[rows] / most[executor]
    return share
