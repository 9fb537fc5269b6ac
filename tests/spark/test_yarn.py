"""Applications in two queues of a real YARN: who holds its containers, and whose are taken away.

One run for all tests: `holder` takes both executors that there is room for, `waiter` gets a master
but no executor, `late` (in cluster mode) does not even get a driver. Then preemption is allowed.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import iqcar
from iqcar.logs.find.resource_manager import YarnTold, ask_resource_manager
from iqcar.say.sections import losses_by_owner
from tests.spark.test_executors_shared import blame_of, ended, has, start_up_s
from tests.support.command import iqcar as run_iqcar
from tests.support.listener_spark import (
    JAR,
    PLUGIN,
    TEST_JAR,
    WORKLOADS,
    build_jar,
    command,
    environment,
    spark_params,
)
from tests.support.quick_spark import options
from tests.support.standalone_cluster import HOSTS, wait_until
from tests.support.yarn_cluster import NODE_MB, YarnCluster, yarn_cluster

pytestmark = [
    pytest.mark.long("analyzer/iqcar/logs", "analyzer/iqcar/model", "listener/src"),
    pytest.mark.spark,
]

CAPACITY = {"etl": "14", "adhoc": "60", "default": "26"}
"""Of each queue in per cent; each may use the whole cluster."""
QUEUES = {
    "root.queues": ",".join(CAPACITY),
    **{f"root.{queue}.capacity": share for queue, share in CAPACITY.items()},
    **{f"root.{queue}.maximum-capacity": "100" for queue in CAPACITY},
    **{f"root.{queue}.user-limit-factor": "10" for queue in CAPACITY},
}
NO_PREEMPTION = {"root.disable_preemption": "true"}
HEAP_MB, MASTER_MB = 512, 384
ONE_PER_NODE_MB = NODE_MB - MASTER_MB - 128
"""A master and an executor of this size leave no room for another master or driver."""
SMALL = {
    "spark.executor.cores": "1",
    "spark.executor.memory": f"{HEAP_MB}m",
    "spark.driver.memory": f"{HEAP_MB}m",
    "spark.driver.memoryOverhead": "128m",
    "spark.yarn.am.memory": f"{MASTER_MB - 128}m",
    "spark.yarn.am.memoryOverhead": "128m",
    "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
}
WIDE = {"spark.executor.memoryOverhead": f"{ONE_PER_NODE_MB - HEAP_MB}m"}
ENOUGH_CORES = {"yarn.nodemanager.resource.cpu-vcores": "8"}
"""Of each node: memory is what is short."""
LEAST_HELD_S = 8.0
"""Time for which the holder keeps the others waiting; longer where executors start slowly."""


@dataclass
class Run:
    """What the run left: its folder, and what the manager told while `late` waited, and after."""

    folder: Path
    meanwhile: YarnTold
    after: YarnTold
    said: str
    """What `iqcar analyze --yarn` printed while `late` waited."""

    @property
    def logs(self) -> list[Path]:
        return [self.folder / name / "log" for name in ("holder", "waiter", "late")]


@contextmanager
def started(
    home: Path,
    cluster: YarnCluster,
    folder: Path,
    job: str,
    conf: dict[str, str],
    queue: str,
    mode: str = "client",
) -> Iterator[subprocess.Popen[bytes]]:
    """An application in a folder of its name; stopped where the test does not see its end."""
    (folder / "staging").mkdir(parents=True)
    of_yarn = {
        "spark.yarn.jars": f"local:{home}/jars/*",
        "spark.yarn.stagingDir": (folder / "staging").as_uri(),
        "spark.yarn.am.extraJavaOptions": options(),
        "spark.driver.defaultJavaOptions": options(),
    }
    words = command(
        home,
        folder,
        [str(TEST_JAR), job],
        master="yarn",
        conf={**of_yarn, **SMALL, **conf},
        options=[
            *("--deploy-mode", mode, "--name", folder.name, "--queue", queue),
            *("--jars", str(JAR), "--class", WORKLOADS),
        ],
    )
    env = {**environment(home), "HADOOP_CONF_DIR": str(cluster.conf)}
    with (folder / "errors").open("w") as out:
        running = subprocess.Popen(words, env=env, cwd=folder, stdout=out, stderr=out)
    try:
        yield running
    finally:
        if running.poll() is None:
            running.terminate()
        running.wait()


def state(cluster: YarnCluster, name: str) -> str:
    return next((one["state"] for one in cluster.applications() if one["name"] == name), "")


def share_a_cluster(home: Path, cluster: YarnCluster, folder: Path) -> Run:
    """Let `holder` hold all, the others wait, and then `waiter` get what is taken from `holder`."""
    go = folder / "go"
    asking = {**PLUGIN, "spark.dynamicAllocation.enabled": "true"}
    asking |= {"spark.dynamicAllocation.shuffleTracking.enabled": "true"}
    asking |= {"spark.dynamicAllocation.maxExecutors": "1"}
    holding = {**WIDE, "spark.executor.instances": str(len(HOSTS))}
    with ExitStack() as running:

        def start(name: str, *more: Any) -> subprocess.Popen[bytes]:
            return running.enter_context(started(home, cluster, folder / name, *more))

        holder = start("holder", f"hold:{len(HOSTS)},{go}", holding, "etl")
        wait_until(lambda: len([*folder.glob("go-*")]) == len(HOSTS), "held executors", 600)
        waiter = start("waiter", "doze:2", {**WIDE, **asking}, "adhoc")
        wait_until(lambda: has(folder / "waiter", "SparkListenerJobStart"), "waiting job", 600)
        late = start("late", "doze:1", {"spark.executor.instances": "1"}, "adhoc", "cluster")
        wait_until(lambda: state(cluster, "late") == "ACCEPTED", "accepted application", 600)
        time.sleep(max(LEAST_HELD_S, 2 * start_up_s(folder / "holder")))
        meanwhile = ask_resource_manager(cluster.url)
        logs = [str(folder / name / "log") for name in ("holder", "waiter")]
        said = run_iqcar("analyze", *logs, "--query-by", "job-group", "--yarn", cluster.url)
        cluster.set_queues(QUEUES)
        ended(waiter, folder / "waiter")
        ended(late, folder / "late")
        go.touch()
        ended(holder, folder / "holder")
    return Run(folder, meanwhile, ask_resource_manager(cluster.url), said.stdout)


@pytest.fixture(scope="module", params=spark_params())
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    build_jar()
    folder = tmp_path_factory.mktemp("yarn")
    (folder / "cluster").mkdir()
    queues = {**QUEUES, **NO_PREEMPTION}
    with yarn_cluster(folder / "cluster", queues, settings=ENOUGH_CORES) as cluster:
        return share_a_cluster(request.param, cluster, folder)


@pytest.mark.smoke
def test_who_lacks_executors_blames_the_application_of_the_other_queue(run: Run) -> None:
    found = iqcar.diagnose(iqcar.read(run.logs[:2], query_by="job-group"), by="spark.yarn.queue")
    blame = blame_of(found, "doze")
    assert blame["hold"]["share"] > 0.5
    assert next(iter(blame["hold"]["by_resource"])) == "executors"
    assert "guessed from the most held at once" in " ".join(found.doubts)
    (advice,) = [rule for rule in found.rules if rule.resource == "executors"]
    assert advice.kind == "executors-yarn"
    losses = losses_by_owner(found, "spark.yarn.queue")
    worst = losses.loc[losses["lost_ms"].idxmax()]
    assert (worst["victim"], worst["source"]) == ("adhoc", "etl")
    assert {host for host in found.tables.hosts["host"] if host.startswith("127")} <= {*HOSTS}


@pytest.mark.smoke
def test_an_application_without_a_log_waits_for_who_holds_the_containers(run: Run) -> None:
    found = iqcar.diagnose(iqcar.read(run.logs[:2], query_by="job-group"), yarn=run.meanwhile)
    assert found.yarn is not None
    late = next(one for one in found.yarn.pending if one.application.name == "late")
    assert (late.application.waits, late.app, found.yarn.waiting) == (True, -1, 1)
    assert late.application.queue.endswith("adhoc")
    assert late.wait_ms >= 1e3 * LEAST_HELD_S
    assert late.holders[0].application.name == "holder"
    assert late.held > 0.8
    assert (found.yarn.nodes, found.yarn.memory_mb) == (len(HOSTS), len(HOSTS) * NODE_MB)
    assert f"late (queue {late.application.queue}) has been waiting" in run.said
    assert "put down to holder" in run.said


@pytest.mark.smoke
def test_in_cluster_mode_the_wait_ends_before_the_log_begins(run: Run) -> None:
    found = iqcar.diagnose(iqcar.read(run.logs, query_by="job-group"), yarn=run.after)
    assert found.yarn is not None
    late = next(one for one in found.yarn.pending if one.application.name == "late")
    start = found.tables.applications["start_ms"].to_numpy()[late.app]
    assert late.until_ms <= start < late.first_executor_ms
    assert late.holders[0].application.name == "holder"
    parts = sum(one.lost_ms for one in late.holders) + late.rest_ms + late.unattributed_ms
    assert parts == pytest.approx(late.wait_ms)
    assert (found.yarn.waiting, found.yarn.unknown) == (0, 0)


@pytest.mark.smoke
def test_a_preempted_container_is_no_lost_executor(run: Run) -> None:
    found = iqcar.diagnose(iqcar.read(run.logs, query_by="job-group"))
    wasted = found.wasted.by_query
    names = found.tables.queries["name"].tolist()
    (hold,) = wasted[wasted["query"] == names.index("hold")].to_dict("records")
    assert hold["cause"] == "preempted"
    assert "preempted" in hold["message"]
    assert hold["task_ms"] >= 1e3 * LEAST_HELD_S
