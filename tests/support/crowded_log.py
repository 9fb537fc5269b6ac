"""An event log in which queries meet on three hosts and wait for slots, CPU and the network."""

from __future__ import annotations

from collections.abc import Sequence

from iqcar_lab.clusters.event_log import SyntheticLog, stage_info, task_metrics

HOSTS = ("host-a", "host-b", "host-c")
SLOTS = 4
"""Task slots per host, one executor each."""
NAMES = ("etl", "report", "adhoc", "nightly")


def crowded_log(
    app_id: str = "app-1",
    names: Sequence[str] = NAMES,
    start: float = 1_700_000_000_000,
    hosts: Sequence[str] = HOSTS,
) -> SyntheticLog:
    """Four queries on 12 slots.

    The first holds all slots for 12 s. The second asks 1 s later, in two stages; the third asks 2 s
    later. They share slots and the network, and a task of the last query's 24 takes three times as
    long as the others because it reads three times as much.
    """
    log = SyntheticLog(app_id).app("crowded", start).environment(spark_scheduler_mode="FAIR")
    for number, host in enumerate(hosts):
        log.executor(str(number), host, SLOTS, start)
    slots = SLOTS * len(hosts)
    plan = [
        # query, asked, [(stage, first launch, run, tasks, share of the run spent fetching)]
        (0, 0, [(0, 0, 4_000, 3 * slots, 0.1)]),
        (1, 1_000, [(1, 12_000, 2_000, slots, 0.5), (2, 14_000, 1_000, 4, 0.0)]),
        (2, 2_000, [(3, 12_000, 3_000, slots, 0.2)]),
        (3, 15_000, [(4, 15_000, 1_500, 2 * slots, 0.3)]),
    ]
    task = 0
    for query, asked, stages in plan:
        name, time = names[query], start + asked
        properties = {
            "spark.sql.execution.id": str(query),
            "spark.job.description": name,
            "spark.scheduler.pool": "default",
        }
        infos = {}
        for stage, first, _, tasks, _ in stages:
            submitted = time if stage != 2 else start + first
            parents = [1] if stage == 2 else []
            more = {"Number of Tasks": tasks}
            infos[stage] = stage_info(stage, parents=parents, submission=submitted, **more)
        log.sql(query, description=name, time=time).job(
            query, list(infos.values()), time, properties
        )
        end = time
        for stage, first, run, tasks, fetching in stages:
            log.stage(infos[stage], properties)
            last = first
            for index in range(tasks):
                slow = 3 if stage == 4 and index == 5 else 1
                launch = start + first + run * (index // slots)
                finish = launch + run * slow
                last = max(last, finish)
                log.task(
                    task,
                    stage=stage,
                    metrics=_metrics(run * slow, fetching, slow),
                    launch=launch,
                    finish=finish,
                    host=hosts[index % len(hosts)],
                    executor=str(index % len(hosts)),
                    index=index,
                )
                task += 1
            log.stage_end(infos[stage], last)
            end = max(end, last)
        log.job_end(query, end).sql_end(query, end)
    return log.end(start + 25_000)


def _metrics(run: float, fetching: float, slow: int) -> dict[str, object]:
    waited = run * fetching
    # An eighth of what is left was waited for the processor.
    computed = (run - waited) * 7 / 8
    megabytes = 8 * slow if fetching else 0
    return task_metrics(
        Executor_Run_Time=int(run - 20),
        Executor_CPU_Time=int(computed * 1e6),
        JVM_GC_Time=0,
        Input_Metrics={},
        Shuffle_Write_Metrics={},
        Shuffle_Read_Metrics={
            "Remote Blocks Fetched": 8 if fetching else 0,
            "Local Blocks Fetched": 0,
            "Fetch Wait Time": int(waited),
            "Remote Bytes Read": megabytes << 20,
            "Remote Bytes Read To Disk": 0,
            "Local Bytes Read": 0,
            "Total Records Read": 1000 * slow,
        },
    )
