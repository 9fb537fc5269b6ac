"""A finding of spills says how much memory its tasks need, and which settings give them that."""

from __future__ import annotations

from pathlib import Path

import pytest

import iqcar
from iqcar.enums import FindingKind
from iqcar.model.waits.executor_memory import memory_for_tasks, memory_of_executor
from iqcar.say.finding import Finding
from iqcar.say.findings import find_findings
from iqcar.tables import Tables
from iqcar_lab.clusters.event_log import SyntheticLog, stage_info, task_metrics

MB = 1 << 20
START = 1_700_000_000_000
SECONDS = 20


def spilled(path: Path, each: int = 500 * MB, **settings: str) -> Tables:
    """Two slots; two tasks that spill so many bytes of memory, of which they have 11 MB."""
    log = SyntheticLog("app-1").app("spilled", START).environment(**settings)
    info = stage_info(0, submission=START, **{"Number of Tasks": 2})
    log.executor("1", "host-a", 2, START).job(0, [info], START, {}).stage(info, {})
    metrics = task_metrics(
        Executor_Run_Time=SECONDS * 1000, Executor_CPU_Time=SECONDS * 500_000_000,
        Memory_Bytes_Spilled=each, Disk_Bytes_Spilled=each // 4, Peak_Execution_Memory=11 * MB,
        Shuffle_Read_Metrics={}, Shuffle_Write_Metrics={}, Input_Metrics={},
    )  # fmt: skip
    end = START + SECONDS * 1000
    for task in range(2):
        log.task(task, metrics=metrics, launch=START, finish=end, host="host-a")
    return iqcar.read(log.stage_end(info, end).job_end(0, end).end(end).write(path / "app-1"))


def finding(tables: Tables) -> Finding:
    found = find_findings(iqcar.diagnose(tables))
    (one,) = (one for one in found if one.kind is FindingKind.MEMORY)
    return one


def test_what_a_task_had_and_needed_is_said(tmp_path: Path) -> None:
    one = finding(spilled(tmp_path))
    assert "a task had 11.5 MB of memory at most, and needed 535.8 MB" in one.sentence
    assert "Give each task 535.8 MB of execution memory" in one.action
    assert "partitions" not in one.action, "it reads no shuffle"
    assert {name for name, _, _ in one.settings} == {"spark.executor.memory"}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"spark.memory.fraction": "0.02", "spark.executor.memory": "3g"},
        {"spark.memory.fraction": "0.8"},
        {"spark.master": "local[2]", "spark.driver.memory": "900m"},
        {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "100m"},
    ],
)
def test_with_the_settings_that_it_names_tasks_have_what_they_need(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    tables = spilled(tmp_path / "was", **settings)
    named = {name: value for name, value, _ in finding(tables).settings}
    assert named
    mended = spilled(tmp_path / "mended", **{**settings, **named})
    assert memory_of_executor(mended, 0) >= 2 * 511 * MB
    assert not memory_for_tasks(mended, 0, 511 * MB)
