"""Logs of a small fleet: applications that share hosts or not, with and without the plugin."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from iqcar.logs.plugin.plugin_events import SAMPLES_EVENT
from iqcar_lab.clusters.event_log import SyntheticLog, stage_info, task_metrics
from tests.support.plugin_record import plugin_record

TASKS, STAGES = 24, 6


def fleet_log(
    app_id: str,
    seed: int,
    hosts: tuple[str, ...],
    start: int = 1_000_000,
    recorded: bool = False,
    stages: int = STAGES,
    tasks: int = TASKS,
) -> SyntheticLog:
    """Two queries: stragglers of one wait for shuffle blocks, those of the other for the CPU.

    Where `recorded`, tasks have the plugin's records, by a clock of the host that is two seconds
    ahead, and the first host is sampled in half of the time.
    """
    rng = np.random.default_rng(seed)
    log = SyntheticLog(app_id).app(f"fleet {app_id}", start).environment()
    for number, host in enumerate(hosts):
        log.executor(str(number), host, 4, start)
    end = start
    for query, name in enumerate(("fetches", "computes")):
        properties = {"spark.sql.execution.id": str(query), "spark.job.description": name}
        numbers = range(query * stages // 2, (query + 1) * stages // 2)
        infos = [stage_info(n, submission=start, **{"Number of Tasks": tasks}) for n in numbers]
        log.sql(query, description=name, time=start).job(query, infos, start, properties)
        for info in infos:
            log.stage(info, properties)
            for task in range(tasks):
                add_task(log, rng, info["Stage ID"], task, tasks, name, hosts, start, recorded)
            end = start + 9000
            log.stage_end(info, end)
        log.job_end(query, end).sql_end(query, end)
    if recorded:
        samples = [
            {"v": 1, "t": start + 3000 + 1000 * n, "dt_ms": 1000,
             "cpu": {"user": float(rng.integers(20, 90)), "idle": 5.0, "cores": [50.0]}}
            for n in range(4)
        ]  # fmt: skip
        fields = {"version": 1, "host": hosts[0], "executor": "0", "dropped": 0}
        log.event(SAMPLES_EVENT, {**fields, "samples": samples})
    return log.end(end + 100)


def add_task(
    log: SyntheticLog,
    rng: np.random.Generator,
    stage: int,
    task: int,
    tasks: int,
    name: str,
    hosts: tuple[str, ...],
    start: int,
    recorded: bool,
) -> None:
    factor = float(rng.choice([1, 3], p=[0.85, 0.15])) if task else 4.0
    host = int(rng.integers(len(hosts)))
    work = int(1000 * rng.uniform(0.9, 1.1))
    run = int(work * factor)
    waited = run - work
    remote = int(1e7 * rng.uniform(0.9, 1.1))
    read = {"Remote Bytes Read": remote, "Local Bytes Read": 10, "Total Records Read": 50}
    read["Fetch Wait Time"] = waited + 30 if name == "fetches" else 30
    metrics = task_metrics(
        Executor_Run_Time=run, Executor_CPU_Time=(work - 60) * 1_000_000, JVM_GC_Time=5,
        Shuffle_Read_Metrics=read, Input_Metrics={},
        Shuffle_Write_Metrics={"Shuffle Bytes Written": 80_000 + task, "Shuffle Write Time": 10**7},
    )  # fmt: skip
    launch = start + int(rng.integers(0, 3000))
    accumulables = []
    if recorded:
        record = plugin_record(
            lambda n: int(rng.integers(n)), launch + 2000 + 10, run, hosts[host], str(host)
        )
        update = json.dumps(record, separators=(",", ":"))
        accumulables = [{"ID": 0, "Name": "iqcar.task", "Update": update, "Value": "n=1"}]
    log.task(
        stage * tasks + task, stage=stage, metrics=metrics, accumulables=accumulables,
        launch=launch, finish=launch + 30 + run, host=hosts[host], executor=str(host), index=task,
    )  # fmt: skip


def write_fleet(folder: Path) -> list[Path]:
    """Seven logs: two that share a host, two of the plugin that share another, one alone, one of
    few tasks, one that is cut off; and something that is no log."""
    folder.mkdir()
    logs = {
        "app-a": fleet_log("app-a", 1, ("shared", "only-a")),
        "app-b": fleet_log("app-b", 2, ("shared",), 1_001_000),
        "app-c": fleet_log("app-c", 3, ("alone",)),
        "app-d": fleet_log("app-d", 4, ("sampled", "other"), recorded=True),
        "app-e": fleet_log("app-e", 5, ("sampled",), 1_001_000, recorded=True),
        "app-f": fleet_log("app-f", 6, ("few",), stages=2, tasks=3),
        "app-g": fleet_log("app-g", 7, ("alone-too",)),
    }
    paths = [log.write(folder / name) for name, log in logs.items()]
    cut = paths[-1]
    cut.write_bytes(cut.read_bytes()[:-700])
    rubbish = folder / "local-123"
    rubbish.write_text("this is no event log\n" * 3)
    return [*paths, rubbish]
