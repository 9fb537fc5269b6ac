"""Where the plugin measured a task its waits are measured, and its account still sums up."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.enums import Request, WaitClass
from iqcar.model.waits.columns import (
    ACCOUNT,
    IN_TASK_REQUESTS,
    MEASURED,
    MISSING,
    REPORTED,
    evidence_column,
    wait_column,
)
from iqcar.model.waits.measure import measure_waits
from tests.model.waits.test_waits import WHOLE, task_rows
from tests.support.tiny_tables import tiny_tables

RECORD: dict[str, object] = {
    "start_ms": 2050.0,
    "wall_ms": 890.0,
    "cpu_ms": 250.0,
    "run_queue_ms": 140.0,
    "throttled_ms": 40.0,
    "off_cpu_ms": 500.0,
    **{f"{kind}_ms": 0.0 for kind in WaitClass},
    "io_read_ms": 100.0,
    "python_io_ms": 20.0,
    "python_cpu_ms": 50.0,
    "python_run_queue_ms": 30.0,
    "python_other_ms": 25.0,
    "driver_rpc_ms": 10.0,
    "object_store_ms": 5.0,
    "monitor_blocked_ms": 60.0,
    "codegen_lock_ms": 5.0,
    "execution_memory_ms": 70.0,
    "gc_safepoint_ms": 45.0,
    "native_ms": 20.0,
    "other_ms": 60.0,
}


def waits_of(record: dict[str, object], **task: object) -> pd.Series:
    tables = tiny_tables(tasks=[{**WHOLE, **task}], stages=[{}], task_records=[record])
    return measure_waits(tables).iloc[0]


def test_each_class_goes_to_its_request_and_the_rest_to_the_account() -> None:
    row = waits_of(RECORD)
    assert row["run_queue_ms"] == 140 - 40 + 30
    assert row["throttled_ms"] == 40
    assert row["io_read_ms"] == 100 + 20
    assert row["monitor_blocked_ms"] == 60 + 5
    assert row["execution_memory_ms"] == 70
    assert row["storage_memory_ms"] == row["shuffle_fetch_ms"] == row["io_write_ms"] == 0
    assert row["compute_ms"] == 250 + 50 + WHOLE["deserialize_cpu_ms"]
    assert row["gc_ms"] == 45
    assert row["other_wait_ms"] == 25 + 15
    # Spark's part of the life, what class "other" holds, and delays of the scheduler.
    assert row["deserialize_ms"] == 20
    assert row["unattributed_ms"] == pytest.approx(1000 - 890 - 50 - 10 - 20 + 80)
    for request in IN_TASK_REQUESTS:
        assert row[evidence_column(request)] == MEASURED
    assert row["slot_wait_evidence"] == REPORTED


def test_a_record_that_knows_no_object_store_sums_up_all_the_same() -> None:
    row = waits_of({**RECORD, "object_store_ms": np.nan})
    assert row["other_wait_ms"] == 25 + 10
    assert row["unattributed_ms"] == pytest.approx(1000 - 890 - 50 - 10 - 20 + 80 + 5)


def test_without_the_kernels_word_the_run_queue_is_missing_and_not_estimated() -> None:
    row = waits_of({**RECORD, "run_queue_ms": np.nan, "off_cpu_ms": 640.0, "other_ms": 220.0})
    assert np.isnan(row["run_queue_ms"])
    assert row["run_queue_evidence"] == row["throttled_evidence"] == MISSING
    assert row["io_read_evidence"] == MEASURED
    assert row["other_wait_ms"] == 25 + 15 + 30


@pytest.mark.parametrize("sampler", ["off", "dead", "asleep"])
def test_without_a_sampler_totals_are_measured_and_spark_tells_fetch_and_files(
    sampler: str,
) -> None:
    row = waits_of({**RECORD, "sampler": sampler})
    assert row["run_queue_ms"] == 140 - 40
    assert row["run_queue_evidence"] == MEASURED
    assert (row["shuffle_fetch_ms"], row["io_write_ms"], row["io_read_ms"]) == (100, 40, 200)
    assert row["io_read_evidence"] == REPORTED
    assert row["gc_ms"] == WHOLE["gc_ms"]
    for request in (Request.MONITOR_BLOCKED, Request.EXECUTION_MEMORY, Request.STORAGE_MEMORY):
        assert row[evidence_column(request)] == MISSING
        assert np.isnan(row[wait_column(request)])


def test_an_older_record_has_no_stops_and_keeps_its_run_queue() -> None:
    row = waits_of({**RECORD, "throttled_ms": np.nan})
    assert row["run_queue_ms"] == 140 + 30
    assert np.isnan(row["throttled_ms"])
    assert row["throttled_evidence"] == MISSING


def test_stops_are_at_most_the_waits_on_run_queues() -> None:
    row = waits_of({**RECORD, "throttled_ms": 9e9})
    assert (row["throttled_ms"], row["run_queue_ms"]) == (140 + 30, 0)


def test_an_older_record_does_not_know_page_faults() -> None:
    told = waits_of({**RECORD, "page_fault_ms": 10.0, "other_ms": 50.0})
    assert (told["page_fault_ms"], told["page_fault_evidence"]) == (10, MEASURED)
    row = waits_of({**RECORD, "page_fault_ms": np.nan})
    assert np.isnan(row["page_fault_ms"])
    assert row["page_fault_evidence"] == MISSING


def test_a_python_task_with_a_record_has_a_cpu_wait() -> None:
    tables = tiny_tables(tasks=[WHOLE], stages=[{"python": True}], task_records=[RECORD])
    assert measure_waits(tables)["run_queue_evidence"][0] == MEASURED


def test_a_record_longer_than_its_task_is_shrunk_as_a_whole() -> None:
    row = waits_of({**RECORD, "wall_ms": 890.0 * 4, "run_queue_ms": 560.0, "cpu_ms": 1000.0})
    assert row["run_queue_ms"] == pytest.approx((560 - 40 + 30) * 1000 / (4 * 890))
    assert row["deserialize_ms"] == 0


def test_tasks_without_a_record_are_told_as_before() -> None:
    rows = [WHOLE, {**WHOLE, "index": 1}]
    plain = measure_waits(tiny_tables(tasks=rows, stages=[{}]))
    mixed = measure_waits(
        tiny_tables(tasks=rows, stages=[{}], task_records=[{**RECORD, "task": 1}])
    )
    pd.testing.assert_frame_equal(plain.iloc[[0]], mixed.iloc[[0]])
    assert mixed["run_queue_evidence"][1] == MEASURED


amounts = st.one_of(st.just(0.0), st.floats(0, 1e5), st.sampled_from([1e13, 250.0]))
records = st.fixed_dictionaries(
    {
        "start_ms": amounts,
        "wall_ms": amounts,
        "cpu_ms": amounts,
        "run_queue_ms": st.one_of(amounts, st.just(np.nan)),
        "throttled_ms": st.one_of(amounts, st.just(np.nan)),
        "off_cpu_ms": amounts,
        **{f"{kind}_ms": amounts for kind in WaitClass},
        "sampler": st.sampled_from(["", "off", "dead"]),
    }
)


@given(st.lists(st.tuples(task_rows, st.none() | records), max_size=8))
def test_the_parts_of_every_task_sum_to_its_duration(rows) -> None:
    found = [{**r, "task": n} for n, (_, r) in enumerate(rows) if r is not None]
    tables = tiny_tables(
        tasks=[task for task, _ in rows], stages=[{}, {"python": True}], task_records=found
    )
    waits = measure_waits(tables)
    parts = [name for name, _ in ACCOUNT] + [wait_column(r) for r in IN_TASK_REQUESTS]
    assert (waits[parts].fillna(0).to_numpy() >= 0).all()
    total = waits[parts].fillna(0).sum(axis=1)
    np.testing.assert_allclose(total, waits["duration_ms"], rtol=1e-9, atol=1e-6)
    for request in Request:
        missing = waits[evidence_column(request)] == MISSING
        assert (waits[wait_column(request)].isna() == missing).all()
