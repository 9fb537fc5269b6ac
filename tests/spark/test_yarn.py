"""Applications in two queues of a real YARN: who holds its containers, and whose are taken away.

One run for all tests: `holder` takes both executors that there is room for, `waiter` gets a master
but no executor, `late` (in cluster mode) does not even get a driver. Then preemption is allowed.
Another run on the same cluster: a node gets a label, `labelled` holds it, `wanting` waits for it,
`capped` is alone in a queue with a limit, and `modest` in one of which a user gets little.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import iqcar
from iqcar.logs.find.resource_manager import ask_resource_manager
from iqcar.say.sections import losses_by_owner
from iqcar.tables.yarn_told import YarnTold
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

pytestmark = pytest.mark.spark

CAPACITY = {"etl": "14", "adhoc": "60", "default": "10", "small": "16"}
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
LABEL = "gpu"
ON_LABELLED = {"spark.yarn.executor.nodeLabelExpression": LABEL}
LABELLED_QUEUES = {
    **QUEUES,
    **NO_PREEMPTION,
    f"root.accessible-node-labels.{LABEL}.capacity": "100",
    **{f"root.{queue}.accessible-node-labels": LABEL for queue in CAPACITY},
    **{
        f"root.{queue}.accessible-node-labels.{LABEL}.capacity": share
        for queue, share in CAPACITY.items()
    },
    # Of the node without a label: memory for a master and one executor.
    "root.default.maximum-capacity": "50",
    # Memory for a master, and one container when that is there.
    "root.small.user-limit-factor": "1",
}
NARROW = {"spark.executor.memoryOverhead": "128m"}
"""Beside all others, the node without a label has room for two such executors."""
TOLD, GUESSED = "size told by the resource manager", "guessed from the most held at once"
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

    names: tuple[str, ...] = ("holder", "waiter", "late")

    @property
    def logs(self) -> list[Path]:
        return [self.folder / name / "log" for name in self.names]


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


def share_a_label(home: Path, cluster: YarnCluster, folder: Path) -> Run:
    """Let `labelled` hold the node that `wanting` needs, while the other node has room."""
    for words in (
        ("-addToClusterNodeLabels", LABEL),
        ("-replaceLabelsOnNode", f"{HOSTS[1]}={LABEL}"),
    ):
        done = cluster.admin(*words)
        assert done.returncode == 0, done.stderr
    cluster.set_queues(LABELLED_QUEUES)
    go = folder / "go-on"
    two = {"spark.executor.instances": "2"}
    one = {**WIDE, **ON_LABELLED, "spark.executor.instances": "1"}
    with ExitStack() as running:

        def start(name: str, *more: Any) -> subprocess.Popen[bytes]:
            return running.enter_context(started(home, cluster, folder / name, *more))

        labelled = start("labelled", f"hold:1,{go}", one, "etl")
        wait_until(lambda: [*folder.glob("go-on-*")], "held node", 600)
        wait_s = max(LEAST_HELD_S, 2 * start_up_s(folder / "labelled"))
        # One slot does two tasks in a second.
        capped = start("capped", f"doze:{int(3 * wait_s)}", two, "default")
        modest = start("modest", f"doze:{int(3 * wait_s)}", {**two, **NARROW}, "small")
        wanting = start("wanting", "nap", {**two, **ON_LABELLED}, "adhoc")
        wait_until(lambda: has(folder / "wanting", "SparkListenerJobStart"), "waiting job", 600)
        time.sleep(wait_s)
        meanwhile = ask_resource_manager(cluster.url)
        logs = [str(folder / name / "log") for name in ("labelled", "wanting")]
        said = run_iqcar("analyze", *logs, "--full", "--yarn", cluster.url)
        go.touch()
        ended(labelled, folder / "labelled")
        ended(wanting, folder / "wanting")
        ended(capped, folder / "capped")
        ended(modest, folder / "modest")
    names = ("labelled", "capped", "wanting", "modest")
    return Run(folder, meanwhile, ask_resource_manager(cluster.url), said.stdout, names)


@dataclass
class Place:
    """A Spark, a YARN without preemption, and a folder for what runs there."""

    home: Path
    cluster: YarnCluster
    folder: Path


@pytest.fixture(scope="module", params=spark_params())
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    build_jar()
    folder = tmp_path_factory.mktemp("yarn")
    (folder / "cluster").mkdir()
    queues = {**QUEUES, **NO_PREEMPTION}
    with yarn_cluster(folder / "cluster", queues, settings=ENOUGH_CORES) as cluster:
        yield Place(request.param, cluster, folder)


@pytest.fixture(scope="module")
def run(place: Place) -> Run:
    return share_a_cluster(place.home, place.cluster, place.folder)


@pytest.fixture(scope="module")
def labels(place: Place) -> Run:
    """Runs after :func:`run`, whose tests are above: it needs both nodes."""
    return share_a_label(place.home, place.cluster, place.folder)


@pytest.mark.smoke
def test_who_lacks_executors_blames_the_application_of_the_other_queue(run: Run) -> None:
    found = iqcar.diagnose(
        iqcar.read(run.logs[:2], query_by="job-group"), by="spark.yarn.queue", yarn=run.after
    )
    blame = blame_of(found, "doze")
    assert blame["hold"]["share"] > 0.5
    assert next(iter(blame["hold"]["by_resource"])) == "executors"
    assert TOLD in " ".join(found.doubts)
    assert GUESSED not in " ".join(found.doubts)
    guess = iqcar.diagnose(found.tables.with_(yarn=None))
    assert GUESSED in " ".join(guess.doubts)
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
    assert len(found.yarn.nodes) == len(HOSTS)
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
    taken = next(one for one in run.after.applications if one.name == "holder")
    assert taken.preempted >= 1


def test_who_waits_for_a_labelled_node_blames_who_holds_that_node(labels: Run) -> None:
    found = iqcar.diagnose(
        iqcar.read(labels.logs, query_by="job-group"), by="spark.yarn.queue", yarn=labels.after
    )
    blame = blame_of(found, "nap")
    assert blame["hold"]["by_resource"]["executors"] >= 1e3 * LEAST_HELD_S / 2
    assert "doze" not in blame
    assert TOLD in " ".join(found.doubts)
    losses = losses_by_owner(found, "spark.yarn.queue")
    of_adhoc = losses[(losses["victim"] == "adhoc") & (losses["lost_ms"] > 0)]["source"].tolist()
    assert "etl" in of_adhoc
    assert "default" not in of_adhoc
    assert (HOSTS[1], (LABEL,)) in [(node.host, node.labels) for node in labels.meanwhile.nodes]
    assert f"Labels of nodes: {HOSTS[1]}: {LABEL}" in labels.said


def test_who_fills_its_queue_alone_waits_for_the_limit_of_the_queue(labels: Run) -> None:
    found = iqcar.diagnose(iqcar.read(labels.logs, query_by="job-group"), yarn=labels.after)
    blame = blame_of(found, "doze")
    assert blame["known causes"]["by_resource"]["executors"] > 0
    assert not {"hold", "nap"} & set(blame)
    used = {queue.path: queue.limits for queue in labels.after.queues}
    assert ("", 0.5 * NODE_MB) in [limit[:2] for limit in used["root.default"]]


def test_who_holds_what_one_user_may_hold_waits_for_the_limit_of_one_user(labels: Run) -> None:
    tables = iqcar.read(labels.logs, query_by="job-group")
    (row,) = np.flatnonzero(tables.queries["app"] == labels.names.index("modest"))

    def limited_ms(told: YarnTold) -> float:
        blame = iqcar.diagnose(tables, yarn=told).graph.blame_rows(row)
        known = [one for one in blame if one["source_name"] == "known causes"]
        return sum(one["by_resource"].get("executors", 0.0) for one in known)

    assert limited_ms(labels.after) > 0
    unlimited = [queue._replace(user_limits=()) for queue in labels.after.queues]
    told = labels.after._replace(queues=tuple(unlimited))
    assert limited_ms(told) == 0
