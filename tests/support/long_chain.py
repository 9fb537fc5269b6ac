"""A log of one query with many small stages that each read what the one before wrote."""

from __future__ import annotations

from iqcar_lab.clusters.event_log import SyntheticLog, stage_info, task_metrics

STAGE_MS = 100.0


def long_chain(stages: int, name: str = "q", app_id: str = "app-1") -> SyntheticLog:
    """Two tasks a stage on four slots of two hosts, one stage after the other."""
    log = SyntheticLog(app_id).app("chain", 1000.0)
    for number in (1, 2):
        log.executor(str(number), f"host-{number}", 2, 1000.0)
    properties = {"spark.sql.execution.id": "0", "spark.job.description": name}
    infos = [
        stage_info(n, parents=[n - 1] if n else [], submission=1000.0 + n * STAGE_MS,
                   **{"Number of Tasks": 2})
        for n in range(stages)
    ]  # fmt: skip
    end = 1000.0 + stages * STAGE_MS
    log.sql(0, description=name, time=1000.0).job(0, infos, 1000.0, properties)
    metrics = task_metrics(Executor_Run_Time=80, Executor_CPU_Time=60_000_000)
    for n, info in enumerate(infos):
        start = 1000.0 + n * STAGE_MS
        log.stage(info, properties)
        for index in range(2):
            log.task(
                2 * n + index, stage=n, metrics=metrics, launch=start + 2, finish=start + 95,
                host=f"host-{index + 1}", executor=str(index + 1), index=index,
            )  # fmt: skip
        log.stage_end(info, start + STAGE_MS)
    return log.job_end(0, end).sql_end(0, end).end(end)
