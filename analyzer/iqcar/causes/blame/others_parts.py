"""Divides what replays say that others cost every query among its tasks and requests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from iqcar.causes.blame.demand_weights import stage_losses
from iqcar.causes.blame.ratp import ROUNDING, Loss, measure_loss, most_explicable
from iqcar.causes.blame.task_intervals import BlameColumns
from iqcar.enums import Request
from iqcar.model.demand.contention import NEGLIGIBLE
from iqcar.model.demand.estimate import Demand
from iqcar.model.demand.others_cost import OthersCost
from iqcar.tables.arrays import Floats, share_of, sum_by

FACTORS = 8
"""Times that the factors of queries are refined: parts are at most 1."""


def room_of(loss: Loss) -> Floats:
    """Return the slowdown of each task that has no known cause."""
    room = loss.slowdown - loss.known
    return np.where(room > ROUNDING * loss.slowdown, room, 0.0)


def as_replayed(demand: Demand, cost: OthersCost) -> Demand:
    """Take from replays what tasks lost in devices, where these tell, and who used no disk."""
    contention = {}
    for request, found in demand.contention.items():
        lost = cost.to_tasks[request]
        lost = np.where(np.isnan(lost), found.to_tasks, lost)
        contention[request] = found._replace(to_tasks=lost)
    devices, rates, read = dict(demand.devices), dict(demand.rates), Request.IO_READ
    if len(cost.from_disk) and read in rates:
        device, of = devices[read], rates[read]
        shared = np.isin(of.stage, cost.from_disk).astype(np.float64)
        rates[read] = of._replace(shared=shared)
        devices[read] = device._replace(contended=max(device.contended, NEGLIGIBLE))
    return replace(demand, contention=contention, devices=devices, rates=rates)


def parts_of_others(
    columns: BlameColumns, waits: pd.DataFrame, demand: Demand, cost: OthersCost
) -> dict[Request, Floats]:
    """Return the part of each task's loss that others cost, so that queries lost what they did.

    A replay tells how much longer each query took, and each of its tasks; a query's loss is summed
    from its tasks by the time that their stages take. One factor a query makes the sums agree.
    """
    tables, stage = columns.tables, columns.stage
    losses = stage_losses(tables, waits, np.zeros(len(tables.stages)))
    weight = share_of(losses["elapsed_ms"].to_numpy(), losses["life_ms"].to_numpy())
    query = np.where(stage >= 0, tables.stages["query"].to_numpy(np.int64)[stage], -1)
    n, parts, lost = len(tables.queries), {}, {}
    for request, part in cost.to_others.items():
        loss = measure_loss(columns, request, demand.contention)
        explicable = np.minimum(
            room_of(loss), most_explicable(columns, loss, demand.contention.get(request))
        )
        of_tasks = loss.lost * share_of(explicable, loss.slowdown) * weight[stage]
        known = (query >= 0) & (part > 0) & (of_tasks > 0)
        parts[request] = np.where(np.isnan(part), np.nan, np.where(known, part, 0.0))
        lost[request] = of_tasks
    factor = np.ones(n)
    for _ in range(FACTORS):
        said = np.zeros(n)
        for request, part in parts.items():
            mine = np.flatnonzero(part > 0)
            of_task = lost[request][mine] * np.minimum(part[mine] * factor[query[mine]], 1.0)
            said += sum_by(query[mine], of_task, n)
        wanted = np.where(np.isfinite(cost.lost_ms), cost.lost_ms, said)
        factor = np.where(said > 0, factor * share_of(wanted, said), factor)
    known = query >= 0
    return {
        request: np.where(known, np.minimum(part * factor[np.maximum(query, 0)], 1.0), part)
        for request, part in parts.items()
    }
