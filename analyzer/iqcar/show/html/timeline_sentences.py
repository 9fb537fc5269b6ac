"""What the timeline shows in a sentence: how many queries ran at once, and when most did."""

from __future__ import annotations

import numpy as np

from iqcar.base.formatting import duration
from iqcar.tables import Tables


def timeline_sentence(tables: Tables) -> str:
    """Say how long the queries ran, how many at once, and what to do about it."""
    queries = tables.queries
    start = queries["start_ms"].to_numpy(np.float64)
    end = queries["end_ms"].to_numpy(np.float64)
    known = np.isfinite(start) & np.isfinite(end) & (end > start)
    if not known.any():
        return "No query ran for a time that is known."
    start, end = start[known], end[known]
    whole = float(end.max() - start.min())
    # A query that starts the moment another ends does not run at once with it.
    times = np.concatenate([end, start])
    steps = np.repeat([-1, 1], len(start))
    order = np.argsort(times, kind="stable")
    running = np.cumsum(steps[order])
    most = int(running.max())
    count = len(start)
    ran = "1 query ran" if count == 1 else f"{count:,} queries ran"
    if most <= 1:
        text = f"{ran} within {duration(whole)}, never two at once: none could be in another's way."
        return text + " Choose one to see when its tasks waited."
    peak = float(times[order][int(running.argmax())] - start.min())
    return (
        f"{ran} within {duration(whole)}, at most {most:,} at once ({duration(peak)} after the "
        "first started). Choose one to see when its tasks waited; what need not run at the busiest "
        "time can run at another."
    )
