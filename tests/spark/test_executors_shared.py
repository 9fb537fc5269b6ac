"""Two applications on one standalone cluster: who holds its slots is blamed by who lacks them."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import iqcar
from iqcar.enums import REQUESTS, Request
from iqcar.model.waits.columns import MEASURED
from tests.support.golden import recorded
from tests.support.listener_spark import (
    APP_TIMEOUT_S,
    JAR,
    PLUGIN,
    TEST_JAR,
    WORKLOADS,
    command,
    environment,
    spark_params,
)
from tests.support.standalone_cluster import CORES, HOSTS, Cluster, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.golden]

SMALL = {"spark.executor.memory": "512m", "spark.executor.cores": "1"}
LEAST_HELD_S = 8.0
"""Time for which one application keeps the other waiting; longer where executors start slowly."""


@contextmanager
def started(
    cluster: Cluster, folder: Path, job: str, conf: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """One application in a folder of its own; stopped where the test does not see its end."""
    folder.mkdir()
    words = command(
        cluster.home,
        folder,
        [str(TEST_JAR), job],
        master=cluster.master,
        conf=conf,
        options=["--jars", str(JAR), "--class", WORKLOADS],
    )
    with (folder / "errors").open("w") as out:
        running = subprocess.Popen(
            words, env=environment(cluster.home), cwd=folder, stdout=out, stderr=out
        )
    try:
        yield running
    finally:
        if running.poll() is None:
            running.terminate()
        running.wait()


def ended(running: subprocess.Popen[bytes], folder: Path) -> None:
    assert running.wait(APP_TIMEOUT_S) == 0, (folder / "errors").read_text()[-3000:]


def events(folder: Path) -> list[dict[str, Any]]:
    """What the log of an application says so far; the last line may be half written."""
    found = []
    for log in (folder / "log").iterdir():
        for line in log.read_text().splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                break
    return found


def has(folder: Path, event: str) -> bool:
    return any(one["Event"] == event for one in events(folder))


def start_up_s(folder: Path) -> float:
    """Time from an application's start to its first executor."""
    times = {one["Event"]: one.get("Timestamp", 0) for one in reversed(events(folder))}
    added, start = (f"SparkListener{what}" for what in ("ExecutorAdded", "ApplicationStart"))
    return float(times[added] - times[start]) / 1e3


def blame_of(found: iqcar.Diagnosis, name: str) -> dict[str, dict[str, Any]]:
    row = found.tables.queries["name"].tolist().index(name)
    return {one["source_name"]: one for one in found.graph.blame_rows(row)}


@pytest.mark.parametrize("home", spark_params())
def test_who_holds_all_slots_is_blamed_by_who_waits_for_them(
    home: Path, clusters: Callable[[Path], Cluster], tmp_path: Path
) -> None:
    def hold_all(folder: Path) -> None:
        cluster, go = clusters(home), folder / "go"
        slots = CORES * len(HOSTS)
        whole = {**SMALL, "spark.executor.cores": str(CORES)}
        with started(cluster, folder / "a", f"hold:{slots},{go}", whole) as first:
            wait_until(lambda: len(list(folder.glob("go-*"))) == slots, "tasks that hold all slots")
            with started(cluster, folder / "b", "doze:8", whole) as second:
                wait_until(lambda: has(folder / "b", "SparkListenerJobStart"), "waiting job")
                time.sleep(max(LEAST_HELD_S, 3 * start_up_s(folder / "a")))
                go.touch()
                ended(first, folder / "a")
                ended(second, folder / "b")

    logs = recorded("holds-all", home, tmp_path, hold_all, SMALL)
    found = iqcar.diagnose(iqcar.read([logs / "a/log", logs / "b/log"], query_by="job-group"))
    blame = blame_of(found, "doze")
    assert blame["hold"]["share"] > 0.5
    assert next(iter(blame["hold"]["by_resource"])) == "executors"
    (advice,) = [rule for rule in found.rules if rule.resource == "executors"]
    assert advice.kind == "executors-standalone"


@pytest.mark.parametrize("home", spark_params())
def test_who_holds_three_of_four_slots_is_blamed_more_than_the_query_itself(
    home: Path, clusters: Callable[[Path], Cluster], tmp_path: Path
) -> None:
    def hold_most(folder: Path) -> None:
        cluster, go = clusters(home), folder / "go"
        slots = CORES * len(HOSTS) - 1
        dynamic = {
            "spark.dynamicAllocation.enabled": "true",
            "spark.dynamicAllocation.shuffleTracking.enabled": "true",
            # All slots are asked for at once: while Spark asks for one, then two more, nobody else
            # keeps the tasks waiting.
            "spark.dynamicAllocation.initialExecutors": str(slots + 1),
        }
        most = {**SMALL, "spark.cores.max": str(slots)}
        asking = {**SMALL, **PLUGIN, **dynamic}
        with started(cluster, folder / "a", f"hold:{slots},{go}", most) as first:
            wait_until(lambda: len(list(folder.glob("go-*"))) == slots, "tasks that hold slots")
            dozes = 2 * int(max(2 * LEAST_HELD_S, 3 * start_up_s(folder / "a")))
            with started(cluster, folder / "b", f"doze:{dozes}", asking) as second:
                ended(second, folder / "b")
                go.touch()
                ended(first, folder / "a")

    logs = recorded("holds-most", home, tmp_path, hold_most, SMALL)
    found = iqcar.diagnose(iqcar.read([logs / "a/log", logs / "b/log"], query_by="job-group"))
    assert found.tables.executor_targets["executors"].max() >= len(HOSTS) * CORES
    blame = blame_of(found, "doze")
    assert blame["hold"]["lost_ms"] > 2 * blame["itself"]["lost_ms"]
    assert next(iter(blame["hold"]["by_resource"])) == "executors"
    demands = found.blame.demands
    waited = demands[demands["request"] == REQUESTS.index(Request.EXECUTOR_WAIT)]
    assert (waited["evidence"] == MEASURED).all()
    assert len(waited)
