"""From a real Spark with the plugin to blame: measured waits, put down to those who caused them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import iqcar
from iqcar.diagnosis import Diagnosis
from iqcar.enums import REQUESTS, Request
from iqcar.model.waits.columns import IN_TASK_REQUESTS, MEASURED, evidence_column, wait_column
from iqcar.tables import texts
from tests.support import SUPPORT
from tests.support.golden import recorded_app
from tests.support.listener_spark import PLUGIN, App, run, spark_params

pytestmark = [pytest.mark.spark, pytest.mark.golden]

JOB = SUPPORT / "contending_jobs.py"


def diagnosed(app: App) -> Diagnosis:
    """Diagnose an application's log, job groups being queries."""
    return iqcar.diagnose(iqcar.read([app.log], query_by="job-group"))


@pytest.fixture(scope="module", params=spark_params())
def contended(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """Two queries of two spinning tasks each on two cores, beside one that sleeps."""

    def contend(folder: Path) -> App:
        return run(
            request.param, folder, [str(JOB)], master="local[5]", conf=PLUGIN, two_cores=True
        )

    folder = tmp_path_factory.mktemp("contended")
    done = recorded_app("contended", request.param, folder, contend, JOB, PLUGIN)
    assert done.exit_code == 0, done.errors[-3000:]
    return diagnosed(done)


@pytest.fixture(scope="module")
def blocked(known_waits: App) -> Diagnosis:
    """Tasks that wait for a lock and for memory that another task of their stage holds."""
    return diagnosed(known_waits)


def query_row(found: Diagnosis, name: str) -> int:
    (row,) = found.find_query(name)
    return row


def lost_to(found: Diagnosis, target: str, request: Request) -> dict[str, float]:
    """Task time in ms that a query lost to each query, known causes and nobody, at a request."""
    demands, sources = found.blame.demands, found.blame.sources
    demand = sources["demand"].to_numpy()
    mine = (demands["query"].to_numpy()[demand] == query_row(found, target)) & (
        demands["request"].to_numpy()[demand] == REQUESTS.index(request)
    )
    names, query = texts(found.tables.queries, "name"), found.tables.stages["query"].to_numpy()
    lost: dict[str, float] = {}
    for stage, ms in zip(
        sources["source_stage"].to_numpy()[mine], sources["lost_ms"].to_numpy()[mine], strict=True
    ):
        name = names[query[stage]] if stage >= 0 else ""
        lost[name] = lost.get(name, 0.0) + float(ms)
    return lost


def check_everything_is_measured(found: Diagnosis) -> None:
    assert len(found.tables.task_records) == len(found.tables.tasks) > 0
    for kind in IN_TASK_REQUESTS:
        assert (found.waits[evidence_column(kind)] == MEASURED).all()
    unmeasured = ("estimated", "no record", "not measured", "are in no event log")
    assert not [d for d in found.doubts if any(words in d for words in unmeasured)]


def test_every_wait_of_every_task_is_measured(contended: Diagnosis) -> None:
    check_everything_is_measured(contended)


def test_waits_of_killed_tasks_are_measured_too(blocked: Diagnosis) -> None:
    assert (blocked.tables.tasks["status"] == "killed").sum() == 1
    check_everything_is_measured(blocked)


def test_records_and_intervals_agree(contended: Diagnosis) -> None:
    tables = contended.tables
    assert len(tables.intervals) > 10
    task = tables.intervals["task"].to_numpy()
    for column in ("cpu_ms", "run_queue_ms"):
        summed = np.bincount(task, tables.intervals[column], len(tables.tasks))
        whole = np.zeros(len(tables.tasks))
        extra = {"cpu_ms": "python_cpu_ms", "run_queue_ms": "python_run_queue_ms"}[column]
        records = tables.task_records
        whole[records["task"].to_numpy()] = records[column] + records[extra]
        has = np.bincount(task, minlength=len(tables.tasks)) > 0
        assert (whole[has] - summed[has] < 2.0).all()
        assert (whole[has] - summed[has] >= 0.0).all()


@pytest.mark.parametrize(("target", "culprit"), [("busy-1", "busy-2"), ("busy-2", "busy-1")])
def test_queries_that_compute_on_too_few_cores_are_blamed_on_each_other(
    contended: Diagnosis, target: str, culprit: str
) -> None:
    lost = lost_to(contended, target, Request.RUN_QUEUE)
    tasks = (contended.tables.tasks["query"] == query_row(contended, target)).to_numpy()
    waited = contended.waits.loc[tasks, wait_column(Request.RUN_QUEUE)].sum()
    # Four tasks on two cores wait about half of their time.
    assert waited > 0.25 * contended.waits.loc[tasks, "duration_ms"].sum()
    # Two of the three tasks in its way are the culprit's, one is its own. Programs outside Spark
    # that compute meanwhile take a share that nobody is blamed for, but not all of it.
    named = sum(ms for name, ms in lost.items() if name)
    assert lost[culprit] > 0.5 * named > 0.05 * waited
    assert lost.get("sleeper", 0.0) < 0.1 * lost[culprit]
    assert lost[culprit] == max(ms for name, ms in lost.items() if name not in ("", target))


def test_blame_for_the_processor_follows_the_time_on_it(contended: Diagnosis) -> None:
    """The sleeper's share of the blame is its share of the processor time that others used."""
    for target, culprit in (("busy-1", "busy-2"), ("busy-2", "busy-1")):
        lost = lost_to(contended, target, Request.RUN_QUEUE)
        used = {name: compute_ms(contended, name) for name in ("sleeper", culprit)}
        # What a query computed before the target came or after it went is no blame: less is right.
        assert lost.get("sleeper", 0.0) / lost[culprit] < 1.5 * used["sleeper"] / used[culprit]


def compute_ms(found: Diagnosis, name: str) -> float:
    """Processor time of a query's tasks, their Python workers' too."""
    mine = (found.tables.tasks["query"] == query_row(found, name)).to_numpy()
    return float(found.waits.loc[mine, "compute_ms"].sum())


def test_a_task_that_slept_lost_no_processor_time(contended: Diagnosis) -> None:
    mine = (contended.tables.tasks["query"] == query_row(contended, "sleeper")).to_numpy()
    waits = contended.waits.loc[mine]
    assert waits["other_wait_ms"].sum() > 0.6 * waits["duration_ms"].sum()
    assert waits["run_queue_ms"].sum() < 0.2 * waits["duration_ms"].sum()


@pytest.mark.parametrize(
    ("query", "request_kind"),
    [("lock", Request.MONITOR_BLOCKED), ("memory", Request.EXECUTION_MEMORY)],
)
def test_waiting_for_what_a_task_beside_it_holds_is_lost_to_that_request(
    blocked: Diagnosis, query: str, request_kind: Request
) -> None:
    demands = blocked.blame.demands
    mine = demands[demands["query"] == query_row(blocked, query)].set_index("request")
    row = mine.loc[REQUESTS.index(request_kind)]
    assert row["evidence"] == MEASURED
    assert row["lost_ms"] > 800
    for other in (Request.SHUFFLE_FETCH, Request.IO_READ):
        code = REQUESTS.index(other)
        assert code not in mine.index or mine.loc[code, "lost_ms"] < 100


def test_a_lock_is_blamed_on_the_task_that_held_it(blocked: Diagnosis) -> None:
    lost = lost_to(blocked, "lock", Request.MONITOR_BLOCKED)
    assert lost["lock"] > 0.8 * sum(lost.values()) > 0


def test_locks_are_blamed_on_the_queries_that_held_them_one_after_the_other(
    blocked: Diagnosis,
) -> None:
    """Of four queries at once, one holds a lock, two wait and then hold it, one passes by."""
    lost = {
        name: lost_to(blocked, name, Request.MONITOR_BLOCKED)
        for name in ("keeper", "outside-1", "outside-2", "passer-by")
    }
    outside = ("outside-1", "outside-2")
    first, second = sorted(outside, key=lambda name: sum(lost[name].values()))
    # All load classes when they begin, and may wait for one another then.
    little = 0.05 * lost[first]["keeper"]
    for name in ("keeper", "passer-by"):
        assert sum(lost[name].values()) < little
    for name in outside:
        assert lost[name].get("passer-by", 0.0) < little
        assert lost[name].get("", 0.0) < 0.2 * sum(lost[name].values())
    assert lost[first].get(second, 0.0) < little
    # The second one waited for the first, too, without having run in between.
    assert 0.25 < lost[second][first] / lost[second]["keeper"] < 0.8


def test_nobody_is_blamed_for_a_missing_notification(blocked: Diagnosis) -> None:
    lost = lost_to(blocked, "notify", Request.NOTIFICATION_WAIT)
    assert lost[""] == sum(lost.values()) > 0


def test_memory_is_blamed_on_the_query_that_held_it(blocked: Diagnosis) -> None:
    lost = lost_to(blocked, "starved", Request.EXECUTION_MEMORY)
    assert sum(lost.values()) > 1600
    assert lost["holder"] > 0.9 * sum(lost.values())
    # It ran meanwhile too, in the same executor, and held nothing.
    assert "bystander" not in lost


def test_memory_held_in_intervals_sums_to_that_of_the_task(blocked: Diagnosis) -> None:
    records, intervals = blocked.tables.task_records, blocked.tables.intervals
    spans = intervals["held_bytes"] * (intervals["end_ms"] - intervals["start_ms"])
    by_task = np.bincount(intervals["task"], spans, len(blocked.tables.tasks))
    profiled = np.isin(records["task"], intervals["task"])
    mean = (records["mean_held_bytes"] * records["wall_ms"])[profiled]
    # Each interval's mean is rounded to a KiB.
    rounding = 1024 * records["wall_ms"][profiled]
    assert (np.abs(by_task[records["task"][profiled]] - mean) <= rounding).all()
    assert (records["mean_held_bytes"] <= records["peak_held_bytes"])[profiled].all()
    held = records.set_index("task")["peak_held_bytes"]
    rows = blocked.tables.tasks["query"] == query_row(blocked, "holder")
    assert held[rows[rows].index].item() > 100e6


def test_pools_and_their_weights_are_read(blocked: Diagnosis) -> None:
    queries = blocked.tables.queries
    assert queries["pool"][query_row(blocked, "pooled")] == "gold"
    pools = blocked.tables.pools.set_index("name")
    assert pools.loc["gold", "weight"] == 3
    assert pools.loc["gold", "min_share"] == 1
