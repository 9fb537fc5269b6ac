"""The event log of a simulated run whose queries fetch and compute: what Spark would have written."""

from __future__ import annotations

import numpy as np

from iqcar.enums import Request
from iqcar.model.waits.columns import wait_column
from tests.support.cluster_simulator import Simulation
from tests.support.simulated_log import replayable
from tests.support.synthetic_log import SyntheticLog, stage_info, task_metrics

START_MS = 1_700_000_000_000.0


def fetching_log(run: Simulation, app_id: str, day: int = 0) -> SyntheticLog:
    """Write a run of one application as its log, without the plugin's records."""
    tables, waits = replayable(run, plain=True)
    shift = START_MS + day * 86_400_000.0 - tables.queries["start_ms"].min() + 1000.0
    log = SyntheticLog(app_id).app("crowd", START_MS + day * 86_400_000.0)
    log.environment(spark_scheduler_mode="FAIR" if run.cluster.fair else "FIFO")
    hosts = list(run.cluster.named())
    for number, host in enumerate(hosts):
        log.executor(str(number), host, run.cluster.slots, START_MS + day * 86_400_000.0)
    fetched = waits[wait_column(Request.SHUFFLE_FETCH)].to_numpy()
    cpu, of_stage = waits["compute_ms"].to_numpy(), tables.tasks.groupby("stage")
    for q, query in enumerate(tables.queries.itertuples()):
        at, end = query.start_ms + shift, query.end_ms + shift
        of_sql = {
            "spark.sql.execution.id": str(q), "spark.job.description": query.name,
            "spark.scheduler.pool": query.name,
        }  # fmt: skip
        rows = tables.stages.index[tables.stages["query"] == q].tolist()
        infos = {
            row: stage_info(
                row, parents=[row - 1] if row > rows[0] else [],
                submission=tables.stages["submission_ms"][row] + shift,
                **{"Number of Tasks": len(of_stage.groups[row])},
            )
            for row in rows
        }  # fmt: skip
        log.sql(q, description=query.name, time=at).job(q, list(infos.values()), at, of_sql)
        for row, info in infos.items():
            log.stage(info, of_sql)
            for index, task in enumerate(of_stage.get_group(row).itertuples()):
                life = task.finish_ms - task.launch_ms
                read = {
                    "Remote Blocks Fetched": 1, "Local Blocks Fetched": 0, "Local Bytes Read": 0,
                    "Fetch Wait Time": int(fetched[task.Index]), "Total Records Read": 1,
                    "Remote Bytes Read": int(task.remote_bytes), "Remote Bytes Read To Disk": 0,
                }  # fmt: skip
                metrics = task_metrics(
                    Executor_Deserialize_Time=0, Executor_Deserialize_CPU_Time=0, JVM_GC_Time=0,
                    Executor_Run_Time=int(life), Executor_CPU_Time=int(cpu[task.Index] * 1e6),
                    Result_Serialization_Time=0, Shuffle_Read_Metrics=read, Input_Metrics={},
                    Shuffle_Write_Metrics={},
                )  # fmt: skip
                log.task(
                    int(task.Index), stage=row, metrics=metrics, host=hosts[task.host],
                    launch=int(task.launch_ms + shift), finish=int(task.finish_ms + shift),
                    executor=str(task.host), index=index,
                )  # fmt: skip
            log.stage_end(info, np.ceil(tables.stages["completion_ms"][row] + shift))
        log.job_end(q, np.ceil(end)).sql_end(q, np.ceil(end))
    return log.end(np.ceil(tables.queries["end_ms"].max() + shift) + 10.0)
