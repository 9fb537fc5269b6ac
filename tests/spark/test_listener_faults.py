"""Whatever breaks in the plugin, the job's result and exit code are the same as without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.listener_spark import (
    JAR,
    LISTENER_ONLY,
    PLUGIN,
    TEST_JAR,
    App,
    records_of,
    run_workloads,
    share,
    spark_params,
)

pytestmark = pytest.mark.spark

BOTH = {**PLUGIN, **LISTENER_ONLY}


def with_faults(home: Path, folder: Path, places: str) -> App:
    return run_workloads(
        home,
        folder,
        *("notify", "many"),
        conf=BOTH,
        options=[
            "--jars",
            f"{JAR},{TEST_JAR}",
            f"--driver-java-options=-Diqcar.test.fail={places}",
        ],
    )


def succeeded(app: App) -> bool:
    reasons = {end["Task End Reason"]["Reason"] for end in app.ends}
    return app.exit_code == 0 and reasons == {"Success"} and app.output.count("DONE") == 2


@pytest.mark.parametrize("home", spark_params())
@pytest.mark.parametrize("places", ["all", "onTaskStart", "taskCompletion,onStageSubmitted"])
def test_a_failing_callback_costs_its_records_and_nothing_else(
    home: Path, places: str, tmp_path: Path
) -> None:
    app = with_faults(home, tmp_path, places)
    assert succeeded(app), app.errors[-3000:]
    assert not any(records_of(end) for end in app.ends)
    assert app.errors.count("the job is not affected") == 1


@pytest.mark.parametrize("home", spark_params())
def test_a_dead_sampler_leaves_the_totals_and_says_so(home: Path, tmp_path: Path) -> None:
    app = with_faults(home, tmp_path, "kill-sampler")
    assert succeeded(app), app.errors[-3000:]
    (record,) = app.records("notify")
    assert record["sampler"] == "dead"
    assert record["samples"] == 0
    assert record["off_cpu_ns"] > 0.8e9


@pytest.mark.parametrize("home", spark_params())
def test_memory_that_cannot_be_read_is_missing_and_not_zero(home: Path, tmp_path: Path) -> None:
    app = with_faults(home, tmp_path, "memory")
    assert succeeded(app), app.errors[-3000:]
    (record,) = app.records("notify")
    assert "peak_held_bytes" not in record
    assert "mean_held_bytes" not in record
    assert record["failures"] > 0
    assert share(record, "notification_wait") > 0.8


@pytest.mark.parametrize("home", spark_params())
def test_the_switch_leaves_spark_as_if_the_jar_were_not_there(home: Path, tmp_path: Path) -> None:
    app = run_workloads(home, tmp_path, "many", conf={**BOTH, "spark.iqcar.enabled": "false"})
    assert app.exit_code == 0
    assert not any(records_of(end) for end in app.ends)
    assert not app.own_events()
    assert not app.own_events("Samples")


@pytest.mark.parametrize("home", spark_params())
def test_without_the_kernels_files_the_rest_is_measured(home: Path, tmp_path: Path) -> None:
    conf = {**BOTH, "spark.iqcar.proc": str(tmp_path / "absent")}
    app = run_workloads(home, tmp_path, "lock", "spin", conf=conf)
    waiter = max(app.records("lock"), key=lambda r: r["waits_ns"].get("monitor_blocked", 0))
    assert share(waiter, "monitor_blocked") > 0.5
    for record in app.records("lock") + app.records("spin"):
        assert "run_queue_ns" not in record
        assert "chars_read" not in record
        assert record["cpu_ns"] + record["off_cpu_ns"] == record["wall_ns"]


@pytest.mark.parametrize("home", spark_params())
def test_without_sampling_the_totals_remain(home: Path, tmp_path: Path) -> None:
    app = run_workloads(home, tmp_path, "lock", conf={**BOTH, "spark.iqcar.sample.period": "0"})
    waiter = max(app.records("lock"), key=lambda r: r["blocked_ms"])
    assert waiter["sampler"] == "off"
    assert "profile" not in waiter
    # The JVM's own count of blocked time stands in.
    assert share(waiter, "monitor_blocked") > 0.5
