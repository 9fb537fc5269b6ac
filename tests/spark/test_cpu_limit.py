"""From a real Spark under a CPU limit to its finding: the wait that the limit causes is told apart.

The limit is a processor quota of a control group (version 1), as a container has one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

import iqcar
from iqcar.enums import BlameKind, FindingKind, Request
from iqcar.model.waits.columns import MEASURED, evidence_column, wait_column
from iqcar.say.findings import find_findings
from tests.support import SUPPORT
from tests.support.listener_spark import (
    JAR,
    PLUGIN,
    TEST_JAR,
    WORKLOADS,
    App,
    run_alone,
    spark_params,
)

pytestmark = [pytest.mark.long, pytest.mark.spark]

CPU = Path("/sys/fs/cgroup/cpu")
PERIOD_US = 50_000
ABOVE_OTHERS = 262_144
"""Shares of the processor, as many as there can be: a process of this machine has 1024."""
TASKS = "spin"
JOB = (str(TEST_JAR), TASKS)


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group of its own."""
    path = CPU / f"iqcar-test-{os.getpid()}"
    try:
        path.mkdir()
        (path / "cpu.shares").write_text(str(ABOVE_OTHERS))
        (path / "cpu.cfs_period_us").write_text(str(PERIOD_US))
    except OSError as why:
        pytest.skip(f"no control group can be made here: {why}")
    yield path
    path.rmdir()


def run_in(group: Path, cpus: float, home: Path, folder: Path, job: Sequence[str]) -> App:
    """Run a job with two slots on so many processors."""
    (group / "cpu.cfs_quota_us").write_text(str(round(PERIOD_US * cpus)))
    join = ["sh", "-c", f'echo $$ > "{group}/cgroup.procs" && exec "$@"', "sh"]
    options = ["--jars", str(JAR), *([] if job[0].endswith(".py") else ["--class", WORKLOADS])]
    conf = {**PLUGIN, "spark.iqcar.host.enabled": "false"}
    app = run_alone(home, folder, [*job], conf=conf, options=options, prefix=join)
    assert app.exit_code == 0, app.errors[-3000:]
    return app


@pytest.mark.parametrize("home", spark_params())
def test_stops_by_a_cpu_limit_are_told_from_the_run_queue(
    home: Path, group: Path, tmp_path: Path
) -> None:
    app = run_in(group, 0.7, home, tmp_path, JOB)
    records = app.records(TASKS)
    stopped = np.array([r["throttled_ns"] for r in records])
    queued = np.array([r["run_queue_ns"] for r in records])
    assert (stopped <= queued).all()
    assert stopped.sum() > 0.5 * queued.sum() > 0.5e9

    found = iqcar.diagnose(iqcar.read([app.log], query_by="job-group"))
    waits = found.waits
    assert (waits[evidence_column(Request.THROTTLED)] == MEASURED).all()
    np.testing.assert_allclose(
        waits[wait_column(Request.THROTTLED)].sum(), _all(app, "throttled_ns") / 1e6, rtol=0.01
    )
    (query,) = found.find_query(TASKS)
    known = found.graph.blame_of(query).set_index("kind").loc[BlameKind.KNOWN.value]
    assert known["limited_ms"] > 0.5 * known["lost_ms"] > 0
    (finding,) = (f for f in find_findings(found) if f.kind is FindingKind.CPU_LIMIT)
    assert "% of their time" in finding.sentence
    assert "spark.executor.cores" in finding.action


@pytest.mark.parametrize("home", spark_params())
def test_a_limit_that_stops_nobody_leaves_the_run_queue_as_it_is(
    home: Path, group: Path, tmp_path: Path
) -> None:
    app = run_in(group, 64, home, tmp_path, JOB)
    assert [r["throttled_ns"] for r in app.records(TASKS)] == [0] * 4
    found = iqcar.diagnose(iqcar.read([app.log], query_by="job-group"))
    assert not [f for f in find_findings(found) if f.kind is FindingKind.CPU_LIMIT]


@pytest.mark.parametrize("home", spark_params())
def test_stops_of_python_workers_count_too(home: Path, group: Path, tmp_path: Path) -> None:
    job = (str(SUPPORT / "listener_jobs.py"), "python_burn")
    app = run_in(group, 0.7, home, tmp_path, job)
    records = app.records("python_burn")
    stopped = sum(r["throttled_ns"] for r in records)
    queued = sum(r["run_queue_ns"] for r in records)
    of_python = sum(r["waits_ns"].get("python_run_queue", 0) for r in records)
    assert queued + of_python >= stopped > 0.5 * of_python > queued

    waits = iqcar.diagnose(iqcar.read([app.log], query_by="job-group")).waits
    assert waits[wait_column(Request.THROTTLED)].sum() > 0.5 * stopped / 1e6


def _all(app: App, name: str) -> float:
    return float(sum(r[name] for r in app.records(TASKS)))
