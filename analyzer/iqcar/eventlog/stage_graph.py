"""The stage DAG over the stages that ran.

Spark names parents by stage id, but a parent may have been skipped because an earlier stage
wrote its shuffle already. With adaptive execution that is the rule: every exchange is a job of
its own, and later jobs list it again, skipped, under a new id. A skipped stage has the same last
RDD as the stage that did its work, and that is how it is found.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    keys : sequence of (stage id, attempt), in the order of the rows
    submission : (stages,) array
        Submission in ms; NaN if unknown.
    parents : sequence of tuples of stage ids
        Each stage's parents as Spark names them.
    last_rdd : mapping of stage id to RDD id
        The last RDD of each stage, also of skipped ones.

    Returns
    -------
    two lists of rows
        The stages that read, and beside them the stages they read from.
    """
    of_id: dict[int, list[int]] = defaultdict(list)
    of_rdd: dict[int, list[int]] = defaultdict(list)
    for row, (stage_id, _) in enumerate(keys):
        of_id[stage_id].append(row)
        if stage_id in last_rdd:
            of_rdd[last_rdd[stage_id]].append(row)
    readers, writers = [], []
    for row, named in enumerate(parents):
        found = set()
        for parent in named:
            candidates = of_id.get(parent)
            if not candidates and parent in last_rdd:
                candidates = of_rdd.get(last_rdd[parent])
            if candidates:
                chosen = _before(row, candidates, keys, submission)
                if chosen is not None:
                    found.add(chosen)
        for chosen in sorted(found):
            readers.append(row)
            writers.append(chosen)
    return readers, writers


def _before(
    row: int,
    candidates: Sequence[int],
    keys: Sequence[tuple[int, int]],
    submission: NDArray[np.float64],
) -> int | None:
    """Return the latest candidate that was submitted before a stage; None if none was.

    An edge always leads from a later stage to an earlier one, so there are no cycles.
    """
    best: int | None = None
    for other in candidates:
        if keys[other][0] == keys[row][0]:
            continue
        known = not (np.isnan(submission[other]) or np.isnan(submission[row]))
        earlier = (
            submission[other] <= submission[row] and keys[other][0] < keys[row][0]
            if known
            else keys[other][0] < keys[row][0]
        )
        if earlier and (best is None or submission[other] >= submission[best]):
            best = other
    return best
