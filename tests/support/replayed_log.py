"""An event log of what the plain scheduler did: what Spark would have written about it."""

from __future__ import annotations

from pathlib import Path

from iqcar_lab.clusters.event_log import SyntheticLog, stage_info, task_metrics
from tests.support.naive_replay import Problem, Schedule, simulate

START = 1_700_000_000_000


def log_of(
    problem: Problem,
    shares: Problem | None = None,
    names: tuple[str, ...] = (),
    app_id: str = "app-1",
    start: int = START,
) -> SyntheticLog:
    """Run a problem whose times are whole ms, and write its log; queries are called by name."""
    schedule = simulate(problem, shares)
    shares = shares or problem
    log = SyntheticLog(app_id).app("replayed", start)
    log.environment(spark_scheduler_mode=shares.mode, spark_task_cpus=str(problem.task_cpus))
    events = [*_executors(problem, start), *_queries(problem, shares, schedule, names, start)]
    for _, _, method, args, kwargs in sorted(events, key=lambda event: event[:2]):
        getattr(log, method)(*args, **kwargs)
    return log.end(start + max(schedule.query_end.values()))


def write_log(path: Path, problem: Problem, **options) -> Path:
    return log_of(problem, **options).write(path)


def _executors(problem: Problem, start: int):
    for number, executor in enumerate(problem.executors):
        time = start + executor.added
        yield time, 0, "executor", (str(number), "host-a", executor.cores, time), {}


def _queries(
    problem: Problem, shares: Problem, schedule: Schedule, names: tuple[str, ...], start: int
):
    properties = {}
    for q, query in enumerate(problem.queries):
        name = names[q] if names else f"q{q}"
        time, end = start + query.start, start + schedule.query_end[q]
        properties[q] = {
            "spark.sql.execution.id": str(q),
            "spark.job.description": name,
            "spark.scheduler.pool": shares.queries[q].pool or "default",
        }
        yield time, 1, "sql", (q,), {"description": name, "time": time}
        yield end, 7, "sql_end", (q, end), {}
    infos = {}
    for t in schedule.sets:
        key = (t.query, t.job)
        mine = [u for u in schedule.sets if (u.query, u.job) == key]
        infos[id(t)] = stage_info(
            t.stage_id,
            parents=[u.stage_id for u in mine if u.stage in t.plan.parents],
            submission=start + t.submitted,
            **{"Number of Tasks": len(t.plan.tasks)},
        )
        time = start + t.submitted
        yield time, 3, "stage", (infos[id(t)], properties[t.query]), {}
        yield start + t.ended, 5, "stage_end", (infos[id(t)], start + t.ended), {}
    for key, (time, end) in schedule.job_times.items():
        number = schedule.job_ids[key]
        mine = [infos[id(t)] for t in schedule.sets if (t.query, t.job) == key]
        yield start + time, 2, "job", (number, mine, start + time, properties[key[0]]), {}
        yield start + end, 6, "job_end", (number, start + end), {}
    for number, ran in enumerate(schedule.tasks):
        run = max(int(ran.finish - ran.launch) - 20, 0)
        yield (
            start + ran.finish,
            4,
            "task",
            (number,),
            {
                "stage": ran.task_set.stage_id,
                "executor": str(ran.executor),
                "host": "host-a",
                "index": ran.index,
                "attempt": 0,
                "launch": start + ran.launch,
                "finish": start + ran.finish,
                "metrics": task_metrics(
                    Executor_Run_Time=run,
                    Executor_CPU_Time=run * 1_000_000,
                    Shuffle_Read_Metrics={},
                    Input_Metrics={},
                    Shuffle_Write_Metrics={},
                    JVM_GC_Time=0,
                ),
            },
        )
