"""The plugin with a rule where executors are told to leave, and where nothing can be written."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support import SUPPORT
from tests.support.leaving_jobs import TASKS
from tests.support.listener_spark import (
    JAR,
    TEST_JAR,
    WORKLOADS,
    ended,
    records_of,
    run_alone,
    spark_params,
    start,
)
from tests.support.ruled_apps import (
    FIRST,
    applied,
    pool,
    pools_in_records,
    rules_file,
)
from tests.support.standalone_cluster import ONE_SLOT_EACH, Cluster, wait_until

pytestmark = [pytest.mark.long, pytest.mark.spark]

READ_ONLY = """
mount --make-rprivate / && mount --bind "$0" "$0" && mount -o remount,bind,ro / || exit 8
touch /iqcar-test "$0/../iqcar-test" 2>/dev/null && exit 9
exec "$@"
"""
"""All but one folder becomes read-only, for this process and those it starts."""


def executors(application: str) -> list[int]:
    """Processes of an application's executors."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        mine = application.encode() in words and words[0].endswith(b"/java")
        if mine and any(b"CoarseGrainedExecutorBackend" in word for word in words):
            found.append(int(entry.name))
    return found


def test_an_executor_that_is_told_to_leave_takes_no_record_with_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    rules = rules_file(tmp_path / "rules.json", [pool("first", cap=2, strict=True)], [FIRST])
    conf = {**applied(rules), **ONE_SLOT_EACH, "spark.decommission.enabled": "true"}
    left = tmp_path / "left"
    job = [str(SUPPORT / "leaving_jobs.py"), str(left)]
    running = start(cluster.home, tmp_path, job, master=cluster.master, conf=conf)
    try:
        wait_until(lambda: "BEGUN" in running.output, "job")
        (application,) = re.findall(r"^BEGUN (\S+)", running.output, re.MULTILINE)
        first, _ = executors(application)
        os.kill(first, signal.SIGPWR)  # as container managers ask it
        log = tmp_path / "log"
        # Its tasks end only then: Spark moves none away from an executor that leaves.
        wait_until(
            lambda: (
                any("ecommission" in path.read_text() for path in log.iterdir())
                or "ecommission" in running.errors
            ),
            "leave that was asked for",
        )
    finally:
        left.touch()
    app = ended(running)
    assert app.exit_code == 0, app.errors[-3000:]
    assert f"RESULT {sum(range(TASKS))}\n" in app.output
    removed = [e for e in app.events if e["Event"] == "SparkListenerExecutorRemoved"]
    assert any("ecommission" in e["Removed Reason"] for e in removed)
    ends = [e for e in app.group("many") if e["Task End Reason"]["Reason"] == "Success"]
    assert len(ends) == TASKS
    records = [records_of(end) for end in ends]
    assert [len(found) for found in records] == [1] * TASKS
    assert {found[0]["pool"] for found in records} == {"first"}
    assert "the job is not affected" not in app.errors


@pytest.mark.parametrize("home", spark_params())
def test_where_only_spark_s_own_folder_can_be_written_all_works(home: Path, tmp_path: Path) -> None:
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("no mounts of one's own can be made here")
    folder = tmp_path / "writable"
    folder.mkdir()
    rules = rules_file(tmp_path / "rules.json", [pool("first", weight=2)], [FIRST])
    conf = {
        **applied(rules),
        "spark.local.dir": str(folder),
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={folder}",
    }
    app = run_alone(
        home,
        folder,
        [str(TEST_JAR), "many"],
        conf=conf,
        options=["--jars", str(JAR), "--class", WORKLOADS],
        prefix=["unshare", "-m", "sh", "-c", READ_ONLY, str(folder)],
    )
    assert app.exit_code == 0, app.errors[-3000:]
    assert "DONE many" in app.output
    assert len(app.records("many")) == 200
    assert pools_in_records(app, "many") == {"first"}
    assert "the job is not affected" not in app.errors
