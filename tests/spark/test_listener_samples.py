"""Samples of hosts in the event log of a real Spark, and jobs that do without them."""

from __future__ import annotations

import pytest

import iqcar
from tests.support.listener_spark import (
    LISTENER_ONLY,
    PLUGIN,
    App,
    records_of,
    run_applications,
    samples_of,
    spark_params,
    wait_until_no_sampler_runs,
)

pytestmark = [pytest.mark.long, pytest.mark.spark]


NO_SAMPLES = {
    "no python": "",
    "no psutil": 'echo \'{"v":1,"err":"python: no psutil"}\'; exit 3',
    "damaged lines": 'echo \'{"v":1,"t":\'; echo \'{"v":1,\'; exit 1',
    "no answer": "exec sleep 1000",
}
"""What takes the place of the Python that samples: shell scripts, and nothing for the first."""


@pytest.fixture(scope="module", params=spark_params())
def apps(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, App]:
    """Applications that are sampled, and such that cannot be."""
    folder = tmp_path_factory.mktemp("samples")
    plans: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {}
    for name, conf in (("plugin", PLUGIN), ("listener", LISTENER_ONLY)):
        plans[name] = (("sleep", "spin", "nap"), {**conf, "spark.iqcar.host.period": "500ms"})
    bounded = {"spark.iqcar.host.period": "100ms", "spark.iqcar.host.bytes": "10000"}
    plans["bounded"] = (("nap",), {**PLUGIN, **bounded})
    unsampled = {}
    for name, script in NO_SAMPLES.items():
        python = folder / name.replace(" ", "-")
        if script:
            python.write_text(f"#!/bin/sh\n{script}\n")
            python.chmod(0o755)
        unsampled[name] = {"spark.iqcar.host.python": str(python)}
    unsampled["off"] = {"spark.iqcar.host.enabled": "false"}
    for name, conf in unsampled.items():
        plans[name] = (("many", "sleep"), {**PLUGIN, **conf})
    return run_applications(request.param, folder, plans)


@pytest.mark.parametrize("way", ["plugin", "listener"])
def test_in_local_mode_the_log_tells_what_the_host_did_until_the_end(
    apps: dict[str, App], way: str
) -> None:
    app = apps[way]
    assert app.exit_code == 0, app.errors[-3000:]
    samples = samples_of(app)
    assert all("cpu" in sample and "mem" in sample for sample in samples)
    assert {sample["host"] for sample in samples} == {app.ends[0]["Task Info"]["Host"]}
    assert {kind for s in samples for kind in s.get("procs", ())} == {"jvm"}
    # "nap" runs for nine seconds: they are there, although the log ends with them. What was
    # sampled after Spark closed the log, a period or two, is not.
    last = max(end["Task Info"]["Finish Time"] for end in app.group("nap"))
    assert max(sample["t"] for sample in samples) > last - 5000
    told = sum(sample["dt_ms"] for sample in samples)
    start, end = (
        next(e["Timestamp"] for e in app.events if e["Event"] == f"SparkListenerApplication{what}")
        for what in ("Start", "End")
    )
    assert 9000 / 2 < told < end - start
    wait_until_no_sampler_runs(app)
    check_tables(app, len(samples))


def test_bounded_bytes_make_samples_seldom_and_leave_no_time_out(apps: dict[str, App]) -> None:
    app = apps["bounded"]
    lengths = [sample["dt_ms"] for sample in samples_of(app)]
    # 10 KB a minute are a sample in some two seconds; of a quiet host there would be one a second.
    assert max(lengths) > 1500
    assert sum(lengths) > 9000 / 2
    check_tables(app, len(lengths))


def check_tables(app: App, expected: int) -> None:
    """The analyzer's tables hold what is in the log."""
    tables = iqcar.read(app.log)
    samples = tables.samples
    assert len(samples) == expected > 0
    assert (samples["app"] == 0).all()
    assert set(samples["host"]) == set(tables.tasks["host"])
    assert set(samples["executor"]) == set(tables.tasks["executor"])
    cpu = samples[["cpu_user", "cpu_system", "cpu_iowait", "cpu_steal", "cpu_idle"]].sum(axis=1)
    assert cpu.between(98, 102).all()
    assert (samples["jvm_rss_bytes"] > 50e6).all()


def check_the_rest(app: App) -> None:
    """All but the samples is there."""
    assert app.exit_code == 0, app.errors[-3000:]
    assert app.output.count("DONE") == 2
    assert all(len(records_of(end)) == 1 for end in app.ends)
    assert app.own_events("Samples") == []


def test_without_python_one_line_says_so_and_the_rest_goes_on(
    apps: dict[str, App],
) -> None:
    app = apps["no python"]
    check_the_rest(app)
    assert app.errors.count("this host is not sampled") == 1
    assert "the job is not affected" not in app.errors


@pytest.mark.parametrize("what", ["no psutil", "damaged lines"])
def test_a_python_that_cannot_sample_is_reported_once(apps: dict[str, App], what: str) -> None:
    app = apps[what]
    check_the_rest(app)
    assert app.errors.count("this host is no longer sampled") == 1
    assert "the job is not affected" not in app.errors


def test_a_python_that_never_answers_delays_nothing(apps: dict[str, App]) -> None:
    check_the_rest(apps["no answer"])


def test_switched_off_there_are_no_samples(apps: dict[str, App]) -> None:
    check_the_rest(apps["off"])
