"""An event log with a known culprit: `etl` holds both slots while `report` waits for one."""

from __future__ import annotations

from iqcar_lab.clusters.event_log import SyntheticLog, stage_info, task_metrics

NO_IO = {
    "Shuffle_Read_Metrics": {},
    "Input_Metrics": {},
    "Shuffle_Write_Metrics": {},
    "JVM_GC_Time": 0,
}


def contended_log(app_id: str = "app-1", start: float = 1000) -> SyntheticLog:
    """Two slots; `etl` runs two tasks of 10 s, `report` asks 1 s later and runs 1 s after that."""
    log = SyntheticLog(app_id).app("contended", start).environment(spark_scheduler_mode="FAIR")
    log.executor("1", "host-a", 2, start)
    stages = {}
    for n, (name, asked, first, last, tasks) in enumerate(
        [("etl", 0, 0, 10_000, 2), ("report", 1000, 10_000, 11_000, 2)]
    ):
        time = start + asked
        properties = {
            "spark.sql.execution.id": str(n),
            "spark.job.description": name,
            "spark.scheduler.pool": "default",
        }
        stages[n] = stage_info(n, submission=time, **{"Number of Tasks": tasks})
        log.sql(n, description=name, time=time)
        log.job(n, [stages[n]], time, properties).stage(stages[n], properties)
        run = last - first
        metrics = task_metrics(
            Executor_Run_Time=run - 20, Executor_CPU_Time=(run - 20) * 1_000_000, **NO_IO
        )
        for task in range(tasks):
            log.task(
                n * 10 + task,
                stage=n,
                metrics=metrics,
                launch=start + first,
                finish=start + last,
                host="host-a",
                index=task,
            )
        log.stage_end(stages[n], start + last).job_end(n, start + last).sql_end(n, start + last)
    return log.end(start + 11_000)
