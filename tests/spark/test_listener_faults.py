"""Whatever breaks in the plugin, the job's result and exit code are the same as without it."""

from __future__ import annotations

import re

import pytest

from tests.support.listener_spark import (
    LISTENER_ONLY,
    PLUGIN,
    App,
    records_of,
    run_applications,
    share,
    spark_params,
)
from tests.support.ruled_apps import FIRST, pool, pools_of, rules_file

pytestmark = pytest.mark.spark

BOTH = {**PLUGIN, **LISTENER_ONLY}
CALLBACKS = ("all", "a_task_s_start", "a_task_s_end,onStageSubmitted")
ROUND = "a_round_of_the_sampler"
MEMORY = "reading_how_much_memory_tasks_hold"
FAULTS = (*CALLBACKS, MEMORY)


@pytest.fixture(scope="module", params=spark_params())
def apps(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, App]:
    """An application for each fault and each part that is switched off."""
    folder = tmp_path_factory.mktemp("faults")
    capped = rules_file(folder / "capped.json", [pool("first", cap=1)], [FIRST])
    return run_applications(
        request.param,
        folder,
        {
            **{place: (("notify", "many"), {**BOTH, "iqcar.test.fail": place}) for place in FAULTS},
            "sampler": (
                ("notify", "many"),
                {**BOTH, "iqcar.test.fail": ROUND, "spark.iqcar.sample.period": "1ms"},
            ),
            "off": (("many",), {**BOTH, "spark.iqcar.enabled": "false"}),
            "no kernel": (
                ("lock", "spin"), {**BOTH, "spark.iqcar.proc": str(folder / "absent")}
            ),
            "no sampling": (("lock",), {**BOTH, "spark.iqcar.sample.period": "0"}),
            "no slots": (
                ("many",),
                {**BOTH, "spark.iqcar.rules": capped, "iqcar.test.fail": "counting_slots_for_caps"},
            ),
        },
    )  # fmt: skip


def succeeded(app: App) -> bool:
    reasons = {end["Task End Reason"]["Reason"] for end in app.ends}
    return app.exit_code == 0 and reasons == {"Success"} and app.output.count("DONE") == 2


@pytest.mark.parametrize("places", CALLBACKS)
def test_a_failing_callback_costs_its_records_and_nothing_else(
    apps: dict[str, App], places: str
) -> None:
    app = apps[places]
    assert succeeded(app), app.errors[-3000:]
    assert not any(records_of(end) for end in app.ends)
    said = re.findall(r"iqcar: (.+) failed; the job is not affected", app.errors)
    assert said and len(set(said)) == len(said)  # each place once


def test_a_failure_while_slots_are_counted_stops_no_task(apps: dict[str, App]) -> None:
    app = apps["no slots"]
    assert app.exit_code == 0, app.errors[-3000:]
    assert app.output.count("DONE") == 1
    assert app.errors.count("counting slots for caps failed; the job is not affected") == 1
    assert "first" in pools_of(app)


def test_a_dead_sampler_leaves_the_totals_and_says_so(apps: dict[str, App]) -> None:
    app = apps["sampler"]
    assert succeeded(app), app.errors[-3000:]
    (record,) = app.records("notify")
    assert record["sampler"] == "dead"
    assert record["samples"] == 0
    assert record["off_cpu_ns"] > 0.8e9


def test_memory_that_cannot_be_read_is_missing_and_not_zero(apps: dict[str, App]) -> None:
    app = apps[MEMORY]
    assert succeeded(app), app.errors[-3000:]
    (record,) = app.records("notify")
    assert "peak_held_bytes" not in record
    assert "mean_held_bytes" not in record
    assert record["failures"] > 0
    assert share(record, "notification_wait") > 0.8


def test_the_switch_leaves_spark_as_if_the_jar_were_not_there(apps: dict[str, App]) -> None:
    app = apps["off"]
    assert app.exit_code == 0
    assert not any(records_of(end) for end in app.ends)
    assert not app.own_events()
    assert not app.own_events("Samples")


def test_without_the_kernels_files_the_rest_is_measured(apps: dict[str, App]) -> None:
    app = apps["no kernel"]
    waiter = max(app.records("lock"), key=lambda r: r["waits_ns"].get("monitor_blocked", 0))
    assert share(waiter, "monitor_blocked") > 0.5
    for record in app.records("lock") + app.records("spin"):
        assert "run_queue_ns" not in record
        assert "chars_read" not in record
        assert record["cpu_ns"] + record["off_cpu_ns"] == record["wall_ns"]


def test_without_sampling_the_totals_remain(apps: dict[str, App]) -> None:
    app = apps["no sampling"]
    waiter = max(app.records("lock"), key=lambda r: r["blocked_ms"])
    assert waiter["sampler"] == "off"
    assert "profile" not in waiter
    # The JVM's own count of blocked time stands in.
    assert share(waiter, "monitor_blocked") > 0.5
