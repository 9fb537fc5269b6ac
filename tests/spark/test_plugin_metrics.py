"""The plugin's counts in Spark's own metrics, and the event log that they were counted from."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.support import SUPPORT, quick_spark
from tests.support.listener_spark import (
    JAR,
    PLUGIN,
    REPO,
    TEST_JAR,
    App,
    build_jar,
    ended,
    records_of,
    run,
    spark_params,
    start,
)
from tests.support.metrics_jobs import FAILED, TASKS
from tests.support.prometheus import prometheus
from tests.support.ruled_apps import applied, pool, rule, rules_file
from tests.support.standalone_cluster import ONE_SLOT_EACH, Cluster, wait_until

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.portable]

JOBS = str(SUPPORT / "metrics_jobs.py")
OWN = "plugin.org.iqcar.spark.IqcarPlugin."
PAGE = (REPO / "docs" / "metrics.md").read_text(encoding="utf-8")
SINKS = {
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
    **dict(re.findall(r"^    (spark\.metrics\.\S+)=(\S+)$", PAGE, re.MULTILINE)),
    "spark.metrics.conf.*.sink.jmx.class": "org.apache.spark.metrics.sink.JmxSink",
}
RULES = {
    "placed": rule("capped", job_group="nap"),
    "absent": rule("weighted", job_group="never runs"),
}


def printed(app: App, what: str) -> Any:
    assert app.exit_code == 0, app.output[-3000:] + app.errors[-3000:]
    (line,) = (line for line in app.output.splitlines() if line.startswith(f"{what} "))
    return json.loads(line.removeprefix(f"{what} "))


def page_of(app: App) -> dict[str, float]:
    """Values of the plugin's metrics in the Prometheus page, by name without application and half's
    process."""
    prefix = OWN.replace(".", "_")
    found = re.findall(
        rf"{prefix}(\w+)_Value\{{type=\"gauges\"\}} (\S+)", printed(app, "PROMETHEUS")
    )
    assert len(found) == len(dict(found))
    return {name: float(value) for name, value in found}


def sums(records: Iterable[dict[str, Any]]) -> dict[str, float]:
    """What metrics of tasks with such records are, by name without the half."""
    records = list(records)
    total: dict[str, float] = {"tasks": len(records)}
    for record in records:
        for name in ("cpu", "off_cpu"):
            total[f"{name}_seconds"] = total.get(f"{name}_seconds", 0) + record[f"{name}_ns"] / 1e9
        covered = record["off_cpu_ns"] * record.get("coverage_pct", 100) / 100 / 1e9
        total["covered_seconds"] = total.get("covered_seconds", 0) + covered
        total["task_seconds"] = total.get("task_seconds", 0) + record["wall_ns"] / 1e9
        waits = {**record["waits_ns"], "run_queue": record["run_queue_ns"]}
        # The kernel's count of stops is a part of both run queues, and each moment counts once.
        stopped = waits["throttled"] = record["throttled_ns"]
        for queue in ("run_queue", "python_run_queue"):
            own = min(stopped, waits.get(queue, 0))
            waits[queue] = waits.get(queue, 0) - own
            stopped -= own
        for wait, nanos in waits.items():
            key = f"waited_seconds.{wait}"
            total[key] = total.get(key, 0) + nanos / 1e9
    return total


def check_tasks(metrics: dict[str, float], half: str, records: Iterable[dict[str, Any]]) -> None:
    """Check the metrics of tasks against records; waits that no record has are 0."""
    expected = sums(records)
    found = {
        name.removeprefix(f"{half}."): value
        for name, value in metrics.items()
        if name.startswith(f"{half}.") and re.search(r"\.(tasks|\w+_seconds(\.\w+)?)$", name)
    }
    waits = {name for name in found if "waited" in name and "sampler" not in name}
    assert len(waits) > 15
    found = {name: value for name, value in found.items() if "sampler" not in name}
    assert found == pytest.approx({**dict.fromkeys(waits, 0.0), **expected}, rel=1e-6, abs=1e-6)
    whole = sum(found[name] for name in waits) + found["cpu_seconds"]
    assert whole == pytest.approx(found["task_seconds"])


@pytest.fixture(scope="module", params=spark_params())
def local(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> App:
    """An application in one JVM, with rules, and tasks for which the plugin fails."""
    folder = tmp_path_factory.mktemp("metrics")
    pools = [pool("capped", cap=2), pool("weighted", weight=2)]
    path = rules_file(folder / "rules.json", pools, [*RULES.values()])
    names = ("nap", "fail", "prometheus", "jmx")
    return run(request.param, folder, [JOBS, *names], conf={**applied(path), **SINKS})


def beans_of(app: App) -> dict[str, float]:
    """Values of the plugin's beans by name, as `page_of`."""
    return {name.partition(OWN)[2]: value for name, value in printed(app, "JMX").items()}


def test_jmx_has_what_the_log_has(local: App) -> None:
    beans = beans_of(local)
    records = [record for end in local.ends for record in records_of(end)]
    assert len(records) == TASKS
    check_tasks(beans, "application", records)
    check_tasks(beans, "executor", records)


def test_the_page_of_metrics_lists_what_there_is(local: App) -> None:
    listed = set(re.findall(r"`((?:application|driver|executor)\.[\w.]+)`", PAGE))
    found = {re.sub(r"(waited_seconds)\..*", r"\1.CLASS", name) for name in beans_of(local)}
    found = {re.sub(r"(failures_at)\..*", r"\1.PLACE", name) for name in found}
    # In local mode the driver's failures are the executor's.
    assert found | {"executor.failures", "executor.failures_at.PLACE"} == listed


def test_the_prometheus_page_has_the_same(local: App) -> None:
    page, beans = page_of(local), beans_of(local)
    assert set(page) == {re.sub(r"\W", "_", name) for name in beans}
    for name, value in beans.items():
        if "sampler" not in name:
            assert page[re.sub(r"\W", "_", name)] == pytest.approx(value), name


def test_tasks_without_a_record_and_failures_are_counted_by_place(local: App) -> None:
    beans = beans_of(local)
    assert beans["application.tasks_without_record"] == FAILED
    assert beans["executor.tasks_without_record"] == FAILED
    assert beans["driver.failures"] == beans["driver.failures_at.a_task_s_end"] == FAILED
    assert "executor.failures" not in beans


def test_sampling_has_a_cost_and_a_budget(local: App) -> None:
    beans = beans_of(local)
    spent = beans["executor.sampler.cpu_seconds"]
    assert 0 < spent < beans["executor.sampler.elapsed_seconds"]
    assert beans["executor.sampler.stopped_seconds"] > 0
    assert 0 < beans["executor.sampler.budget_used"] < 1  # the whole of one processor is allowed
    assert beans["executor.sampler.period_seconds"] >= 0.02


def test_rules_that_act_are_counted(local: App) -> None:
    beans = beans_of(local)
    assert beans["driver.rules.pools"] == 2
    assert beans["driver.rules.assignments"] == len(RULES)
    assert beans["driver.rules.caps"] == 1
    # The job's event comes before its task set, or the task set is moved when it comes.
    assert beans["driver.rules.placed"] + beans["driver.rules.moved"] == 1


@pytest.mark.parametrize("home", spark_params())
def test_an_application_without_rules_or_without_the_plugin_has_no_such_metrics(
    home: Path, tmp_path: Path
) -> None:
    (tmp_path / "plain").mkdir()
    conf = {**PLUGIN, **SINKS}
    beans = beans_of(run(home, tmp_path / "plain", [JOBS, "nap", "jmx"], conf=conf))
    assert beans["application.tasks"] == TASKS
    assert not any("rules" in name for name in beans)
    (tmp_path / "off").mkdir()
    off = {**conf, "spark.iqcar.enabled": "false"}
    assert beans_of(run(home, tmp_path / "off", [JOBS, "nap", "jmx"], conf=off)) == {}


def last_lines(folder: Path) -> dict[str, dict[str, float]]:
    """The last value of each of the plugin's metrics in files of Spark's sink, by executor."""
    found: dict[str, dict[str, float]] = {}
    for file in folder.iterdir():
        process, _, name = file.name.removesuffix(".csv").partition(f".{OWN}")
        if name:
            value = float(file.read_text().splitlines()[-1].partition(",")[2])
            found.setdefault(process.rpartition(".")[2], {})[name] = value
    return found


def test_each_executor_gives_its_own_and_the_driver_the_sum(
    cluster: Cluster, tmp_path: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    sink = "spark.metrics.conf.executor.sink.csv"
    conf = {
        **PLUGIN,
        **ONE_SLOT_EACH,
        **SINKS,
        f"{sink}.class": "org.apache.spark.metrics.sink.CsvSink",
        f"{sink}.directory": str(files),
        f"{sink}.period": "1",
    }
    app = run(
        cluster.home, tmp_path, [JOBS, "nap", "prometheus", "jmx"], master=cluster.master, conf=conf
    )
    beans = beans_of(app)
    records = [record for end in app.ends for record in records_of(end)]
    check_tasks(beans, "application", records)
    assert not any(name.startswith("executor.") for name in beans)
    executors = last_lines(files)
    assert set(executors) == {record["executor"] for record in records}
    for executor, metrics in executors.items():
        own = [record for record in records if record["executor"] == executor]
        check_tasks(metrics, "executor", own)
        assert metrics["executor.tasks_without_record"] == 0
        assert "executor.failures" in metrics
        assert not any(name.startswith(("driver.", "application.")) for name in metrics)


def scrape_config(port: str) -> str:
    """The configuration of docs/metrics.md for a driver."""
    job = re.search(r"      - job_name: spark\n(?:        .*\n)+", PAGE)
    assert job
    return "scrape_configs:\n" + job[0].replace("driver-host:4040", f"127.0.0.1:{port}")


@pytest.mark.slow
@pytest.mark.parametrize("home", spark_params())
def test_a_real_prometheus_scrapes_a_driver_and_answers_the_dashboard(
    home: Path, tmp_path: Path
) -> None:
    rules = rules_file(tmp_path / "rules.json", [pool("capped", cap=2)], [RULES["placed"]])
    go = tmp_path / "go"
    conf = {**applied(rules), **SINKS}
    running = start(home, tmp_path, [JOBS, "nap", "fail", f"stay:{go}"], conf=conf)
    try:
        wait_until(lambda: re.search(r'^AT "', running.output, re.MULTILINE), "user interface")
        (port,) = re.findall(r'^AT "http://.+:(\d+)"', running.output, re.MULTILINE)
        with prometheus(tmp_path, scrape_config(port)) as ask:
            wait_until(lambda: ask("iqcar_spark_driver_failures_at"), "scraped metrics")
            (tasks,) = ask("iqcar_spark_application_tasks")
            assert float(tasks["value"][1]) == TASKS
            assert tasks["metric"]["application"] == "metrics_jobs_py"
            (failed,) = ask("iqcar_spark_driver_failures_at")
            assert failed["metric"]["place"] == "a_task_s_end"
            waits = ask("iqcar_spark_application_waited_seconds")
            assert {"run_queue", "io_read"} <= {one["metric"]["wait"] for one in waits}
            queries = re.findall(r"\| `(.*iqcar_spark.*)` \|$", PAGE, re.MULTILINE)
            # A rate takes two scrapes; nothing waits any more, so no coverage is known.
            wait_until(lambda: all(ask(query) for query in queries), "answer to each query")
    finally:
        go.touch()
    assert ended(running).exit_code == 0


@pytest.mark.parametrize("home", spark_params())
def test_who_merges_a_record_on_the_driver_reads_no_text(home: Path) -> None:
    build_jar()
    path = f"{JAR}:{TEST_JAR}:{home}/jars/*"
    main = "org.iqcar.spark.events.MergedRecords"
    records = [json.dumps({"cpu_ns": seconds * 10**9}, separators=(",", ":")) for seconds in (3, 4)]
    words = ["java", *quick_spark.PLAIN.split(), "-cp", path, main, *records, ""]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.stdout == "7 2 1\n", done.stderr[-3000:]
