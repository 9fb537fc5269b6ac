"""Three applications that share a real YARN: one holds its cores, and two come for some of them."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import iqcar
from iqcar.replay.queues.queue_plan import QueueProposal, QueueQuestion, content_of, propose_queues
from iqcar.rules.queue_files import PlanTarget
from iqcar.tables import Tables
from tests.spark.test_executors_shared import ended, has
from tests.spark.test_yarn import started
from tests.support.standalone_cluster import wait_until
from tests.support.yarn_cluster import YarnCluster, yarn_cluster

HOLDER, VICTIMS = "etl", ("report-1", "report-2")
CORES = 8
HELD = 5
"""Executors of the holder: with the masters of all three, the cluster is full."""
TASKS, TASK_S = {HOLDER: 500, **dict.fromkeys(VICTIMS, 8)}, 0.5
"""The holder's last some 50 s: longer than two Sparks need to start on a busy machine."""
SCHEDULER = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fair.FairScheduler"
QUEUES = {
    "root.queues": "default",
    "root.default.capacity": "100",
    "root.default.user-limit-factor": "1",
    "root.disable_preemption": "true",
}
ALLOCATIONS = """<?xml version="1.0"?>
<allocations>
  <queue name="default">
    <schedulingPolicy>fifo</schedulingPolicy>
    <maxAMShare>-1.0</maxAMShare>
  </queue>
  <queuePlacementPolicy>
    <rule name="specified" create="false"/>
    <rule name="default" queue="root.default"/>
  </queuePlacementPolicy>
</allocations>
"""
"""Without a policy, whoever names no queue but `default` comes into one of their user's name."""


@dataclass(frozen=True)
class Applied:
    """A run, the plan made from its logs, and the run with the plan: seconds by application."""

    target: PlanTarget
    proposal: QueueProposal
    before: dict[str, float]
    replayed: dict[str, float]
    predicted: dict[str, float]
    after: dict[str, float]

    def rows(self) -> list[list[str]]:
        """A row for each application: before, its replay, predicted, after."""
        parts = (self.before, self.replayed, self.predicted, self.after)
        outlook = self.proposal.chosen.expected.outlook if self.proposal.chosen else "none"
        return [
            [str(self.target), outlook, name, *(f"{part[name]:.1f} s" for part in parts)]
            for name in (HOLDER, *VICTIMS)
        ]


def apply_plan(home: Path, folder: Path, target: PlanTarget) -> Applied:
    """Run the tenants, plan from their logs, and run them again as the plan says."""
    allocations = folder / "fair-scheduler.xml"
    fair = target is PlanTarget.YARN_FAIR
    settings = {
        "yarn.resourcemanager.scheduler.class": SCHEDULER,
        "yarn.scheduler.fair.allocation.file": str(allocations),
        "yarn.scheduler.fair.preemption": "false",
        "yarn.resourcemanager.scheduler.monitor.enable": "false",
    }
    (folder / "cluster").mkdir(parents=True)
    allocations.write_text(ALLOCATIONS, "utf-8")
    with yarn_cluster(folder / "cluster", QUEUES, settings=settings if fair else {}) as cluster:
        file = allocations if fair else cluster.conf / "capacity-scheduler.xml"
        before = share(home, cluster, folder / "before", {})
        current = (file.read_bytes(), str(file))
        diagnosis = iqcar.diagnose(before)
        question = QueueQuestion(target, current, None, math.inf)
        found = propose_queues(diagnosis.tables, diagnosis.graph, question)
        assert found.replays.cores == CORES
        assert found.chosen is not None
        plan = found.chosen.draft.plan
        if fair:
            allocations.write_bytes(content_of(found))
            done = cluster.admin("-refreshQueues")
            assert done.returncode == 0, done.stderr
        else:
            cluster.set_queues(content_of(found).decode())
        names = {one.app: one.name for one in found.replays.tenants}
        more: dict[str, dict[str, str]] = {name: {} for name in names.values()}
        for app, queue in plan.moves:
            more[names[app]]["queue"] = queue
        after = share(home, cluster, folder / "after", more)
    return Applied(
        target, found, lasted(before), lasted(before, found.before.duration_ms),
        lasted(before, found.chosen.after.duration_ms), lasted(after),
    )  # fmt: skip


def share(
    home: Path,
    cluster: YarnCluster,
    folder: Path,
    more: Mapping[str, Mapping[str, str]],
) -> Tables:
    """Let the holder take what it gets, then let the others come; read their logs.

    more: the ``queue`` of each application that names one.
    """

    def conf_of(name: str) -> dict[str, str]:
        wanted = HELD if name == HOLDER else 2
        # Jobs start at once, whether executors are there or not: so the log tells who waits.
        conf = {"spark.scheduler.minRegisteredResourcesRatio": "0"}
        conf["spark.executor.instances"] = str(wanted)
        return conf

    with ExitStack() as running:
        processes = {}
        for name in (HOLDER, *VICTIMS):
            queue = more.get(name, {}).get("queue", "default")
            job = f"doze:{TASKS[name]}"
            processes[name] = running.enter_context(
                started(home, cluster, folder / name, job, conf_of(name), queue)
            )
            if name == HOLDER:
                _wait_for_holder(folder / name, processes[name])
        for name, process in processes.items():
            ended(process, folder / name)
    logs = [str(folder / name / "log") for name in (HOLDER, *VICTIMS)]
    return iqcar.read(logs, query_by="job-group")


def _wait_for_holder(folder: Path, process: subprocess.Popen[bytes]) -> None:
    def runs() -> bool:
        assert process.poll() is None, (folder / "errors").read_text("utf-8")[-3000:]
        return has(folder, "SparkListenerTaskStart")

    wait_until(runs, "the holder's first task", 600)


def lasted(tables: Tables, durations_ms: np.ndarray | None = None) -> dict[str, float]:
    """Seconds that the query of each application took."""
    queries = tables.queries
    found = queries["duration_ms"].to_numpy() if durations_ms is None else durations_ms
    names = tables.applications["name"].tolist()
    made: dict[str, float] = {}
    for app, one in zip(queries["app"].tolist(), found.tolist(), strict=True):
        made[names[app]] = made.get(names[app], 0.0) + one / 1000
    return made
