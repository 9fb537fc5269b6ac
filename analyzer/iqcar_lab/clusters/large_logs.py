"""Event logs that are large in one dimension, written in memory that does not depend on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from iqcar_lab.clusters.event_log import TASK_MS, StreamedLog, node, rdd, stage_info

START = 1_700_000_000_000
"""ms since 1970 at which every application starts."""


class Case(NamedTuple):
    """One dimension: how its logs are written, how large they are, and what cannot be linear."""

    unit: str
    write: Callable[[Path, int], None]
    usual: int
    full: int
    why: str = ""


@contextmanager
def _log(folder: Path, app: str = "app-scale", start: int = START) -> Iterator[StreamedLog]:
    log = StreamedLog(folder / app, app)
    log.app(app, start=start).environment(spark_task_cpus="1")
    yield log
    log.close()


def with_cluster(
    log: StreamedLog, hosts: int, cores: int = 4, time: int = START
) -> list[tuple[str, str]]:
    """Add an executor on each host; return where tasks can run, once per slot."""
    for host in range(hosts):
        log.executor(str(host), f"host-{host}", cores, time)
    return [(f"host-{host}", str(host)) for host in range(hosts) for _ in range(cores)]


def start_query(
    log: StreamedLog, query: int, stages: list[dict[str, Any]], begin: int
) -> dict[str, str]:
    """Start an SQL query of one job with these stages; return its properties."""
    properties = {"spark.sql.execution.id": str(query)}
    plan = node("Scan parquet", metrics=[(query + 1_000_000, "scan time", "timing")])
    log.sql(query, plan, f"query {query % 50}", begin).job(query, stages, begin, properties)
    return properties


def one_stage(folder: Path, tasks: int) -> None:
    """One stage of that many tasks on 200 slots that never stand empty."""
    with _log(folder) as log:
        where = with_cluster(log, 50)
        info = stage_info(0, submission=START, **{"Number of Tasks": tasks})
        log.stage(info, start_query(log, 0, [info], START))
        for task in range(tasks):
            slot = task % len(where)
            begin = START + 1000 + task // len(where) * (TASK_MS + 20)
            # The task before in the slot has ended, however long this one takes.
            log.run_task(0, begin, where[slot], TASK_MS - task % 300 if task % 50 else TASK_MS)
        end = START + 2000 + (tasks // len(where) + 1) * (TASK_MS + 20)
        log.stage_end(info, end).job_end(0, end).sql_end(0, end).end(end + 100)


def short_queries(folder: Path, queries: int) -> None:
    """Queries of one task, one after the other, eight at any time on four slots."""
    with _log(folder) as log:
        where = with_cluster(log, 2, cores=2)
        for query in range(queries):
            begin = START + 1000 + query * 200
            info = stage_info(query, submission=begin)
            log.stage(info, start_query(log, query, [info], begin))
            log.run_task(query, begin + TASK_MS, where[query % len(where)])
            end = begin + 2 * TASK_MS
            log.stage_end(info, end).job_end(query, end).sql_end(query, end)
        log.end(end + 100)


def many_stages(folder: Path, stages: int) -> None:
    """Ten queries at once, each of jobs of five stages; each job lists one that ran before, too."""
    queries, per_job, job = 10, 5, 0
    with _log(folder) as log:
        where = with_cluster(log, 5)
        for first in range(0, stages, per_job):
            query, round_ = job % queries, job // queries
            begin = START + 1000 + round_ * per_job * 2000 + query
            before = first - queries * per_job
            ids = range(first + job, first + job + per_job)
            infos = [
                stage_info(i, parents=[i - 1], rdds=[rdd(i)], submission=begin + 2000 * at)
                for at, i in enumerate(ids, start=0)
            ]
            # What an earlier job of the query wrote, under a new id: it is skipped.
            skipped = stage_info(ids[-1] + 1, rdds=[rdd(max(before, 0) + max(job - queries, 0))])
            infos[0]["Parent IDs"] = [ids[-1] + 1]
            properties = {"spark.jobGroup.id": f"query {query}"}
            log.job(job, [*infos, skipped], begin, properties)
            for at, info in enumerate(infos):
                log.stage({**info, "Number of Tasks": 2}, properties)
                now = begin + 2000 * at
                for task in range(2):
                    log.run_task(info["Stage ID"], now + 100, where[(2 * query + task) % 20])
                log.stage_end(info, now + 1900)
            log.job_end(job, begin + 2000 * per_job)
            job += 1
        log.end(begin + 2000 * per_job + 100)


def many_hosts(folder: Path, hosts: int) -> None:
    """Four queries at once with a task on every host each."""
    with _log(folder) as log:
        where = with_cluster(log, hosts)
        infos = [
            stage_info(q, submission=START + 1000, **{"Number of Tasks": hosts}) for q in range(4)
        ]
        for query, info in enumerate(infos):
            log.stage(info, start_query(log, query, [info], START + 1000))
        for slot, place in enumerate(where):
            log.run_task(slot % 4, START + 1100 + slot % 7, place, TASK_MS + slot % 300)
        for query, info in enumerate(infos):
            end = START + 1500 + 2 * TASK_MS
            log.stage_end(info, end).job_end(query, end).sql_end(query, end)
        log.end(end + 100)


def concurrent_queries(folder: Path, queries: int) -> None:
    """Queries that all run at the same time, each of four tasks, on 64 hosts."""
    with _log(folder) as log:
        where = with_cluster(log, 64)
        infos = [stage_info(q, submission=START, **{"Number of Tasks": 4}) for q in range(queries)]
        for query, info in enumerate(infos):
            log.stage(info, start_query(log, query, [info], START))
        for task in range(4 * queries):
            begin = START + 1000 + task // len(where) * (TASK_MS + 20)
            log.run_task(task % queries, begin, where[task % len(where)])
        end = begin + 2 * TASK_MS
        for query, info in enumerate(infos):
            log.stage_end(info, end).job_end(query, end).sql_end(query, end)
        log.end(end + 100)


def many_applications(folder: Path, applications: int) -> None:
    """Applications of 150 tasks in five queries on the same ten hosts, ten at any time."""
    for number in range(applications):
        start = START + number * 1000
        with _log(folder, f"app-{number:05}", start) as log:
            where = with_cluster(log, 10, cores=1, time=start)
            for query in range(5):
                begin = start + 500 + query * 1600
                info = stage_info(query, submission=begin, **{"Number of Tasks": 30})
                log.stage(info, start_query(log, query, [info], begin))
                for task in range(30):
                    at = begin + task // len(where) * TASK_MS
                    log.run_task(query, at, where[task % len(where)], TASK_MS - 10)
                end = begin + 3 * TASK_MS
                log.stage_end(info, end).job_end(query, end).sql_end(query, end)
            log.end(end + 100)


def passing_executors(folder: Path, executors: int) -> None:
    """Executors of two tasks each, 20 alive at any time on 50 hosts; ten queries in turn."""
    alive, queries = 20, 10
    per_query = executors // queries
    with _log(folder) as log:
        for executor in range(executors):
            query, at = divmod(executor, per_query)
            begin = START + 1000 + executor * 2 * TASK_MS // alive
            place = (f"host-{executor % 50}", str(executor))
            if at == 0 and query < queries:
                info = stage_info(query, submission=begin, **{"Number of Tasks": 2 * per_query})
                log.stage(info, start_query(log, query, [info], begin))
            log.executor(place[1], place[0], 1, begin)
            query = min(query, queries - 1)
            for task in range(2):
                log.run_task(query, begin + task * TASK_MS, place)
            if executor >= alive:
                log.executor_removed(str(executor - alive), begin + 10, "idle for too long")
            if executor + 1 == executors or (at + 1 == per_query and query + 1 < queries):
                end = begin + 2 * TASK_MS
                log.stage_end(info, end).job_end(query, end).sql_end(query, end)
        log.end(end + 100)


def deep_plans(folder: Path, depth: int) -> None:
    """Five queries whose plans are chains of that many nodes; each is adapted once."""
    queries = 5
    with _log(folder) as log:
        where = with_cluster(log, 2)
        for query in range(queries):
            begin = START + 1000 + query * TASK_MS
            info = stage_info(query, submission=begin)
            plan = _deep_plan(depth, query)
            start = {"executionId": query, "description": f"deep {query}", "time": begin}
            name = "org.apache.spark.sql.execution.ui.SparkListenerSQL"
            for event, fields in (("ExecutionStart", start), ("AdaptiveExecutionUpdate", start)):
                # Put together as text: json.dumps gives up at such depths.
                head = json.dumps({"Event": name + event, **fields})
                log.raw(f'{head[:-1]},"sparkPlanInfo":{plan}}}')
            properties = {"spark.sql.execution.id": str(query)}
            log.job(query, [info], begin, properties).stage(info, properties)
            for task in range(4):
                log.run_task(query, begin + 100, where[task])
            end = begin + 2 * TASK_MS
            log.stage_end(info, end).job_end(query, end).sql_end(query, end)
        log.end(end + 100)


def _deep_plan(depth: int, query: int) -> str:
    """A chain of projections over a scan, as JSON."""
    children = json.dumps(node("Scan parquet"))
    first = (query + 1) * 1_000_000
    heads = []
    for level in range(depth):
        text = f"Project [a#{level}, (b#{level} + {query}) AS c#{level + 1}]"
        one = node("Project", text, metrics=[(first + level, "spill size", "size")])
        heads.append(json.dumps({"children": [], **{k: one[k] for k in one if k != "children"}}))
    opened = [head.replace('"children": []', '"children": [', 1) for head in heads]
    parts = [head.partition('"children": [') for head in opened]
    before = "".join(start + key for start, key, _ in parts)
    return before + children + "".join("]" + rest for _, _, rest in reversed(parts))


def shared_stage(folder: Path, jobs: int) -> None:
    """Jobs that all list one stage, most of them while it runs; every 50th runs it once more."""
    with _log(folder) as log:
        where = with_cluster(log, 5)
        shared = [stage_info(0, attempt=at, rdds=[rdd(1)]) for at in range(jobs // 50 + 1)]
        for job in range(jobs):
            begin = START + 1000 + job * 10
            own = stage_info(job + 1, parents=[0], rdds=[rdd(job + 2)])
            log.job(job, [shared[0], own], begin, {"spark.jobGroup.id": f"group {job % 20}"})
        now = START + 1000 + jobs * 10
        for job in range(jobs):
            now += 200
            properties = {"spark.jobGroup.id": f"group {job % 20}"}
            if job % 50 == 0:
                info = {**shared[job // 50], "Submission Time": now}
                log.stage(info, properties)
                log.run_task(0, now, where[0], 100, job // 50)
                log.stage_end(info, now + 150)
            own = stage_info(job + 1, parents=[0], rdds=[rdd(job + 2)], submission=now + 160)
            log.stage(own, properties)
            log.run_task(job + 1, now + 170, where[job % len(where)], TASK_MS)
            log.stage_end(own, now + 200 + TASK_MS).job_end(job, now + 210 + TASK_MS)
        log.end(now + 2 * TASK_MS)


CASES = {
    "one_stage": Case("tasks in one stage", one_stage, 100_000, 1_000_000),
    "short_queries": Case("queries of one task", short_queries, 8_000, 100_000),
    "many_stages": Case("stages", many_stages, 8_000, 50_000),
    "many_hosts": Case("hosts", many_hosts, 2_000, 5_000),
    "concurrent_queries": Case(
        "concurrent queries",
        concurrent_queries,
        500,
        2_000,
        "each query has a part in each other's wait: pairs grow with the square",
    ),
    "many_applications": Case("applications on the same hosts", many_applications, 60, 200),
    "passing_executors": Case("executors that come and go", passing_executors, 5_000, 20_000),
    "deep_plans": Case("levels of each of 5 plans", deep_plans, 2_000, 8_000),
    "shared_stage": Case("jobs that share a stage", shared_stage, 4_000, 10_000),
}
