"""Finds stages whose partitions are too small or too large, and sources whose tasks are long."""

from __future__ import annotations

import numpy as np
import pandas as pd

from iqcar.rules.rule_sentences import in_a_sentence
from iqcar.rules.vocabulary.lost_time import LONG_TASKS, SOURCE, advice_for
from iqcar.tables import Tables
from iqcar.tables.arrays import Flags, Floats, sum_by

RUNNING_SHARE = 0.5
"""Part of a wait for slots from which on pools hardly help: it was for tasks that already ran and
keep their slots, not for those that were offered a slot first."""
LONG_MS = 1_000.0
"""Time that such tasks still ran, on average, from which on they are worth splitting: starting one
more task takes up to 20 ms, reading its part of the data some more."""
MOST_STAGES = 100
"""Stages that waited longest and that are looked at; the others rarely change the sums."""


def split_tasks(name: str) -> str:
    """Say that the tasks of a query should be split, and why."""
    return advice_for(LONG_TASKS).replace(SOURCE, in_a_sentence(name))


def held_by_long_tasks(tables: Tables, source: Flags, target: Flags) -> bool:
    """Tell whether some queries waited for slots mostly until running tasks of others ended.

    The n-th task of a stage gets the n-th slot that comes free at best, whatever its pool. So its
    wait is divided at the time when the n-th of the tasks that ran when it was submitted ended.

    source, target: (n_queries,), bool; queries whose tasks ran, and those that waited.
    """
    tasks = tables.tasks
    query, stage = tasks["query"].to_numpy(np.int64), tasks["stage"].to_numpy(np.int64)
    launch = tasks["launch_ms"].to_numpy(np.float64)
    finish = tasks["finish_ms"].to_numpy(np.float64)
    ran = np.isfinite(launch) & (finish > launch) & (query >= 0)
    app = tasks["app"].to_numpy(np.int64)
    holds = np.flatnonzero(ran & source[query])
    holds = holds[np.argsort(launch[holds], kind="stable")]
    waits = np.flatnonzero(ran & target[query] & (stage >= 0))
    if len(holds) == 0 or len(waits) == 0:
        return False
    asked = tables.stages["submission_ms"].to_numpy(np.float64)
    waited = np.nan_to_num(np.maximum(launch[waits] - asked[stage[waits]], 0.0))
    by_stage = sum_by(stage[waits], waited, len(asked))
    longest = float((finish[holds] - launch[holds]).max())
    behind, whole, counted = 0.0, 0.0, 0
    for one in np.argsort(-by_stage, kind="stable")[:MOST_STAGES]:
        mine = stage[waits] == one
        if not by_stage[one] > 0:
            break
        near = holds[slice(*np.searchsorted(launch[holds], [asked[one] - longest, asked[one]]))]
        near = near[app[near] == app[waits[mine][0]]]
        left = _first(finish[near] - asked[one])
        first = _first(waited[mine])[: max(len(left), 1)]
        left = left[: len(first)]
        behind += float(np.minimum(left, first[: len(left)]).sum())
        whole += float(first.sum())
        counted += len(left)
    return behind >= RUNNING_SHARE * whole and behind >= LONG_MS * max(counted, 1)


def _first(times: Floats) -> Floats:
    """Return the times above 0, the earliest first."""
    return np.sort(times[times > 0])


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

    Returns: stage, query, app, tasks, run_ms (median), start_ms (slot time that starting tasks and
    handling their ends took), held_ms (the same as a part of the stage's elapsed time); the largest
    start_ms first.
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

    Returns: stage, query, app, tasks, slots, bytes (median read by a task), busy (slots on average
    while the stage ran, whoever's tasks), delay_ms (elapsed time that its work would have taken
    less on all slots); the largest first.

    slots: tasks that fit at once, by application; of those where that is known
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
