"""Makes the table of what executors held in storage memory."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from iqcar import tables as tb
from iqcar.logs.collect import Collector

TOO_MANY = "so many cached blocks that those who held storage memory are not told"


def cached_table(
    log: Collector,
    executors: Mapping[str, int],
    stages: Mapping[tuple[int, int], int],
    end_ms: float,
) -> pd.DataFrame:
    """Build the table of one log; what was held is of the RDD's first stage.

    Parameters
    ----------
    log : a log read to its end.
    executors, stages : row numbers; what another executor held is left out: no task waited there.
    end_ms : when the application ended; NaN if that is not known.
    """
    names: dict[str, int] = {"": 0}
    parts: list[tuple[int, int, int, int]] = []
    spans: list[tuple[np.ndarray[tuple[int], np.dtype[np.float64]], ...]] = []
    for held in log.task_intake.cached.held():
        row = executors.get(held.executor)
        if row is None or not len(held.times):
            continue
        name, key = log.cached_rdds.get(held.rdd, ("", (tb.NONE, tb.NONE)))
        last = np.fmin(np.fmax(end_ms, held.times[-1]), log.executors[held.executor].removed)
        until = np.minimum(np.append(held.times[1:], last), last)
        kept = (held.sizes > 0) & (until > held.times)
        parts += [(row, stages.get(key, tb.NONE), held.rdd, names.setdefault(name, len(names)))]
        spans.append((held.times[kept], until[kept], held.sizes[kept]))
    if not parts:
        return tb.CACHED.empty()
    often = [len(since) for since, _, _ in spans]
    executor, stage, rdd, name_codes = np.repeat(np.array(parts, np.int64), often, axis=0).T
    since, until, size = (np.concatenate(column) for column in zip(*spans, strict=True))
    return tb.CACHED.frame(
        {
            "app": np.zeros(len(since)),
            "executor": executor,
            "stage": stage,
            "rdd": rdd,
            "name": pd.Categorical.from_codes(name_codes, list(names)),
            "since_ms": since,
            "until_ms": until,
            "bytes": size,
        }
    )
