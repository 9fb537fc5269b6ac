"""Logs of a nightly application, in which one query gets slower and makes another one wait."""

from __future__ import annotations

import random
from pathlib import Path

from iqcar_lab.clusters.event_log import SyntheticLog, stage_info, task_metrics
from tests.support.contended_log import NO_IO

DAY_MS = 86_400_000.0
FIRST_MS = 1_767_225_600_000.0
"""2026-01-01, midnight in UTC."""
CHANGED = 20
"""The first night on which `etl` takes three times as long, with fewer partitions."""


def nightly_log(
    night: int, *, changed: int = CHANGED, master: str = "yarn", anew: bool = False
) -> SyntheticLog:
    """Two slots; `etl` holds both some 10 s, `report` asks 1 s later and runs 2 s after that.

    Where the cluster is started anew each night, its host has another name in each.
    """
    host = f"ip-10-0-{night}-1" if anew else "host-a"
    start = FIRST_MS + night * DAY_MS
    slower = night >= changed
    noise = random.Random(night)
    log = SyntheticLog(f"app-{night:04d}").app("nightly", start)
    log.environment(
        **{
            "spark.scheduler.mode": "FAIR",
            "spark.master": master,
            "spark.acme.team": "risk" if night % 2 else "sales",
            "spark.acme.password": "hunter2",
            "spark.sql.shuffle.partitions": "20" if slower else "200",
        }
    )
    log.executor("1", host, 2, start)
    held = (30_000.0 if slower else 10_000.0) * noise.uniform(0.95, 1.05)
    ran = 2_000.0 * noise.uniform(0.95, 1.05)
    plan = [("etl", "etl", 0.0, 0.0, held), ("report", "bi", 1000.0, held, held + ran)]
    for n, (name, pool, asked, first, last) in enumerate(plan):
        properties = {
            "spark.sql.execution.id": str(n),
            "spark.job.description": name,
            "spark.scheduler.pool": pool,
        }
        stage = stage_info(n, submission=start + asked, **{"Number of Tasks": 2})
        log.sql(n, description=name, time=start + asked)
        log.job(n, [stage], start + asked, properties).stage(stage, properties)
        run = last - first - 20
        metrics = task_metrics(
            Executor_Run_Time=int(run), Executor_CPU_Time=int(run * 1e6), **NO_IO
        )
        for task in range(2):
            log.task(
                n * 10 + task,
                stage=n,
                metrics=metrics,
                launch=start + first,
                finish=start + last,
                host=host,
                index=task,
            )
        log.stage_end(stage, start + last).job_end(n, start + last).sql_end(n, start + last)
    return log.end(start + held + ran)


def nightly_logs(folder: Path, nights: int, **more: object) -> Path:
    """Write the logs of some nights into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for night in range(nights):
        nightly_log(night, **more).write(folder / f"app-{night:04d}")  # type: ignore[arg-type]
    return folder


def slow_node_log(application_id: str) -> SyntheticLog:
    """One stage of 16 tasks, of which the four on one node take three times as long."""
    log = SyntheticLog(application_id).app("hosts", FIRST_MS).executor("1", "quick", 12, FIRST_MS)
    log.executor("2", "slow", 4, FIRST_MS)
    stage = stage_info(0, submission=FIRST_MS, **{"Number of Tasks": 16})
    log.job(0, [stage], FIRST_MS, {}).stage(stage, {})
    for task in range(16):
        late = task % 4 == 3
        log.task(
            task, stage=0, launch=FIRST_MS, finish=FIRST_MS + (9000 if late else 3000), index=task,
            host="slow" if late else "quick",
        )  # fmt: skip
    log.stage_end(stage, FIRST_MS + 9000).job_end(0, FIRST_MS + 9000)
    return log.end(FIRST_MS + 9000)


def uneven_hosts_log(application_id: str, slower: float) -> SyntheticLog:
    """Two stages of uneven tasks on eight hosts; those of `host-3` take that much longer."""
    noise = random.Random(5)
    log = SyntheticLog(application_id).app("uneven", FIRST_MS)
    for host in range(8):
        log.executor(str(host), f"host-{host}", 1, FIRST_MS)
    free, count = [FIRST_MS] * 8, 1600
    for number in range(2):
        begin = max(free)
        free = [begin] * 8
        stage = stage_info(number, submission=begin, **{"Number of Tasks": count})
        log.job(number, [stage], begin, {}).stage(stage, {})
        for task in range(count):
            host = task % 8
            launch = free[host]
            free[host] += noise.lognormvariate(5.0, 0.8) * (slower if host == 3 else 1.0)
            log.task(
                number * count + task, stage=number, launch=launch, finish=free[host], index=task,
                host=f"host-{host}",
            )  # fmt: skip
        log.stage_end(stage, max(free)).job_end(number, max(free))
    return log.end(max(free))
