"""A log that a real Spark rolled and a real History Server compacted, read from both."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import iqcar
from iqcar.tables import Tables, texts
from tests.support.history_server import history_server, rest
from tests.support.listener_spark import command, environment, spark_params
from tests.support.spark_writer import ROLLED_EVENT_BYTES
from tests.support.standalone_cluster import wait_until

pytestmark = [pytest.mark.long("analyzer/iqcar/logs", "listener/src"), pytest.mark.spark]

JOB = Path(__file__).resolve().parents[1] / "support" / "compacted_job.py"
ROLLING = {
    "spark.eventLog.rolling.enabled": "true",
    "spark.eventLog.rolling.maxFileSize": "10m",
    "spark.eventLog.compress": "false",
}
COMPACTS = {
    "spark.history.fs.eventLog.rolling.maxFilesToRetain": "1",
    "spark.history.fs.eventLog.rolling.compaction.score.threshold": "0.0",
}


@pytest.mark.parametrize("home", spark_params())
def test_what_a_history_server_dropped_is_said_of_its_folder_and_of_itself(
    home: Path, tmp_path: Path
) -> None:
    job = [str(JOB), str(tmp_path / "go"), str(ROLLED_EVENT_BYTES)]
    start = command(home, tmp_path, job, master="local[2]", conf=ROLLING, options=[])
    logs = tmp_path / "log"
    ran = subprocess.run(start, env=environment(home), capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-3000:]
    (log,) = logs.glob("eventlog_v2_*")
    server_log = tmp_path / "server.log"
    with history_server(home, logs, server_log, environment(home), settings=COMPACTS) as server:
        wait_until(lambda: [*log.glob("*.compact")] != [], "compact file")
        (known,) = rest(server, "")
        from_folder = iqcar.read(str(log))
        from_server = iqcar.read(f"{server}/history/{known['id']}")
    for tables in (from_folder, from_server):
        assert_said(tables)


def assert_said(tables: Tables) -> None:
    kept = tables.jobs["job_id"].tolist()
    gone = sorted(set(range(max(kept) + 1)) - set(kept))
    assert 0 in kept and gone and max(gone) < max(kept)
    assert texts(tables.jobs, "description")[kept.index(0)] == "long"
    (message,) = texts(tables.inputs, "message")
    assert f"compacted: Spark dropped {len(gone)} job" in message
    application = tables.applications.iloc[0]
    assert application["start_ms"] < application["gone_until_ms"] <= application["end_ms"]
