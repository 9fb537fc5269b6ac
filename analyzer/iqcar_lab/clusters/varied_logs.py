"""Valid event logs of clusters that vary in all that clusters vary in: one set for each seed.

Hosts are named anew in each set and come and go; ids begin anywhere; applications have executors'
events or not, SQL or not, an end or not; clocks are apart; versions, codecs and layouts differ. Two
folders hold the same recurring queries, unless they have nothing in common.
"""

from __future__ import annotations

import gzip
import heapq
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import zstandard

from iqcar_lab.clusters.event_log import SyntheticLog, node, stage_info, task_metrics

VERSIONS = ("1.6.3", "2.4.8", "3.0.1", "3.3.2", "3.5.3", "4.0.0", "4.3.0")
FIRST_IDS = (0, 0, 1, 17, 999_999, 2_000_000_000)
"""Where ids of jobs, stages and tasks begin."""
WORDS = (
    "etl", "daily sales", "q39b", "SELECT *\nFROM t", "über", "\u0627\u0644\u0639", "a\u202eb",
    "\x1b[31mred", "naïve \u200b", "x" * 700, "日報", "</script>", "-", "'; --", "report 20261002",
)  # fmt: skip
HOST_NAMES = ("ip-10-{a}-{b}-7.ec2.internal", "w{a}.{b}.example.org", "10.{a}.{b}.3", "node-{a}{b}")
DAY_MS = 86_400_000.0


class VariedSet(NamedTuple):
    """Two folders of logs, and names that stand in them.

    Attributes
    ----------
    before, after : dict of str to bytes
        Files by name.
    queries, hosts : list of str
        Of the first folder; queries may be without any.
    running : str
        Name of a log of the first folder that has no end; empty if there is none.
    """

    before: dict[str, bytes]
    after: dict[str, bytes]
    queries: list[str]
    hosts: list[str]
    running: str

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write both folders; return them."""
        for side, files in (("before", self.before), ("after", self.after)):
            for name, content in files.items():
                path = folder / side / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        return folder / "before", folder / "after"


@dataclass
class _Query:
    """A recurring query: tasks of each stage, and how long one takes."""

    name: str
    stages: list[tuple[int, float]]
    reads: float


@dataclass
class _Cluster:
    """What the applications of one side share."""

    hosts: list[str]
    queries: list[_Query]
    version: str
    sql: bool
    start: float
    seen_queries: set[str] = field(default_factory=set)
    seen_hosts: set[str] = field(default_factory=set)


def varied_set(seed: int) -> VariedSet:
    """Draw a set; the same for the same seed."""
    draw = random.Random(seed)
    queries = [_query(draw) for _ in range(draw.choice((1, 1, 3, 6)))]
    start = draw.choice((1.2e12, 1.7e12, 1.79e12)) + draw.uniform(0, DAY_MS)
    first = _Cluster(_hosts(draw), queries, draw.choice(VERSIONS), draw.random() < 0.8, start)
    common = draw.random()
    second = _Cluster(
        first.hosts if common < 0.3 else _hosts(draw),
        queries if common < 0.9 else [_query(draw) for _ in range(2)],
        first.version if draw.random() < 0.7 else draw.choice(VERSIONS),
        first.sql,
        start + draw.choice((1, 7, 400)) * DAY_MS,
    )
    before, running = _files(first, draw)
    after, _ = _files(second, draw)
    return VariedSet(before, after, sorted(first.seen_queries), sorted(first.seen_hosts), running)


def _hosts(draw: random.Random) -> list[str]:
    pattern, count = draw.choice(HOST_NAMES), draw.choice((1, 1, 2, 3, 5, 40, 200))
    names = {pattern.format(a=draw.randrange(250), b=draw.randrange(250)) for _ in range(count)}
    return sorted(names)


def _query(draw: random.Random) -> _Query:
    stages = [
        (draw.choice((1, 2, 4, 16, 40)), draw.choice((5.0, 300.0, 4000.0)))
        for _ in range(draw.choice((1, 1, 2, 3)))
    ]
    return _Query(draw.choice(WORDS), stages, draw.choice((0.0, 1e3, 2e6)))


def _files(cluster: _Cluster, draw: random.Random) -> tuple[dict[str, bytes], str]:
    files: dict[str, bytes] = {}
    running = ""
    for number in range(draw.choice((1, 1, 2, 4))):
        form = draw.choice(("app-2026{:010d}-0001", "application_{:013d}_0007", "local-{}"))
        app_id = form.format(int(cluster.start) % 10**9 + number)
        log, ended = _application(app_id, cluster, draw)
        content = log.bytes()
        how = draw.random()
        if not ended and how < 0.5:
            running = f"{app_id}.inprogress"
            files[running] = content
        elif how < 0.6:
            files[app_id] = content
        elif how < 0.75:
            files[f"{app_id}.zstd"] = zstandard.compress(content, 1)
        elif how < 0.85:
            files[f"{app_id}.gz"] = gzip.compress(content, 1, mtime=0)
        else:
            cut = content.index(b"\n", len(content) // 2) + 1
            folder = f"eventlog_v2_{app_id}"
            files[f"{folder}/appstatus_{app_id}{'' if ended else '.inprogress'}"] = b""
            files[f"{folder}/events_1_{app_id}"] = content[:cut]
            files[f"{folder}/events_2_{app_id}"] = content[cut:]
    return files, running


def _application(app_id: str, cluster: _Cluster, draw: random.Random) -> tuple[SyntheticLog, bool]:
    """One application: queries that begin at any time, on executors that come and go."""
    start = cluster.start + draw.uniform(0, 60_000) + draw.choice((0.0, 0.0, -3.6e6, 4_000.0))
    log = SyntheticLog(app_id, cluster.version).app(draw.choice(WORDS), start)
    log.environment(**_settings(draw))
    slots, known = _executors(log, cluster, start, draw)
    first = draw.choice(FIRST_IDS)
    state = _Ids(first, first, first, draw.choice(FIRST_IDS))
    now = start + 500.0
    for _ in range(draw.choice((0, 1, 2, 5))):
        query = draw.choice(cluster.queries)
        now += draw.uniform(0, 3000)
        cluster.seen_queries.add(query.name)
        _run(log, query, cluster, now, slots, state, draw)
    end = max([now, *(free for free, *_ in slots)]) + 100.0
    for executor, _ in known[: draw.randrange(len(known) + 1) if known else 0]:
        log.executor_removed(executor, end - 50.0, draw.choice(("", "Executor lost", "idle")))
    ended = draw.random() < 0.75
    if ended:
        log.end(end)
    return log, ended


@dataclass
class _Ids:
    job: int
    stage: int
    task: int
    execution: int


def _settings(draw: random.Random) -> dict[str, str]:
    settings = {
        "spark_master": draw.choice(("yarn", "spark://m:7077", "k8s://https://h:443", "local[4]")),
        "spark_executor_cores": "2",
        "spark_my_password": "hunter2",
    }
    if draw.random() < 0.5:
        settings["spark_scheduler_mode"] = "FAIR"
    if draw.random() < 0.3:
        settings["spark_dynamicAllocation_enabled"] = "true"
    return settings if draw.random() < 0.9 else {}


def _executors(
    log: SyntheticLog, cluster: _Cluster, start: float, draw: random.Random
) -> tuple[list[tuple[float, str, str]], list[tuple[str, float]]]:
    """Slots as a heap of (free at, executor, host), and the executors that have an event."""
    first, told = draw.choice((0, 1, 700)), draw.random() < 0.85
    slots: list[tuple[float, str, str]] = []
    known = []
    chosen = draw.sample(cluster.hosts, min(len(cluster.hosts), draw.choice((1, 2, 40))))
    for number, host in enumerate(chosen):
        added = start + draw.choice((0.0, 100.0, 5_000.0))
        cores = draw.choice((1, 2, 4))
        cluster.seen_hosts.add(host)
        if told:
            log.executor(str(first + number), host, cores, added)
            known.append((str(first + number), added))
        slots += [(added, str(first + number), host)] * cores
    heapq.heapify(slots)
    return slots, known


def _run(
    log: SyntheticLog, query: _Query, cluster: _Cluster, asked: float,
    slots: list[tuple[float, str, str]], ids: _Ids, draw: random.Random,
) -> None:  # fmt: skip
    """One run of a query: stages in a chain, on slots that are free."""
    properties: dict[str, str] = {}
    if draw.random() < 0.3:
        properties["spark.jobGroup.id"] = query.name
    if draw.random() < 0.3:
        properties["spark.scheduler.pool"] = draw.choice(("gold", "default", "\u202epool"))
    execution = ids.execution
    if cluster.sql:
        properties["spark.sql.execution.id"] = str(execution)
        plan = node("Project", "Project [a#1]", node("Scan parquet t", "Scan t"))
        log.sql(execution, plan, description=query.name, time=asked)
        ids.execution += 1
    properties["spark.job.description"] = query.name
    infos = [
        stage_info(
            ids.stage + at, parents=[ids.stage + at - 1] if at else [],
            **{"Number of Tasks": tasks, "Resource Profile Id": draw.choice((0, 0, 1))},
        )
        for at, (tasks, _) in enumerate(query.stages)
    ]  # fmt: skip
    skipped = [stage_info(ids.stage + len(infos))] if draw.random() < 0.2 else []
    job = ids.job
    log.job(job, infos + skipped, asked, properties)
    ids.job, ids.stage = job + 1, ids.stage + len(infos) + len(skipped)
    now, unfinished = asked, draw.random() < 0.1
    for info, (tasks, ms) in zip(infos, query.stages, strict=True):
        info = {**info, "Submission Time": now}
        log.stage(info, properties)
        now = _tasks(log, info, tasks, ms, query.reads, now, slots, ids, draw)
        if unfinished:
            return
        log.stage_end(info, now)
    log.job_end(job, now, draw.random() < 0.9)
    if cluster.sql:
        log.sql_end(execution, now, draw.choice(("", "", "", "it failed: no such table")))


def _tasks(
    log: SyntheticLog, info: dict[str, object], tasks: int, ms: float, reads: float, now: float,
    slots: list[tuple[float, str, str]], ids: _Ids, draw: random.Random,
) -> float:  # fmt: skip
    """Run the tasks of a stage; return when the last one ended."""
    last = now
    stage = int(str(info["Stage ID"]))
    for index in range(tasks):
        attempts = 2 if draw.random() < 0.05 else 1
        for attempt in range(attempts):
            free, executor, host = heapq.heappop(slots)
            launch = max(free, now) + draw.uniform(0, 5)
            took = ms * draw.lognormvariate(0, 0.3)
            finish = launch + took
            heapq.heappush(slots, (finish, executor, host))
            run = max(int(took) - 5, 0)
            metrics = task_metrics(
                Executor_Run_Time=run, Executor_CPU_Time=int(run * draw.uniform(0.1, 1) * 1e6),
                Input_Metrics={"Bytes Read": int(reads), "Records Read": 10},
            )  # fmt: skip
            failed = attempt < attempts - 1
            reason = draw.choice(("ExceptionFailure", "TaskKilled")) if failed else "Success"
            log.task(
                ids.task, stage=stage, reason=reason, metrics=metrics, launch=int(launch),
                finish=int(finish), host=host, executor=executor, index=index, attempt=0,
            )  # fmt: skip
            ids.task += 1
            last = max(last, float(int(finish)))
    return last
