"""An event log of any number of queries at once, on few hosts: everybody is in everybody's way."""

from __future__ import annotations

import heapq
import random

from iqcar_lab.clusters.event_log import SyntheticLog, stage_info, task_metrics

START = 1_700_000_000_000


def crowd(queries: int, tasks: int = 4, hosts: int = 2, slots: int = 8) -> SyntheticLog:
    """Every query asks at the start; slots serve a task of each in turn, so that all last long."""
    draw = random.Random(1)
    log = SyntheticLog().app("crowd", START).environment(spark_scheduler_mode="FAIR")
    for host in range(hosts):
        log.executor(str(host), f"host-{host}", slots, START)
    number = {"Number of Tasks": tasks}
    for query in range(queries):
        properties = {"spark.sql.execution.id": str(query), "spark.job.description": f"q{query}"}
        info = stage_info(query, submission=START, **number)
        log.sql(query, description=f"q{query}", time=START)
        log.job(query, [info], START, properties).stage(info, properties)
    free = [(START + 100, host) for host in range(hosts) for _ in range(slots)]
    heapq.heapify(free)
    last = [0] * queries
    for number_of, (index, query) in enumerate(
        (i, q) for i in range(tasks) for q in range(queries)
    ):
        launch, host = heapq.heappop(free)
        run = 50 + draw.randrange(400)
        waited = draw.randrange(run // 3)
        log.task(
            number_of, stage=query, index=index, launch=launch, finish=launch + run,
            host=f"host-{host}", executor=str(host), metrics=_metrics(run, waited, draw),
        )  # fmt: skip
        heapq.heappush(free, (launch + run, host))
        last[query] = launch + run
    for query in range(queries):
        log.stage_end(stage_info(query, submission=START, **number), last[query])
        log.job_end(query, last[query]).sql_end(query, last[query])
    return log.end(max(last) + 1000)


def _metrics(run: int, waited: int, draw: random.Random) -> dict[str, object]:
    return task_metrics(
        Executor_Run_Time=run - 10,
        Executor_CPU_Time=int((run - waited) * 0.6e6),
        JVM_GC_Time=0,
        Shuffle_Read_Metrics={
            "Remote Blocks Fetched": 8,
            "Local Blocks Fetched": 0,
            "Fetch Wait Time": waited,
            "Remote Bytes Read": draw.randrange(1 << 20, 8 << 20),
            "Remote Bytes Read To Disk": 0,
            "Local Bytes Read": 0,
            "Total Records Read": 1000,
        },
    )
