"""Event logs of small runs to compare: queries of stages with given work and data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from iqcar_lab.clusters.event_log import SyntheticLog, node, rdd, stage_info, task_metrics

DAY_MS = 24 * 3_600_000.0
FIRST_DAY_MS = 20_000 * DAY_MS
NOTHING = {"Shuffle_Read_Metrics": {}, "Shuffle_Write_Metrics": {}, "JVM_GC_Time": 0}


@dataclass(frozen=True)
class StageWork:
    """A stage of equal tasks: what its RDD scope is called, and what each task does.

    ``reads`` has the places of the stages that it reads; by default the one before it.
    """

    scope: str
    tasks: int = 4
    task_ms: float = 2000.0
    cpu_share: float = 0.8
    task_bytes: int = 10_000_000
    task_records: int = 100
    reads: tuple[int, ...] | None = None


@dataclass(frozen=True)
class QueryWork:
    """A query: stages one after another, the first reads input."""

    stages: tuple[StageWork, ...] = (StageWork("scan"), StageWork("join"))
    driver_ms: float = 100.0
    description: str = ""
    session: Mapping[str, str] = field(default_factory=dict)
    """Spark properties that its session changed."""

    def slower(self, stage: int, factor: float) -> QueryWork:
        """The query with another time of its tasks in one stage."""
        stages = list(self.stages)
        stages[stage] = replace(stages[stage], task_ms=stages[stage].task_ms * factor)
        return replace(self, stages=tuple(stages))


def run_log(
    app: str,
    queries: Mapping[str, QueryWork],
    day: float = 0.0,
    *,
    slots: int = 4,
    host: str = "h1",
    noise: float = 0.0,
    seed: int = 0,
    version: str = "4.0.0",
    **settings: str,
) -> SyntheticLog:
    """One application that runs queries one after another.

    Parameters
    ----------
    app : str
        Application id.
    queries : mapping of str to QueryWork
        By description.
    day : float
        When it ran.
    slots : int
        Cores of its only executor.
    noise : float
        Standard deviation of the logarithm of stage times; a third of it for CPU time.
    version : str
        Of Spark.
    **settings : str
        Spark properties with underscores for dots.
    """
    draw = np.random.default_rng(seed)
    now = FIRST_DAY_MS + day * DAY_MS
    log = SyntheticLog(app, version).app("suite", now)
    log.environment(**{"spark_app_id": app, **settings})
    log.executor("1", host, slots, now)
    now += 100
    stage_id = task_id = 0
    for execution, (name, query) in enumerate(queries.items()):
        plan = node("Project", None, *(node(stage.scope) for stage in query.stages))
        properties = {"spark.sql.execution.id": str(execution), "spark.job.description": name}
        changed = {"modifiedConfigs": dict(query.session)} if query.session else {}
        log.sql(execution, plan, query.description or name, now, **changed)
        now += query.driver_ms
        infos = []
        for place, stage in enumerate(query.stages):
            reads = stage.reads if stage.reads is not None else range(place)[-1:]
            parents = [infos[other]["Stage ID"] for other in reads]
            infos.append(
                stage_info(
                    stage_id + place,
                    parents=parents,
                    rdds=[rdd(stage_id + place, scope=stage.scope)],
                    **{"Number of Tasks": stage.tasks, "Stage Name": "collect at App.scala:1"},
                )
            )
        log.job(execution, infos, now, properties)
        for info, stage in zip(infos, query.stages, strict=True):
            info = {**info, "Submission Time": now}
            log.stage(info, properties)
            scale = float(np.exp(draw.normal(0.0, noise)))
            work = float(np.exp(draw.normal(0.0, noise / 3)))
            length = round(stage.task_ms * scale)
            cpu = stage.task_ms * stage.cpu_share * work
            metrics = task_metrics(
                Executor_Run_Time=length,
                Executor_CPU_Time=round(min(cpu, length) * 1e6),
                Executor_Deserialize_Time=0,
                Executor_Deserialize_CPU_Time=0,
                Result_Serialization_Time=0,
                Input_Metrics={"Bytes Read": stage.task_bytes, "Records Read": stage.task_records},
                **NOTHING,
            )
            for task in range(stage.tasks):
                start = now + length * (task // slots)
                log.task(
                    task_id, info["Stage ID"], metrics=metrics, launch=start,
                    finish=start + length, host=host, index=task,
                )  # fmt: skip
                task_id += 1
            now += length * -(-stage.tasks // slots)
            log.stage_end(info, now)
        stage_id += len(infos)
        log.job_end(execution, now).sql_end(execution, now)
    return log.end(now + 100)


def write_runs(
    folder: Path,
    queries: Mapping[str, QueryWork],
    runs: int = 4,
    *,
    first_day: int = 0,
    noise: float = 0.02,
    **more: object,
) -> Path:
    """Write a folder of runs of the same queries, one a day."""
    folder.mkdir(parents=True, exist_ok=True)
    for run in range(runs):
        app = f"app-{first_day + run}"
        seed = first_day + run
        log = run_log(app, queries, first_day + run, noise=noise, seed=seed, **more)
        log.write(folder / app)
    return folder


SUITE: Mapping[str, QueryWork] = {
    "etl_load": QueryWork((StageWork("scan", 8), StageWork("join", 4, 5000.0))),
    "sessions": QueryWork((StageWork("scan"), StageWork("window", 8, 3000.0))),
    "dashboard": QueryWork((StageWork("scan", 4, 500.0), StageWork("aggregate", 1, 400.0))),
}


def suite_with(**changed: QueryWork) -> dict[str, QueryWork]:
    """The queries of :data:`SUITE` with some replaced."""
    return {**SUITE, **changed}
