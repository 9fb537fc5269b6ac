"""From a Spark with a slow disk to its finding: pages of a mapped file are a wait of their own.

The disk is slow for one control group (version 1), and the file is not in the page cache.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
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
    records_of,
    run_alone,
    share,
    spark_params,
)

pytestmark = [pytest.mark.spark, pytest.mark.long]

BLKIO = Path("/sys/fs/cgroup/blkio")
READS_PER_S = 12
"""One fault of an 8 MB read-ahead takes several reads: some five seconds for the whole file."""
FILE_MB = 64


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Path]:
    """A control group to which the disk of the test's folder is slow."""
    path = BLKIO / f"iqcar-test-{os.getpid()}"
    disk = tmp_path.stat().st_dev
    try:
        path.mkdir()
        (path / "blkio.throttle.read_iops_device").write_text(
            f"{os.major(disk)}:{os.minor(disk)} {READS_PER_S}"
        )
    except OSError as why:
        if path.exists():
            path.rmdir()
        pytest.skip(f"no disk can be made slow here: {why}")
    yield path
    path.rmdir()


def cold_file(folder: Path) -> Path:
    """A file on the disk of which the page cache has nothing."""
    path = folder / "mapped.bin"
    with path.open("wb") as file:
        file.write(os.urandom(FILE_MB << 20))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return path


def run_slowed(home: Path, group: Path, folder: Path, job: list[str], main: list[str]) -> App:
    """Run a job in the control group to which the disk is slow."""
    join = ["sh", "-c", f'echo $$ > "{group}/cgroup.procs" && exec "$@"', "sh"]
    options = ["--jars", str(JAR), *main]
    conf = {**PLUGIN, "spark.iqcar.host.enabled": "false"}
    done = run_alone(home, folder, job, conf=conf, options=options, prefix=join)
    assert done.exit_code == 0, done.errors[-3000:]
    return done


@pytest.fixture
def app(request: pytest.FixtureRequest, group: Path, tmp_path: Path) -> App:
    """An application whose one task touches the pages of a mapped file."""
    job = [str(TEST_JAR), f"pages:{cold_file(tmp_path)}"]
    return run_slowed(request.param, group, tmp_path, job, ["--class", WORKLOADS])


@pytest.fixture
def python_app(request: pytest.FixtureRequest, group: Path, tmp_path: Path) -> App:
    """The same of a task whose Python worker does that."""
    job = [str(SUPPORT / "page_jobs.py"), str(cold_file(tmp_path))]
    return run_slowed(request.param, group, tmp_path, job, [])


@pytest.mark.parametrize("app", spark_params(), indirect=True)
def test_pages_of_a_mapped_file_are_waited_for_and_are_nobodys_fault(app: App) -> None:
    (record,) = app.records("pages")
    assert record["waits_ns"]["page_fault"] > 1e9, record
    assert share(record, "page_fault") > 0.8, record
    assert record["major_faults"] > 1
    assert sum(record["waits_ns"].values()) == record["off_cpu_ns"]

    assert_found(app)


@pytest.mark.parametrize("python_app", spark_params(), indirect=True)
def test_so_are_pages_that_a_python_worker_touches(python_app: App) -> None:
    """The worker's faults are seen by its state; the count of faults is of the task's thread."""
    (record,) = python_app.records("pages")
    assert record["waits_ns"]["page_fault"] > 1e9, record
    assert share(record, "page_fault") > 0.8, record
    assert sum(record["waits_ns"].values()) == record["off_cpu_ns"]
    assert_found(python_app)


def assert_found(app: App) -> None:
    """Check that the analyzer has the records' waits, blames nobody and says what they were."""
    records = [record for end in app.ends for record in records_of(end)]
    found = iqcar.diagnose(iqcar.read([app.log], query_by="job-group"))
    waits = found.waits
    assert (waits[evidence_column(Request.PAGE_FAULT)] == MEASURED).all()
    np.testing.assert_allclose(
        waits[wait_column(Request.PAGE_FAULT)].sum(),
        sum(record["waits_ns"]["page_fault"] for record in records) / 1e6,
        rtol=0.01,
    )
    (query,) = found.find_query("pages")
    known = found.graph.blame_of(query).set_index("kind").loc[BlameKind.KNOWN.value]
    assert known["by_resource"]["memory"] > 0.5 * known["lost_ms"] > 0
    (finding,) = (f for f in find_findings(found) if f.kind is FindingKind.PAGE_FAULTS)
    assert "pages of memory" in finding.sentence
