"""The stage DAG over the stages that ran.

Spark names parents by stage id, but a parent may have been skipped because an earlier stage
wrote its shuffle already. With adaptive execution that is the rule: every exchange is a job of
its own, and later jobs list it again, skipped, under a new id. A skipped stage has the same last
RDD as the stage that did its work, and that is how it is found.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import inf, isnan
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def link_stages(
    keys: Sequence[tuple[int, int]],
    submission: NDArray[np.float64],
    parents: Sequence[tuple[int, ...]],
    last_rdd: Mapping[int, int],
) -> tuple[list[int], list[int]]:
    """Find the edges of the DAG.

    Parameters
    ----------
    submission : (stages,) array; submission in ms; NaN if unknown.
    parents : each stage's parents as Spark names them.
    last_rdd : the last RDD of each stage, also of skipped ones.

    Returns the stages that read, and beside them the stages they read from.
    """
    submitted = [float(when) for when in submission]
    of_id: dict[int, list[int]] = defaultdict(list)
    of_rdd: dict[int, list[int]] = defaultdict(list)
    for row, (stage_id, _) in enumerate(keys):
        of_id[stage_id].append(row)
        if stage_id in last_rdd:
            of_rdd[last_rdd[stage_id]].append(row)
    same_id: dict[int, _Candidates] = {}
    same_rdd: dict[int, _Candidates] = {}
    found: list[list[int]] = [[] for _ in keys]
    for row in sorted(range(len(keys)), key=lambda row: keys[row][0]):
        chosen = set()
        for parent in parents[row]:
            if parent in of_id:
                rows, known, at = of_id[parent], same_id, parent
            elif (rdd := last_rdd.get(parent)) in of_rdd:
                rows, known, at = of_rdd[rdd], same_rdd, rdd
            else:
                continue
            if len(rows) == 1:
                (only,) = rows
                if keys[only][0] < keys[row][0] and not submitted[only] > submitted[row]:
                    chosen.add(only)
                continue
            if at not in known:
                known[at] = _Candidates(rows, keys, submitted)
            before = known[at].latest_before(keys[row][0], submitted[row])
            if before is not None:
                chosen.add(before)
        found[row] = sorted(chosen)
    readers = [row for row, chosen in enumerate(found) for _ in chosen]
    return readers, [writer for chosen in found for writer in chosen]


class _Candidates:
    """Stages that may have done the work of one parent, asked for in the order of stage ids.

    A shuffle can be read by thousands of stages and have been written by thousands: who looks at
    all candidates for each reader takes their product.
    """

    def __init__(
        self, rows: list[int], keys: Sequence[tuple[int, int]], submission: list[float]
    ) -> None:
        self._waiting = sorted(((keys[row][0], row) for row in rows), reverse=True)
        self._submission = submission
        self._earlier: list[tuple[float, int]] = []

    def latest_before(self, stage_id: int, submission: float) -> int | None:
        """Return the latest candidate that was submitted before a stage; None if none was.

        An edge always leads from a later stage to an earlier one, so there are no cycles. Of a
        candidate whose submission is not known any other is the later one.
        """
        while self._waiting and self._waiting[-1][0] < stage_id:
            _, row = self._waiting.pop()
            when = self._submission[row]
            insort(self._earlier, (-inf, -row) if isnan(when) else (when, row))
        limit = inf if isnan(submission) else submission
        at = bisect_right(self._earlier, (limit, len(self._submission)))
        return abs(self._earlier[at - 1][1]) if at else None
