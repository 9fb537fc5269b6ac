"""A strict cap on a cluster where executors die, attempts multiply and the rules file vanishes."""

from __future__ import annotations

import pytest

from tests.support import SUPPORT
from tests.support.listener_spark import App, run
from tests.support.ruled_apps import applied, pool, rule, rules_file
from tests.support.standalone_cluster import CORES, HOSTS, Cluster

pytestmark = [pytest.mark.long, pytest.mark.spark]
SLOTS, CAP = CORES * len(HOSTS), 2
CONF = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": str(CORES),
    "spark.cores.max": str(SLOTS),
    "spark.iqcar.rules.watchMs": "100",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.2",
    "spark.speculation.minTaskRuntime": "3s",  # only the task that hangs
    "spark.excludeOnFailure.enabled": "true",
    "spark.excludeOnFailure.stage.maxFailedTasksPerExecutor": "1",
}


@pytest.fixture(scope="module")
def faulty(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> App:
    folder = tmp_path_factory.mktemp("faulty")
    rules = folder / "rules.json"
    none = rules_file(folder / "none.json", [], [])
    pools = [
        pool("hog", cap=CAP, strict=True),
        pool("one", cap=1, strict=True),
        pool("half", cap_share=0.5, strict=True),
    ]
    path = rules_file(rules, pools, [rule(one["name"], job_group=one["name"]) for one in pools])
    conf = applied(path)
    job = [str(SUPPORT / "capped_faults_jobs.py"), str(rules), none]
    app = run(cluster.home, folder, job, master=cluster.master, conf={**conf, **CONF})
    assert app.exit_code == 0, app.output + app.errors[-3000:]
    return app


@pytest.mark.parametrize(
    ("step", "result"),
    [
        ("capped", 8),
        ("speculation", 8),
        ("excluded executor", 8),
        ("killed executor, no file", 16),
        ("after the kill", 8),
        ("next application", 8),
    ],
)
def test_the_cap_holds_and_the_job_ends(faulty: App, step: str, result: int) -> None:
    assert f"STEP {step} {CAP} {result}\n" in faulty.output


def test_a_cap_counts_tasks_whatever_cores_they_take_and_a_share_those_of_one_core(
    faulty: App,
) -> None:
    """Tasks of two cores have two slots here; half of four slots holds none of them back."""
    assert "STEP two cores each 1 4\n" in faulty.output
    assert "STEP two cores each, by share 2 4\n" in faulty.output


def test_no_slot_is_lost(faulty: App) -> None:
    """After all that, without rules, a job has every slot; a driver that stopped left none held."""
    assert f"STEP without rules {SLOTS} 8\n" in faulty.output


def test_each_fault_has_happened(faulty: App) -> None:
    ends = [(e["Task Info"]["Speculative"], e["Task End Reason"]["Reason"]) for e in faulty.ends]
    assert any(speculative for speculative, _ in ends)
    reasons = {reason for _, reason in ends}
    assert {"TaskKilled", "ExceptionFailure", "ExecutorLostFailure"} <= reasons
    kinds = [event["Event"] for event in faulty.events]
    assert any("ExcludedForStage" in kind for kind in kinds)
    outcomes = [event["outcome"] for event in faulty.own_events("Rules")]
    assert outcomes == ["accepted", "missing", "accepted", "accepted"]
