"""The plugin's records: decoded leniently, damaged ones missing and not zero."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.enums import Request, WaitClass
from iqcar.logs.assemble.task_table import TaskRecords, read_tables
from iqcar.logs.merge import merge
from iqcar.logs.plugin.plugin_events import driver_tables, dropped_events
from iqcar.logs.plugin.record_columns import RecordColumns, read_profile, read_record
from iqcar.tables import EXECUTOR_TARGETS, POOLS, TASK_RECORDS, Tables
from tests.support.listener_spark import unpack
from tests.support.plugin_record import packed as packed_series
from tests.support.tiny_tables import tiny_tables

MS = 1_000_000
RECORD: dict[str, Any] = {
    "v": 1,
    "host": "h0",
    "executor": "1",
    "start_ms": 1000,
    "wall_ns": 1400 * MS,
    "cpu_ns": 300 * MS,
    "run_queue_ns": 200 * MS,
    "off_cpu_ns": 900 * MS,
    "waits_ns": {"io_read": 500 * MS, "python_io": 100 * MS, "driver_rpc": 300 * MS},
    "samples": 60,
    "off_samples": 40,
    "chars_read": 4096,
    "disk_bytes_read": 512,
    "blocked_ms": 3,
    "waited_ms": 7,
    "gc_ms": 2,
    "pool": "gold",
    "profile": {
        "bucket_ms": 500,
        "buckets": 3,
        "cpu": "300",
        "run_queue": "200",
        "io_read": "0,500",
        "python_io": "0*2,100",
        "driver_rpc": "0*2,300",
    },
}


def read(found: list[tuple[float, bytes | str]], task_ids: list[int]) -> TaskRecords:
    columns = RecordColumns()
    columns.add(found)
    return read_tables(columns, pd.Series(task_ids, dtype="int64"))


def decoded(*records: dict[str, Any]) -> TaskRecords:
    texts = [(float(n), json.dumps(record)) for n, record in enumerate(records)]
    return read(texts, list(range(len(records))))


def test_a_record_becomes_a_row_in_ms() -> None:
    found = decoded(RECORD)
    assert found.damaged == 0
    row = found.records.iloc[0]
    assert (row["task"], row["start_ms"], row["wall_ms"]) == (0, 1000, 1400)
    assert (row["cpu_ms"], row["run_queue_ms"], row["off_cpu_ms"]) == (300, 200, 900)
    assert np.isnan(row["object_store_ms"])  # of a plugin that did not tell stores from files
    assert (row["io_read_ms"], row["python_io_ms"], row["driver_rpc_ms"]) == (500, 100, 300)
    assert row["monitor_blocked_ms"] == 0
    assert (row["samples"], row["off_samples"], row["failures"]) == (60, 40, 0)
    assert (row["chars_read_bytes"], row["disk_read_bytes"]) == (4096, 512)
    assert np.isnan(row["chars_written_bytes"])
    assert (row["pool"], row["sampler"]) == ("gold", "")


def test_a_record_without_coverage_left_no_sample_out() -> None:
    found = decoded(RECORD, {**RECORD, "coverage_pct": 17}, {**RECORD, "coverage_pct": "?"})
    assert found.records["coverage"].tolist() == [100, 17, 100]


def test_a_profile_becomes_an_interval_per_bucket_cut_at_the_end() -> None:
    intervals = decoded(RECORD).intervals
    assert intervals["start_ms"].tolist() == [1000, 1500, 2000]
    assert intervals["end_ms"].tolist() == [1500, 2000, 2400]
    assert intervals["cpu_ms"].tolist() == [300, 0, 0]
    assert intervals["run_queue_ms"].tolist() == [200, 0, 0]
    assert intervals["io_read_ms"].tolist() == [0, 500, 100]


def test_held_memory_becomes_bytes_by_task_and_by_interval() -> None:
    profile = {**RECORD["profile"], "held_kib": "4,0,1"}
    held = {"peak_held_bytes": 8192, "mean_held_bytes": 2000}
    found = decoded({**RECORD, **held, "profile": profile}, {**RECORD, **held}, RECORD)
    assert found.records["peak_held_bytes"].tolist()[:2] == [8192, 8192]
    assert found.records["mean_held_bytes"].tolist()[:2] == [2000, 2000]
    # The second one's profile says that nothing was held, the third one's that nobody looked.
    assert found.intervals["held_bytes"].tolist()[:6] == [4096, 0, 1024, 0, 0, 0]
    assert found.records[["peak_held_bytes", "mean_held_bytes"]].iloc[2].isna().all()
    assert found.intervals["held_bytes"][6:].isna().all()


def test_stops_by_a_cpu_limit_are_taken_out_of_the_run_queue_of_all_intervals() -> None:
    waits = {**RECORD["waits_ns"], "python_run_queue": 100 * MS}
    profile = {**RECORD["profile"], "run_queue": "200", "python_run_queue": "0,100"}
    limited = {**RECORD, "waits_ns": waits, "profile": profile}
    found = decoded({**limited, "throttled_ns": 150 * MS}, limited, {**limited, "throttled_ns": -1})
    assert found.records["throttled_ms"][0] == 150
    assert found.records["throttled_ms"][1:].isna().all()
    assert found.intervals["throttled_ms"].tolist() == [100, 50, 0] + [0] * 6
    assert found.intervals["run_queue_ms"].tolist() == [100, 50, 0] + [200, 100, 0] * 2
    most = decoded({**limited, "throttled_ns": 1e301, "run_queue_ns": 1e301}).intervals
    assert (most["throttled_ms"] + most["run_queue_ms"]).tolist() == [200, 100, 0]


def test_the_work_of_a_python_worker_is_work() -> None:
    profile = {"bucket_ms": 100, "buckets": 1, "cpu": "5", "python_cpu": "60"}
    record = {**RECORD, "wall_ns": 100 * MS, "profile": {**profile, "python_run_queue": "20"}}
    row = decoded(record).intervals.iloc[0]
    assert row["cpu_ms"] == 65
    assert row["run_queue_ms"] == 20


def test_without_the_kernel_the_run_queue_is_unknown() -> None:
    record = {k: v for k, v in RECORD.items() if k != "run_queue_ns"}
    assert np.isnan(decoded(record).records["run_queue_ms"][0])


def test_owners_of_locks_become_a_row_each() -> None:
    found = decoded({**RECORD, "lock_owners": "1:820,2:40"}, RECORD, RECORD)
    rows = found.owners.itertuples(index=False)
    assert [tuple(row) for row in rows] == [(0, 1, 820.0), (0, 2, 40.0)]


@pytest.mark.parametrize(
    "owners",
    [
        *("", "x", "1", "1:", ":5", "1:-5", "-1:5", "1:5,", "1:5;2:5", "1:1.5", "1:5,1:2:3"),
        *("1:9" + "9" * 12, "9" * 30 + ":5", ",".join(["1:5"] * 17), "\u0661:x"),
        *(7, None, ["1:5"], {"1": 5}),
        *("7:5", "0:5", "1:0"),
    ],
)
def test_owners_that_no_task_can_have_are_nobody(owners: object) -> None:
    """Damaged, of another application, the task itself, or for no time: the rest is read."""
    found = decoded({**RECORD, "lock_owners": owners}, RECORD)
    assert found.damaged == 0
    assert len(found.records) == 2
    assert len(found.owners) == 0


@pytest.mark.parametrize(
    "later",
    [
        {"v": 2, "gpu_ns": 5, "waits_ns": {**RECORD["waits_ns"], "gpu": 77}},
        {"v": "two", "host": ["h0"], "samples": "many", "pool": None},
        {"profile": {**RECORD["profile"], "gpu": "1,2,3", "note": {"x": 1}}},
    ],
)
def test_a_later_version_is_read_as_far_as_it_is_known(later: dict[str, Any]) -> None:
    found = decoded({**RECORD, **later})
    assert found.damaged == 0
    assert found.records["io_read_ms"][0] == 500
    assert len(found.intervals) == 3


@pytest.mark.parametrize(
    "text",
    [
        "n=0",
        "",
        "{",
        "[1]",
        "null",
        "{}",
        '{"start_ms": 1, "wall_ns": 5}',
        '{"start_ms": 1, "wall_ns": -5, "cpu_ns": 1}',
        '{"start_ms": 1e30, "wall_ns": 5, "cpu_ns": 1}',
        '{"start_ms": 1, "wall_ns": 1e300, "cpu_ns": 1}',
        '{"start_ms": 1, "wall_ns": true, "cpu_ns": 1}',
        "[" * 10_000,
    ],
)
def test_a_damaged_record_is_missing_and_counted(text: str) -> None:
    assert read_record(text) is None
    found = read([(0.0, text)], [0])
    assert found.damaged == 1
    assert len(found.records) == 0


def test_records_of_no_task_are_counted_and_a_second_one_is_passed_over() -> None:
    text = json.dumps(RECORD)
    found = read([(7.0, text), (99.0, text), (float("nan"), text), (7.0, "n=0")], [-1, 7])
    assert found.records["task"].tolist() == [1]
    assert found.damaged == 2
    damaged_first = read(
        [(7.0, "n=0"), (7.0, text), (7.0, json.dumps({**RECORD, "pool": "x"}))], [7]
    )
    assert damaged_first.records["pool"].tolist() == ["gold"]
    assert damaged_first.damaged == 1


@given(st.permutations(range(6)), st.permutations(range(6)))
def test_records_come_in_the_order_of_tasks_with_their_own_intervals(
    ids: list[int], ended: list[int]
) -> None:
    """Task n has n intervals, in each of which it computed for n ms."""
    texts = {
        n: json.dumps({**RECORD, "profile": {"bucket_ms": 10, "buckets": n, "cpu": f"{n}*{n}"}})
        for n in range(6)
    }
    found = read([(float(n), texts[n]) for n in ended], ids)
    assert found.records["task"].tolist() == list(range(6))
    assert found.intervals["task"].tolist() == [row for row, n in enumerate(ids) for _ in range(n)]
    assert found.intervals["cpu_ms"].tolist() == [n for n in ids for _ in range(n)]


@pytest.mark.parametrize(
    "profile",
    [
        {"bucket_ms": 0, "buckets": 2, "cpu": "1"},
        {"bucket_ms": 250, "buckets": 10**9, "cpu": "1"},
        {"bucket_ms": 250, "buckets": 2, "cpu": "1*999999999999"},
        {"bucket_ms": 250, "buckets": 2, "cpu": "1,-2"},
        {"bucket_ms": 250, "buckets": 2, "cpu": "1,2,3"},
        {"bucket_ms": 250, "buckets": 2, "cpu": 7},
        {"bucket_ms": 250, "cpu": "1"},
        {"bucket_ms": "250", "buckets": 2, "cpu": "1"},
    ],
)
def test_a_damaged_profile_is_left_out_and_its_record_is_kept(profile: dict[str, Any]) -> None:
    assert read_profile(profile) is None
    found = decoded({**RECORD, "profile": profile})
    assert len(found.records) == 1
    assert len(found.intervals) == 0


@given(
    st.lists(
        st.lists(st.sampled_from([0, 0, 1, 7, 250]), min_size=1, max_size=30),
        min_size=1,
        max_size=3,
    )
)
def test_run_lengths_are_unpacked_as_the_plugin_packs_them(series: list[list[int]]) -> None:
    """Pack with runs and without trailing zeros, and unpack by two programs."""
    buckets = 30
    names = ["cpu", "io_read", "python_io"][: len(series)]
    packed = {name: packed_series(values) for name, values in zip(names, series, strict=True)}
    record = {**RECORD, "wall_ns": buckets * 250 * MS}
    intervals = decoded({**record, "profile": {"bucket_ms": 250, "buckets": buckets, **packed}})
    written = {name: text for name, text in packed.items() if text}
    expected = {name: np.array(unpack(text, buckets)) for name, text in written.items()}
    zeros = np.zeros(buckets)
    found = intervals.intervals
    np.testing.assert_array_equal(found["cpu_ms"], expected.get("cpu", zeros))
    np.testing.assert_array_equal(
        found["io_read_ms"], expected.get("io_read", zeros) + expected.get("python_io", zeros)
    )


@given(st.binary(max_size=200))
def test_no_bytes_break_the_decoder(text: bytes) -> None:
    assert read_record(text) is None
    assert len(driver_tables([text])["pools"]) == 0


@given(st.integers(0, 2**32))
def test_a_record_with_bytes_changed_is_read_or_missing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    text = bytearray(json.dumps(RECORD).encode())
    for _ in range(int(rng.integers(1, 6))):
        text[int(rng.integers(len(text)))] = int(rng.integers(256))
    found = read([(0.0, bytes(text))], [0])
    assert len(found.records) + found.damaged == 1
    numbers = found.records.select_dtypes("number").to_numpy(np.float64)
    assert ((numbers >= 0) | np.isnan(numbers)).all()
    assert (found.intervals["end_ms"] > found.intervals["start_ms"]).all()


def test_every_class_of_wait_has_a_column_and_a_place() -> None:
    assert {f"{kind}_ms" for kind in WaitClass} < set(TASK_RECORDS.column_names())
    of_requests = {kind.request for kind in WaitClass} - {None}
    of_requests.add(Request.THROTTLED)  # a part of two others
    assert of_requests == {request for request in Request if not request.before_launch}


POOLS_EVENT = {
    "Event": "org.iqcar.spark.IqcarEventScheduler",
    "version": 1,
    "timeMs": 1700000000000,
    "mode": "FAIR",
    "slots": 8,
    "pools": [
        {"name": "gold", "mode": "FIFO", "weight": 3, "minShare": 2},
        {"name": "", "weight": 1},
        {"name": "broken", "weight": -1},
    ],
}


def test_pools_of_the_scheduler_event_are_read() -> None:
    lines = [POOLS_EVENT, {**POOLS_EVENT, "Event": "org.iqcar.spark.IqcarEventSamples"}]
    pools = driver_tables(json.dumps(line).encode() for line in lines)["pools"]
    assert pools["cap"].isna().all()
    assert pools.drop(columns="cap").to_dict("records") == [
        {
            "app": 0,
            "time_ms": 1700000000000,
            "name": "gold",
            "mode": "FIFO",
            "weight": 3,
            "min_share": 2,
            "strict": False,
        }
    ]
    assert list(pools.columns) == POOLS.column_names()


def test_executors_that_were_asked_for_are_read_by_time() -> None:
    name = "org.iqcar.spark.IqcarEventExecutors"
    lines = [
        {"Event": name, "version": 1, "timeMs": 2000, "executors": 8, "later": [1]},
        {"Event": name, "version": 1, "timeMs": 1000, "executors": 0},
        {"Event": name, "version": 1, "timeMs": 1500, "executors": -1},
        {"Event": name, "version": 1, "executors": 3},
        {**POOLS_EVENT, "executors": 5},
    ]
    events = [*(json.dumps(line).encode() for line in lines), b"{"]
    targets = driver_tables(events)["executor_targets"]
    assert targets[["time_ms", "executors"]].to_numpy().tolist() == [[1000, 0], [2000, 8]]
    assert list(targets.columns) == EXECUTOR_TARGETS.column_names()


def test_phases_are_read_of_executions_that_are_known() -> None:
    name = "org.iqcar.spark.IqcarEventPhases"
    phases = [
        {"name": "planning", "startMs": 1000, "endMs": 1200, "later": 1},
        {"name": "planning", "startMs": 1200, "endMs": 1000},
        {"name": "dreaming", "startMs": 1000, "endMs": 1200},
        {"name": "listeners", "startMs": 5000, "endMs": 5003},
    ]
    lines = [
        {"Event": name, "version": 1, "executionId": 7, "phases": phases, "compileMs": 900},
        {"Event": name, "version": 1, "executionId": 7, "phases": phases[:1], "compileMs": -2},
        {"Event": name, "version": 1, "executionId": 8, "phases": phases},
        {"Event": name, "version": 1, "executionId": 9, "phases": phases[-1:]},
    ]
    events = [*(json.dumps(line).encode() for line in lines), b"{"]
    found = driver_tables(events, {7: 2, 9: 0})["driver_phases"]
    assert found[["sql_execution", "phase", "start_ms", "end_ms"]].to_numpy().tolist() == [
        [2, "planning", 1000, 1200],
        [2, "listeners", 5000, 5003],
        [2, "compiling", 4100, 5000],
        [0, "listeners", 5000, 5003],
    ]
    assert len(driver_tables(events)["driver_phases"]) == 0


def test_events_that_spark_dropped_are_counted_by_the_last_event_about_them() -> None:
    name = "org.iqcar.spark.IqcarEventDropped"
    queues = [{"eventLog": 3, "shared": 1}, {"eventLog": 7}, {"eventLog": -1}, {"eventLog": "x"}]
    lines = [json.dumps({"Event": name, "timeMs": 5, "queues": one, "later": 1}) for one in queues]
    assert dropped_events([*map(str.encode, lines), b"{"]) == {"eventLog": 7, "shared": 1}
    assert dropped_events([]) == {}


def test_merging_logs_moves_records_to_their_tasks() -> None:
    task = {"task_id": 0}
    one = tiny_tables(tasks=[task] * 3).with_(**frames(2))
    two = tiny_tables(tasks=[task] * 2).with_(**frames(1))
    both = merge([one, two, Tables.empty()])
    assert both.task_records["task"].tolist() == [2, 4]
    assert both.intervals["task"].tolist() == [2] * 3 + [4] * 3
    assert both.pools["app"].tolist() == [0, 1]


def frames(row: int) -> dict[str, pd.DataFrame]:
    found = decoded(RECORD)
    return {
        "task_records": found.records.assign(task=np.int32(row)),
        "intervals": found.intervals.assign(task=np.int32(row)),
        "pools": driver_tables([json.dumps(POOLS_EVENT).encode()])["pools"],
    }
