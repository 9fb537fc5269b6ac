"""What `iqcar conf` prints attaches iqcar to a real Spark, and changes nothing else."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import SUPPORT
from tests.support.listener_spark import (
    APP_TIMEOUT_S,
    JAR,
    build_jar,
    environment,
    records_of,
    spark_params,
    spark_version,
)

pytestmark = [pytest.mark.long, pytest.mark.spark]
portable = pytest.mark.portable
"""One way in and what it records; how flags reach Spark is the same on all."""

JOB = SUPPORT / "attached_job.py"
IQCAR = f"{shlex.quote(sys.executable)} -m iqcar"
LOCAL = "--master local[2] --conf spark.ui.enabled=false --conf spark.eventLog.compress=false"


NO_FUNCTIONS = "this PySpark's functions do not go with this Python"


def python_functions_run(home: Path) -> bool:
    """Spark 3.3 cannot pickle functions of Python 3.11 and later."""
    return sys.version_info < (3, 11) or not spark_version(home).startswith("3.3.")


def shell(home: Path, script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script as a user would type it, with that Spark's commands on PATH."""
    path = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", script],
        env={**environment(home), "PATH": path, "PYTHONPATH": str(python_path(home))},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=APP_TIMEOUT_S,
    )


def python_path(home: Path) -> Path | str:
    """Where `import pyspark` finds the Spark of that home, for a job started by python itself."""
    return home.parent if home.parent.name != "site-packages" else ""


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "the logs"
    folder.mkdir()
    return folder


def task_ends(logs: Path) -> list[dict[str, Any]]:
    """Task ends of the one event log, which may be a rolling one."""
    files = [path for path in logs.rglob("*") if path.is_file() and "appstatus" not in path.name]
    events = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    return [event for event in events if event["Event"] == "SparkListenerTaskEnd"]


def check_attached(done: subprocess.CompletedProcess[str], logs: Path, exit_code: int = 0) -> None:
    assert done.returncode == exit_code, done.stderr[-3000:]
    ends = task_ends(logs)
    assert len(ends) >= 5
    assert [len(records_of(end)) for end in ends] == [1] * len(ends)
    for end in ends:
        (record,) = records_of(end)
        parts = (record["cpu_ns"], record.get("run_queue_ns", 0), record["off_cpu_ns"])
        assert sum(parts) == record["wall_ns"]
        assert sum(record["waits_ns"].values()) == record["off_cpu_ns"]


def results(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stdout.splitlines() if line.startswith("RESULT")]


@portable
@pytest.mark.smoke
@pytest.mark.parametrize("home", spark_params())
def test_the_flags_record_every_task_and_change_neither_result_nor_exit_code(
    home: Path, logs: Path, tmp_path: Path
) -> None:
    build_jar()
    job = f"{shlex.quote(str(JOB))} exit {'python' if python_functions_run(home) else ''}"
    flags = f"$({IQCAR} conf --log-dir 'the logs')"
    done = shell(home, f"spark-submit {LOCAL} {flags} {job}", tmp_path)
    check_attached(done, logs, exit_code=7)
    without = shell(home, f"spark-submit {LOCAL} {job}", tmp_path)
    assert (done.returncode, results(done)) == (without.returncode, results(without))
    assert results(done)


@pytest.mark.parametrize("home", spark_params())
def test_the_properties_file_attaches_a_jar_in_a_folder_with_an_odd_name(
    home: Path, logs: Path, tmp_path: Path
) -> None:
    build_jar()
    odd = tmp_path / "my jars & more"
    odd.mkdir()
    shutil.copy(JAR, odd)
    jar = shlex.quote(str(odd / JAR.name))
    write = f"{IQCAR} conf --properties --log-dir 'the logs' --jar {jar} > iqcar.conf"
    submit = f"spark-submit {LOCAL} --properties-file iqcar.conf {shlex.quote(str(JOB))} rows"
    check_attached(shell(home, f"{write} && {submit}", tmp_path), logs)


@pytest.mark.parametrize("home", spark_params())
def test_the_variable_of_the_shell_attaches_to_a_plain_python(
    home: Path, logs: Path, tmp_path: Path
) -> None:
    build_jar()
    evaluate = f'eval "$({IQCAR} conf --shell --log-dir "the logs")"'
    uncompressed = 'export PYSPARK_SUBMIT_ARGS="--conf spark.eventLog.compress=false'
    run = f"{shlex.quote(sys.executable)} {shlex.quote(str(JOB))} rows"
    done = shell(home, f'{evaluate}; {uncompressed} $PYSPARK_SUBMIT_ARGS"; {run}', tmp_path)
    check_attached(done, logs)


@pytest.mark.smoke
@pytest.mark.parametrize("home", spark_params())
def test_the_python_code_attaches_when_it_is_run(home: Path, logs: Path, tmp_path: Path) -> None:
    build_jar()
    write = f"{IQCAR} conf --pyspark --log-dir 'the logs' > job.py"
    assert shell(home, write, tmp_path).returncode == 0
    snippet = (tmp_path / "job.py").read_text()
    plain = '    .config("spark.eventLog.compress", "false")\n    .getOrCreate()'
    snippet = snippet.replace("    .getOrCreate()", plain)
    (tmp_path / "job.py").write_text(f"{snippet}\n{JOB.read_text()}")
    done = shell(home, f"{shlex.quote(sys.executable)} job.py rows", tmp_path)
    check_attached(done, logs)
