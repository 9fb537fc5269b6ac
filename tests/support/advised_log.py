"""An event log with both: `etl` holds the slots that `report` waits for, and has a skewed key."""

from __future__ import annotations

from collections.abc import Sequence

from iqcar_lab.clusters.event_log import SyntheticLog, stage_info, task_metrics

EVEN_MS, SKEWED_MS = 2000, 12_000
EVEN_BYTES, SKEWED_BYTES = 50_000_000, 400_000_000


def stage_of(
    log: SyntheticLog,
    number: int,
    name: str,
    asked: float,
    tasks: Sequence[tuple[float, float, int]],
    hosts: Sequence[str] = ("host-a",),
    **metrics: object,
) -> None:
    """Add a query of one stage.

    Parameters
    ----------
    log : SyntheticLog
    number : of the query and its stage
    name : of the query
    asked : when it was submitted (ms)
    tasks : (launch, finish, shuffle bytes read) of each; on one host after the other
    hosts : names
    metrics : of all tasks, beside times and bytes
    """
    properties = {"spark.sql.execution.id": str(number), "spark.job.description": name}
    stage = stage_info(number, submission=asked, **{"Number of Tasks": len(tasks)})
    log.sql(number, description=name, time=asked).job(number, [stage], asked, properties)
    log.stage(stage, properties)
    for index, (launch, finish, read) in enumerate(tasks):
        run = int(finish - launch) - 20
        of_task = {
            "Executor_Run_Time": run, "Executor_CPU_Time": run * 1_000_000, "JVM_GC_Time": 0,
            "Shuffle_Read_Metrics": {"Local Bytes Read": read, "Total Records Read": read // 100},
            "Shuffle_Write_Metrics": {}, "Input_Metrics": {}, **metrics,
        }  # fmt: skip
        log.task(
            100 * number + index, stage=number, metrics=task_metrics(**of_task), launch=launch,
            finish=finish, host=hosts[index % len(hosts)], index=index,
        )  # fmt: skip
    end = max(finish for _, finish, _ in tasks)
    log.stage_end(stage, end).job_end(number, end).sql_end(number, end)


def advised_log(version: str = "3.5.1", start: float = 1000.0) -> SyntheticLog:
    """Two slots: `etl` has nine even tasks and a skewed one, `report` waits for it to end."""
    log = SyntheticLog("app-1", version).app("advised", start)
    log.environment(spark_scheduler_mode="FAIR").executor("1", "host-a", 2, start)
    free = [start, start]
    tasks = []
    for index in range(10):
        slot = free.index(min(free))
        skewed = index == 9
        lasts, read = (SKEWED_MS, SKEWED_BYTES) if skewed else (EVEN_MS + index, EVEN_BYTES)
        tasks.append((free[slot], free[slot] + lasts, read))
        free[slot] += lasts
    stage_of(log, 0, "etl", start, tasks)
    end = max(free)
    stage_of(log, 1, "report", start + 500, [(end, end + 1000, 1000), (end, end + 1000, 1000)])
    return log.end(end + 1500)
