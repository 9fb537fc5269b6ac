"""Samples of hosts in the event log of a real Spark, and jobs that do without them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import iqcar
from tests.support.listener_spark import (
    LISTENER_ONLY,
    PLUGIN,
    App,
    records_of,
    run_workloads,
    samples_of,
    spark_params,
    wait_until_no_sampler_runs,
)

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("home", spark_params())
@pytest.mark.parametrize("conf", [PLUGIN, LISTENER_ONLY], ids=["plugin", "listener"])
def test_in_local_mode_the_log_tells_what_the_host_did_until_the_end(
    home: Path, conf: dict[str, str], tmp_path: Path
) -> None:
    start = time.time()
    app = run_workloads(
        home, tmp_path, "sleep", "spin", "nap", conf={**conf, "spark.iqcar.host.period": "500ms"}
    )
    assert app.exit_code == 0, app.errors[-3000:]
    samples = samples_of(app)
    assert all("cpu" in sample and "mem" in sample for sample in samples)
    assert {sample["host"] for sample in samples} == {app.ends[0]["Task Info"]["Host"]}
    assert {row[2] for s in samples for row in s.get("procs", ())} == {"jvm"}
    # "nap" runs for nine seconds: they are there, although the log ends with them. What was
    # sampled after Spark closed the log, a period or two, is not.
    last = max(end["Task Info"]["Finish Time"] for end in app.group("nap"))
    assert max(sample["t"] for sample in samples) > last - 5000
    told = sum(sample["dt_ms"] for sample in samples)
    assert 9000 / 2 < told < 1000 * (time.time() - start)
    watched = {row[0] for sample in samples for row in sample.get("tasks", ())}
    assert {end["Task Info"]["Task ID"] for end in app.group("nap")} <= watched
    wait_until_no_sampler_runs(app)
    check_tables(tmp_path, len(samples))


def check_tables(folder: Path, expected: int) -> None:
    """The analyzer's tables hold what is in the log."""
    tables = iqcar.read(folder / "log")
    samples = tables.samples
    assert len(samples) == expected > 0
    assert (samples["app"] == 0).all()
    assert set(samples["host"]) == set(tables.tasks["host"])
    assert set(samples["executor"]) == set(tables.tasks["executor"])
    cpu = samples[["cpu_user", "cpu_system", "cpu_iowait", "cpu_steal", "cpu_idle"]].sum(axis=1)
    assert cpu.between(98, 102).all()
    assert (samples["jvm_rss_bytes"] > 50e6).all()


def without(conf: dict[str, str], home: Path, folder: Path) -> App:
    app = run_workloads(home, folder, "many", "sleep", conf={**PLUGIN, **conf})
    assert app.exit_code == 0, app.errors[-3000:]
    assert app.output.count("DONE") == 2
    assert all(len(records_of(end)) == 1 for end in app.ends)
    assert app.own_events("Samples") == []
    return app


@pytest.mark.parametrize("home", spark_params())
def test_without_python_one_line_says_so_and_the_rest_goes_on(home: Path, tmp_path: Path) -> None:
    app = without({"spark.iqcar.host.python": str(tmp_path / "no-python")}, home, tmp_path)
    assert app.errors.count("this host is not sampled") == 1
    assert "the job is not affected" not in app.errors


@pytest.mark.parametrize("home", spark_params())
@pytest.mark.parametrize(
    "script",
    [
        pytest.param('echo \'{"v":1,"err":"python: no psutil"}\'; exit 3', id="no psutil"),
        pytest.param('echo \'{"v":1,"t":\'; echo \'{"v":1,\'; exit 1', id="damaged lines"),
    ],
)
def test_a_python_that_cannot_sample_is_reported_once(
    home: Path, script: str, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    app = without({"spark.iqcar.host.python": str(python)}, home, tmp_path)
    assert app.errors.count("this host is no longer sampled") == 1
    assert "the job is not affected" not in app.errors


@pytest.mark.parametrize("home", spark_params())
def test_a_python_that_never_answers_delays_nothing(home: Path, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 1000\n")
    python.chmod(0o755)
    without({"spark.iqcar.host.python": str(python)}, home, tmp_path)


@pytest.mark.parametrize("home", spark_params())
def test_switched_off_there_are_no_samples(home: Path, tmp_path: Path) -> None:
    without({"spark.iqcar.host.enabled": "false"}, home, tmp_path)
