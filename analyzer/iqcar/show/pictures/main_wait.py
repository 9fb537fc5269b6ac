"""What tasks waited for: the most of each, its colour in lanes, and of a query over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from iqcar.base.units import RESOURCE_NAMES
from iqcar.enums import Request, Resource
from iqcar.model.waits.columns import (
    IN_TASK_REQUESTS,
    evidence_column,
    launch_wait,
    requests_of,
    wait_column,
)
from iqcar.model.waits.columns import MISSING as NOT_RECORDED
from iqcar.show.pictures.bins import Bins
from iqcar.show.pictures.palette import COMPUTING, MISSING, RESOURCE_COLOURS
from iqcar.tables import Tables
from iqcar.tables.arrays import Floats

Codes = NDArray[np.int8]

RESOURCES: tuple[Resource, ...] = tuple(Resource)
LEAST_WAITED = 0.1
"""Share of a task's life, the wait for its launch included, that it must have waited for a resource
to be coloured by it: below a tenth, nobody would call it a waiting task."""


class MainWait(NamedTuple):
    """One answer to what a task waited for most."""

    name: str
    colour: str


MAIN_WAITS: tuple[MainWait, ...] = (
    *(MainWait(RESOURCE_NAMES[r], RESOURCE_COLOURS[r]) for r in RESOURCES),
    MainWait("hardly waited", COMPUTING),
    MainWait("waits not recorded", MISSING),
)
"""All answers; the code in numpy columns is the position here."""
HARDLY, UNKNOWN = len(RESOURCES), len(RESOURCES) + 1


def resource_waits(task_waits: pd.DataFrame) -> Floats:
    """Sum each task's waits by resource: (tasks, resources) ms, NaN where none is known."""
    size = len(task_waits)
    sums = np.full((size, len(RESOURCES)), np.nan)
    for column, resource in enumerate(RESOURCES):
        for request in requests_of(resource):
            wait = task_waits[wait_column(request)].to_numpy(np.float64)
            known = np.isfinite(wait)
            sums[known, column] = np.nan_to_num(sums[known, column]) + wait[known]
    return sums


def main_waits(task_waits: pd.DataFrame, sums: Floats | None = None) -> Codes:
    """Say what each task waited for most.

    task_waits: DataFrame of :data:`iqcar.model.waits.columns.WAITS`
    sums: (tasks, resources), :func:`resource_waits`, where it is at hand.
    Returns positions in :data:`MAIN_WAITS`.
    """
    if len(task_waits) == 0:
        return np.zeros(0, np.int8)
    sums = resource_waits(task_waits) if sums is None else sums
    waited = np.nan_to_num(sums)
    most = waited.argmax(axis=1)
    life = np.nan_to_num(launch_wait(task_waits)) + task_waits["duration_ms"].to_numpy(np.float64)
    longest = waited.max(axis=1)
    inside = [task_waits[evidence_column(r)].to_numpy() == NOT_RECORDED for r in IN_TASK_REQUESTS]
    blind = np.logical_and.reduce(inside)
    codes = np.where((longest > 0) & (longest >= LEAST_WAITED * life), most, HARDLY)
    return np.where((codes == HARDLY) & blind, UNKNOWN, codes).astype(np.int8)


class Waiting(NamedTuple):
    """Waits of one query over time.

    query: row
    start_ms, width_ms: of the bins
    waiting: (resources, bins) mean number of tasks that waited
    most: largest of these numbers
    missing: names of resources whose waits are known for none of its tasks
    """

    query: int
    start_ms: float
    width_ms: float
    waiting: Floats
    most: float
    missing: list[str]


def query_waiting(
    tables: Tables, task_waits: pd.DataFrame, queries: Sequence[int], bins: int
) -> Iterator[Waiting]:
    """Spread the waits of some queries over bins, from their first wait to their end.

    A wait for a slot lies right before the task's launch, and one for executors before that. When a
    task waited for anything else no log says, so those waits are spread evenly over its life.
    """
    tasks = tables.tasks
    query = tasks["query"].to_numpy(np.int64)
    order = np.argsort(query, kind="stable")
    begin = np.searchsorted(query[order], np.arange(len(tables.queries) + 1))
    launch = tasks["launch_ms"].to_numpy(np.float64)
    finish = tasks["finish_ms"].to_numpy(np.float64)
    slot_wait = task_waits[wait_column(Request.SLOT_WAIT)].to_numpy(np.float64)
    starts = tables.queries["start_ms"].to_numpy(np.float64)
    ends = tables.queries["end_ms"].to_numpy(np.float64)
    for row in queries:
        mine = order[begin[row] : begin[row + 1]]
        if len(mine) == 0 or not np.isfinite(starts[row] + ends[row]):
            continue
        over = Bins.over(float(starts[row]), float(ends[row]), bins)
        waiting = np.zeros((len(RESOURCES), bins))
        missing = []
        for at, resource in enumerate(RESOURCES):
            waits = [task_waits[wait_column(r)].to_numpy()[mine] for r in requests_of(resource)]
            if not any(np.isfinite(wait).any() for wait in waits):
                missing.append(RESOURCE_NAMES[resource])
            for wait in waits:
                at_end = slot_wait[mine] if resource is Resource.EXECUTORS else 0.0
                waiting[at] += _spread(resource, wait, launch[mine] - at_end, finish[mine], over)
        waiting /= over.width_ms
        most = float(waiting.max())
        yield Waiting(row, over.start_ms, over.width_ms, waiting, most=most, missing=missing)


def _spread(resource: Resource, wait: Floats, launch: Floats, finish: Floats, bins: Bins) -> Floats:
    one = np.zeros(len(wait), np.int64)
    if resource in (Resource.SLOTS, Resource.EXECUTORS):
        waiting: Floats = bins.amounts(one, 1, launch - wait, launch, np.ones(len(wait)))[0]
        return waiting
    life = finish - launch
    rate = np.divide(np.nan_to_num(wait), life, out=np.zeros(len(wait)), where=life > 0)
    waiting = bins.amounts(one, 1, launch, finish, rate)[0]
    return waiting
