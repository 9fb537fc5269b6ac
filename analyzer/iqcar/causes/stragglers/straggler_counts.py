"""Counts stragglers by cause, stage, query, host and application."""

from __future__ import annotations

import numpy as np
import pandas as pd

from iqcar.causes.stragglers.straggler_result import Stragglers

UNEXPLAINED = ""
"""In place of a cause's key, for stragglers that nothing explains."""


def by_cause(found: Stragglers, app: int | None = None) -> pd.DataFrame:
    """Count the stragglers of each cause, and those that nothing explains.

    cause, stragglers, delay_ms, worst (row of the most delayed straggler of the cause); the largest
    delay first, what is unexplained last. A straggler with two causes counts in both.
    """
    stragglers, causes = _of(found, app)
    delay = stragglers["delay_ms"]
    per = pd.DataFrame(
        {
            "cause": causes["cause"],
            "worst": causes["straggler"],
            "delay_ms": delay.reindex(causes["straggler"]).to_numpy(np.float64),
        }
    )
    frame = per.groupby("cause").agg(
        stragglers=("worst", "size"), delay_ms=("delay_ms", "sum"), worst=("worst", "min")
    )
    frame = frame.reset_index().sort_values(["delay_ms", "cause"], ascending=[False, True])
    alone = stragglers[stragglers["causes"] == 0]
    if len(alone):
        rest = {
            "cause": [UNEXPLAINED], "stragglers": [len(alone)],
            "delay_ms": [float(alone["delay_ms"].sum())], "worst": [int(alone.index.min())],
        }  # fmt: skip
        rest_frame = pd.DataFrame(rest)
        frame = pd.concat([frame, rest_frame], ignore_index=True) if len(frame) else rest_frame
    whole: pd.DataFrame = frame.reset_index(drop=True)
    return whole


def by_group(found: Stragglers, name: str, app: int | None = None) -> pd.DataFrame:
    """Count stragglers by stage, query, host or app.

    The group's row, tasks, stragglers, delay_ms, causes (dict of cause to stragglers, the most
    frequent first); only groups with stragglers, the largest delay first.
    """
    stragglers, causes = _of(found, app)
    counted = found.compared_hosts if name == "host" else found.compared_stages
    if app is not None:
        counted = counted[counted["app"] == app]
    tasks = counted.groupby(name)["tasks"].sum()
    groups = stragglers.groupby(name)["delay_ms"].agg(stragglers="size", delay_ms="sum")
    groups = groups.reset_index().sort_values(["delay_ms", name], ascending=[False, True])
    groups.insert(1, "tasks", tasks.reindex(groups[name]).to_numpy(np.int64))
    where = stragglers[name].reindex(causes["straggler"]).to_numpy()
    pairs = pd.DataFrame({name: where, "cause": causes["cause"].to_numpy()})
    counts = pairs.groupby([name, "cause"]).size().reset_index(name="n")
    counts = counts.sort_values(["n", "cause"], ascending=[False, True])
    split: dict[int, dict[str, int]] = {int(row): {} for row in groups[name]}
    for row, cause, n in counts.itertuples(index=False):
        split[int(row)][str(cause)] = int(n)
    groups["causes"] = [split[int(row)] for row in groups[name]]
    whole: pd.DataFrame = groups.reset_index(drop=True)
    return whole


def _of(found: Stragglers, app: int | None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Stragglers and causes of one application, or of all; rows keep their numbers."""
    if app is None:
        return found.stragglers, found.causes
    of_app = found.stragglers[found.stragglers["app"] == app]
    return of_app, found.causes[found.causes["straggler"].isin(of_app.index)]
