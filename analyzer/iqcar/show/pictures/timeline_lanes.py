"""Swim lanes of tasks: the lane of each, its row there, and sums where there are too many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
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
from iqcar.show.pictures.bins import WHOLE, Bins
from iqcar.show.pictures.theme import COMPUTING, MISSING, RESOURCE_COLOURS
from iqcar.tables import NONE, Tables, texts
from iqcar.tables.arrays import Floats, Ints, most_at_once

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


FINEST_CELLS = 240_000
"""Lanes × bins at the finest width: 5 bytes each make 1.6 MB of text."""
MOST_BINS = 6_000
"""Bins at the finest width: five screens wide."""
COARSER = 4
"""Bins of one width that make one of the next."""
WIDTHS = 3
OVERLAP_MS = 50.0
"""A task may seem to begin so long before the end of the one whose slot it takes: the driver hears
of ends late. With less, lanes of other people's logs have more rows than slots."""


class Lanes(NamedTuple):
    """Lanes, those of one host together.

    of_task: (tasks,) lane of each task; −1 for a task without times
    names: what each lane is called (a host's lane by the host alone)
    hosts: (lanes,) host rows; −1 if unknown, and for the lane of all the rest
    executors: (lanes,) executor rows; −1 where a lane is a host
    apps: (lanes,) application rows; −1 where a lane is a host
    slots: (lanes,) most tasks at once, or the executor's cores if more
    folded: executors or hosts that the last lane stands for; 0 if each has its own
    """

    of_task: Ints
    names: list[str]
    hosts: Ints
    executors: Ints
    apps: Ints
    slots: Floats
    folded: int


def lanes_of(tables: Tables, *, most: int, by_host: bool = False) -> Lanes:
    """Give every executor a lane, or every host where there are more executors than ``most``.

    Where there are more hosts than that, too, those that ran least share the last lane.
    """
    tasks = tables.tasks
    launch = tasks["launch_ms"].to_numpy(np.float64)
    finish = tasks["finish_ms"].to_numpy(np.float64)
    timed = np.isfinite(launch) & np.isfinite(finish)
    host = tasks["host"].to_numpy(np.int64)
    executor = tasks["executor"].to_numpy(np.int64)
    # Tasks of unknown executors share a lane per host.
    key = np.where(executor >= 0, executor, -2 - host)
    if by_host or len(np.unique(key[timed])) > most:
        key = -2 - host
    keys, of = np.unique(key[timed], return_inverse=True)
    busy = np.bincount(of, np.maximum(finish - launch, 0)[timed], minlength=len(keys))
    folded = 0
    place = np.arange(len(keys))
    if len(keys) > most:
        largest = np.sort(np.argsort(-busy, kind="stable")[: most - 1])
        folded = len(keys) - len(largest)
        place = np.full(len(keys), len(largest))
        place[largest] = np.arange(len(largest))
        keys = keys[largest]
    of = place[of]
    executors = np.where(keys >= 0, keys, NONE)
    of_host = np.array([_host(tables, k) for k in keys.tolist()], np.int64)
    apps = _look_up(tables.executors["app"].to_numpy(np.float64), executors, NONE).astype(np.int64)
    names = [_name(tables, int(k)) for k in keys]
    if folded:
        executors, of_host, apps = (np.append(x, NONE) for x in (executors, of_host, apps))
        names.append(f"{folded} more hosts")
    hosts_first = [tables.hosts["host"].iloc[h] if h >= 0 else "\uffff" for h in of_host]
    order = sorted(range(len(names)), key=lambda i: (hosts_first[i], int(executors[i]), i))
    rank = np.zeros(len(names), np.int64)
    rank[order] = np.arange(len(names))
    of_task = np.full(len(tasks), NONE, np.int64)
    of_task[timed] = rank[of] if len(of) else of
    slots = np.zeros(len(names))
    if len(of):
        rows = np.flatnonzero(timed & (finish > launch))
        left = slot_left(launch[rows], finish[rows])
        slots = most_at_once(of_task[rows], launch[rows], left, np.ones(len(rows)), len(names))
    cores = _look_up(tables.executors["cores"].to_numpy(np.float64), executors[order], np.nan)
    return Lanes(
        of_task=of_task, names=[names[i] for i in order], hosts=of_host[order],
        executors=executors[order], apps=apps[order],
        slots=np.maximum(np.maximum(slots, 1.0), np.nan_to_num(cores)), folded=folded,
    )  # fmt: skip


def slot_left(launch: Floats, finish: Floats) -> Floats:
    """When the slot of each task is free for the next one at the earliest."""
    left: Floats = finish - np.minimum(OVERLAP_MS, (finish - launch) / 2)
    return left


def rows_within(of_task: Ints, launch: Floats, finish: Floats) -> Ints:
    """Row of each task within its lane: the lowest that is free when it is launched.

    Tasks that overlap by more than :data:`OVERLAP_MS` get different rows; a loop over tasks, so for
    some 100 000 at most.
    """
    rows = np.zeros(len(of_task), np.int64)
    left = slot_left(launch, finish)
    running: dict[int, list[tuple[float, int]]] = {}
    free: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    for task in np.lexsort((finish, launch, of_task)).tolist():
        lane = int(of_task[task])
        if lane < 0:
            continue
        busy, open_ = running.setdefault(lane, []), free.setdefault(lane, [])
        while busy and busy[0][0] <= launch[task]:
            heappush(open_, heappop(busy)[1])
        if open_:
            row = heappop(open_)
        else:
            row = used.get(lane, 0)
            used[lane] = row + 1
        rows[task] = row
        heappush(busy, (float(left[task]), row))
    return rows


def _host(tables: Tables, key: int) -> int:
    if key < 0:
        return -2 - key
    return int(tables.executors["host"].iloc[key])


def _name(tables: Tables, key: int) -> str:
    if key < 0:
        host = -2 - key
        return texts(tables.hosts, "host")[host] if host >= 0 else "unknown host"
    return f"executor {tables.executors['executor_id'].iloc[key]}"


def _look_up(values: Floats, rows: Ints, none: float) -> Floats:
    if len(values) == 0:
        return np.full(len(rows), none)
    return np.where(rows >= 0, values[np.maximum(rows, 0)], none)


class BinLevel(NamedTuple):
    """Bins of one width.

    width_ms, bins: width and number of the bins
    columns: name, kind and values (lanes × bins): ``query`` and ``wait`` that most of the time went
    to, the ``busy`` share of the lane's slots, and the ``share`` of that query in it
    """

    width_ms: float
    bins: int
    columns: list[tuple[str, str, Ints]]


def task_bins(
    tables: Tables,
    lanes: Lanes,
    query: Ints,
    queries: int,
    code: NDArray[np.int8],
    start_ms: float,
    end_ms: float,
) -> Iterator[BinLevel]:
    """Sum tasks by lane and time at a few widths, the finest first.

    query: (tasks,) number of each task's query, less than ``queries``
    code: (tasks,) from :func:`iqcar.show.pictures.timeline_lanes.main_waits`
    """
    finest = int(np.clip(FINEST_CELLS // max(len(lanes.names), 1), COARSER**WIDTHS, MOST_BINS))
    for level in range(WIDTHS):
        bins = Bins.over(start_ms, end_ms, finest // COARSER**level)
        yield _level(tables, lanes, query, queries, code, bins=bins)


def _level(
    tables: Tables, lanes: Lanes, query: Ints, queries: int, code: NDArray[np.int8], bins: Bins
) -> BinLevel:
    launch = tables.tasks["launch_ms"].to_numpy(np.float64)
    finish = tables.tasks["finish_ms"].to_numpy(np.float64)
    size = len(lanes.names)
    shape = (size, bins.count)
    who = np.full(shape, queries - 1, np.int64)
    wait = np.zeros(shape, np.int64)
    largest, busy = np.zeros(shape), np.zeros(shape)
    by_lane = np.argsort(lanes.of_task, kind="stable")
    begin = np.searchsorted(lanes.of_task[by_lane], np.arange(size + 1))
    # Lane by lane, so that (queries of a lane × bins) is all that is held at once.
    for lane in range(size):
        mine = by_lane[begin[lane] : begin[lane + 1]]
        if len(mine) == 0:
            continue
        present, of = np.unique(query[mine], return_inverse=True)
        times = (launch[mine], finish[mine], np.ones(len(mine)))
        amount = bins.amounts(of, len(present), *times)
        who[lane] = present[amount.argmax(axis=0)]
        busy[lane], largest[lane] = amount.sum(axis=0), amount.max(axis=0)
        waits = bins.amounts(code[mine].astype(np.int64), len(MAIN_WAITS), *times)
        wait[lane] = waits.argmax(axis=0)
    used = np.clip(busy / (lanes.slots[:, None] * bins.width_ms), 0.0, 1.0)
    share = np.divide(largest, busy, out=np.zeros(shape), where=busy > 0)
    in_use = np.where(busy > 0, np.maximum(np.rint(used * WHOLE), 1), 0)
    return BinLevel(
        bins.width_ms,
        bins.count,
        [
            ("query", "u2", who),
            ("wait", "u1", wait),
            ("busy", "u1", in_use.astype(np.int64)),
            ("share", "u1", np.rint(share * WHOLE).astype(np.int64)),
        ],
    )
