"""How many tasks of a query waited at each moment of its run, and for what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from iqcar.base.units import RESOURCE_NAMES
from iqcar.enums import Request, Resource
from iqcar.model.waits.columns import requests_of, wait_column
from iqcar.show.pictures.bins import Bins
from iqcar.show.pictures.main_wait import RESOURCES
from iqcar.tables import Tables
from iqcar.tables.arrays import Floats


class Waiting(NamedTuple):
    """Waits of one query over time.

    Attributes
    ----------
    query : row
    start_ms, width_ms : of the bins
    waiting : (resources, bins) mean number of tasks that waited
    most : largest of these numbers
    missing : names of resources whose waits are known for none of its tasks
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
        yield Waiting(row, over.start_ms, over.width_ms, waiting, float(waiting.max()), missing)


def _spread(resource: Resource, wait: Floats, launch: Floats, finish: Floats, bins: Bins) -> Floats:
    one = np.zeros(len(wait), np.int64)
    if resource in (Resource.SLOTS, Resource.EXECUTORS):
        waiting: Floats = bins.amounts(one, 1, launch - wait, launch, np.ones(len(wait)))[0]
        return waiting
    life = finish - launch
    rate = np.divide(np.nan_to_num(wait), life, out=np.zeros(len(wait)), where=life > 0)
    waiting = bins.amounts(one, 1, launch, finish, rate)[0]
    return waiting
