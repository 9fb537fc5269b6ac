"""What stages did in each resource, run by run, from the event log of an experiment."""

from __future__ import annotations

from pathlib import Path

import pytest

from iqcar.replay.whatif.curves import STAGE
from iqcar_lab.clusters.event_log import SyntheticLog, stage_info, task_metrics
from iqcar_lab.experiment.curves_file import Point, curve_of, stage_times

FETCHED, WAITED_MS, LASTED_MS = 1_000_000_000, 2_000, 5_000


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """One run of a query, whose only task fetches for two of its five seconds."""
    log = SyntheticLog("app-1").app("experiment", 1000).environment()
    log.executor("1", "host-a", 2, 1000)
    properties = {"spark.sql.execution.id": "0", "spark.job.description": "work (run 1)"}
    stage = stage_info(0, submission=1000)
    log.sql(0, description="work (run 1)", time=1000)
    log.job(0, [stage], 1000, properties).stage(stage, properties)
    metrics = task_metrics(
        Executor_Run_Time=LASTED_MS,
        Executor_CPU_Time=(LASTED_MS - WAITED_MS) * 1_000_000,
        Shuffle_Read_Metrics={"Remote Bytes Read": FETCHED, "Fetch Wait Time": WAITED_MS},
        Input_Metrics={},
        Shuffle_Write_Metrics={},
        JVM_GC_Time=0,
    )
    log.task(0, stage=0, metrics=metrics, launch=1000, finish=1000 + LASTED_MS, host="host-a")
    log.stage_end(stage, 6000).job_end(0, 6000).sql_end(0, 6000)
    return log.end(6000).write(tmp_path / "app-1")


def test_a_stage_tells_what_its_tasks_moved_in_a_second(log: Path) -> None:
    (stage,) = stage_times([log], ["localhost"])
    assert stage.run == 1
    assert stage.rate_per_s("network") == pytest.approx(FETCHED / (WAITED_MS / 1e3), rel=0.01)
    assert all(stage.rate_per_s(resource) == 0.0 for resource in ("cpu", "disk", "memory"))


def test_a_curve_of_a_stage_has_the_rate_and_one_of_a_query_has_none() -> None:
    points = [Point(1.0, 2.0, 100.0, 100.0 * k, 1.0, 5e6 * k) for k in (1, 2, 3)]
    key = (STAGE, "work", "Scan", "disk")
    assert curve_of(key, points).own_rate_per_s == 1e7
    unknown = [point._replace(rate_per_s=0.0) for point in points]
    assert curve_of(key, unknown).own_rate_per_s is None
