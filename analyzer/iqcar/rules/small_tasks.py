"""Stages of many tasks that take longer to start than to run: partitions that are too small."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from iqcar.tables import Tables

MANY_TASKS = 100
"""Tasks of a stage from which on starting them matters: at some 10 ms each it is a second."""
SHORT_MS = 50.0
"""Median run time below which tasks are small: starting one takes 5 to 20 ms on a warm executor."""
START_SHARE = 0.5
"""Part of the tasks' time that goes into starting them and handling their end, from which on their
number, and not their work, is what the stage takes."""


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
    small = (stages["tasks"] >= MANY_TASKS) & (stages["run_ms"] < SHORT_MS)
    small &= part >= START_SHARE
    columns = ["stage", "query", "app", "tasks", "run_ms", "start_ms", "held_ms"]
    found: pd.DataFrame = (
        stages[small].reset_index().sort_values(["start_ms", "stage"], ascending=[False, True])
    )
    return found[columns].reset_index(drop=True)
