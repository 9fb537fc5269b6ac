"""Wasted work: what is wasted, for which cause, and how much later queries end for it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.causes.blame.demand_weights import elapsed_shares
from iqcar.causes.wasted.wasted_work import find_wasted_work
from iqcar.enums import WasteCause
from iqcar.tables import EXECUTORS, QUERIES, STAGES, TASK_FAILURES, TASKS, Tables
from iqcar_lab.clusters.frames import EPOCH_MS, frame
from tests.support.examples import examples
from tests.support.naive_waste import NaiveWaste
from tests.support.tiny_tables import tiny_tables

REASONS = {
    "failed": ("ExceptionFailure", "FetchFailed", "ExecutorLostFailure", "TaskCommitDenied", ""),
    "killed": ("TaskKilled", ""),
    "success": ("Resubmitted", "", "", ""),
    "running": ("",),
}
MESSAGES = ("", "another attempt succeeded", "Stage cancelled", "Container was preempted", "bad")


def tables_with_waste(max_tasks: int = 14, **fixed: Any) -> st.SearchStrategy[Tables]:
    """Tables of one application from a seed; ``statuses`` limits how attempts end."""
    return st.builds(
        lambda n, seed: random_waste(n, seed, **fixed),
        st.integers(0, max_tasks),
        st.integers(0, 2**32),
    )


def random_waste(n: int, seed: int, statuses: tuple[str, ...] = tuple(REASONS)) -> Tables:
    """Make the tables that a seed stands for."""
    rng = np.random.default_rng(seed)
    n_stages, n_executors, n_queries = (int(rng.integers(1, most)) for most in (6, 4, 4))
    stage_query = rng.integers(-1, n_queries, n_stages)
    stage = np.where(rng.random(n) < 0.05, -1, rng.integers(n_stages, size=n))
    submitted = EPOCH_MS + rng.integers(0, 40, n_stages)
    launch = EPOCH_MS + rng.integers(0, 80, n)
    status = rng.choice(statuses, n)
    reasons = [str(rng.choice(REASONS[one])) for one in status]
    told = np.flatnonzero([bool(reason) for reason in reasons])
    kinds = np.array(reasons, object)[told]
    fetch = kinds == "FetchFailed"
    plain = tiny_tables()
    return plain.with_(
        executors=frame(
            EXECUTORS,
            n_executors,
            app=np.zeros(n_executors),
            removed_ms=EPOCH_MS + rng.choice([np.nan, 20.0, 60.0], n_executors),
        ),
        queries=frame(
            QUERIES,
            n_queries,
            app=np.zeros(n_queries),
            query_id=[f"q{q}" for q in range(n_queries)],
            start_ms=np.full(n_queries, EPOCH_MS + 5),
            end_ms=np.full(n_queries, EPOCH_MS + 90),
            duration_ms=np.full(n_queries, 85.0),
        ),
        stages=frame(
            STAGES,
            n_stages,
            app=np.zeros(n_stages),
            stage_id=rng.integers(0, 4, n_stages),
            query=stage_query,
            rdd=rng.choice([-1, 7], n_stages),
            failure_reason=rng.choice(["", "", "Stage cancelled"], n_stages),
            declared_tasks=np.full(n_stages, -1),
            submission_ms=submitted,
            completion_ms=submitted + rng.integers(-5, 70, n_stages),
        ),
        tasks=frame(
            TASKS,
            n,
            app=np.zeros(n),
            stage=stage,
            query=np.where(stage >= 0, np.append(stage_query, -1)[stage], -1),
            executor=rng.integers(-1, n_executors, n),
            task_id=np.arange(n),
            index=rng.integers(-1, 3, n),
            status=pd.Categorical(status, list(REASONS)),
            speculative=rng.random(n) < 0.2,
            launch_ms=launch,
            finish_ms=launch + rng.integers(0, 40, n),
            shuffle_write_bytes=rng.choice([np.nan, 0.0, 9.0], n),
        ),
        task_failures=TASK_FAILURES.frame(
            {
                "task": told,
                "reason": list(kinds),
                "message": [str(rng.choice(MESSAGES)) for _ in told],
                "source": np.where(fetch, rng.integers(-1, n_executors, len(told)), -1),
            }
        ),
    )


BOTH_EXECUTORS = [{"executor_id": "1"}, {"executor_id": "2"}]
QUERY = {"query_id": "q", "start_ms": 0.0, "end_ms": 90_000.0, "duration_ms": 90_000.0}


def stage(start: float, end: float, **more: Any) -> dict[str, Any]:
    times = {"submission_ms": start, "first_launch_ms": start, "completion_ms": end}
    return {**times, "rdd": -1, "declared_tasks": -1, **more}


def task(start: float, end: float, **more: Any) -> dict[str, Any]:
    return {"launch_ms": start, "finish_ms": end, "executor": 0, **more}


def tables_of(tasks: list[dict[str, Any]], stages: list[dict[str, Any]], **more: Any) -> Tables:
    """Tables of one query; ``why`` of a task is reason, message and executor it fetched from."""
    failures = [
        {"task": row, "reason": why[0], "message": why[1], "source": why[2] if why[2:] else -1}
        for row, one in enumerate(tasks)
        if (why := one.get("why"))
    ]
    plain = [
        {"task_id": row, **{key: value for key, value in one.items() if key != "why"}}
        for row, one in enumerate(tasks)
    ]
    given_rows = {"queries": [QUERY], "executors": BOTH_EXECUTORS, "jobs": [{}], **more}
    return tiny_tables(tasks=plain, stages=stages, task_failures=failures, **given_rows)


def found(tables: Tables) -> list[tuple[str, int, int, float, float]]:
    """Cause, attempts, those again, task time and elapsed time of the first query."""
    rows = find_wasted_work(tables).by_query
    names = ["cause", "attempts", "again", "task_ms", "elapsed_ms"]
    return [tuple(row) for row in rows[names].astype({"cause": str}).itertuples(index=False)]


ERROR = ("ExceptionFailure", "ValueError: no")
LOST = ("ExecutorLostFailure", "Command exited with code 137")


def test_a_task_that_fails_late_delays_its_stage_by_what_it_ran() -> None:
    tables = tables_of(
        [
            task(0, 1000, index=0),
            task(0, 8500, index=1, status="failed", why=ERROR),
            task(8500, 9500, index=1, attempt=1),
        ],
        [stage(0, 9500)],
    )
    assert found(tables) == [("task-failed", 1, 0, 8500.0, 8500.0)]
    assert find_wasted_work(tables).by_query["message"].tolist() == ["ValueError: no"]


def test_a_task_that_fails_while_others_run_longer_delays_nobody() -> None:
    tables = tables_of(
        [
            task(0, 9000, index=0),
            task(0, 500, index=1, status="failed", why=ERROR),
            task(500, 1000, index=1, attempt=1),
        ],
        [stage(0, 9000)],
    )
    assert found(tables) == [("task-failed", 1, 0, 500.0, 0.0)]


def test_a_failed_task_delays_tasks_that_waited_for_its_slot() -> None:
    rest = [task(1000 * n, 1000 * (n + 1), index=n) for n in range(1, 9)]
    tables = tables_of(
        [
            task(0, 1000, index=0, status="failed", why=ERROR),
            *rest,
            task(9000, 10_000, index=0, attempt=1),
        ],
        [stage(0, 10_000)],
    )
    # One slot: nine tasks of use take 9 s, so one second was lost.
    assert found(tables) == [("task-failed", 1, 0, 1000.0, 1000.0)]


def test_what_was_finished_on_a_lost_executor_is_wasted_once_it_ran_again() -> None:
    lost = {"executor_id": "1", "removed_ms": 4000.0, "removed_reason": "code 137"}
    tables = tables_of(
        [
            task(0, 3000, index=0, why=("Resubmitted", "")),
            task(0, 4000, index=1, status="failed", why=LOST),
            task(0, 6000, index=2, executor=1),
            task(4000, 7500, index=0, attempt=1, executor=1),
            task(4000, 7000, index=1, attempt=1, executor=1),
        ],
        [stage(0, 7500)],
        executors=[lost, {"executor_id": "2"}],
    )
    assert found(tables) == [("executor-lost", 2, 1, 7500.0, 1500.0)]
    row = find_wasted_work(tables).by_query.iloc[0]
    assert (row["executors"], row["executor"], row["message"]) == (1, 0, "code 137")


def test_a_pause_without_any_executor_is_part_of_what_its_loss_costs() -> None:
    tables = tables_of(
        [
            task(0, 1000, index=0, status="failed", why=LOST),
            task(6000, 7000, index=0, attempt=1, executor=1),
            task(7000, 8000, index=1, executor=1),
        ],
        [stage(0, 8000)],
    )
    # One slot: two tasks of a second take two.
    assert found(tables) == [("executor-lost", 1, 0, 1000.0, 6000.0)]


FETCH = ("FetchFailed", "FetchFailedException: Failed to connect", 0)


@pytest.mark.parametrize("stage_id", [0, 2])
@pytest.mark.parametrize(
    ("removed", "cause"), [(5000.0, "executor-lost"), (np.nan, "fetch-failed")]
)
def test_a_stage_that_writes_lost_output_again_costs_all_its_time_under_any_id(
    stage_id: int, removed: float, cause: str
) -> None:
    wrote = {"shuffle_write_bytes": 9.0}
    tables = tables_of(
        [
            task(0, 4000, index=0, **wrote),
            task(0, 4000, index=1, executor=1, **wrote),
            task(4000, 5000, index=0, stage=1, status="failed", why=FETCH),
            task(5000, 9000, index=0, stage=2, executor=1, **wrote),
            task(9000, 10_000, index=0, stage=3, executor=1),
        ],
        [
            stage(0, 4000, stage_id=0, rdd=5, declared_tasks=2),
            stage(4000, 5000, stage_id=1, rdd=6, declared_tasks=1, failure_reason="FetchFailed"),
            stage(5000, 9000, stage_id=stage_id, attempt=1, rdd=5, declared_tasks=1),
            stage(9000, 10_000, stage_id=1, attempt=1, rdd=6, declared_tasks=1),
        ],
        executors=[{"executor_id": "1", "removed_ms": removed}, {"executor_id": "2"}],
    )
    assert found(tables) == [(cause, 2, 1, 5000.0, 5000.0)]


def test_another_shuffle_of_the_same_rdd_is_no_waste() -> None:
    wrote = {"shuffle_write_bytes": 9.0}
    tables = tables_of(
        [task(0, 1000, index=0, **wrote), task(1000, 2000, index=0, stage=1, **wrote)],
        [stage(0, 1000, stage_id=0, rdd=5), stage(1000, 2000, stage_id=1, rdd=5)],
    )
    assert found(tables) == []


def test_before_spark_3_3_a_further_attempt_runs_the_partitions_that_were_missing() -> None:
    tables = tables_of(
        [
            task(0, 1000, index=0),
            task(0, 1000, index=1, status="failed", why=FETCH),
            task(2000, 3000, index=0, stage=1),
        ],
        [
            stage(0, 1000, declared_tasks=2, failure_reason="FetchFailed"),
            stage(2000, 3000, attempt=1, declared_tasks=1),
        ],
    )
    assert found(tables) == [("fetch-failed", 1, 0, 1000.0, 1000.0)]


@pytest.mark.parametrize("said", ["another attempt succeeded", "Stage finished", ""])
def test_a_speculative_copy_costs_task_time_but_delays_nobody(said: str) -> None:
    killed = ("TaskKilled", said)
    tables = tables_of(
        [
            task(0, 1000, index=0),
            task(0, 5000, index=1, status="killed", why=killed),
            task(2000, 4900, index=1, attempt=1, speculative=True),
        ],
        [stage(0, 4900)],
    )
    assert found(tables) == [("speculation", 1, 0, 5000.0, 0.0)]


@pytest.mark.parametrize(
    ("job", "cause"), [({"succeeded": False}, "cancelled"), ({}, "not-needed")]
)
def test_tasks_killed_with_their_job_are_told_from_those_it_needed_no_longer(
    job: dict[str, Any], cause: str
) -> None:
    killed = task(0, 3000, index=1, status="killed", why=("TaskKilled", "Stage finished"))
    tables = tables_of([task(0, 3000, index=0), killed], [stage(0, 3000)], jobs=[job])
    assert found(tables) == [(cause, 1, 0, 3000.0, 0.0)]


@pytest.mark.parametrize(
    "reason",
    [
        "Container preempted by scheduler",
        "Executor decommission: spot interruption",
        "Container container_1_0001_01_000002 on host: h was preempted.",
        "Executor for container c exited because of a YARN event (e.g., pre-emption) and not"
        " because of an error in the running job.",
        "Container marked as failed: c on host: h. Exit status: -102. Diagnostics: d",
    ],
)
def test_executors_that_the_cluster_takes_away_are_no_lost_ones(reason: str) -> None:
    tables = tables_of(
        [
            task(0, 3000, index=0, status="failed", why=("ExecutorLostFailure", reason)),
            task(3000, 6000, index=0, attempt=1, executor=1),
        ],
        [stage(0, 6000)],
    )
    assert found(tables) == [("preempted", 1, 0, 3000.0, 3000.0)]


def test_an_output_lost_between_two_queries_costs_the_one_that_had_to_wait() -> None:
    wrote = {"shuffle_write_bytes": 9.0}
    tables = tables_of(
        [
            task(0, 1000, index=0, **wrote),
            task(5000, 7000, index=0, stage=1, query=1, executor=1, **wrote),
            task(7000, 7500, index=0, stage=2, query=1, executor=1),
        ],
        [
            stage(0, 1000, stage_id=0, rdd=5),
            stage(5000, 7000, stage_id=1, rdd=5, query=1),
            stage(7000, 7500, stage_id=2, rdd=8, query=1),
        ],
        queries=[QUERY, {**QUERY, "query_id": "r"}],
        executors=[{"executor_id": "1", "removed_ms": 3000.0}, {"executor_id": "2"}],
    )
    rows = find_wasted_work(tables).by_query
    assert rows["query"].tolist() == [1]
    assert found(tables) == [("executor-lost", 1, 1, 2000.0, 2000.0)]


def causes_of(tables: Tables) -> dict[int, str]:
    tasks = find_wasted_work(tables).tasks
    return dict(zip(tasks["task"].tolist(), tasks["cause"].astype(str), strict=True))


@pytest.mark.slow
@examples(100)
@given(tables_with_waste())
def test_wasted_attempts_and_delays_are_those_of_the_definitions(tables: Tables) -> None:
    naive = NaiveWaste(tables, elapsed_shares(tables).tolist())
    causes = causes_of(tables)
    assert sorted(causes) == naive.wasted()
    expected = naive.delays(causes)
    rows = find_wasted_work(tables).by_query
    for query, cause, elapsed in zip(
        rows["query"], rows["cause"].astype(str), rows["elapsed_ms"], strict=True
    ):
        assert elapsed == pytest.approx(expected.get((query, cause), 0.0), abs=1e-6)


@given(tables_with_waste(30))
def test_parts_sum_to_the_whole_and_no_query_waits_longer_than_it_ran(tables: Tables) -> None:
    wasted = find_wasted_work(tables)
    rows = wasted.by_query
    assert rows["task_ms"].sum() == pytest.approx(wasted.tasks["task_ms"].sum())
    assert rows["attempts"].sum() == len(wasted.tasks)
    assert (rows[["task_ms", "elapsed_ms"]] >= 0).all(axis=None)
    assert 0 <= wasted.share <= 1
    of_queries = wasted.of_queries(len(tables.queries))
    assert (of_queries["wasted_elapsed_ms"] <= tables.queries["duration_ms"] + 1e-6).all()
    tasks = tables.tasks
    useful = tasks[(tasks["status"] == "success").to_numpy(bool)].drop(
        index=wasted.tasks["task"], errors="ignore"
    )
    one_each = useful[(useful["stage"] >= 0) & (useful["index"] >= 0)]
    assert not one_each.duplicated(["stage", "index"]).any()
    used = float((useful["finish_ms"] - useful["launch_ms"]).sum())
    assert used + wasted.tasks["task_ms"].sum() == pytest.approx(wasted.task_ms)


@given(tables_with_waste(20), st.randoms(use_true_random=False))
def test_the_order_of_tasks_changes_nothing(tables: Tables, random: Any) -> None:
    order = list(range(len(tables.tasks)))
    random.shuffle(order)
    place = {row: number for number, row in enumerate(order)}
    failures = tables.task_failures
    moved = tables.with_(
        tasks=tables.tasks.iloc[order].reset_index(drop=True),
        task_failures=failures.assign(task=[place[row] for row in failures["task"]]),
    )
    assert {place[row]: cause for row, cause in causes_of(tables).items()} == causes_of(moved)
    names = ["query", "cause", "attempts", "again", "task_ms", "elapsed_ms"]
    before, after = (find_wasted_work(one).by_query[names] for one in (tables, moved))
    key = ["query", "cause"]
    pd.testing.assert_frame_equal(
        before.sort_values(key, ignore_index=True), after.sort_values(key, ignore_index=True)
    )


@given(tables_with_waste(statuses=("success", "running")))
def test_where_every_partition_succeeds_once_nothing_is_wasted(tables: Tables) -> None:
    numbered = np.arange(len(tables.tasks))
    assert len(find_wasted_work(tables.with_(tasks=tables.tasks.assign(index=numbered))).tasks) == 0


def test_random_tables_hold_every_cause() -> None:
    counts: Counter[str] = Counter()
    for seed in range(9):
        counts.update(causes_of(random_waste(60, seed)).values())
    assert counts.keys() == {str(cause) for cause in WasteCause}, counts


TAKEN = ("TaskKilled", "Preempted by scheduler")


def two_queries(*tasks: dict[str, Any]) -> Tables:
    stages = [stage(0, 9000, stage_id=one, query=one) for one in range(3)]
    queries = [QUERY, {**QUERY, "query_id": "r"}, {**QUERY, "query_id": "s"}]
    return tables_of(list(tasks), stages, queries=queries)


@pytest.mark.parametrize("job", [{}, {"succeeded": False}])
@pytest.mark.parametrize("retry_ms", [2000, 6000])
def test_a_task_whose_slot_the_scheduler_took_is_neither_unneeded_nor_a_copy(
    job: dict[str, Any], retry_ms: int
) -> None:
    tables = tables_of(
        [
            task(0, 2000, index=0, status="killed", why=TAKEN),
            task(retry_ms, retry_ms + 3000, index=0, attempt=1),
        ],
        [stage(0, 9000)],
        jobs=[job],
    )
    assert [row[:4] for row in found(tables)] == [("slot-taken", 1, 0, 2000.0)]


def test_slots_taken_go_to_tasks_launched_there_then_each_to_one() -> None:
    tables = two_queries(
        task(500, 2000, index=0, status="killed", why=TAKEN),
        task(500, 2000, index=1, status="killed", why=TAKEN),
        task(0, 2000, index=2, executor=1, status="killed", why=TAKEN),
        task(1500, 2500, index=0, stage=1, query=1),  # before the kill
        task(2000, 4000, index=3),  # of the same stage
        task(2005, 4000, index=1, stage=2, query=2),
        task(5001, 6000, index=2, stage=1, query=1),  # long after it
        task(2100, 4000, index=3, stage=1, query=1, executor=1),
    )
    wasted = find_wasted_work(tables)
    assert wasted.tasks["taker"].tolist() == [5, -1, 7]
    assert wasted.by_query[["taken", "taker"]].to_numpy().tolist() == [[2, 1]]


def test_where_nothing_was_launched_nobody_took_the_slot() -> None:
    tables = two_queries(task(0, 2000, index=0, status="killed", why=TAKEN))
    wasted = find_wasted_work(tables)
    assert wasted.tasks["taker"].tolist() == [-1]
    assert wasted.by_query[["taken", "taker"]].to_numpy().tolist() == [[0, -1]]
