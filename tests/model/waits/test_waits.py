"""A task's waits and account: parts sum to the whole, and what is unknown is not zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.enums import Request, Resource
from iqcar.model.waits.columns import (
    ACCOUNT,
    ESTIMATED,
    IN_TASK_REQUESTS,
    MEASURED,
    MISSING,
    REPORTED,
    WAITS,
    evidence_column,
    requests_of,
    wait_column,
)
from iqcar.model.waits.measure import QUERY_WAITS, measure_waits, sum_query_waits, with_python_waits
from iqcar.tables import SAMPLES, STAGES, TASK_RECORDS, TASKS, Tables
from tests.support.random_tables import EPOCH_MS, frame, waits_frame
from tests.support.tiny_tables import tiny_tables


def tables_of(tasks: list[dict[str, object]], stages: list[dict[str, object]] | None = None):
    return tiny_tables(tasks=tasks, stages=stages or [{}])


def waits_of(**task: object) -> pd.Series:
    return measure_waits(tables_of([task])).iloc[0]


WHOLE = {
    "launch_ms": 2000.0,
    "finish_ms": 3000.0,
    "getting_result_ms": 20.0,
    "deserialize_ms": 50.0,
    "deserialize_cpu_ms": 30.0,
    "run_ms": 900.0,
    "cpu_ms": 300.0,
    "gc_ms": 60.0,
    "result_serialize_ms": 10.0,
    "fetch_wait_ms": 100.0,
    "shuffle_write_ms": 40.0,
    "scan_ms": 200.0,
    "input_bytes": 1e6,
    "output_bytes": 0.0,
}


def test_every_part_of_a_task_is_found() -> None:
    row = waits_of(**WHOLE)
    assert row["slot_wait_ms"] == 1000
    assert row["shuffle_fetch_ms"] == 100
    assert row["io_write_ms"] == 40
    assert row["io_read_ms"] == 200
    assert row["gc_ms"] == 60
    assert row["compute_ms"] == 330
    assert row["deserialize_ms"] == 20
    assert row["result_serialize_ms"] == 10
    assert row["getting_result_ms"] == 20
    assert row["run_queue_ms"] == 900 - 300 - 100 - 60 - 40 - 200
    assert row["unattributed_ms"] == pytest.approx(1000 - 900 - 50 - 10 - 20)
    assert row["run_queue_evidence"] == ESTIMATED


def test_scan_time_that_holds_cpu_time_is_not_counted_twice() -> None:
    row = waits_of(**{**WHOLE, "scan_ms": 880.0})
    assert row["io_read_ms"] == 400
    assert row["run_queue_ms"] == 0


@pytest.mark.parametrize(
    ("task", "request_kind", "evidence"),
    [
        ({**WHOLE, "cpu_ms": np.nan}, Request.RUN_QUEUE, MISSING),
        ({**WHOLE, "scan_ms": np.nan}, Request.IO_READ, MISSING),
        ({**WHOLE, "shuffle_write_ms": 0.0, "output_bytes": 5.0}, Request.IO_WRITE, MISSING),
        ({**WHOLE, "fetch_wait_ms": np.nan}, Request.SHUFFLE_FETCH, MISSING),
        (WHOLE, Request.EXECUTION_MEMORY, MISSING),
        ({**WHOLE, "speculative": True}, Request.SLOT_WAIT, MISSING),
        (WHOLE, Request.RUN_QUEUE, ESTIMATED),
        (WHOLE, Request.SLOT_WAIT, REPORTED),
    ],
)
def test_a_wait_nobody_recorded_is_missing_and_nan(task, request_kind, evidence) -> None:
    row = waits_of(**task)
    assert row[evidence_column(request_kind)] == evidence
    assert np.isnan(row[wait_column(request_kind)]) == (evidence == MISSING)


def test_a_task_that_read_no_input_waited_for_none() -> None:
    row = waits_of(**{**WHOLE, "scan_ms": np.nan, "input_bytes": 0.0})
    assert row["io_read_ms"] == 0
    assert row["io_read_evidence"] == REPORTED


def test_vendors_times_of_reading_count_where_there_is_no_scan_time() -> None:
    storage = {**WHOLE, "storage_read_ms": 150.0}
    assert waits_of(**storage)["io_read_ms"] == 200
    for input_bytes in (1e6, 0.0):  # what a cache reads may be no input
        row = waits_of(**{**storage, "scan_ms": np.nan, "input_bytes": input_bytes})
        assert (row["io_read_ms"], row["io_read_evidence"]) == (150, ESTIMATED)


def test_the_wait_for_the_gpu_is_that_for_another_thread_and_the_rest_is_unattributed() -> None:
    row = waits_of(**{**WHOLE, "gpu_wait_ms": 70.0})
    assert (row["notification_wait_ms"], row["notification_wait_evidence"]) == (70, REPORTED)
    assert np.isnan(row["run_queue_ms"])
    assert row["unattributed_ms"] == pytest.approx(20 + 200 - 70)


def test_python_work_is_not_taken_for_a_cpu_wait() -> None:
    row = measure_waits(tables_of([WHOLE], [{"python": True}])).iloc[0]
    assert np.isnan(row["run_queue_ms"])
    assert row["unattributed_ms"] == pytest.approx(20 + 200)


def test_a_retry_waits_from_the_end_of_the_attempt_before() -> None:
    first = {**WHOLE, "index": 3, "attempt": 0, "status": "failed"}
    second = {**WHOLE, "index": 3, "attempt": 1, "launch_ms": 3500.0, "finish_ms": 4000.0}
    other = {**WHOLE, "index": 4, "attempt": 0}
    waits = measure_waits(tables_of([second, other, first]))
    assert waits["slot_wait_ms"].tolist() == [500.0, 1000.0, 1000.0]


def test_a_stage_without_a_submission_is_estimated_from_its_first_launch() -> None:
    tables = tables_of([WHOLE], [{"submission_ms": np.nan, "first_launch_ms": 1900.0}])
    row = measure_waits(tables).iloc[0]
    assert row["slot_wait_ms"] == 100
    assert row["slot_wait_evidence"] == ESTIMATED


def test_no_tasks_give_no_waits() -> None:
    waits = measure_waits(Tables.empty())
    assert list(waits.columns) == WAITS.column_names()
    assert len(waits) == 0


def test_requests_of_all_resources_are_all_requests() -> None:
    assert [r for resource in Resource for r in requests_of(resource)] == list(Request)


times = st.one_of(
    st.just(np.nan), st.floats(0, 1e5), st.sampled_from([0.0, -5.0, 1e15, np.inf, -np.inf])
)
FIELDS = [k for k in WHOLE if k.endswith("_ms") and k not in ("launch_ms", "finish_ms")]
FIELDS += ["storage_read_ms", "gpu_wait_ms"]
task_rows = st.fixed_dictionaries(
    {
        **dict.fromkeys(FIELDS, times),
        "launch_ms": st.floats(0, 1e6),
        "finish_ms": st.one_of(st.floats(0, 1e6), st.just(np.nan)),
        "input_bytes": times,
        "output_bytes": times,
        "index": st.integers(0, 3),
        "attempt": st.integers(0, 2),
        "stage": st.integers(-1, 1),
        "speculative": st.booleans(),
    }
)


@given(st.lists(task_rows, max_size=8))
def test_the_parts_of_every_task_sum_to_its_duration(rows) -> None:
    waits = measure_waits(tables_of(rows, [{}, {"python": True, "submission_ms": np.nan}]))
    parts = [name for name, _ in ACCOUNT] + [wait_column(r) for r in IN_TASK_REQUESTS]
    assert (waits[parts].fillna(0).to_numpy() >= 0).all()
    assert (waits["duration_ms"] >= 0).all()
    total = waits[parts].fillna(0).sum(axis=1)
    np.testing.assert_allclose(total, waits["duration_ms"], rtol=1e-9, atol=1e-6)
    for request in Request:
        missing = waits[evidence_column(request)] == MISSING
        assert (waits[wait_column(request)].isna() == missing).all()


@given(st.lists(task_rows, max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_tasks_changes_nothing(rows, random) -> None:
    rows = [{**row, "attempt": n} for n, row in enumerate(rows)]  # attempts are unique in Spark
    shuffled = list(range(len(rows)))
    random.shuffle(shuffled)
    stages = [{}, {"python": True}]
    before = measure_waits(tables_of(rows, stages))
    after = measure_waits(tables_of([rows[i] for i in shuffled], stages))
    pd.testing.assert_frame_equal(before.iloc[shuffled].reset_index(drop=True), after)


QUEUE = wait_column(Request.RUN_QUEUE)


def run_of(
    python_cpu: Any, seen: tuple[int, ...] = (), told: str = "python_cpu_ms"
) -> tuple[Tables, pd.DataFrame]:
    """Two tasks of 4 s that feed workers, and one that does not; each computes 1 s and waits 1 s.

    seen: tasks whose worker the plugin measured.
    told: what it tells of them.
    """
    tasks = frame(
        TASKS, 3, stage=[0, 0, 1], executor=np.zeros(3, int), host=np.zeros(3, int),
        launch_ms=np.full(3, EPOCH_MS), finish_ms=np.full(3, EPOCH_MS + 4000.0),
    )  # fmt: skip
    samples = frame(
        SAMPLES, 4, executor=np.zeros(4, int), host=np.zeros(4, int),
        time_ms=EPOCH_MS + 1000.0 * np.arange(1, 5), duration_ms=np.full(4, 1000.0),
        python_cpu_ms=np.broadcast_to(python_cpu, 4),
    )  # fmt: skip
    records = frame(TASK_RECORDS, len(seen), task=list(seen), **{told: np.full(len(seen), 500.0)})
    tables = Tables.empty().with_(
        tasks=tasks, samples=samples, task_records=records,
        stages=frame(STAGES, 2, python=[True, False]),
    )  # fmt: skip
    waits = waits_frame(tasks, {Request.RUN_QUEUE: [1000.0] * 3}, np.full(3, 1000.0))
    return tables, waits


def test_tasks_that_feed_workers_share_what_these_computed() -> None:
    found = with_python_waits(*run_of(500.0))
    assert found["compute_ms"].tolist() == pytest.approx([2000.0, 2000.0, 1000.0])
    # The second that is left may be a wait for the processor, as in any other task.
    assert found[QUEUE].tolist() == pytest.approx([2000.0, 2000.0, 1000.0])
    codes = found[evidence_column(Request.RUN_QUEUE)].tolist()
    assert codes == [ESTIMATED, ESTIMATED, MEASURED]


def test_no_task_computes_for_longer_than_nothing_else_explains() -> None:
    found = with_python_waits(*run_of(1e6))
    assert found["compute_ms"].tolist() == pytest.approx([3000.0, 3000.0, 1000.0])
    assert found[QUEUE].tolist() == pytest.approx([1000.0] * 3)


@pytest.mark.parametrize("told", ["python_cpu_ms", "python_run_queue_ms", "python_other_ms"])
def test_a_worker_that_was_measured_stays_as_it_is(told: str) -> None:
    tables, waits = run_of(500.0, seen=(0,), told=told)
    found = with_python_waits(tables, waits)
    assert found["compute_ms"].tolist() == pytest.approx([1000.0, 3000.0, 1000.0])
    everything = run_of(500.0, seen=(0, 1), told=told)
    assert with_python_waits(*everything) is everything[1]


@pytest.mark.parametrize("cpu", [0.0, -5.0, np.nan])
def test_without_usable_samples_nothing_changes(cpu: float) -> None:
    tables, waits = run_of(cpu)
    assert with_python_waits(tables, waits) is waits
    none = run_of(500.0)[0].with_(samples=SAMPLES.empty())
    assert with_python_waits(none, waits) is waits


def test_a_gap_in_the_samples_counts_as_no_computing() -> None:
    found = with_python_waits(*run_of([500.0, np.nan, 500.0, 500.0]))
    assert found["compute_ms"].tolist() == pytest.approx([1750.0, 1750.0, 1000.0])


TASK = {"query": 0, "launch_ms": 2000.0, "finish_ms": 3000.0, "run_ms": 1000.0, "input_bytes": 0.0}


def rows_of(tasks: list[dict[str, object]], queries: int = 2) -> pd.DataFrame:
    tables = tiny_tables(tasks=tasks, stages=[{}], queries=[{}] * queries)
    return sum_query_waits(tables, measure_waits(tables)).set_index(["query", "resource"])


def test_waits_are_summed_by_query_and_resource() -> None:
    rows = rows_of(
        [
            {**TASK, "cpu_ms": 400.0, "fetch_wait_ms": 100.0, "shuffle_write_ms": 0.0},
            {**TASK, "cpu_ms": 900.0, "fetch_wait_ms": 50.0, "shuffle_write_ms": 10.0},
            {**TASK, "query": 1, "cpu_ms": 1000.0, "fetch_wait_ms": 0.0, "shuffle_write_ms": 0.0},
        ]
    )
    assert rows["wait_ms"].loc[0].tolist()[:3] == [2000.0, 0.0, 540.0]
    assert rows["wait_ms"].loc[0, "network"] == 150
    assert rows["wait_ms"].loc[0, "io"] == 10
    assert rows["wait_ms"].loc[1, "cpu"] == 0
    assert rows["evidence"].loc[0, "cpu"] == "estimated"
    assert rows["evidence"].loc[0, "network"] == "reported"
    assert rows["missing_share"].loc[0, "cpu"] == 0


def test_what_nobody_recorded_is_missing_not_zero() -> None:
    rows = rows_of([{**TASK, "cpu_ms": np.nan}], queries=1)
    for resource in ("cpu", "memory", "network"):
        assert np.isnan(rows["wait_ms"].loc[0, resource])
        assert rows["evidence"].loc[0, resource] == "missing"
        assert rows["missing_share"].loc[0, resource] == 1


def test_a_wait_known_for_some_tasks_says_for_how_much_it_is_not() -> None:
    rows = rows_of([{**TASK, "cpu_ms": 700.0}, {**TASK, "finish_ms": 5000.0}], queries=1)
    assert rows["wait_ms"].loc[0, "cpu"] == 300
    assert rows["evidence"].loc[0, "cpu"] == "estimated"
    assert rows["missing_share"].loc[0, "cpu"] == pytest.approx(0.75)


def test_every_query_has_every_resource_even_without_tasks() -> None:
    rows = rows_of([TASK], queries=3)
    assert len(rows) == 3 * len(Resource)
    assert rows["wait_ms"].loc[2].isna().all()


def test_no_queries() -> None:
    tables = Tables.empty()
    rows = sum_query_waits(tables, measure_waits(tables))
    assert list(rows.columns) == QUERY_WAITS.column_names()
    assert len(rows) == 0
