"""What half of a stage's tasks share is found by comparing hosts and executors before tasks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import iqcar
from iqcar.causes.stragglers.straggler_result import Stragglers, StragglerSettings
from iqcar.pipeline import stragglers_of
from iqcar_lab.clusters.event_log import SyntheticLog, stage_info, task_metrics
from tests.support.naive_bigroots import EQUATIONS

PLAIN_MS, SLOW_MS, GC_MS = 1000, 4000, 3000


def stage_log(path: Path, collecting: list[bool], hosts: tuple[str, str], **slow: int) -> Path:
    """One stage on warm executors 1 and 2; `collecting` are the slow tasks, all of them on 2."""
    log = SyntheticLog("app-1").app("halves", 0).environment()
    for number, host in enumerate(hosts, 1):
        log.executor(str(number), host, 1, 0)
    stage = stage_info(0, submission=1000, **{"Number of Tasks": len(collecting)})
    properties = {"spark.sql.execution.id": "0", "spark.job.description": "report"}
    log.sql(0, description="report", time=1000).job(0, [stage], 1000, properties)
    log.stage(stage, properties)
    for executor, host in enumerate(hosts, 1):
        log.task(90 + executor, stage=9, executor=str(executor), host=host, launch=10, finish=20)
    free = [1000, 1000]
    for index, is_slow in enumerate(collecting):
        lasts = SLOW_MS if is_slow else PLAIN_MS
        metrics = {"JVM_GC_Time": 0, "Executor_CPU_Time": (PLAIN_MS - 20) * 1_000_000}
        metrics |= slow if is_slow else {}
        begin = free[is_slow]
        free[is_slow] += lasts
        log.task(
            index, index=index, executor=str(1 + is_slow), host=hosts[is_slow], launch=begin,
            finish=begin + lasts,
            metrics=task_metrics(
                Executor_Run_Time=lasts - 20, Shuffle_Read_Metrics={}, Shuffle_Write_Metrics={},
                Input_Metrics={}, **metrics,
            ),
        )  # fmt: skip
    end = max(free)
    return log.stage_end(stage, end).job_end(0, end).sql_end(0, end).end(end + 1).write(path)


def found(path: Path, settings: StragglerSettings | None = None) -> Stragglers:
    return stragglers_of(iqcar.read(path), settings)


@pytest.mark.parametrize("slow", [5, 7, 10])
def test_garbage_collection_on_one_of_two_executors_is_the_cause(tmp_path: Path, slow) -> None:
    halves = [False] * (20 - slow) + [True] * slow
    result = found(stage_log(tmp_path / "log", halves, ("a", "b"), JVM_GC_Time=GC_MS))
    assert len(result.stragglers) == slow
    assert set(result.causes["cause"]) == {"gc"}
    assert set(result.causes["peers"]) == {"on other hosts"}
    assert "garbage collection 75 % of its time" in result.causes["sentence"].iloc[0]
    assert np.isnan(result.causes["quantile"]).all()


def test_it_is_so_where_both_executors_are_on_one_host(tmp_path: Path) -> None:
    path = stage_log(tmp_path / "log", [False] * 10 + [True] * 10, ("a", "a"), JVM_GC_Time=GC_MS)
    assert set(found(path).causes["cause"]) == {"gc"}


def test_where_most_tasks_of_a_host_are_on_that_executor_the_others_are_named(tmp_path) -> None:
    path = stage_log(tmp_path / "log", [False] * 8 + [True] * 7, ("a", "a"), JVM_GC_Time=GC_MS)
    every = found(path, replace(StragglerSettings(), straggler=1.2, ratio=2.5))
    assert set(every.causes["cause"]) == {"gc"}
    assert set(every.causes["peers"]) == {"on other executors"}
    assert "tasks on other executors none" in every.causes["sentence"].iloc[0]


def test_a_host_whose_tasks_are_slow_for_no_recorded_reason_stays_a_slow_host(tmp_path) -> None:
    path = stage_log(tmp_path / "log", [False] * 10 + [True] * 10, ("a", "b"), Disk_Bytes_Spilled=0)
    causes = set(found(path).causes["cause"])
    assert "gc" not in causes and causes


def test_the_papers_equations_do_not_look_elsewhere_first(tmp_path: Path) -> None:
    path = stage_log(tmp_path / "log", [False] * 10 + [True] * 10, ("a", "b"), JVM_GC_Time=GC_MS)
    assert "gc" not in set(found(path, EQUATIONS).causes["cause"])
