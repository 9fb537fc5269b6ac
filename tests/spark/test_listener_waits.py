"""Known waits in, the same waits out: workloads on a real Spark with the plugin."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.logs.test_record_scanner import assert_same, both, carried, compact
from tests.spark.conftest import FIFO_PAUSE_S, FIFO_PAUSES, SPIN_CORES
from tests.support import SUPPORT
from tests.support.listener_spark import (
    LISTENER_ONLY,
    App,
    records_of,
    run,
    samples_of,
    share,
    spark_params,
    unpack,
)

pytestmark = [pytest.mark.spark, pytest.mark.portable]
smoke = pytest.mark.smoke

MS = 1_000_000
SPIN_THREADS = 4
SCAN_PAUSES = 6
SCAN_PAUSE_S = 0.3
"""As in listener_jobs.py."""


@pytest.fixture
def app(known_waits: App) -> App:
    return known_waits


@pytest.fixture(scope="module", params=spark_params())
def python_app(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> App:
    """One PySpark application with only the listener configured."""
    done = run(
        request.param,
        tmp_path_factory.mktemp("python"),
        [
            str(SUPPORT / "listener_jobs.py"),
            *("python_burn", "python_sleep", "python_bursts", "pandas_sleep", "slow_scan"),
        ],
        master="local[2]",
        conf=LISTENER_ONLY,
    )
    assert done.exit_code == 0, done.errors[-3000:]
    return done


def all_records(app: App) -> list[dict[str, Any]]:
    return [record for end in app.ends for record in records_of(end)]


@smoke
def test_every_task_has_exactly_one_record(app: App) -> None:
    assert len(app.ends) > 200
    assert [len(records_of(end)) for end in app.ends] == [1] * len(app.ends)


def test_every_task_has_exactly_one_record_with_the_listener_alone(python_app: App) -> None:
    assert [len(records_of(end)) for end in python_app.ends] == [1] * len(python_app.ends)


def check_accounts(app: App) -> None:
    records = all_records(app)
    assert records
    for record in records:
        parts = (record["cpu_ns"], record["run_queue_ns"], record["off_cpu_ns"])
        assert min(parts) >= 0
        assert sum(parts) == record["wall_ns"]
        assert sum(record["waits_ns"].values()) == record["off_cpu_ns"]


@smoke
def test_wall_time_and_waits_are_accounted_for_to_the_nanosecond(app: App) -> None:
    check_accounts(app)


def test_the_accounts_hold_for_python_tasks_too(python_app: App) -> None:
    check_accounts(python_app)


def test_profiles_sum_to_their_totals_and_stay_small(app: App) -> None:
    profiles = [r for r in all_records(app) if "profile" in r]
    assert profiles
    for record in profiles:
        profile = dict(record["profile"])
        width, buckets = profile.pop("bucket_ms"), profile.pop("buckets")
        assert buckets <= 8
        assert (buckets - 1) * width * MS < record["wall_ns"] <= buckets * width * MS
        totals = {
            "cpu": record["cpu_ns"],
            "run_queue": record["run_queue_ns"],
            **record["waits_ns"],
        }
        profile.pop("held_kib", None)
        sums = {name: sum(unpack(series, buckets)) for name, series in profile.items()}
        assert sums == {n: t // MS for n, t in totals.items() if t >= MS}


def test_a_long_task_widens_its_intervals_and_keeps_the_order_of_its_waits(app: App) -> None:
    (record,) = app.records("long")
    profile = record["profile"]
    assert profile["bucket_ms"] in {500, 1000, 2000, 4000, 8000, 16000}
    slept = unpack(profile["other"], profile["buckets"])
    computed = unpack(profile["cpu"], profile["buckets"])
    # It sleeps the first 1.5 s and computes afterwards.
    early = max(1, 1500 // profile["bucket_ms"] + 1)
    assert sum(slept[:early]) > 0.9 * sum(slept)
    assert sum(computed[early:]) > 0.5 * sum(computed)


@smoke
def test_a_lock_held_by_another_task_is_monitor_blocked(app: App) -> None:
    waiter = max(app.records("lock"), key=lambda r: r["waits_ns"].get("monitor_blocked", 0))
    assert waiter["waits_ns"]["monitor_blocked"] > 800 * MS
    assert share(waiter, "monitor_blocked") > 0.7
    assert waiter["blocked_ms"] > 800


def owned_ms(record: dict[str, Any]) -> dict[int, int]:
    """By task, how long it held locks that the record's task waited for."""
    pairs = [pair.split(":") for pair in record.get("lock_owners", "").split(",") if pair]
    return {int(task): int(ms) for task, ms in pairs}


@smoke
def test_the_record_names_the_task_that_held_the_lock(app: App) -> None:
    holder = app.group("lock")[0]["Task Info"]["Task ID"]
    held, waited = app.records("lock")
    locked = [waited["waits_ns"].get(name, 0) / MS for name in ("monitor_blocked", "codegen_lock")]
    assert set(owned_ms(waited)) == {holder}
    assert 0.8 * sum(locked) < owned_ms(waited)[holder] <= sum(locked)
    # Both load classes when they begin, and may wait for one another then.
    assert sum(owned_ms(held).values()) < 0.1 * owned_ms(waited)[holder]


def test_nobody_owns_what_is_no_lock(app: App) -> None:
    for name in ("notify", "sleep", "fifo", "holder", "starved"):
        for record in app.records(name):
            assert sum(owned_ms(record).values()) < 0.1 * record["wall_ns"] / MS


@smoke
def test_waiting_for_a_notification_is_notification_wait(app: App) -> None:
    (record,) = app.records("notify")
    assert share(record, "notification_wait") > 0.8


def test_a_sleeping_task_is_neither_blocked_nor_notified(app: App) -> None:
    (record,) = app.records("sleep")
    assert share(record, "other") > 0.8


def test_reading_a_slow_file_is_io_read(app: App) -> None:
    (record,) = app.records("fifo")
    assert record["waits_ns"]["io_read"] > 0.8 * FIFO_PAUSES * FIFO_PAUSE_S * 1e9
    assert share(record, "io_read") > 0.8


def test_scanning_a_slow_source_is_io_read(python_app: App) -> None:
    """Spark's own scan of a file, through Hadoop's file system."""
    assert f"RESULT {99 * SCAN_PAUSES}" in python_app.output
    record = max(python_app.records("slow_scan"), key=lambda r: r["waits_ns"].get("io_read", 0))
    assert record["waits_ns"]["io_read"] > 0.8 * SCAN_PAUSES * SCAN_PAUSE_S * 1e9
    assert share(record, "io_read") > 0.8


def test_spinning_tasks_on_fewer_cores_wait_in_the_run_queue(app: App) -> None:
    records = app.records("spin")
    assert len(records) == SPIN_THREADS
    wall = sum(r["wall_ns"] for r in records)
    waited = sum(r["run_queue_ns"] for r in records)
    # Whatever else runs on the machine can only add to the wait.
    assert waited / wall > 0.8 * (SPIN_THREADS - SPIN_CORES) / SPIN_THREADS
    assert sum(r["off_cpu_ns"] for r in records) < 0.1 * wall


@smoke
def test_a_failed_attempt_has_a_record_of_its_own(app: App) -> None:
    failed, succeeded = app.group("failed")
    assert failed["Task End Reason"]["Reason"] == "ExceptionFailure"
    assert succeeded["Task End Reason"]["Reason"] == "Success"
    for end in (failed, succeeded):
        (record,) = records_of(end)
        assert record["wall_ns"] > 300 * MS


@smoke
def test_a_killed_task_has_a_record(app: App) -> None:
    (end,) = app.group("killed")
    assert end["Task End Reason"]["Reason"] == "TaskKilled"
    (record,) = records_of(end)
    assert share(record, "other") > 0.8


@smoke
def test_the_pool_is_in_the_records_and_the_pools_are_in_the_log(app: App) -> None:
    assert {r["pool"] for r in app.records("pooled")} == {"gold"}
    assert all("pool" not in r for r in app.records("sleep"))
    event = app.own_events()[-1]
    assert event["mode"] == "FAIR"
    assert event["slots"] == 4
    pools = {pool["name"]: pool for pool in event["pools"]}
    gold = {"name": "gold", "mode": "FAIR", "weight": 3, "minShare": 1}
    assert pools["gold"] == {**gold, "cap": 0, "strict": False}


def test_scheduler_events_are_few(app: App) -> None:
    assert 1 <= len(app.own_events()) <= 3


def test_a_computing_python_worker_is_python_cpu(python_app: App) -> None:
    for record in python_app.records("python_burn"):
        assert record["waits_ns"]["python_cpu"] > 0.7 * 1.5e9, record
        assert record["waits_ns"].get("python_other", 0) < 0.3 * 1.5e9
        assert record["cpu_ns"] < 1e9


def test_the_samples_tell_the_python_workers_from_the_jvm(python_app: App) -> None:
    sums = [sample.get("procs", {}) for sample in samples_of(python_app)]
    cpu_ms = {k: sum(s[k][0] for s in sums if k in s) for k in ("jvm", "python")}
    # Each of two tasks burns 1.5 s in its worker; a worker is found some time after its start.
    assert cpu_ms["python"] > 500
    assert cpu_ms["jvm"] > 0


def test_a_sleeping_python_worker_is_python_other(python_app: App) -> None:
    for record in python_app.records("python_sleep"):
        assert record["waits_ns"]["python_other"] > 0.8 * 2e9
        assert record["waits_ns"].get("python_cpu", 0) < 0.5e9


def test_a_python_worker_waits_on_the_run_queue_as_long_as_the_kernel_says(python_app: App) -> None:
    (record,) = python_app.records("python_bursts")
    (said,) = re.findall(r"^WAITED (\d+)$", python_app.output, re.MULTILINE)
    waited = record["waits_ns"].get("python_run_queue", 0)
    assert int(said) > 250 * MS
    # The record begins before the function and ends after it, which takes some milliseconds.
    assert abs(waited - int(said)) < 0.1 * int(said) + 100 * MS


def test_a_sleeping_pandas_function_is_python_other(python_app: App) -> None:
    (record,) = python_app.records("pandas_sleep")
    assert record["waits_ns"]["python_other"] > 0.7 * 2e9, record


def test_a_task_whose_memory_another_task_holds_waits_for_execution_memory(app: App) -> None:
    waiter = max(app.records("memory"), key=lambda r: r["waits_ns"].get("execution_memory", 0))
    assert waiter["waits_ns"]["execution_memory"] > 800 * MS
    assert share(waiter, "execution_memory") > 0.7
    # The JVM's own clock: waiting for memory is Object.wait.
    assert waiter["waits_ns"]["execution_memory"] < 1.3 * waiter["waited_ms"] * MS


def test_the_memory_that_a_task_holds_is_in_its_record_and_profile(app: App) -> None:
    (holder,), (starved,) = app.records("holder"), app.records("starved")
    (bystander,) = app.records("bystander")
    assert share(starved, "execution_memory") > 0.7
    # It took all there was before the first look, and gave it back at its end; where the machine is
    # busy, Spark ends a task some time after that, in an interval of its own.
    assert holder["peak_held_bytes"] > 100e6
    assert holder["mean_held_bytes"] > 0.8 * holder["peak_held_bytes"]
    profile = holder["profile"]
    held = unpack(profile["held_kib"], profile["buckets"])
    assert max(held) <= holder["peak_held_bytes"] / 1024 + 1
    while held[-1] == 0:
        held.pop()
    assert len(held) > 2 and min(held[1:-1]) == max(held)
    for nothing in (starved["mean_held_bytes"], bystander["peak_held_bytes"]):
        assert nothing < 0.01 * holder["mean_held_bytes"]
    assert "held_kib" not in bystander["profile"]


def check_compiled_code_reads_all(app: App) -> None:
    found = [compact(record) for record in all_records(app)]
    assert assert_same([carried(text) for text in found]) == len(found) >= 4
    columns = both([carried(text) for text in found])[0].columns()[1]
    assert len(columns.values) > 4


def test_what_a_real_spark_recorded_is_all_read_by_compiled_code(app: App) -> None:
    check_compiled_code_reads_all(app)


def test_records_of_python_tasks_are_all_read_by_compiled_code(python_app: App) -> None:
    check_compiled_code_reads_all(python_app)
