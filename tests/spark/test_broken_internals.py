"""Where Spark names an internal otherwise, the plugin loses what the table says, and says so."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from scripts.internals import INTERNALS, Internal
from tests.spark.test_attach import NO_FUNCTIONS, python_functions_run
from tests.support import SUPPORT
from tests.support.free_port import free_port
from tests.support.listener_spark import (
    JAR,
    LISTENER_ONLY,
    PLUGIN,
    TEST_JAR,
    WORKLOADS,
    App,
    build_jar,
    records_of,
    run_alone,
    samples_of,
    spark_params,
)
from tests.support.ruled_apps import (
    FIRST,
    applied,
    pool,
    pools_of,
    rule,
    rules_file,
    scheduler_mode,
)

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.smoke]
BY_NAME = {internal.name: internal for internal in INTERNALS}


@dataclass
class Breakage:
    """An application in which some internals are renamed; none of them hides another's loss."""

    names: Sequence[str]
    workloads: Sequence[str] = ("many:20",)
    conf: Mapping[str, str] = field(default_factory=dict)
    master: str = "local[2,2]"
    options: Sequence[str] = ("--jars", str(JAR))


TURNS = "TaskSetManager.isZombie, isBarrier, taskSetExcludelistHelperOpt"
DOZE, DOZE_MS = "doze", 500
"""The workload whose tasks sleep for so long."""
RULED = {"spark.iqcar.host.enabled": "false"}
STREAMED = {"spark.iqcar.live": f"127.0.0.1:{free_port()}"}
"""The first application has it."""
BREAKAGES = (
    Breakage(
        [
            *("TaskSchedulerImpl.schedulableBuilder", "AccumulatorV2.register"),
            *("TaskContext.taskMemoryManager", "JsonProtocol.sparkEventToJsonString"),
        ],
        ("many:20", "failed", "notify"),
        {**PLUGIN, **RULED, **STREAMED},
    ),
    Breakage(["TaskScheduler.rootPool", "AccumulatorV2.toInfo"], conf={**PLUGIN, **RULED}),
    Breakage(
        [
            *("DAGScheduler.jobIdToActiveJob", "LiveListenerBus.metrics"),
            "SparkContext.postEnvironmentUpdate",
        ],
        ("many:20", f"{DOZE}:4"),
        {**PLUGIN, **RULED},
    ),
    Breakage(["Pool.getSortedTaskSetQueue"], conf={**PLUGIN, **RULED}),
    Breakage(["FairSchedulableBuilder.buildPools"], conf={**PLUGIN, **RULED}),
    Breakage(
        [TURNS, "AccumulableInfo.countFailedValues"],
        ("many:20", f"{DOZE}:4"),
        {**PLUGIN, **RULED},
    ),
    Breakage(["SparkContext.listenerBus"], ("many:20", "sleep"), PLUGIN),
    Breakage(
        [
            *("TaskSchedulerImpl.backend", "SparkContext.maxNumConcurrentTasks"),
            "TaskContextImpl.onCompleteCallbacks, SparkEnv.pythonWorkers",
        ],
        (),
        {**PLUGIN, **RULED, "spark.iqcar.rules.watchMs": "100"},
    ),
    Breakage(
        [
            *("SparkContext.executorAllocationManager", "RpcEnv.fileServer"),
            "SchedulerBackend.getExecutorIds",
        ],
        conf={
            **PLUGIN,
            "spark.dynamicAllocation.enabled": "true",
            "spark.dynamicAllocation.shuffleTracking.enabled": "true",
            "spark.executor.memory": "512m",
        },
        master="local-cluster[1,2,512]",
        options=("--driver-class-path", str(JAR)),
    ),
    Breakage(["SparkContext.contextBeingConstructed"], conf=LISTENER_ONLY),
    Breakage(
        ["Dispatcher, Inbox and Executor.plugins"],
        conf={**LISTENER_ONLY, "spark.scheduler.mode": "FAIR"},
    ),
)


@pytest.fixture(scope="module", params=spark_params())
def broken(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], App]:
    """The application in which an internal is broken, run when it is first asked for."""

    @cache
    def once(at: int) -> App:
        return run_broken(request.param, tmp_path_factory.mktemp("broken"), BREAKAGES[at])

    return lambda name: once(next(i for i, one in enumerate(BREAKAGES) if name in one.names))


def run_broken(home: Path, folder: Path, breakage: Breakage) -> App:
    build_jar()
    rules = folder / "rules.json"
    placed = [FIRST, rule("first", job_group=DOZE)]
    first = rules_file(rules, [pool("first", cap=1, strict=True)], placed)
    conf = {**applied(first), **breakage.conf}
    conf = {**conf, **({"spark.plugins": ""} if "spark.plugins" not in breakage.conf else {})}
    job = ["--class", WORKLOADS, str(TEST_JAR), *breakage.workloads]
    if not breakage.workloads:
        if not python_functions_run(home):
            pytest.skip(NO_FUNCTIONS)
        later = rules_file(folder / "later.json", [pool("first", 7, cap=1, strict=True)], [FIRST])
        job = [str(SUPPORT / "broken_jobs.py"), str(rules), Path(later).read_text("utf-8")]
    names = ",".join(BY_NAME[name].renamed for name in breakage.names)
    java = ("--driver-java-options", f"-javaagent:{TEST_JAR}={names}")
    options = [*breakage.options, *java]
    app = run_alone(home, folder, job, master=breakage.master, conf=conf, options=options)
    assert app.exit_code == 0, app.output + app.errors[-3000:]
    return app


def ruled(app: App) -> bool:
    return bool(app.own_events()) and "first" in pools_of(app)


def recorded(app: App) -> bool:
    """Whether each task that succeeded has its record."""
    return all(records_of(end) for end in app.ends if succeeded(end))


def succeeded(end: Mapping[str, dict[str, str]]) -> bool:
    return end["Task End Reason"]["Reason"] == "Success"


def uncapped(app: App) -> bool:
    """Whether tasks have run side by side under a cap of one, for half of their time at least."""
    infos = [end["Task Info"] for end in app.group(DOZE)]
    one, two = sorted(infos, key=lambda info: info["Launch Time"])[:2]
    return bool(two["Launch Time"] < one["Finish Time"] - DOZE_MS / 2)


def marked(app: App) -> list[bool]:
    """Of each record, whether Spark's store of the UI is to pass it over."""
    parts = [part for end in app.ends for part in end["Task Info"]["Accumulables"]]
    return [part.get("Metadata") == "sql" for part in parts if part["Name"] == "iqcar.task"]


def waits(app: App) -> Counter[str]:
    total: Counter[str] = Counter()
    for end in app.ends:
        for record in records_of(end):
            total.update(record["waits_ns"])
    return total


def without_rules(app: App) -> bool:
    fifo = {event["mode"] for event in app.own_events()} == {"FIFO"}
    return recorded(app) and fifo and not ruled(app)


LOST: dict[str, Callable[[App], bool]] = {
    "TaskSchedulerImpl.schedulableBuilder": without_rules,
    "TaskScheduler.rootPool": lambda app: recorded(app) and not app.own_events(),
    "Pool.getSortedTaskSetQueue": without_rules,
    "FairSchedulableBuilder.buildPools": without_rules,
    "TaskSchedulerImpl.backend": lambda app: recorded(app) and ruled(app),
    TURNS: lambda app: recorded(app) and ruled(app) and uncapped(app),
    "DAGScheduler.jobIdToActiveJob": lambda app: recorded(app) and ruled(app) and not uncapped(app),
    "SparkContext.postEnvironmentUpdate": lambda app: ruled(app) and scheduler_mode(app) == "FIFO",
    "LiveListenerBus.metrics": lambda app: recorded(app) and ruled(app) and not uncapped(app),
    "SchedulerBackend.getExecutorIds": lambda app: recorded(app) and bool(app.own_events()),
    "SparkContext.maxNumConcurrentTasks": lambda app: (
        recorded(app) and ruled(app) and uncapped(app)
    ),
    "SparkContext.listenerBus": lambda app: (
        recorded(app) and not app.own_events() and not samples_of(app)
    ),
    "AccumulatorV2.register": lambda app: (
        recorded(app) and not any(records_of(end) for end in app.ends if not succeeded(end))
    ),
    "AccumulatorV2.toInfo": lambda app: recorded(app) and not any(marked(app)),
    "AccumulableInfo.countFailedValues": lambda app: recorded(app) and not any(marked(app)),
    "TaskContext.taskMemoryManager": lambda app: all(
        "mean_held_bytes" not in record for record in app.records("notify")
    ),
    "TaskContextImpl.onCompleteCallbacks, SparkEnv.pythonWorkers": lambda app: (
        waits(app)["python_worker"] > 2e9 and not waits(app)["python_other"]
    ),
    "SparkContext.executorAllocationManager": lambda app: not app.own_events("Executors"),
    "RpcEnv.fileServer": recorded,
    "JsonProtocol.sparkEventToJsonString": recorded,
    "SparkContext.contextBeingConstructed": lambda app: (
        not any(records_of(end) for end in app.ends) and not ruled(app) and bool(app.own_events())
    ),
    "Dispatcher, Inbox and Executor.plugins": lambda app: (
        ruled(app) and not any(records_of(end) for end in app.ends)
    ),
}


@pytest.mark.parametrize("internal", INTERNALS, ids=lambda internal: internal.name)
def test_without_an_internal_only_what_the_table_says_is_lost_and_it_is_said_once(
    broken: Callable[[str], App], internal: Internal
) -> None:
    app = broken(internal.name)
    log = app.output + app.errors  # Spark 3.3 logs to one, later ones to the other
    said = [line for line in log.splitlines() if f"iqcar: {internal.said}" in line]
    assert len(said) == 1, log[-5000:]
    assert LOST[internal.name](app), json.dumps(app.own_events())
    assert of_spark(app) == balanced(app)


def of_spark(app: App) -> dict[str, int]:
    """How many of its own events Spark wrote for jobs, stages and tasks."""
    return Counter(event["Event"].removeprefix("SparkListener") for event in app.events)


def balanced(app: App) -> dict[str, int]:
    """The same, with an end of whatever has begun; and the application's own."""
    found = of_spark(app)
    for begun, end in (("JobStart", "JobEnd"), ("TaskStart", "TaskEnd")):
        assert found[begun] > 0
        found[end] = found[begun]
    found["StageCompleted"] = found["StageSubmitted"]
    found.update({"ApplicationStart": 1 - found["ApplicationStart"]})
    found.update({"ApplicationEnd": 1 - found["ApplicationEnd"]})
    return found
