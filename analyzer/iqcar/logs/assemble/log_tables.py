"""Puts what was collected of one log into its tables; those of tasks and records have own files."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, isnan, nan
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from iqcar import tables as tb
from iqcar.logs.assemble.task_table import Rows, add_records, build_tasks
from iqcar.logs.collect import MAX_NAME, Collector, Executor, Stage
from iqcar.logs.events.operators import SEPARATOR, stage_label
from iqcar.logs.events.settings import is_broadcast
from iqcar.logs.events.sql_collect import SqlCollector, user_named
from iqcar.logs.plugin.plugin_events import (
    LOG_QUEUE,
    RULES_QUEUE,
    decode_samples,
    driver_tables,
    dropped_events,
    samples_frame,
)
from iqcar.logs.text import redact_text

if TYPE_CHECKING:
    from numpy.typing import NDArray


def sides_of_joins(
    sql: SqlCollector,
    fed: Sequence[Iterable[float]],
    readers: Sequence[int],
    writers: Sequence[int],
) -> list[float]:
    """Return, for each edge of the DAG, the bytes that a join there could have had broadcast.

    Only joins count that are all that their stage reads: else nobody can tell whose sides are
    whose.

    fed: the accumulators that each stage fed.
    readers, writers: the stages of each edge.

    Returns bytes in memory; NaN where there is no such join.
    """
    joins = [join for execution in sql.executions.values() for join in execution.joins]
    sides = [nan] * len(readers)
    if not joins:
        return sides
    asked = {side for join in joins for side in (join.left, join.right)}
    wrote = {one: stage for stage, keys in enumerate(fed) for one in keys if one in asked}
    edges = {pair: edge for edge, pair in enumerate(zip(readers, writers, strict=True))}
    read_by: dict[int, list[int]] = {}
    for reader, writer in edges:
        read_by.setdefault(writer, []).append(reader)
    parents = Counter(readers)
    sizes = sql.metrics.totals()
    for join in joins:
        left, right = wrote.get(join.left), wrote.get(join.right)
        if left is None or right is None:
            continue
        for reader in read_by.get(left, ()):
            if parents[reader] == 2 and (reader, right) in edges:
                for stage, side, builds in (
                    (left, join.left, join.builds_left), (right, join.right, join.builds_right)
                ):  # fmt: skip
                    if builds and int(side) in sql.metrics.rows:
                        sides[edges[reader, stage]] = float(sizes[sql.metrics.rows[int(side)]])
    return sides


def link_stages(
    keys: Sequence[tuple[int, int]],
    submission: NDArray[np.float64],
    parents: Sequence[tuple[int, ...]],
    last_rdd: Mapping[int, int],
) -> tuple[list[int], list[int]]:
    """Find the edges of the DAG.

    submission: (stages,) array; submission in ms; NaN if unknown.
    parents: each stage's parents as Spark names them.
    last_rdd: the last RDD of each stage, also of skipped ones.

    Returns the stages that read, and beside them the stages they read from.
    """
    submitted = [float(when) for when in submission]
    of_id: dict[int, list[int]] = defaultdict(list)
    of_rdd: dict[int, list[int]] = defaultdict(list)
    for row, (stage_id, _) in enumerate(keys):
        of_id[stage_id].append(row)
        if stage_id in last_rdd:
            of_rdd[last_rdd[stage_id]].append(row)
    same_id: dict[int, _Candidates] = {}
    same_rdd: dict[int, _Candidates] = {}
    found: list[list[int]] = [[] for _ in keys]
    for row in sorted(range(len(keys)), key=lambda row: keys[row][0]):
        chosen = set()
        for parent in parents[row]:
            if parent in of_id:
                rows, known, at = of_id[parent], same_id, parent
            elif (rdd := last_rdd.get(parent)) in of_rdd:
                rows, known, at = of_rdd[rdd], same_rdd, rdd
            else:
                continue
            if len(rows) == 1:
                (only,) = rows
                if keys[only][0] < keys[row][0] and not submitted[only] > submitted[row]:
                    chosen.add(only)
                continue
            if at not in known:
                known[at] = _Candidates(rows, keys, submitted)
            before = known[at].latest_before(keys[row][0], submitted[row])
            if before is not None:
                chosen.add(before)
        found[row] = sorted(chosen)
    readers = [row for row, chosen in enumerate(found) for _ in chosen]
    return readers, [writer for chosen in found for writer in chosen]


class _Candidates:
    """Stages that may have done the work of one parent, asked for in the order of stage ids.

    A shuffle can be read by thousands of stages and have been written by thousands: who looks at
    all candidates for each reader takes their product.
    """

    def __init__(
        self, rows: list[int], keys: Sequence[tuple[int, int]], submission: list[float]
    ) -> None:
        self._waiting = sorted(((keys[row][0], row) for row in rows), reverse=True)
        self._submission = submission
        self._earlier: list[tuple[float, int]] = []

    def latest_before(self, stage_id: int, submission: float) -> int | None:
        """Return the latest candidate that was submitted before a stage; None if none was.

        An edge always leads from a later stage to an earlier one, so there are no cycles. Of a
        candidate whose submission is not known any other is the later one.
        """
        while self._waiting and self._waiting[-1][0] < stage_id:
            _, row = self._waiting.pop()
            when = self._submission[row]
            insort(self._earlier, (-inf, -row) if isnan(when) else (when, row))
        limit = inf if isnan(submission) else submission
        at = bisect_right(self._earlier, (limit, len(self._submission)))
        return abs(self._earlier[at - 1][1]) if at else None


TOO_MANY = "so many cached blocks that those who held storage memory are not told"


def cached_table(
    log: Collector,
    executors: Mapping[str, int],
    stages: Mapping[tuple[int, int], int],
    end_ms: float,
) -> pd.DataFrame:
    """Build the table of one log; what was held is of the RDD's first stage.

    log: a log read to its end.
    executors, stages: row numbers; what another executor held is left out: no task waited there.
    end_ms: when the application ended; NaN if that is not known.
    """
    names: dict[str, int] = {"": 0}
    parts: list[tuple[int, int, int, int]] = []
    spans: list[tuple[np.ndarray[tuple[int], np.dtype[np.float64]], ...]] = []
    for held in log.task_intake.cached.held():
        row = executors.get(held.executor)
        if row is None or not len(held.times):
            continue
        name, key = log.cached_rdds.get(held.rdd, ("", (tb.NONE, tb.NONE)))
        last = np.fmin(np.fmax(end_ms, held.times[-1]), log.executors[held.executor].removed)
        until = np.minimum(np.append(held.times[1:], last), last)
        kept = (held.sizes > 0) & (until > held.times)
        parts += [(row, stages.get(key, tb.NONE), held.rdd, names.setdefault(name, len(names)))]
        spans.append((held.times[kept], until[kept], held.sizes[kept]))
    if not parts:
        return tb.CACHED.empty()
    often = [len(since) for since, _, _ in spans]
    executor, stage, rdd, name_codes = np.repeat(np.array(parts, np.int64), often, axis=0).T
    since, until, size = (np.concatenate(column) for column in zip(*spans, strict=True))
    return tb.CACHED.frame(
        {
            "app": np.zeros(len(since)),
            "executor": executor,
            "stage": stage,
            "rdd": rdd,
            "name": pd.Categorical.from_codes(name_codes, list(names)),
            "since_ms": since,
            "until_ms": until,
            "bytes": size,
        }
    )


DEFAULT_EXECUTOR_CORES, DEFAULT_EXECUTORS = 1.0, 2.0
"""Spark's defaults for spark.executor.cores and spark.executor.instances on YARN and Kubernetes."""
DEFAULT_SCHEDULER = "FIFO"
"""Spark's default for spark.scheduler.mode."""


@dataclass
class Assembled:
    """The tables of one log, and what was found out while building them."""

    frames: dict[str, pd.DataFrame]
    hosts_of_tasks: int
    bad_times: int
    bad_moments: int


def assemble(log: Collector, path: str, attempt_id: str) -> Assembled:
    """Build the tables of one log, without its ``inputs`` row.

    log: a log read to its end.
    path: names the application if the log does not.
    attempt_id: attempt of the application as its file name tells; the log itself knows better.

    Returns all tables of :data:`iqcar.tables.SPECS` but ``inputs`` and ``queries``; row numbers
    count from 0 in each.
    """
    hosts: dict[str, int] = {}
    executors: dict[str, int] = {}
    stages: dict[tuple[int, int], int] = {}
    for key in log.stages:
        stages.setdefault(key, len(stages))
    for executor_id in log.executors:
        executors.setdefault(executor_id, len(executors))
    rows = Rows(stages, hosts, executors)
    tasks, failures, facts = build_tasks(log, rows)
    for key in stages:
        log.stages.setdefault(key, Stage())
    for executor_id in executors:
        executor = log.executors.setdefault(executor_id, Executor())
        executor.host = executor.host or facts.host_of_executor.get(executor_id, "")
    for executor in log.executors.values():
        if executor.host:
            hosts.setdefault(executor.host, len(hosts))
    samples = samples_frame(decode_samples(log.plugin_events), 0, hosts, executors)
    job_rows = {number: row for row, number in enumerate(log.jobs)}
    sql_rows = {number: row for row, number in enumerate(log.sql.executions)}
    stage_frame, parents = _stages(log, stages, job_rows, facts.first_launch, facts.last_finish)
    application = _application(log, path, attempt_id, facts.first_time, facts.last_time)
    end = float(application["end_ms"].iloc[0])
    frames = {
        "applications": application,
        "hosts": tb.HOSTS.frame({"host": [redact_text(host, MAX_NAME) for host in hosts]}),
        "executors": _executors(log, list(executors), hosts),
        "sql_executions": _sql(log),
        "jobs": _jobs(log, sql_rows),
        "stages": stage_frame,
        "stage_parents": parents,
        "tasks": tasks,
        "task_failures": failures,
        "sql_metrics": _metrics(log, sql_rows),
        "conf": _conf(log, sql_rows),
        "job_properties": _job_properties(log),
        "cached": cached_table(log, executors, stages, end),
        "samples": samples,
    }
    add_records(log, frames)
    frames |= driver_tables(log.plugin_events, sql_rows)
    return Assembled(frames, facts.hosts, facts.bad_times, facts.bad_moments)


def _application(
    log: Collector, path: str, attempt_id: str, first_time: float, last_time: float
) -> pd.DataFrame:
    start, dropped = log.application, dropped_events(log.plugin_events)
    began = start.time if start and isfinite(start.time) else first_time
    if began > last_time:
        began = first_time  # nothing happens before its application has started
    end = log.end if log.end >= began else last_time
    return tb.APPLICATIONS.frame(
        {
            "application_id": [application_id(log, path)],
            "attempt_id": [redact_text(start.attempt if start else "", MAX_NAME) or attempt_id],
            "name": [redact_text(start.name if start else "", MAX_NAME)],
            "user": [redact_text(start.user if start else "", MAX_NAME)],
            "spark_version": [log.version],
            "start_ms": [began],
            "end_ms": [end],
            "ended": [log.ended],
            "task_cpus": [_positive(log.settings.get("spark.task.cpus"))],
            "scheduler_mode": [
                (log.settings.get("spark.scheduler.mode") or DEFAULT_SCHEDULER).upper()
            ],
            "master": [log.settings.get("spark.master", "")],
            "executor_cores": [_count(log.settings.get("spark.executor.cores"))],
            "most_slots": [_most_slots(log.settings)],
            "gone_until_ms": [nan],
            "dropped_events": [dropped.get(LOG_QUEUE, nan)],
            "dropped_for_rules": [dropped.get(RULES_QUEUE, nan)],
        }
    )


def application_id(log: Collector, path: str) -> str:
    """Return the id Spark gave, else the file's name without its endings."""
    if log.application is not None and log.application.id:
        return redact_text(log.application.id, MAX_NAME)
    name = path.rstrip("/").replace("\\", "/").rsplit("/", 1)[-1]
    return name.removesuffix(".inprogress").split(".", 1)[0] or name


def _positive(text: str | None) -> float:
    """Parse spark.task.cpus, 1 by default."""
    value = _count(text)
    return value if isfinite(value) else 1.0


def _count(text: str | None) -> float:
    """Parse a number of cores or executors; NaN where it is not set, or is none."""
    try:
        value = float(text) if text else nan
    except ValueError:
        return nan
    return value if 0 < value < 2**31 else nan  # Spark counts in 32-bit integers


def _most_slots(settings: Mapping[str, str]) -> float:
    """Return the most slots that an application's settings allow it; NaN where none limits it.

    Spark's defaults count on YARN and Kubernetes, where an executor has one core and an application
    without dynamic allocation two executors. On a standalone cluster an executor takes all cores of
    its worker, and an application all executors.
    """
    master = settings.get("spark.master", "")
    cores = _count(settings.get("spark.executor.cores"))
    limit = _count(settings.get("spark.cores.max"))
    dynamic = settings.get("spark.dynamicAllocation.enabled", "").strip().lower() == "true"
    most = "spark.dynamicAllocation.maxExecutors" if dynamic else "spark.executor.instances"
    executors = _count(settings.get(most))
    if master.startswith(("yarn", "k8s://")):
        cores = cores if isfinite(cores) else DEFAULT_EXECUTOR_CORES
        if not dynamic and not isfinite(executors):
            executors = DEFAULT_EXECUTORS
    if master.startswith("spark://") and not dynamic:
        return limit
    return float(np.fmin(limit, executors * cores))


def _executors(log: Collector, ids: Sequence[str], hosts: dict[str, int]) -> pd.DataFrame:
    found = [log.executors[executor_id] for executor_id in ids]
    if sum(executor.cores for executor in found if executor.cores > 0) > tb.MOST_CORES_OF_A_LOG:
        log.bad.add("Total Cores", len(found))
        found = [replace(executor, cores=nan) for executor in found]
    return tb.EXECUTORS.frame(
        {
            "app": np.zeros(len(ids)),
            "executor_id": [redact_text(executor_id, MAX_NAME) for executor_id in ids],
            "host": [hosts.get(executor.host, tb.NONE) for executor in found],
            "cores": [executor.cores for executor in found],
            "added_ms": [executor.added for executor in found],
            "removed_ms": [executor.removed for executor in found],
            "removed_reason": [executor.reason for executor in found],
            "excluded_ms": [executor.excluded for executor in found],
        }
    )


def _sql(log: Collector) -> pd.DataFrame:
    executions = log.sql.executions
    found = list(executions.values())
    return tb.SQL_EXECUTIONS.frame(
        {
            "app": np.zeros(len(found)),
            "execution_id": list(executions),
            "root_execution_id": [
                int(one.root) if isfinite(one.root) else number
                for number, one in executions.items()
            ],
            "description": _names_of_executions(log),
            "user_named": [user_named(one) for one in found],
            "plan_hash": [one.plan_hash for one in found],
            "start_ms": [one.start for one in found],
            "end_ms": [one.end for one in found],
            "error": [one.error for one in found],
            "succeeded": [one.succeeded for one in found],
            "tables": [one.tables for one in found],
            "operators": [one.operators for one in found],
        }
    )


def _names_of_executions(log: Collector) -> list[str]:
    """Return each SQL execution's description; one that Spark Connect made is replaced.

    The jobs know better: the user's description, else the client's tags, else the statement that
    was requested. Without any the plan says what the query does.
    """
    executions = log.sql.executions
    of_jobs: dict[float, tuple[str, ...]] = {}
    for job in log.jobs.values():
        execution = executions.get(int(job.execution)) if isfinite(job.execution) else None
        if execution is None or execution.description:
            continue
        described = "" if is_broadcast(job.description) else job.description
        told = (described, job.tags, log.connect_requests.get(job.connect, ""))
        for number in {job.execution, execution.root} if any(told) else ():
            known = of_jobs.get(number, told)
            of_jobs[number] = tuple(a or b for a, b in zip(known, told, strict=True))
    return [
        one.description
        or (next(filter(None, of_jobs.get(number, ())), one.plan_name) if one.plan_hash else "")
        for number, one in executions.items()
    ]


def _jobs(log: Collector, sql_rows: dict[int, int]) -> pd.DataFrame:
    jobs = list(log.jobs.values())
    return tb.JOBS.frame(
        {
            "app": np.zeros(len(jobs)),
            "job_id": list(log.jobs),
            "query": np.full(len(jobs), tb.NONE),
            "sql_execution": [
                sql_rows.get(int(job.execution), tb.NONE) if isfinite(job.execution) else tb.NONE
                for job in jobs
            ],
            "connect_operation": [job.connect for job in jobs],
            "connect_request": [log.connect_requests.get(job.connect, "") for job in jobs],
            "job_group": [job.group for job in jobs],
            "description": [job.description or job.tags for job in jobs],
            "pool": [job.pool for job in jobs],
            "user": [job.user for job in jobs],
            "session": [job.session for job in jobs],
            "submission_ms": [job.submission for job in jobs],
            "completion_ms": [job.completion for job in jobs],
            "succeeded": [job.succeeded for job in jobs],
            "error": [job.error for job in jobs],
        }
    )


def _stages(
    log: Collector,
    rows: dict[tuple[int, int], int],
    job_rows: dict[int, int],
    first_launch: np.ndarray[Any, np.dtype[np.float64]],
    last_finish: np.ndarray[Any, np.dtype[np.float64]],
) -> tuple[pd.DataFrame, pd.DataFrame]:
    keys = list(rows)
    stages = [log.stages[key] for key in keys]
    completion = np.array([stage.completion for stage in stages], np.float64)
    submission = np.array([stage.submission for stage in stages], np.float64)
    jobs = [
        stage.job if stage.job >= 0 else log.jobs_of_stages.first(stage_id)
        for stage, (stage_id, _) in zip(stages, keys, strict=True)
    ]
    job_pool = {number: job.pool for number, job in log.jobs.items()}
    operators = [log.sql.operators.fed_by(stage.fed) for stage in stages]
    readers, writers = link_stages(
        keys, submission, [stage.parents for stage in stages], log.last_rdd
    )
    frame = tb.STAGES.frame(
        {
            "app": np.zeros(len(keys)),
            "stage_id": [stage_id for stage_id, _ in keys],
            "attempt": [attempt for _, attempt in keys],
            "name": [stage.name for stage in stages],
            "job": [job_rows.get(job, tb.NONE) for job in jobs],
            "query": np.full(len(keys), tb.NONE),
            "pool": [
                stage.pool or job_pool.get(job, "") for stage, job in zip(stages, jobs, strict=True)
            ],
            "declared_tasks": [
                int(stage.tasks) if isfinite(stage.tasks) else tb.NONE for stage in stages
            ],
            "submission_ms": submission,
            "first_launch_ms": first_launch,
            "completion_ms": np.where(np.isnan(completion), last_finish, completion),
            "completed": [stage.completed for stage in stages],
            "failure_reason": [stage.failure for stage in stages],
            "rdd": [log.last_rdd.get(stage_id, tb.NONE) for stage_id, _ in keys],
            "python": [stage.python for stage in stages],
            "label": [
                stage_label(stage.scopes, ran) for stage, ran in zip(stages, operators, strict=True)
            ],
            "operators": [SEPARATOR.join(ran) for ran in operators],
            "depth": np.full(len(keys), tb.NONE),
            "critical": np.zeros(len(keys), bool),
        }
    )
    sides = sides_of_joins(log.sql, [stage.fed for stage in stages], readers, writers)
    parents = {"stage": readers, "parent": writers, "side_bytes": sides}
    return frame, tb.STAGE_PARENTS.frame(parents)


def _metrics(log: Collector, sql_rows: dict[int, int]) -> pd.DataFrame:
    metrics = log.sql.metrics
    executions = [sql_rows.get(execution, tb.NONE) for execution, _ in metrics.runs]
    return tb.SQL_METRICS.frame(
        {
            "app": np.zeros(len(metrics)),
            "sql_execution": np.repeat(executions, [count for _, count in metrics.runs]),
            "accumulator_id": list(metrics.rows),
            "node": metrics.nodes,
            "metric": metrics.names,
            "unit": metrics.units,
            "total": metrics.totals(),
        }
    )


def _conf(log: Collector, sql_rows: dict[int, int]) -> pd.DataFrame:
    """Return versions and Spark properties, then what SQL executions had set to something else."""
    versions = {"spark.version": log.version, "java.version": log.java, "scala.version": log.scala}
    of_app = {**{key: told for key, told in versions.items() if told}, **log.settings}
    rows = [(tb.NONE, *pair) for pair in of_app.items()]
    for number, execution in log.sql.executions.items():
        row = sql_rows[number]
        rows += [
            (row, *pair) for pair in execution.settings.items() if of_app.get(pair[0]) != pair[1]
        ]
    return tb.CONF.frame(
        {
            "app": np.zeros(len(rows)),
            "sql_execution": [row for row, _, _ in rows],
            "key": [key for _, key, _ in rows],
            "value": [value for _, _, value in rows],
        }
    )


def _job_properties(log: Collector) -> pd.DataFrame:
    """Return what jobs set unlike their application."""
    rows = [
        (row, *pair) for row, job in enumerate(log.jobs.values()) for pair in job.properties.items()
    ]
    return tb.JOB_PROPERTIES.frame(
        {
            "job": [row for row, _, _ in rows],
            "key": [key for _, key, _ in rows],
            "value": [value for _, _, value in rows],
        }
    )
