"""The resource that each task waited for most, as a code: its colour in swim lanes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from iqcar.base.units import RESOURCE_NAMES
from iqcar.enums import Resource
from iqcar.model.waits.columns import (
    IN_TASK_REQUESTS,
    evidence_column,
    launch_wait,
    requests_of,
    wait_column,
)
from iqcar.model.waits.columns import MISSING as NOT_RECORDED
from iqcar.show.pictures.palette import COMPUTING, MISSING, RESOURCE_COLOURS
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

    Parameters
    ----------
    task_waits : DataFrame of :data:`iqcar.model.waits.columns.WAITS`
    sums : (tasks, resources), optional
        :func:`resource_waits`, where it is at hand.

    Returns
    -------
    (tasks,) int8
        Positions in :data:`MAIN_WAITS`.
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
