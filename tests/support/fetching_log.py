"""The event log of a simulated run whose queries fetch and compute, as Spark would write it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from iqcar.enums import Request
from iqcar.model.waits.columns import wait_column
from iqcar.tables import Tables
from iqcar_lab.clusters.event_log import SyntheticLog, stage_info, task_metrics
from iqcar_lab.clusters.recorded import replayable
from iqcar_lab.clusters.simulation import Simulation

START_MS = 1_700_000_000_000.0
DAY_MS = 86_400_000.0
Event = tuple[float, int, str, tuple[Any, ...], dict[str, Any]]


def fetching_log(run: Simulation, app_id: str, day: int = 0) -> SyntheticLog:
    """Write a run of one application as its log, without the plugin's records."""
    tables, waits = replayable(run, plain=True)
    start = START_MS + day * DAY_MS
    shift = start + 1000.0 - tables.queries["start_ms"].min()
    log = SyntheticLog(app_id).app("crowd", start)
    log.environment(spark_scheduler_mode="FAIR" if run.cluster.fair else "FIFO")
    events = [*_executors(run, tables, shift), *_queries(tables, shift)]
    events += _tasks(run, tables, waits, shift)
    for _, _, method, args, given in sorted(events, key=lambda event: event[:2]):
        getattr(log, method)(*args, **given)
    return log.end(float(np.ceil(tables.queries["end_ms"].max() + shift)) + 10.0)


def _executors(run: Simulation, tables: Tables, shift: float) -> Iterator[Event]:
    for number, one in enumerate(tables.executors.itertuples()):
        host = run.cluster.named()[one.host]
        at = float(np.floor(one.added_ms + shift))
        yield at, 0, "executor", (str(number), host, run.cluster.slots, at), {}
        if np.isfinite(one.removed_ms):
            end = float(np.floor(one.removed_ms + shift))
            yield end, 1, "executor_removed", (str(number), end), {}


def _queries(tables: Tables, shift: float) -> Iterator[Event]:
    tasks = np.bincount(tables.tasks["stage"])
    for q, query in enumerate(tables.queries.itertuples()):
        at, end = float(np.floor(query.start_ms + shift)), float(np.floor(query.end_ms + shift))
        said = {
            "spark.sql.execution.id": str(q), "spark.job.description": query.name,
            "spark.scheduler.pool": query.name,
        }  # fmt: skip
        of_query = tables.stages[tables.stages["query"] == q]
        infos = []
        for row, stage in of_query.iterrows():
            begins = float(np.floor(stage["submission_ms"] + shift))
            ends = float(np.floor(stage["completion_ms"] + shift))
            parents = [row - 1] if infos else []
            more = {"Number of Tasks": int(tasks[row]), "Stage Name": f"step {len(infos)}"}
            infos.append(stage_info(row, parents=parents, submission=begins, **more))
            yield begins, 4, "stage", (infos[-1], said), {}
            yield ends, 1, "stage_end", (infos[-1], ends), {}
        yield at, 2, "sql", (q,), {"description": query.name, "time": at}
        yield at, 3, "job", (q, infos, at, said), {}
        yield end, 2, "job_end", (q, end), {}
        yield end, 3, "sql_end", (q, end), {}


def _tasks(run: Simulation, tables: Tables, waits: pd.DataFrame, shift: float) -> Iterator[Event]:
    fetched = waits[wait_column(Request.SHUFFLE_FETCH)].to_numpy()
    cpu, hosts = waits["compute_ms"].to_numpy(), list(run.cluster.named())
    index = tables.tasks.groupby("stage").cumcount().to_numpy()
    for row, task in enumerate(tables.tasks.itertuples()):
        read = {
            "Remote Blocks Fetched": 1, "Local Blocks Fetched": 0, "Local Bytes Read": 0,
            "Fetch Wait Time": int(fetched[row]), "Total Records Read": 1,
            "Remote Bytes Read": int(task.remote_bytes), "Remote Bytes Read To Disk": 0,
        }  # fmt: skip
        metrics = task_metrics(
            Executor_Deserialize_Time=0, Executor_Deserialize_CPU_Time=0, JVM_GC_Time=0,
            Executor_Run_Time=int(task.finish_ms - task.launch_ms),
            Executor_CPU_Time=int(cpu[row] * 1e6), Result_Serialization_Time=0,
            Shuffle_Read_Metrics=read, Input_Metrics={}, Shuffle_Write_Metrics={},
        )  # fmt: skip
        launch, finish = (float(np.floor(ms + shift)) for ms in (task.launch_ms, task.finish_ms))
        where = {"host": hosts[task.host], "executor": str(task.executor), "index": int(index[row])}
        given = {"stage": int(task.stage), "metrics": metrics, "launch": launch, "finish": finish}
        yield finish, 0, "task", (row,), {**given, **where}
