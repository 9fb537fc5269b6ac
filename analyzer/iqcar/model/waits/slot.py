"""Computes each task's wait for a slot: from the submission of its attempt to its launch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from iqcar.model.waits.columns import ESTIMATED, MISSING, REPORTED
from iqcar.tables import Tables
from iqcar.tables.arrays import Floats

Codes = NDArray[np.int8]


def slot_wait(tables: Tables, column: dict[str, Floats]) -> tuple[Floats, Codes]:
    """Return launch less stage submission; for a retry, less the end of the previous attempt.

    The wait of a speculative copy is missing, because no event records when it was requested.

    Returns
    -------
    wait: (n_tasks,), ms; NaN where it is missing.
    evidence: (n_tasks,) codes of the evidence; estimated where a stage's submission is its first
        launch, and for a task that was not launched yet.
    """
    tasks, stages = tables.tasks, tables.stages
    stage = tasks["stage"].to_numpy()
    launch = column["launch_ms"]
    if len(stages) == 0:
        return np.full(len(tasks), np.nan), np.zeros(len(tasks), np.int8)
    row = np.maximum(stage, 0)
    submitted = stages["submission_ms"].to_numpy(np.float64)[row]
    first_launch = stages["first_launch_ms"].to_numpy(np.float64)[row]
    asked = np.where(np.isnan(submitted), first_launch, submitted)
    asked = np.where(stage >= 0, asked, np.nan)
    still_waits = (tasks["status"] == "waiting").to_numpy(bool)
    evidence = np.where(np.isnan(submitted) | still_waits, ESTIMATED, REPORTED)

    # In this order the attempts of one partition are adjacent, first attempt first.
    order = np.lexsort((tasks["attempt"].to_numpy(), tasks["index"].to_numpy(), stage))
    same = (np.diff(stage[order]) == 0) & (np.diff(tasks["index"].to_numpy()[order]) == 0)
    before = np.full(len(tasks), -1)
    before[order[1:][same]] = order[:-1][same]
    retry = (before >= 0) & (tasks["attempt"].to_numpy() > 0)
    predecessor_end = column["finish_ms"][np.maximum(before, 0)]
    asked = np.where(retry, np.maximum(predecessor_end, asked), asked)

    wait = launch - asked
    unknown = tasks["speculative"].to_numpy(bool) | ~np.isfinite(wait)
    wait = np.where(unknown, np.nan, np.maximum(wait, 0.0))
    return wait, np.where(unknown, MISSING, evidence).astype(np.int8)
