"""The printed method on what was read: data as table 4 counts them, and what the command says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from iqcar.enums import Request
from iqcar_lab.clusters.event_log import SyntheticLog, stage_info, task_metrics
from iqcar_lab.printed.iqcar import paper_tasks, printed_blame, printed_shares
from tests.support.command import iqcar_lab
from tests.support.hand_cluster import cluster


def test_tasks_have_the_waits_that_are_known_and_the_data_of_table_4() -> None:
    tables, waits = cluster(
        {Request.SLOT_WAIT: [0.0, 30.0], Request.IO_READ: [10.0, np.nan]},
        launch=[0, 20],
        finish=[50, 60],
        input_bytes=[5.0, 7.0],
        remote_bytes=[2.0, 3.0],
        output_bytes=[1.0, 2.0],
    )
    first, second = paper_tasks(tables, waits)
    assert (first.query, first.stage, first.host, first.end - first.start) == (0, 0, 0, 50.0)
    assert first.data["slots_offered"] == 1.0
    assert second.data["slots_offered"] == 2.0  # that of the first task, and its own
    assert first.data["input_bytes"] == 7.0
    assert second.data["io_bytes_written"] == 2.0
    assert first.wait["io_read"] == 10.0
    assert "io_read" not in second.wait
    assert second.wait["slot_wait"] == 30.0


def test_shares_and_vertices_are_those_of_the_graph() -> None:
    tables, waits = cluster(
        {Request.IO_READ: [40.0, 10.0, 20.0]},
        launch=[0, 0, 0],
        finish=[50, 50, 50],
        input_bytes=[1.0, 1.0, 1.0],
    )
    tables.tasks["cpu_ms"] = 5.0
    shares = printed_shares(tables, waits, [0, 1])
    assert shares == pytest.approx(np.array([[0, 2 / 3, 1 / 3], [1 / 3, 0, 2 / 3], [0, 0, 0]]))
    found = printed_blame(tables, waits, [0], 1)
    assert found["level"].tolist() == [1, 2, 3, 4, 5, 6]
    assert found["contribution"].tolist() == [5.0, 2000.0, 2000.0, 4.0, 1.0, 1.0]
    assert found["source_query"].tolist() == [-1, -1, -1, 1, 1, 1]
    assert found["dor"].iloc[-1] == pytest.approx(2 / 3)
    assert printed_blame(tables, waits, [], 1).empty
    tables.stages["critical"] = [False, True, True]
    assert printed_blame(tables, waits, [0], 1, critical_path=True).empty
    assert len(printed_blame(tables, waits, [1], 1, critical_path=True)) == 6


def fetching(path: Path) -> Path:
    """`report` waits four times as long for its bytes as `etl`, at the same time."""
    log = SyntheticLog().app().environment().executor(host="host-a")
    for n, (name, wait) in enumerate((("etl", 100), ("report", 400))):
        properties = {"spark.sql.execution.id": str(n), "spark.job.description": name}
        stage = stage_info(n)
        log.sql(n, description=name).job(n, [stage], 1000, properties).stage(stage, properties)
        read = {"Fetch Wait Time": wait, "Remote Bytes Read": 1000, "Local Bytes Read": 0}
        log.task(n, stage=n, metrics=task_metrics(Shuffle_Read_Metrics=read), host="host-a")
        log.stage_end(stage, 9000).job_end(n).sql_end(n)
    return log.end(9000).write(path)


def test_blame_says_what_the_printed_method_does_in_text_and_json(tmp_path: Path) -> None:
    words = ("printed", "blame", fetching(tmp_path / "app-1"), "--target", "report")
    done = iqcar_lab(*words)
    assert done.returncode == 0, done.stderr
    assert "iQCAR as printed" in done.stdout and "shuffle_fetch" in done.stdout
    result = json.loads(iqcar_lab(*words, "--json", "-").stdout)
    assert {v["level"] for v in result["printed"]} == set(range(1, 7))
    fetch = next(v for v in result["printed"] if v["request"] == "shuffle_fetch")
    assert (fetch["host"], fetch["stage_id"], fetch["resource"]) == ("host-a", 1, None)
    source = next(v for v in result["printed"] if v["level"] == 6)
    assert source["source_query_id"] == "app-1/sql-0"
