"""The table of task attempts that did not succeed, or whose output was lost after they had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from iqcar import tables as tb
from iqcar.logs.tasks.task_columns import TaskColumns
from iqcar.logs.tasks.task_lines import MOST_REASON_CHARACTERS
from iqcar.logs.text.redact import redact_text

MAX_KIND = 100
"""Characters kept of the kind of a reason; the longest of Spark's has 19."""


def failure_table(
    tasks: TaskColumns,
    task_id: NDArray[np.float64],
    kept: NDArray[np.bool_],
    reason: NDArray[np.int32],
    kinds: Sequence[str],
    executors: Mapping[str, int],
) -> pd.DataFrame:
    """Build the table.

    Parameters
    ----------
    tasks : what was collected of the tasks of one log.
    task_id : ndarray of shape (n_collected,); Spark's id of each collected task end.
    kept : ndarray of shape (n_collected,); whether it is a row of ``tasks``; one that is not
        repeats the end of another row.
    reason : ndarray of shape (n_collected,); position of its reason in ``kinds``.
    executors : row of each executor.
    """
    if not tasks.failures:
        return tb.TASK_FAILURES.empty()
    ends, whys = np.array(tasks.failures, np.int64).reshape(-1, 2).T
    row = np.where(kept[ends], np.cumsum(kept)[ends] - 1, tb.NONE)
    if (again := np.flatnonzero(row < 0)).size:
        first_of = {task_id[at]: at for at in np.flatnonzero(kept)[::-1].tolist()}
        places = [first_of.get(task_id[end], tb.NONE) for end in ends[again].tolist()]
        found = np.array(places, np.int64)
        row[again] = np.where(found >= 0, np.cumsum(kept)[found] - 1, tb.NONE)
    known = np.flatnonzero(row >= 0)
    rows, first = np.unique(row[known], return_index=True)
    chosen = known[first]
    texts = list(tasks.reasons)
    messages = np.array([redact_text(why, MOST_REASON_CHARACTERS) for why, _ in texts], object)
    sources = np.array([executors.get(source, tb.NONE) for _, source in texts], np.int32)
    named = pd.Categorical([redact_text(kind, MAX_KIND) for kind in kinds])
    return tb.TASK_FAILURES.frame(
        {
            "task": rows,
            "reason": named[reason[ends[chosen]]].remove_unused_categories(),
            "message": messages[whys[chosen]],
            "source": sources[whys[chosen]],
        }
    )
