"""The plugin's records stay in logs of a Spark that leaves accumulators of task metrics out."""

from __future__ import annotations

from pathlib import Path

import pytest

import iqcar
from tests.support.listener_spark import PLUGIN, records_of, run_workloads, spark_params

pytestmark = [pytest.mark.long, pytest.mark.spark]

LEFT_OUT = {"spark.eventLog.includeTaskMetricsAccumulators": "false"}
METRIC = "internal.metrics.executorRunTime"
"""Of the accumulators that Spark leaves out: what it says stands among the task's metrics too."""


@pytest.mark.parametrize("home", spark_params())
def test_every_task_keeps_its_record(home: Path, tmp_path: Path) -> None:
    conf = {**PLUGIN, **LEFT_OUT}
    app = run_workloads(home, tmp_path, "many:20", "failed", master="local[2,2]", conf=conf)
    assert app.exit_code == 0, app.errors[-3000:]
    names = {one.get("Name") for end in app.ends for one in end["Task Info"]["Accumulables"]}
    if METRIC in names:
        pytest.skip("this Spark does not know the setting")
    assert [len(records_of(end)) for end in app.ends] == [1] * len(app.ends)
    tables = iqcar.read(str(app.log))
    assert len(tables.task_records) == len(tables.tasks) == len(app.ends) > 20
    assert tables.tasks["run_ms"].notna().all()
