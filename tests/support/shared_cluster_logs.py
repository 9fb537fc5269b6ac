"""Event logs of two applications on one cluster: `load` holds slots that `report` lacks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import iqcar
from iqcar.tables import Tables
from iqcar_lab.clusters.event_log import SyntheticLog, stage_info, task_metrics
from tests.support.contended_log import NO_IO

STANDALONE, YARN, KUBERNETES = "spark://master:7077", "yarn", "k8s://https://kube:6443"
MANAGERS = {
    STANDALONE: ("app-20260101000000-{:04d}", "10.0.0.{}"),
    YARN: ("application_1767225600000_{:04d}", "node-{}"),
    KUBERNETES: ("spark-{:032x}", "10.244.{}.7"),
}
"""By master: ids of applications and names of hosts; executors on Kubernetes have one each."""


class Executor(NamedTuple):
    """An executor of one application; times are seconds, those of all logs from the same start."""

    host: int
    cores: int
    added: float
    removed: float | None = None


class Query(NamedTuple):
    """A query of one stage: (executor, launch, finish) of each task."""

    name: str
    asked: float
    tasks: list[tuple[int, float, float]]


EPOCH_S = 1000


def read(logs: Sequence[SyntheticLog], folder: Path) -> Tables:
    """Write logs and read them back together."""
    return iqcar.read([log.write(folder / str(n)) for n, log in enumerate(logs)])


def application(
    number: int,
    name: str,
    executors: list[Executor],
    queries: list[Query],
    *,
    end: float,
    start: float = 0.0,
    master: str = STANDALONE,
    user: str = "ann",
    **settings: str,
) -> SyntheticLog:
    """The log of one application."""
    app_id, host = MANAGERS[master]

    def ms(seconds: float) -> float:
        return 1000 * (EPOCH_S + seconds)

    log = SyntheticLog(app_id.format(number)).app(name, ms(start), User=user)
    log.environment(spark_master=master, **settings)
    places = [
        host.format(100 * number + n if master == KUBERNETES else executor.host)
        for n, executor in enumerate(executors)
    ]
    for n, executor in enumerate(executors):
        log.executor(str(n), places[n], executor.cores, ms(executor.added))
    task_id = 0
    for n, query in enumerate(queries):
        properties = {"spark.sql.execution.id": str(n), "spark.job.description": query.name}
        finish = max(last for _, _, last in query.tasks)
        info = stage_info(n, submission=ms(query.asked), **{"Number of Tasks": len(query.tasks)})
        log.sql(n, description=query.name, time=ms(query.asked))
        log.job(n, [info], ms(query.asked), properties).stage(info, properties)
        for index, (executor, launch, last) in enumerate(query.tasks):
            run = 1000 * (last - launch) - 20
            metrics = task_metrics(
                Executor_Run_Time=run, Executor_CPU_Time=run * 1_000_000, **NO_IO
            )
            log.task(
                task_id,
                stage=n,
                metrics=metrics,
                launch=ms(launch),
                finish=ms(last),
                host=places[executor],
                executor=str(executor),
                index=index,
            )
            task_id += 1
        log.stage_end(info, ms(finish)).job_end(n, ms(finish)).sql_end(n, ms(finish))
    for n, executor in enumerate(executors):
        if executor.removed is not None:
            log.executor_removed(str(n), ms(executor.removed))
    return log.end(ms(end))


def whole_cluster_held(master: str = STANDALONE, **settings: str) -> list[SyntheticLog]:
    """`load` holds all four slots for 30 s; `report` asks at 2 s, and has them from 32 s on."""
    load = application(
        1,
        "nightly",
        [Executor(1, 2, 1.0), Executor(2, 2, 1.0)],
        [Query("load", 1.0, [(n // 2, 1.0, 30.0) for n in range(4)])],
        end=30.0,
        master=master,
        **settings,
    )
    report = application(
        2,
        "morning",
        [Executor(1, 2, 32.0), Executor(2, 2, 32.0)],
        [Query("report", 2.0, [(n % 4 // 2, 32.0 + n // 4, 33.0 + n // 4) for n in range(8)])],
        end=34.0,
        master=master,
        **settings,
    )
    return [load, report]


def three_of_four_held(
    busy: float = 30.0, early: float = 0.0, **settings: str
) -> list[SyntheticLog]:
    """`load` holds three of four slots for 30 s; `report` runs 20 tasks of 1 s in the fourth.

    `load` keeps its executors when its tasks end. Each task of `report` is launched so much earlier
    than the one before is noted to have ended. Settings are those of the report's application.
    """
    load = application(
        1,
        "nightly",
        [Executor(1, 2, 1.0), Executor(2, 1, 1.0)],
        [Query("load", 1.0, [(n // 2, 1.0, busy) for n in range(3)])],
        end=30.0,
    )
    report = application(
        2,
        "morning",
        [Executor(2, 1, 3.0)],
        [Query("report", 4.0, [(0, 4.0 + n - early * (n > 0), 5.0 + n) for n in range(20)])],
        end=25.0,
        start=2.0,
        **settings,
    )
    return [load, report]
