"""What the plugin uses of Spark that is no public interface: what is lost where it changes.

Printed on the page of compatibility; `tests/spark/test_broken_internals.py` breaks each of them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Internal:
    """A private part of Spark, or several that are used for the same."""

    name: str
    use: str
    lost: str
    said: str
    """The driver's or the executor's log says it once, after ``iqcar: ``."""
    broken: str = ""
    """What the test renames, as RenamedInternals takes it; the last part of the name if empty."""

    @property
    def renamed(self) -> str:
        """Members that the test renames in all of Spark's classes."""
        return self.broken or self.name.rpartition(".")[2]


NO_RULES = "no rules are applied"
NO_CAPS = "counting slots for caps"
IN_UI = "keeping records out of the UI's store"
LOCAL = "watching the tasks of local mode"

INTERNALS = (
    Internal("TaskSchedulerImpl.schedulableBuilder", "rules", "rules", NO_RULES),
    Internal("FairSchedulableBuilder.buildPools", "rules", "rules", NO_RULES),
    Internal(
        "SparkContext.postEnvironmentUpdate",
        "FAIR in the log and the UI",
        "there: `spark.scheduler.mode` is FIFO, the UI lists no pools",
        "telling Spark's UI and log of FAIR",
    ),
    Internal(
        "TaskScheduler.rootPool", "rules, pools", "rules; pools and slots in the log", NO_RULES
    ),
    Internal("Pool.getSortedTaskSetQueue", "caps, held jobs", "rules", NO_RULES),
    Internal(
        "TaskSchedulerImpl.backend",
        "other rules act at once",
        "a second: they act at the next offer",
        "offering slots after a change of pools",
    ),
    Internal(
        "TaskSetManager.isZombie, isBarrier, taskSetExcludelistHelperOpt",
        "caps",
        "caps",
        NO_CAPS,
        "isZombie",
    ),
    Internal(
        "DAGScheduler.jobIdToActiveJob",
        "jobs whose end Spark dropped",
        "nothing: 10,000 jobs are kept at most",
        "forgetting jobs that have ended",
    ),
    Internal(
        "LiveListenerBus.metrics",
        "events that Spark dropped",
        "their number; jobs whose start is dropped wait .5 s",
        "counting the events that Spark drops",
        "metrics()Lorg/apache/spark/scheduler/LiveListenerBusMetrics;",
    ),
    Internal(
        "SchedulerBackend.getExecutorIds",
        "executors of which Spark dropped events",
        "their number stays wrong in the scheduler event",
        "counting executors anew",
    ),
    Internal("SparkContext.maxNumConcurrentTasks", "slots of a cap", "caps", NO_CAPS),
    Internal(
        "SparkContext.listenerBus",
        "the plugin's events, rules",
        "rules; pools, slots and samples in the log",
        "onStageSubmitted",
    ),
    Internal(
        "AccumulatorV2.register",
        "records of failed tasks",
        "records of failed tasks",
        "registering the records of failed tasks",
        "register(Lorg/apache/spark/SparkContext;",
    ),
    Internal("AccumulatorV2.toInfo", "bounded store of the UI", "that bound", IN_UI),
    Internal("AccumulableInfo.countFailedValues", "bounded store of the UI", "that bound", IN_UI),
    Internal(
        "TaskContext.taskMemoryManager",
        "memory that tasks hold",
        "held memory",
        "reading how much memory tasks hold",
    ),
    Internal(
        "TaskContextImpl.onCompleteCallbacks, SparkEnv.pythonWorkers",
        "what Python workers did",
        "the split of `python_worker`",
        "looking for Python workers",
        "onCompleteCallbacks",
    ),
    Internal(
        "SparkContext.executorAllocationManager",
        "executors that dynamic allocation wants",
        "the executors event",
        "finding the executors wanted",
    ),
    Internal(
        "RpcEnv.fileServer",
        "the jar for executors",
        "nothing: it is added to the application's jars",
        "serving the jar without adding it to the application",
    ),
    Internal(
        "JsonProtocol.sparkEventToJsonString",
        "streaming events",
        "`spark.iqcar.live`",
        "no events are streamed",
        "sparkEventToJsonString,sparkEventToJson",
    ),
    Internal(
        "SparkContext.contextBeingConstructed",
        "local mode with the listener only",
        "there: records of tasks, rules",
        LOCAL,
    ),
    Internal(
        "Dispatcher, Inbox and Executor.plugins",
        "local mode with the listener only",
        "there: records of tasks",
        LOCAL,
        "dispatcher",
    ),
)

INTRODUCTION = """\
## Internals of Spark

Most of the plugin uses Spark's public interfaces. Where it uses others, another Spark may lack
them; the job then runs as without the plugin, Spark's own events are complete, all else of the
plugin works, and one line of the log says what does not (`iqcar: ... failed; the job is not
affected`, or `iqcar: no rules are applied`). Tests rename each of them in a running Spark. Two more
are looked at before the rules act, or while they do: a method that Spark adds to what the plugin
stands in for (no rules), and task sets that are walked through otherwise than by `foreach`, twice a
round (`offering slots by caps`: caps may not hold)."""


SUITES = """\
## Spark's own suites

`scripts/spark_suites` runs Spark's PoolSuite, TaskSchedulerImplSuite, TaskSetManagerSuite,
BasicSchedulerIntegrationSuite and HealthTrackerIntegrationSuite with the plugin in every context,
and its rules in every scheduler and pool that they make; by hand, some three minutes a cell. Failed
of all tests:

| rules | Spark 3.5.7 | Spark 4.2.0 |
|---|---|---|
@TABLE@

With a cap of one task, tests fail that expect several tasks of a job in one round of offers. A
strict cap starts one. Where failures exclude executors, a loose cap starts the others a round
later, because Spark would end a task set whose second turn in a round finds no executor idle
(10 of the 15 are runs of `Excluded executor for entire task set`)."""

RUNS = {
    "without the plugin": ("0 of 157", "0 of 201"),
    "a file without rules": ("0 of 157", "0 of 201"),
    "a rule for every job": ("0 of 157", "0 of 201"),
    "and a cap that nothing reaches": ("0 of 157", "0 of 201"),
    "and a loose cap of one task": ("15 of 157", "15 of 201"),
    "and a strict cap of one task": ("36 of 157", "52 of 201"),
}
"""What the script printed last, by the rules."""


def internals_section() -> list[str]:
    """Print what is used of Spark's internals, and how its own suites ran."""
    head = ["| internal | used for | lost without it | said |", "|---|---|---|---|"]
    rows = [f"| `{i.name}` | {i.use} | {i.lost} | {i.said} |" for i in INTERNALS]
    runs = "\n".join(f"| {rules} | {' | '.join(found)} |" for rules, found in RUNS.items())
    return [INTRODUCTION, "", *head, *rows, "", SUITES.replace("@TABLE@", runs)]
