"""``iqcar topics --on-spark``: on a cluster of two hosts, and where something is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.causes.topics.test_topics_cli import recurring_log
from tests.spark.test_fleet import same
from tests.support import quick_spark
from tests.support.command import iqcar
from tests.support.fleet_logs import write_fleet
from tests.support.listener_spark import APP_TIMEOUT_S, spark_params
from tests.support.standalone_cluster import HOSTS, Cluster

pytestmark = pytest.mark.spark


def on_spark(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the real command with Spark's environment variables."""
    return subprocess.run(
        [sys.executable, "-m", "iqcar", "topics", *map(str, arguments), "--on-spark"],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", **environment},
        capture_output=True,
        text=True,
        timeout=APP_TIMEOUT_S,
    )


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    return done.stderr.splitlines()[-1]


def test_executors_on_two_hosts_run_the_code_that_was_shipped(
    cluster: Cluster, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    write_fleet(logs)
    arguments = (logs, "--json", "-", "--settings", "least_tasks=10")
    quick = f"--conf 'spark.executor.defaultJavaOptions={quick_spark.options()}' pyspark-shell"
    done = on_spark(
        *(*arguments, "--master", cluster.master),
        PYSPARK_PYTHON=sys.executable,
        PYSPARK_SUBMIT_ARGS=quick,
    )
    here = iqcar("topics", *arguments)
    assert (done.returncode, here.returncode) == (3, 3), done.stderr[-3000:]
    result = same(here.stdout.encode(), done.stdout.encode())
    assert result["topics"][0]["count"] >= 2
    unpacked = [
        *cluster.folder.glob("*/app-*/*/iqcar-*.zip.unpacked/iqcar/fleet/steps.py"),
    ]
    assert {path.relative_to(cluster.folder).parts[0] for path in unpacked} == set(HOSTS)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recurring_log().write(tmp_path_factory.mktemp("fleet") / "app-1")


def test_without_pyspark_one_line_says_what_to_install(log: Path) -> None:
    program = (
        "import sys\nsys.modules['pyspark'] = None\n"
        f"sys.argv = ['iqcar', 'topics', {str(log)!r}, '--on-spark']\n"
        "from iqcar.apps.cli.main import main\nmain()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "iqcar: --on-spark: needs pyspark; pip install 'iqcar[spark]'\n"


@pytest.fixture(params=spark_params())
def real_spark(request: pytest.FixtureRequest) -> Any:
    """Skips where there is no Spark."""
    return request.param


def test_what_the_executors_python_lacks_is_named(
    real_spark: Any, log: Path, tmp_path: Path
) -> None:
    (tmp_path / "numba.py").write_text("raise ImportError('No module named numba')")
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH={tmp_path}:$PYTHONPATH exec "{sys.executable}" "$@"\n'
    )
    python.chmod(0o755)
    done = on_spark(log, "--master", "local[1]", PYSPARK_PYTHON=str(python))
    assert (done.returncode, done.stdout) == (1, "")
    said = last_line(done)
    assert "the executors' Python lacks something: No module named numba" in said
    assert "PYSPARK_PYTHON" in said and "Traceback" not in done.stderr


def test_a_master_that_is_none_is_one_line(real_spark: Any, log: Path) -> None:
    done = on_spark(log, "--master", "nonsense://x")
    assert (done.returncode, done.stdout) == (1, "")
    assert last_line(done).startswith("iqcar: nonsense://x: Spark did not start: ")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--master", "local[1]"], "--master: goes with --on-spark only"),
        (["--on-spark", "--samples", "s.jsonl"], "--samples: cannot be joined on Spark"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    log: Path, arguments: list[str], says: str
) -> None:
    done = iqcar("topics", log, *arguments)
    assert done.returncode == 2 and says in done.stderr
