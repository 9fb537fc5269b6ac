"""Finds what a log lacks because Spark dropped events: by the log itself, and by Spark's count."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from iqcar.base.units import percent
from iqcar.enums import InputStatus
from iqcar.tables import Tables
from iqcar.tables.arrays import Flags

CAPACITY = "spark.scheduler.listenerbus.eventqueue"
"""Beginning of the settings that bound Spark's queues of events."""
MUCH = 0.1
"""Missing part of the ends of tasks from which on nothing that is computed means much."""


def lost_events(tables: Tables) -> Iterator[str]:
    """List what is missing because a queue of Spark was full, the gravest first.

    One sentence each; none if nothing is known to be missing.
    """
    missing = _missing_task_ends(tables)
    lost = int(missing.sum())
    if lost:
        yield (
            f"{lost} task ends are missing from {int((missing > 0).sum())} completed stages (Spark "
            f"drops events when its listener queue is full; raise {CAPACITY}.capacity): waits and "
            "blame are too low by that much"
        )
    yield from _without_end(tables)
    dropped = tables.applications["dropped_events"].to_numpy(np.float64)
    if np.nansum(dropped) > 0:
        yield (
            f"Spark dropped {np.nansum(dropped):,.0f} events of "
            f"{int((dropped > 0).sum())} applications instead of logging them (raise "
            f"{CAPACITY}.eventLog.capacity): tasks, stages, jobs and queries may be missing whole"
        )
    unseen = tables.applications["dropped_for_rules"].to_numpy(np.float64)
    if np.nansum(unseen) > 0:
        yield (
            f"Spark dropped {np.nansum(unseen):,.0f} events by which rules recognise jobs (raise "
            f"{CAPACITY}.iqcar.capacity): a job whose start is among them ran in the pool that it "
            "asked for"
        )


def much_lost(tables: Tables) -> str:
    """Say how much is missing, if it is so much that no figure means anything; else empty."""
    missing, done = _missing_task_ends(tables), _completed(tables)
    declared = np.maximum(tables.stages["declared_tasks"].to_numpy(np.int64)[done], 0).sum()
    if missing.sum() < MUCH * max(declared, 1):
        return ""
    return (
        f"Do not trust the figures: Spark dropped events, {percent(missing.sum() / declared)} of "
        "the ends of tasks are missing."
    )


def has_lost_end(tables: Tables) -> Flags:
    """Tell which tasks seem to run because their end is missing: ndarray of shape (n_tasks,), bool.

    Their stage completed, which it does not before each of its tasks has succeeded, and no other
    attempt of theirs did.
    """
    tasks = tables.tasks[["stage", "index"]]
    good = tasks[(tables.tasks["status"] == "success").to_numpy(bool)]
    stage = tasks["stage"].to_numpy(np.int64)
    done = np.append(_completed(tables), False)[stage]
    running = (tables.tasks["status"] == "running").to_numpy(bool) & done
    lost: Flags = running.copy()
    if running.any():
        known = pd.MultiIndex.from_frame(good)
        lost[running] = ~pd.MultiIndex.from_frame(tasks[running]).isin(known)
    return lost


def _completed(tables: Tables) -> Flags:
    """Tell which stages completed without a failure."""
    stages = tables.stages
    done: Flags = stages["completed"].to_numpy(bool) & (stages["failure_reason"] == "").to_numpy()
    return done


def _missing_task_ends(tables: Tables) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Count by how many the successful tasks of each completed stage are fewer than declared."""
    stages, tasks = tables.stages, tables.tasks
    good = ((tasks["status"] == "success") & (tasks["stage"] >= 0)).to_numpy()
    distinct = tasks.loc[good, ["stage", "index"]].drop_duplicates()
    seen = np.bincount(distinct["stage"].to_numpy(np.int64), minlength=len(stages))
    missing = np.where(_completed(tables), stages["declared_tasks"].to_numpy() - seen, 0)
    return np.maximum(missing, 0).astype(np.int64)


def _without_end(tables: Tables) -> Iterator[str]:
    """Say what has no end though its application has: Spark ends all, unless the end is dropped.

    Logs of which lines are damaged do not count.

    A SQL execution that ``SparkContext.stop`` cuts off has none either: it counts where all of its
    jobs succeeded.
    """
    ended = np.append(tables.applications["ended"].to_numpy(bool), False)
    inputs = tables.inputs
    damaged = (inputs["status"] != InputStatus.COMPLETE).to_numpy(bool)
    ended[inputs["app"].to_numpy()[damaged]] = False
    jobs, stages, sql = tables.jobs, tables.stages, tables.sql_executions
    no_end = jobs["completion_ms"].isna()
    # Before 1.3, Spark logged ends of jobs without times: that one succeeded its end has told.
    untimed = jobs.loc[no_end & jobs["succeeded"], "app"]
    of_jobs = ended[jobs["app"].to_numpy()] & (no_end & ~jobs["app"].isin(untimed)).to_numpy()
    of_stages = (
        ended[stages["app"].to_numpy()]
        & ~stages["completed"].to_numpy(bool)
        & stages["submission_ms"].notna().to_numpy()
    )
    execution = jobs["sql_execution"].to_numpy(np.int64)
    well, other = (
        np.bincount(execution[(execution >= 0) & which], minlength=len(sql))
        for which in (jobs["succeeded"].to_numpy(bool), ~jobs["succeeded"].to_numpy(bool))
    )
    of_sql = (
        ended[sql["app"].to_numpy()] & sql["end_ms"].isna().to_numpy() & (well > 0) & (other == 0)
    )
    counts = (
        (int(of_jobs.sum()), "jobs"),
        (int(of_stages.sum()), "stages"),
        (int(of_sql.sum()), "SQL executions"),
    )
    found = [f"{count} {what}" for count, what in counts if count]
    if found:
        yield (
            f"the ends of {', '.join(found)} are missing though their applications ended (Spark "
            f"drops events when its listener queue is full; raise {CAPACITY}.capacity): they seem "
            "to last longer than they did"
        )
