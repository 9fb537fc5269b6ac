"""What the log says of applications and executors is what their tables hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from iqcar.tables import texts
from iqcar_lab.clusters.event_log import SyntheticLog
from tests.logs.test_eventlog_tables import read


def test_the_application_is_named_by_its_log_else_by_its_file(tmp_path: Path) -> None:
    log = SyntheticLog("app-7").app("etl", 500, **{"App Attempt ID": "2"})
    log.environment(spark_task_cpus="3", spark_scheduler_mode="FAIR", spark_other="x").end(9000)
    named = read(log, tmp_path).applications.iloc[0]
    assert named["application_id"] == "app-7"
    assert (named["name"], named["attempt_id"], named["user"]) == ("etl", "2", "ann")
    assert (named["task_cpus"], named["scheduler_mode"]) == (3, "FAIR")
    assert (named["start_ms"], named["end_ms"], bool(named["ended"])) == (500, 9000, True)
    nameless = read(SyntheticLog(version=None).task(0), tmp_path, "app-99.lz4.inprogress")
    row = nameless.applications.iloc[0]
    assert (row["application_id"], row["start_ms"], row["end_ms"]) == ("app-99", 2000, 3000)
    assert (row["task_cpus"], row["scheduler_mode"], bool(row["ended"])) == (1, "FIFO", False)


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ({}, np.nan),
        ({"spark_master": "spark://m:7077"}, np.nan),
        ({"spark_master": "spark://m:7077", "spark_cores_max": "6"}, 6),
        # A standalone master gives all executors that fit, however many instances are set.
        ({"spark_master": "spark://m:7077", "spark_executor_instances": "3"}, np.nan),
        ({"spark_master": "yarn"}, 2),
        ({"spark_master": "yarn", "spark_executor_cores": "4"}, 8),
        ({"spark_master": "k8s://x", "spark_executor_instances": "5"}, 5),
        ({"spark_master": "yarn", "spark_dynamicAllocation_enabled": "true"}, np.nan),
        (
            {
                "spark_master": "yarn",
                "spark_executor_cores": "2",
                "spark_dynamicAllocation_enabled": "true",
                "spark_dynamicAllocation_maxExecutors": "7",
            },
            14,
        ),
        ({"spark_cores_max": "many", "spark_executor_cores": "-1"}, np.nan),
    ],
)
def test_the_most_slots_of_an_application_follow_from_its_settings(
    settings: dict[str, str], limit: float, tmp_path: Path
) -> None:
    log = SyntheticLog().app().environment(**settings).end()
    row = read(log, tmp_path).applications.iloc[0]
    assert row["master"] == settings.get("spark_master", "")
    assert row["most_slots"] == pytest.approx(limit, nan_ok=True)


def test_executors_come_from_their_events_and_from_their_tasks(tmp_path: Path) -> None:
    log = SyntheticLog().app().executor("1", "a", 4, 1500).executor_removed("1", 1600, "idle")
    tables = read(log.task(0, executor="2", host="b").end(), tmp_path)
    found = tables.executors
    assert texts(found, "executor_id") == ["1", "2"]
    assert [texts(tables.hosts, "host")[row] for row in found["host"]] == ["a", "b"]
    assert found["cores"][0] == 4
    assert np.isnan(found["cores"][1])
    assert (found["added_ms"][0], found["removed_ms"][0]) == (1500, 1600)
    assert texts(found, "removed_reason") == ["idle", ""]
    assert tables.tasks["executor"].tolist() == [1]
    assert tables.inputs["hosts"].tolist() == [1]
