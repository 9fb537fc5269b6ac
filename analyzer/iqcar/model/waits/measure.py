"""Computes every task's waits and account: measured by the plugin, else from Spark's metrics."""

from __future__ import annotations

import numpy as np
import pandas as pd

from iqcar.enums import Request
from iqcar.model.waits.budget import known
from iqcar.model.waits.executor_wait import executor_wait
from iqcar.model.waits.measured import from_records
from iqcar.model.waits.reported import NEEDED, from_metrics
from iqcar.model.waits.slot import slot_wait
from iqcar.tables import Tables
from iqcar.tables.arrays import Flags


def measure_waits(tables: Tables) -> pd.DataFrame:
    """Derive every task's waits and account.

    Frame of `WAITS`, one row per row of ``tables.tasks``.

    tables: ``tasks``, ``stages`` and ``task_records`` are used.
    """
    tasks = tables.tasks
    column = {name: tasks[name].to_numpy(np.float64) for name in NEEDED}
    duration = np.maximum(known(column["finish_ms"] - column["launch_ms"]), 0.0)
    account = from_metrics(column, duration, _feeds_python(tables))
    records = tables.task_records
    if len(records):
        rows = records["task"].to_numpy(np.int64)
        here = {name: values[rows] for name, values in column.items()}
        account.replace(rows, from_records(records, here, duration[rows]))
    wait, evidence = slot_wait(tables, column)
    lost, of_lost = executor_wait(tables, wait, column["launch_ms"], column["finish_ms"])
    account.waits[Request.SLOT_WAIT], account.evidence[Request.SLOT_WAIT] = wait - lost, evidence
    account.waits[Request.EXECUTOR_WAIT], account.evidence[Request.EXECUTOR_WAIT] = lost, of_lost
    return account.frame()


def _feeds_python(tables: Tables) -> Flags:
    stage = tables.tasks["stage"].to_numpy()
    python = tables.stages["python"].to_numpy(bool)
    if len(python) == 0:
        return np.zeros(len(stage), bool)
    feeds: Flags = np.where(stage >= 0, python[np.maximum(stage, 0)], False)
    return feeds
