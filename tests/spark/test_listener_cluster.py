"""The plugin on a standalone cluster of two hosts: loopback addresses of one machine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support import SUPPORT
from tests.support.command import iqcar
from tests.support.golden import recorded_app
from tests.support.listener_spark import (
    APP_TIMEOUT_S,
    JAR,
    LISTENER_ONLY,
    PLUGIN,
    TEST_JAR,
    WORKLOADS,
    App,
    build_jar,
    command,
    ended,
    environment,
    records_of,
    run,
    run_alone,
    run_workloads,
    samples_of,
    share,
    start,
    wait_until_no_sampler_runs,
)
from tests.support.standalone_cluster import HOSTS, ONE_SLOT_EACH, Cluster, wait_until

pytestmark = pytest.mark.spark

SERVER_STOPS_S = 3


MEASURED = {**PLUGIN, **ONE_SLOT_EACH}
JOBS = SUPPORT / "life_jobs.py"


@pytest.fixture(scope="module")
def app(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> App:
    """An application whose tasks nap on both hosts."""
    folder = tmp_path_factory.mktemp("naps")
    names = ("nap", "many")
    return run_workloads(cluster.home, folder, *names, master=cluster.master, conf=MEASURED)


@pytest.fixture(scope="module")
def lively(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> App:
    """An application with a speculative task, and with executors that come and go."""
    conf = {
        **MEASURED,
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.2",
        "spark.speculation.minTaskRuntime": "5s",  # only the task that hangs
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.timeout": "1s",
        "spark.dynamicAllocation.executorIdleTimeout": "2s",
        "spark.dynamicAllocation.minExecutors": "0",
    }

    def grow(folder: Path) -> App:
        job = [str(JOBS), "speculate", "grow"]
        return run(cluster.home, folder, job, master=cluster.master, conf=conf)

    folder = tmp_path_factory.mktemp("lively")
    return recorded_app("lively", cluster.home, folder, grow, JOBS, conf)


def check_all_measured(app: App) -> None:
    assert app.exit_code == 0, app.errors[-3000:]
    for end in app.ends:
        (record,) = records_of(end)
        assert record["host"] == end["Task Info"]["Host"]
        assert record["executor"] == end["Task Info"]["Executor ID"]
        assert "sampler" not in record


@pytest.mark.long
def test_records_name_the_hosts_and_executors_of_their_tasks(app: App) -> None:
    check_all_measured(app)
    assert {r["host"] for r in app.records("nap")} == set(HOSTS)
    assert app.own_events()[-1]["slots"] == len(HOSTS)


@pytest.mark.long
def test_each_host_has_one_series_of_samples_and_no_process_left(app: App) -> None:
    check_all_measured(app)
    samples = samples_of(app)
    for host in HOSTS:
        times = sorted(s["t"] for s in samples if s["host"] == host and "cpu" in s)
        # One after the other, a second apart: two series at once would come closer.
        assert len(times) >= 2
        assert min(later - time for time, later in pairwise(times)) > 100
    assert {s["executor"] for s in samples} == {e["Task Info"]["Executor ID"] for e in app.ends}
    wait_until_no_sampler_runs(app)


@pytest.mark.long
def test_two_executors_on_one_host_share_one_series(cluster: Cluster, tmp_path: Path) -> None:
    app = run_workloads(
        cluster.home,
        tmp_path,
        *("nap", "many"),
        master="local-cluster[2,1,512]",
        conf={**PLUGIN, "spark.executor.memory": "512m"},
    )
    check_all_measured(app)
    samples = samples_of(app)
    assert {s["executor"] for s in samples} == {"0", "1"}
    assert len({s["host"] for s in samples}) == 1
    assert len({s["executor"] for s in samples if "cpu" in s}) == 1
    assert {s["executor"] for s in samples if "jvm" in s.get("procs", {})} == {"0", "1"}
    wait_until_no_sampler_runs(app)


@pytest.mark.long
def test_the_first_lines_say_that_the_listener_alone_measures_no_executor(
    cluster: Cluster, tmp_path: Path
) -> None:
    conf = {**LISTENER_ONLY, **ONE_SLOT_EACH}
    app = run_workloads(cluster.home, tmp_path, "many", master=cluster.master, conf=conf)
    assert app.exit_code == 0, app.errors[-3000:]
    assert app.own_events() and not any(records_of(end) for end in app.ends)
    said = iqcar("analyze", app.log).stdout.split("\n\n")[0].replace("\n", " ")
    assert "Recorded with the listener alone: waits of executors are not measured" in said


@pytest.mark.long
def test_a_jar_on_the_driver_only_is_brought_to_the_executors(
    cluster: Cluster, tmp_path: Path
) -> None:
    app = run_alone(
        cluster.home,
        tmp_path,
        [str(TEST_JAR), "many"],
        master=cluster.master,
        conf=MEASURED,
        options=["--driver-class-path", str(JAR), "--class", WORKLOADS],
    )
    check_all_measured(app)
    assert not [e for e in app.events if e["Event"] == "SparkListenerExecutorRemoved"]


@pytest.mark.long
def test_a_second_context_of_the_same_settings_serves_the_jar_anew(
    cluster: Cluster, tmp_path: Path
) -> None:
    build_jar()
    words = command(
        cluster.home,
        tmp_path,
        [str(SUPPORT / "two_contexts.py")],
        master=cluster.master,
        conf=MEASURED,
        options=["--driver-class-path", str(JAR)],
    )
    done = subprocess.run(
        words,
        env=environment(cluster.home),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=APP_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("DONE 8") == 2
    logs = [path.read_text() for path in (tmp_path / "log").iterdir()]
    assert len(logs) == 2
    assert not any("SparkListenerExecutorRemoved" in text for text in logs)


@pytest.mark.long
def test_an_executor_killed_midway_costs_its_tasks_records_only(
    cluster: Cluster, tmp_path: Path
) -> None:
    running = start(
        cluster.home, tmp_path, [WORKLOADS, "nap"], master=cluster.master, conf=MEASURED
    )
    wait_until(lambda: "Finished task" in running.errors, "finished task")
    os.kill(executor_pid(running.errors), signal.SIGKILL)
    app = ended(running)
    assert app.exit_code == 0, app.errors[-3000:]
    assert "DONE nap" in app.output
    lost = [e for e in app.ends if e["Task End Reason"]["Reason"] == "ExecutorLostFailure"]
    done = [e for e in app.ends if e["Task End Reason"]["Reason"] == "Success"]
    assert lost
    assert not any(records_of(end) for end in lost)
    assert [len(records_of(end)) for end in done] == [1] * len(done)
    assert len({end["Task Info"]["Index"] for end in done}) == 12


def executor_pid(driver_log: str, host: str = "") -> int:
    """Process id of an executor, on that host if named, of the application that wrote this log."""
    application = re.search(r"app-\d+-\d+", driver_log)
    assert application
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if (
                b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in words
                and application.group().encode() in words
                and (not host or host.encode() in words)
            ):
                return int(entry.name)
    raise AssertionError("no executor is running")


@pytest.mark.long
def test_fetching_from_a_server_that_stands_still_is_shuffle_fetch(
    cluster: Cluster, tmp_path: Path
) -> None:
    server, reader = HOSTS
    go = tmp_path / "go"
    conf = {**MEASURED, "spark.scheduler.minRegisteredResourcesRatio": "1.0"}
    job = [WORKLOADS, f"fetch:{go}"]
    running = start(cluster.home, tmp_path, job, master=cluster.master, conf=conf)
    wait_until(lambda: "WRITTEN" in running.output, "shuffle files")
    started = running.errors.count("Starting task")
    pid = executor_pid(running.errors, server)
    os.kill(pid, signal.SIGSTOP)
    try:
        go.touch()
        wait_until(lambda: running.errors.count("Starting task") == started + 2, "two readers")
        time.sleep(SERVER_STOPS_S)
    finally:
        os.kill(pid, signal.SIGCONT)
    app = ended(running)
    check_all_measured(app)
    (end,) = (e for e in app.group("fetched") if e["Task Info"]["Host"] == reader)
    (record,) = records_of(end)
    # It starts to fetch within a second: the same code ran in the job before.
    assert record["waits_ns"]["shuffle_fetch"] > (SERVER_STOPS_S - 1) * 1e9
    assert share(record, "shuffle_fetch") > 0.8
    # Spark counts the same wait.
    reported_ns = end["Task Metrics"]["Shuffle Read Metrics"]["Fetch Wait Time"] * 1e6
    assert 0.7 < record["waits_ns"]["shuffle_fetch"] / reported_ns < 1.3


@pytest.mark.golden
def test_both_attempts_of_a_speculative_task_are_measured(lively: App) -> None:
    assert "RESULT speculate [1, 5, 9, 13]" in lively.output, lively.errors[-3000:]
    attempts = [end for end in lively.group("speculate") if end["Task Info"]["Index"] == 3]
    assert {end["Task Info"]["Speculative"] for end in attempts} == {False, True}
    reasons = {end["Task End Reason"]["Reason"] for end in attempts}
    assert reasons == {"Success", "TaskKilled"}
    assert [len(records_of(end)) for end in attempts] == [1] * len(attempts)


@pytest.mark.golden
def test_executors_that_come_and_go_measure_all_their_tasks(lively: App) -> None:
    assert "RESULT grow [79800, 79800]" in lively.output, lively.errors[-3000:]
    kinds = [event["Event"] for event in lively.events]
    assert "SparkListenerExecutorRemoved" in kinds
    assert kinds.count("SparkListenerExecutorAdded") >= 2
    check_all_measured(lively)
