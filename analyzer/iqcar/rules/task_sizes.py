"""Find stages whose partitions are too small or too large."""

from __future__ import annotations

import numpy as np
import pandas as pd

from iqcar.tables import Tables

MANY_TASKS = 100
"""Tasks of a stage from which on starting them matters: at some 10 ms each it is a second."""
SHORT_MS = 50.0
"""Median run time below which tasks are small: starting one takes 5 to 20 ms on a warm executor."""
START_SHARE = 0.5
"""Part of the tasks' time that goes into starting them and handling their end, from which on their
number, and not their work, is what the stage takes."""

LARGE_BYTES = 256.0 * 2**20
"""Median data read by a task from which on it is large: twice what Spark gives it of a file."""
IDLE_SHARE = 0.5
"""Part of the slots that had nothing to do meanwhile, from which on more tasks would have helped:
with fewer idle slots, a stage twice as wide hardly ends earlier."""

_SMALL = ["stage", "query", "app", "tasks", "run_ms", "start_ms", "held_ms"]
_LARGE = ["stage", "query", "app", "tasks", "slots", "bytes", "busy", "delay_ms"]
"""Columns of what is found."""


def small_tasks(tables: Tables) -> pd.DataFrame:
    """Find stages whose tasks take longer to start than to run.

    Parameters
    ----------
    tables : Tables

    Returns
    -------
    DataFrame
        stage, query, app, tasks, run_ms (median), start_ms (slot time that starting tasks and
        handling their ends took), held_ms (the same as a part of the stage's elapsed time); the
        largest start_ms first.
    """
    tasks = tables.tasks
    lasted = (tasks["finish_ms"] - tasks["launch_ms"]).to_numpy(np.float64)
    run = tasks["run_ms"].to_numpy(np.float64)
    usable = (tasks["status"] == "success").to_numpy(bool) & (lasted > 0) & np.isfinite(run)
    usable &= ((tasks["stage"] >= 0) & (tasks["query"] >= 0)).to_numpy(bool)
    stage = tasks["stage"].to_numpy(np.int64)[usable]
    usable[usable] = (np.bincount(stage) >= MANY_TASKS)[stage]
    if not usable.any():
        return pd.DataFrame(columns=_SMALL)
    names = ["stage", "query", "app", "launch_ms", "finish_ms", "run_ms"]
    frame = tasks.loc[usable, names].assign(
        lasted=lasted[usable], start=np.maximum(lasted - run, 0.0)[usable]
    )
    stages = frame.groupby("stage", sort=True).agg(
        query=("query", "first"),
        app=("app", "first"),
        tasks=("lasted", "size"),
        run_ms=("run_ms", "median"),
        start_ms=("start", "sum"),
        lasted=("lasted", "sum"),
        first=("launch_ms", "min"),
        last=("finish_ms", "max"),
    )
    part = stages["start_ms"] / stages["lasted"]
    stages = stages.assign(held_ms=part * (stages["last"] - stages["first"]))
    small = (stages["run_ms"] < SHORT_MS) & (part >= START_SHARE)
    found: pd.DataFrame = (
        stages[small].reset_index().sort_values(["start_ms", "stage"], ascending=[False, True])
    )
    return found[_SMALL].reset_index(drop=True)


def large_tasks(tables: Tables, slots: dict[int, int]) -> pd.DataFrame:
    """Find stages of tasks with much data that left most slots with nothing to do.

    Parameters
    ----------
    tables : Tables
    slots : tasks that fit at once, by application; of those where that is known

    Returns
    -------
    DataFrame
        stage, query, app, tasks, slots, bytes (median read by a task), busy (slots on average while
        the stage ran, whoever's tasks), delay_ms (elapsed time that its work would have taken less
        on all slots); the largest first.
    """
    tasks = tables.tasks
    launch = tasks["launch_ms"].to_numpy(np.float64)
    finish = tasks["finish_ms"].to_numpy(np.float64)
    parts = tasks[["input_bytes", "remote_bytes", "local_bytes"]].to_numpy(np.float64)
    ran = np.isfinite(launch) & (finish > launch)
    usable = ran & (tasks["status"] == "success").to_numpy(bool)
    usable &= ((tasks["stage"] >= 0) & (tasks["query"] >= 0)).to_numpy(bool)
    read, stage = np.nansum(parts, axis=1), tasks["stage"].to_numpy(np.int64)
    usable &= np.isin(stage, stage[usable & (read >= LARGE_BYTES)])
    if not usable.any():
        return pd.DataFrame(columns=_LARGE)
    frame = tasks.loc[usable, ["stage", "query", "app", "launch_ms", "finish_ms"]].assign(
        bytes=read[usable]
    )
    stages = frame.groupby("stage", sort=True).agg(
        query=("query", "first"), app=("app", "first"), tasks=("bytes", "size"),
        bytes=("bytes", "median"), first=("launch_ms", "min"), last=("finish_ms", "max"),
    )  # fmt: skip
    stages = stages.assign(slots=[slots.get(app, 0) for app in stages["app"].tolist()])
    stages = stages[(stages["bytes"] >= LARGE_BYTES) & (stages["tasks"] < stages["slots"])]
    app = tasks["app"].to_numpy(np.int64)
    busy: list[float] = []
    for row in stages.to_dict("records"):
        of_app = ran & (app == row["app"])
        shared = np.minimum(finish[of_app], row["last"]) - np.maximum(launch[of_app], row["first"])
        busy.append(float(np.maximum(shared, 0.0).sum() / (row["last"] - row["first"])))
    found = stages.reset_index().assign(busy=np.array(busy, np.float64))
    idle = np.maximum(1.0 - found["busy"] / np.maximum(found["slots"], 1), 0.0)
    found = found.assign(delay_ms=idle * (found["last"] - found["first"]))
    found = found.loc[(idle >= IDLE_SHARE).to_numpy(bool), _LARGE]
    whole: pd.DataFrame = found.sort_values(["delay_ms", "stage"], ascending=[False, True])
    return whole.reset_index(drop=True)
