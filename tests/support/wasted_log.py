"""An event log in which an executor dies in the middle of a query, and a task of another fails."""

from __future__ import annotations

from typing import Any

from iqcar_lab.clusters.event_log import SyntheticLog, stage_info, task_metrics

NO_IO = {"Shuffle_Read_Metrics": {}, "Input_Metrics": {}, "Shuffle_Write_Metrics": {}}
LOST = "Container killed on request. Exit code is 137, token=abcdef1234567890"


def wasted_log(name: str = "victim", message: str = "boom") -> SyntheticLog:
    """`victim` runs 0–10 s and loses executor 1 after 4 s; `retried` fails once, 10–14 s."""
    log = SyntheticLog("app-1").app("wasted", 0)
    log.executor("1", "a", 2, 0).executor("2", "b", 2, 0)
    _begin(log, 0, name, 0)
    _task(log, 0, 0, 0, 3000, "1")
    _task(log, 0, 1, 0, 5000, "2")
    lost = {"Reason": "ExecutorLostFailure", "Executor ID": "1", "Loss Reason": LOST}
    _task(log, 0, 2, 0, 4000, "1", lost)
    _task(log, 0, 0, 0, 3000, "1", {"Reason": "Resubmitted"})
    log.executor_removed("1", 4000, LOST)
    _task(log, 0, 2, 4000, 9000, "2", attempt=1)
    _task(log, 0, 0, 5000, 10_000, "2", attempt=1)
    _end(log, 0, 10_000)
    _begin(log, 1, "retried", 10_000)
    failed = {"Reason": "ExceptionFailure", "Class Name": "a.Error", "Description": message}
    _task(log, 1, 0, 10_000, 12_000, "2", failed)
    _task(log, 1, 0, 12_000, 14_000, "2", attempt=1)
    _end(log, 1, 14_000)
    return log.end(14_000)


def _begin(log: SyntheticLog, query: int, name: str, time: float) -> None:
    properties = {"spark.sql.execution.id": str(query)}
    info = stage_info(query, submission=time, **{"Number of Tasks": 3 - 2 * query})
    log.sql(query, description=name, time=time)
    log.job(query, [info], time, properties).stage(info, properties)


def _end(log: SyntheticLog, query: int, time: float) -> None:
    info = stage_info(query, **{"Number of Tasks": 3 - 2 * query})
    log.stage_end(info, time).job_end(query, time).sql_end(query, time)


def _task(
    log: SyntheticLog,
    stage: int,
    index: int,
    launch: float,
    finish: float,
    executor: str,
    reason: dict[str, Any] | None = None,
    attempt: int = 0,
) -> None:
    run = finish - launch
    metrics = task_metrics(Executor_Run_Time=run, Executor_CPU_Time=run * 1_000_000, **NO_IO)
    log.task(
        100 * stage + 10 * attempt + index,
        stage=stage,
        metrics=metrics,
        more={"Task End Reason": reason or {"Reason": "Success"}},
        launch=launch,
        finish=finish,
        host={"1": "a", "2": "b"}[executor],
        executor=executor,
        index=index,
        Attempt=attempt,
    )
