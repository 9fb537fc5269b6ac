"""The plugin in applications that stream, fail and die.

Whatever happens, the job prints and returns what it does without the plugin.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import SUPPORT
from tests.support.listener_spark import (
    APP_TIMEOUT_S,
    JAR,
    PLUGIN,
    App,
    build_jar,
    command,
    environment,
    records_of,
    run,
    spark_params,
)
from tests.support.standalone_cluster import wait_until

pytestmark = [pytest.mark.long, pytest.mark.spark]

JOBS = SUPPORT / "life_jobs.py"


def jobs(home: Path, folder: Path, *names: str, plugin: bool = True, **more: Any) -> App:
    """Run jobs of life_jobs.py with the plugin or without."""
    folder.mkdir(exist_ok=True)
    conf = {**(PLUGIN if plugin else {}), **more.pop("conf", {})}
    return run(home, folder, [str(JOBS), *names], conf=conf, **more)


def results(app: App) -> list[str]:
    return [line for line in app.output.splitlines() if line.startswith("RESULT")]


def check_all_measured(ends: list[dict[str, Any]]) -> None:
    assert ends
    assert [len(records_of(end)) for end in ends] == [1] * len(ends)


@pytest.fixture(scope="module", params=spark_params())
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[App, App]:
    """The same application with the plugin and without it; its last job is aborted."""
    folder = tmp_path_factory.mktemp("life")
    names = ("stream", "pandas", "abort")
    return (
        jobs(request.param, folder / "with", *names),
        jobs(request.param, folder / "without", *names, plugin=False),
    )


def test_results_and_exit_code_are_those_without_the_plugin(pair: tuple[App, App]) -> None:
    attached, plain = pair
    assert len(results(plain)) == 2, plain.errors[-3000:]
    assert results(attached) == results(plain)
    assert attached.exit_code == plain.exit_code == 1


def test_every_batch_of_a_stream_is_measured(pair: tuple[App, App]) -> None:
    attached, _ = pair
    streaming = [
        stage
        for event in attached.events
        if event["Event"] == "SparkListenerJobStart"
        and "sql.streaming.queryId" in event["Properties"]
        for stage in event["Stage IDs"]
    ]
    ends = [end for end in attached.ends if end["Stage ID"] in streaming]
    assert len(ends) >= 9
    check_all_measured(ends)


def test_tasks_with_a_pandas_function_are_measured(pair: tuple[App, App]) -> None:
    check_all_measured(pair[0].group("pandas"))


def test_tasks_of_an_aborted_stage_have_one_record_or_none(pair: tuple[App, App]) -> None:
    ends = pair[0].group("abort")
    failed = [e for e in ends if e["Task End Reason"]["Reason"] == "ExceptionFailure"]
    check_all_measured(failed)
    # Spark drops the accumulators of a success that arrives after the abort.
    assert all(len(records_of(end)) <= 1 for end in ends)


@pytest.mark.parametrize("home", spark_params())
def test_the_log_of_a_killed_driver_can_be_analysed(home: Path, tmp_path: Path) -> None:
    build_jar()
    options = ["--jars", str(JAR)]
    words = command(
        home, tmp_path, [str(JOBS), "wait"], master="local[2]", conf=PLUGIN, options=options
    )
    output = tmp_path / "output"
    with output.open("w") as out:
        running = subprocess.Popen(words, env=environment(home), cwd=tmp_path, stdout=out)
        try:
            wait_until(lambda: "WAITING" in output.read_text(), "job that waits")
            (log,) = (tmp_path / "log").iterdir()
            wait_until(lambda: "PythonRDD" in log.read_text(), "second job in the log")
        finally:
            os.kill(running.pid, signal.SIGKILL)
            running.wait()
    (log,) = (tmp_path / "log").iterdir()
    assert log.suffix == ".inprogress"
    complete = [line for line in log.read_text().splitlines() if line.endswith("}")]
    ends = [json.loads(line) for line in complete if "SparkListenerTaskEnd" in line]
    check_all_measured(ends)
    analyze = [sys.executable, "-m", "iqcar", "analyze", str(log), "--json", "-"]
    done = subprocess.run(analyze, capture_output=True, text=True, timeout=APP_TIMEOUT_S)
    assert done.returncode in (0, 3), done.stderr
    assert json.loads(done.stdout)["inputs"]
