"""Tasks summed in bins of time, for timelines of more tasks than a page can hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iqcar.show.pictures.bins import Bins
from iqcar.show.pictures.main_wait import MAIN_WAITS
from iqcar.show.pictures.timeline_columns import WHOLE
from iqcar.tables import Tables
from iqcar.tables.arrays import Ints

if TYPE_CHECKING:
    from iqcar.show.pictures.lane_rows import Lanes

    Codes = NDArray[np.int8]

FINEST_CELLS = 240_000
"""Lanes × bins at the finest width: 5 bytes each make 1.6 MB of text."""
MOST_BINS = 6_000
"""Bins at the finest width: five screens wide."""
COARSER = 4
"""Bins of one width that make one of the next."""
WIDTHS = 3


class BinLevel(NamedTuple):
    """Bins of one width.

    Attributes
    ----------
    width_ms, bins : width and number of the bins
    columns : name, kind and values (lanes × bins): ``query`` and ``wait`` that most of the time
        went to, the ``busy`` share of the lane's slots, and the ``share`` of that query in it
    """

    width_ms: float
    bins: int
    columns: list[tuple[str, str, Ints]]


def task_bins(
    tables: Tables,
    lanes: Lanes,
    query: Ints,
    queries: int,
    code: Codes,
    start_ms: float,
    end_ms: float,
) -> Iterator[BinLevel]:
    """Sum tasks by lane and time at a few widths, the finest first.

    Parameters
    ----------
    query : (tasks,) number of each task's query, less than ``queries``
    code : (tasks,) from :func:`iqcar.show.pictures.main_wait.main_waits`
    """
    finest = int(np.clip(FINEST_CELLS // max(len(lanes.names), 1), COARSER**WIDTHS, MOST_BINS))
    for level in range(WIDTHS):
        bins = Bins.over(start_ms, end_ms, finest // COARSER**level)
        yield _level(tables, lanes, query, queries=queries, code=code, bins=bins)


def _level(
    tables: Tables, lanes: Lanes, query: Ints, queries: int, code: Codes, bins: Bins
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
