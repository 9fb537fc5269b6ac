"""A task's waits and account: parts sum to the whole, and what is unknown is not zero."""

from __future__ import annotations

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
    MISSING,
    REPORTED,
    WAITS,
    evidence_column,
    requests_of,
    wait_column,
)
from iqcar.model.waits.measure import measure_waits
from iqcar.tables import Tables
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
