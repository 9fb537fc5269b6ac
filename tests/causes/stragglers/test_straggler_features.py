"""Features of tasks: windows of host samples, clocks, first waves, and what stays missing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.causes.stragglers.features import (
    FEATURE_LIST,
    FEATURES,
    LEAST_COVER,
    Spans,
    Windows,
    build_features,
    clock_doubts,
    clock_offsets,
)
from iqcar.model.waits.measure import measure_waits
from tests.support.random_tables import tables_and_waits
from tests.support.straggler_truth import simulate
from tests.support.tiny_tables import tiny_tables

EPOCH = 1.7e12


def naive_mean(spans, group, begin, end):
    """Overlap by overlap."""
    covered = total = 0.0
    for g, start, stop, value in spans:
        if g == group and not np.isnan(value):
            both = max(min(stop, end) - max(start, begin), 0.0)
            covered += both
            total += both * value
    return total / covered if covered > 0 and covered >= LEAST_COVER * (end - begin) else np.nan


_span = st.tuples(
    st.integers(0, 2), st.integers(0, 30), st.integers(1, 9),
    st.sampled_from([0.0, 0.5, 3.0, 1e6, np.nan]),
)  # fmt: skip
_window = st.tuples(st.integers(-1, 3), st.integers(-5, 40), st.integers(1, 20))


@given(st.lists(_span, max_size=20), st.lists(_window, max_size=12))
def test_means_over_windows_are_those_of_every_overlap(spans, windows) -> None:
    spans = [(g, EPOCH + a, EPOCH + a + n, v) for g, a, n, v in spans]
    group, start, end, value = (np.array([s[i] for s in spans]) for i in range(4))
    made = Spans.from_times(group.astype(np.int64), start.astype(float), end.astype(float))
    of = np.array([w[0] for w in windows], np.int64)
    begin = np.array([EPOCH + w[1] for w in windows], float)
    stop = begin + np.array([w[2] for w in windows], float)
    means = Windows(made, of, begin, stop).mean(value.astype(float))
    naive = [naive_mean(spans, *w) for w in zip(of, begin, stop, strict=True)]
    # Prefix sums of values of up to 1e6 round at 1e-9 of them.
    np.testing.assert_allclose(means, naive, rtol=1e-9, atol=1e-6)


@given(tables_and_waits())
def test_features_of_any_tables_are_whole_and_never_negative(data) -> None:
    features = build_features(data.tables, data.waits, 3000.0)
    assert list(features.frame.columns) == FEATURES.column_names()
    assert len(features.frame) == len(data.tables.tasks)
    for feature in FEATURE_LIST:
        values = features.column(feature.name)
        assert not (values < 0).any(), feature.name
        if feature.unit == "share":
            assert not (values > 1).any(), feature.name


def test_what_the_host_did_before_during_and_after_a_task_is_told_apart() -> None:
    # Busy from 10 to 20 s; the task runs from 12 to 18 s, its edges are 3 s wide.
    tables = tiny_tables(
        tasks=[{"launch_ms": 12_000.0, "finish_ms": 18_000.0, "task_id": 7}],
        stages=[{}],
        samples=[
            {
                "time_ms": 1000.0 * t, "duration_ms": 1000.0,
                "cpu_idle": 20.0 if 10 < t <= 20 else 90.0, "cpu_iowait": 5.0,
                "disk_busy": 0.25, "net_in_bytes": 3e6, "net_out_bytes": 1e6,
                "mem_total_bytes": 8e9, "mem_used_bytes": 2e9, "stalled_io_ms": 500.0,
            }
            for t in range(1, 31)
        ],
    )  # fmt: skip
    row = build_features(tables, measure_waits(tables), 3000.0).frame.iloc[0]
    assert row["host_cpu"] == pytest.approx(0.75)
    assert row["host_cpu_before"] == pytest.approx((0.05 + 2 * 0.75) / 3)
    assert row["host_cpu_after"] == pytest.approx((2 * 0.75 + 0.05) / 3)
    assert row["host_disk"] == pytest.approx(0.25)
    assert row["host_network"] == pytest.approx(4e6)
    assert row["host_memory"] == pytest.approx(0.25)
    assert row["host_io_pressure"] == pytest.approx(0.5)
    assert np.isnan(row["host_throttled"])


def test_samples_that_do_not_reach_a_task_say_nothing_and_that_is_said() -> None:
    sample = {"time_ms": 1000.0, "duration_ms": 1000.0, "cpu_idle": 50.0}
    tables = tiny_tables(
        tasks=[{"launch_ms": 500.0, "finish_ms": 9000.0}, {"launch_ms": 0.0, "finish_ms": 800.0}],
        stages=[{}],
        samples=[sample],
    )
    features = build_features(tables, measure_waits(tables), 3000.0)
    assert np.isnan(features.column("host_cpu")[0])
    assert features.column("host_cpu")[1] == pytest.approx(0.5)
    assert "1 of 2 tasks on sampled hosts" in features.doubts[0]


def test_a_clock_that_is_off_is_told_from_records_and_samples_are_moved() -> None:
    truth = simulate(3, stages=1)
    tables = truth.tables
    plain = build_features(tables, measure_waits(tables), 3000.0)
    late = 30_000.0
    host = tables.tasks["host"].to_numpy()[tables.task_records["task"].to_numpy()]
    records = tables.task_records.assign(
        start_ms=tables.task_records["start_ms"] + np.where(host == 2, late, 0.0)
    )
    samples = tables.samples.assign(
        time_ms=tables.samples["time_ms"] + np.where(tables.samples["host"] == 2, late, 0.0)
    )
    skewed = tables.with_(task_records=records, samples=samples)
    offsets = clock_offsets(skewed)
    # A record fits in its task with 10 ms to spare: the offset is known no better.
    assert offsets.tolist() == pytest.approx([0, 0, late, 0, 0], abs=10)
    assert "1 hosts" in clock_doubts(skewed, offsets)[0]
    moved = build_features(skewed, measure_waits(tables), 3000.0)
    np.testing.assert_allclose(moved.column("host_cpu"), plain.column("host_cpu"), atol=0.01)
    assert clock_offsets(tables).tolist() == [0.0] * 5
    assert clock_doubts(tables, clock_offsets(tables)) == []


def test_times_amounts_and_states_come_from_sparks_metrics() -> None:
    tasks = [
        {"launch_ms": 0.0, "finish_ms": 100.0, "run_ms": 60.0, "deserialize_ms": 10.0,
         "result_serialize_ms": 1.0, "getting_result_ms": 4.0, "remote_bytes": 5.0,
         "locality": "NODE_LOCAL"},
        {"launch_ms": 50.0, "finish_ms": 60.0, "remote_bytes": 5.0, "local_bytes": 3.0,
         "locality": "RACK_LOCAL", "stage": 1},
        {"launch_ms": 100.0, "finish_ms": 160.0, "locality": "NO_PREF", "status": "failed"},
        {"launch_ms": 160.0, "finish_ms": 170.0, "locality": "PROCESS_LOCAL", "stage": 1},
    ]  # fmt: skip
    tables = tiny_tables(tasks=tasks, stages=[{}, {"stage_id": 1}])
    frame = build_features(tables, measure_waits(tables), 3000.0).frame
    assert frame["scheduler_delay_ms"].tolist()[0] == 25.0
    assert np.isnan(frame["scheduler_delay_ms"].iloc[1])
    assert frame["shuffle_read_bytes"].tolist()[:2] == [5.0, 8.0]
    np.testing.assert_array_equal(frame["locality"], [1.0, 2.0, np.nan, 0.0])
    assert frame["first_on_executor"].tolist() == [1.0, 1.0, 0.0, 0.0]
    assert frame["first_of_stage"].tolist() == [1.0, 1.0, 0.0, 0.0]
    assert frame["compared"].tolist() == [True, True, False, True]
    assert frame["host_cpu"].isna().all()


def test_only_measured_waits_are_waits_and_only_estimated_ones_are_off_cpu() -> None:
    tables = simulate(1, stages=1).tables
    measured = build_features(tables, measure_waits(tables), 3000.0)
    assert np.isfinite(measured.column("wait_run_queue_ms")).all()
    assert np.isnan(measured.column("off_cpu_ms")).all()
    bare = tables.with_(task_records=tables.task_records.iloc[:0])
    plain = build_features(bare, measure_waits(bare), 3000.0)
    assert np.isnan(plain.column("wait_run_queue_ms")).all()
    assert np.isfinite(plain.column("off_cpu_ms")).all()
    assert not plain.frame["measured"].any()


def test_a_python_task_without_a_record_shows_how_long_its_worker_took() -> None:
    task = {"launch_ms": 0.0, "finish_ms": 100.0, "run_ms": 90.0, "cpu_ms": 20.0, "gc_ms": 5.0}
    tables = tiny_tables(tasks=[task, {**task, "stage": 1}], stages=[{"python": True}, {}])
    python = build_features(tables, measure_waits(tables), 3000.0).column("python_ms")
    assert python[0] == 65.0
    assert np.isnan(python[1])


def test_every_feature_is_declared_once_with_a_sentence() -> None:
    names = [f.name for f in FEATURE_LIST]
    assert len(names) == len(set(names))
    assert all(f.sentence.endswith(".") for f in FEATURE_LIST)
