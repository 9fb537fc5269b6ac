"""A line of a task is decoded alike with its accumulables cut out and as a whole."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.logs.collect import Collector
from iqcar.logs.events.task_structs import TASK_RECORD
from iqcar.logs.tasks import task_lines as reader
from iqcar.logs.tasks.task_columns import TaskColumns
from iqcar.logs.tasks.task_lines import NUMBERS, TEXTS, TaskDecoder
from iqcar_lab.clusters.event_log import (
    SyntheticLog,
    node,
    realistic_accumulables,
    sql_update,
    task_metrics,
)


def block_of(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def columns(lines: list[bytes], cut: bool, nanoseconds: bool = False) -> dict[str, Any]:
    """Columns of tasks, read with accumulables cut out or from whole lines; texts as text."""
    kind = "nsTiming" if nanoseconds else "timing"
    log = Collector()
    start = SyntheticLog().app().sql(0, node("Scan", metrics=[(10, "scan time", kind)]))
    with pytest.MonkeyPatch.context() as patch:
        if not cut:
            patch.setattr(reader, "_INFO", b"nothing that a line holds")
        decoder = TaskDecoder()
        for block in (block_of(start.lines), block_of(lines)):
            log.add(block, decoder.decode(block))
    found = log.tasks.columns(log.sql.declared_waits)
    for name, codes in log.tasks.codes.items():
        texts = list(codes)
        found[name] = np.array([texts[code] for code in found[name]], dtype=object)
    found["counts"] = [log.events, log.malformed, log.task_intake.ends, log.skipped]
    found["running"] = sorted(log.running)
    found["held"] = [
        repr((one.executor, one.rdd, one.times.tolist(), one.sizes.tolist()))
        for one in log.task_intake.cached.held()
    ]
    found["records"] = sorted(log.task_records.columns()[0].tolist())
    return found


def assert_same(lines: list[bytes], **how: Any) -> dict[str, Any]:
    cut, whole = columns(lines, True, **how), columns(lines, False, **how)
    for name, values in whole.items():
        np.testing.assert_array_equal(cut[name], values, err_msg=name)
    return cut


def left(lines: list[bytes]) -> int:
    """Lines that the decoder of tasks leaves to others."""
    return len(TaskDecoder().decode(block_of(lines)).others)


def task_lines(count: int = 5, seed: int = 1, **more: Any) -> list[bytes]:
    draw = random.Random(seed).randrange
    log = SyntheticLog(version=None)
    for task in range(count):
        metrics = task_metrics(Executor_Run_Time=draw(10**6), **more)
        accumulables = realistic_accumulables(draw, 0, metrics)[draw(12) :]
        where = {"host": f"h{draw(3)}", "executor": str(draw(3)), "launch": 1000 + draw(999)}
        extra = {"Speculative": draw(2) == 1, "Getting Result Time": draw(2) * 2900}
        log.task(task, metrics=metrics, accumulables=accumulables, **where, **extra)
    return log.lines


@pytest.mark.parametrize("nanoseconds", [False, True])
def test_the_usual_line_is_read_alike_and_not_left_to_others(nanoseconds: bool) -> None:
    lines = task_lines(40)
    assert left(lines) == 0
    found = assert_same(lines, nanoseconds=nanoseconds)
    assert np.isfinite(found["scan_ms"]).sum() > 10
    assert found["counts"] == [43, 0, 40, 0]


@pytest.mark.parametrize(
    "change",
    [
        {"Locality": 'ANY"\\'},
        {"Host": "h\u00e9\u00e9"},
        {"Host": ""},
        {"Launch Time": -5},
        {"Launch Time": 2**60},
        {"Launch Time": 1.5},
        {"Launch Time": "7"},
        {"Launch Time": None},
        {"Failed": None},
        {"Speculative": "true"},
        {"Extra": {"a": {}, "b": {"c": 1}}},
        {"Extra": [1, 2]},
    ],
)
def test_an_unusual_task_info_is_read_alike(change: dict[str, Any]) -> None:
    log = SyntheticLog(version=None).task(0, **change).task(1)
    assert_same(log.lines)


@pytest.mark.parametrize(
    "change",
    [
        {"Host Name": "h1"},
        {"Peak Execution Memory": ...},
        {"Input Metrics": ...},
        {"Shuffle Read Metrics": {}},
        {"Executor Run Time": float("nan")},
        {"Executor Run Time": "900"},
        {"Updated Blocks": [{"Block ID": "rdd_0_0", "Status": {"Memory Size": 5}}]},
        {"Updated Blocks": [{"Block ID": 7, "Status": []}]},
        {"Updated Blocks": ...},
        {"Task Metrics": {"Executor Run Time": 5}},
    ],
)
def test_unusual_metrics_are_read_alike(change: dict[str, Any]) -> None:
    metrics = {
        key: value for key, value in {**task_metrics(), **change}.items() if value is not ...
    }
    peak = [sql_update(9, "internal.metrics.peakExecutionMemory", 777)]
    log = SyntheticLog(version=None).task(0, metrics=metrics, accumulables=peak).task(1)
    assert_same(log.lines)


@pytest.mark.parametrize("reason", ["TaskKilled", "FetchFailed", "Resubmitted", ""])
def test_other_endings_are_read_alike(reason: str) -> None:
    end = {"Reason": reason, "Block Manager Address": {"Executor ID": "9", "Host": "elsewhere"}}
    log = SyntheticLog(version=None).task(0, more={"Task End Reason": end}).task(1)
    log.task(2, more={"Task Metrics": ...})
    assert_same(log.lines)


def test_scan_times_are_found_whatever_is_around_them() -> None:
    updates = [
        sql_update(10, "scan time", 5), sql_update(1, "scan times of others", 3),
        sql_update(2, "no scan time", 100), sql_update(10, "scan time total (min, med, max)", 7),
    ]  # fmt: skip
    log = SyntheticLog(version=None)
    for cut in range(5):
        log.task(cut, accumulables=updates[cut:])
    found = assert_same(log.lines)
    assert found["scan_ms"].tolist()[:4] == [15, 10, 7, 7]
    assert np.isnan(found["scan_ms"][4])


def test_vendors_metrics_are_read_alike() -> None:
    names = {
        "buffer time": 7_000_000, "filesystem read time (sampled)": 8,
        "cloud storage request duration": 9, "gpuSemaphoreWait": "00:01:00.500",
        "x as part of shuffle file write": 5, "cumulative time": 6, "io wait time": -1,
    }  # fmt: skip
    updates = [sql_update(10 + n, name, value) for n, (name, value) in enumerate(names.items())]
    log = SyntheticLog(version=None)
    for cut in range(8):
        log.task(cut, accumulables=updates[cut:])
    found = assert_same(log.lines)
    assert found["gpu_wait_ms"].tolist()[:4] == [60_500] * 4
    assert found["storage_read_ms"].tolist()[:3] == [7_000_000, 9, 9]


LINES = task_lines(6)


@given(data=st.data())
def test_a_line_that_is_damaged_where_it_is_read_is_read_alike(
    data: st.DataObject,
) -> None:
    lines = list(LINES)
    number = data.draw(st.integers(0, len(lines) - 1))
    line = lines[number]
    unread = slice(line.index(b'"Accumulables":['), line.index(b',"Task Metrics":{'))
    places = [n for n in range(31, len(line)) if not unread.start <= n < unread.stop]
    at = data.draw(st.sampled_from(places))
    piece = data.draw(
        st.binary(max_size=4) | st.sampled_from([b"}", b"{", b'"', b",", b"\\", b"9"])
    )
    skip = data.draw(st.integers(0, 3))
    lines[number] = line[:at] + piece.replace(b"\n", b"") + line[at + skip :]
    assert_same(lines)


def test_starts_stay_only_until_their_end_wherever_it_is() -> None:
    log = SyntheticLog(version=None)
    log.task_start(0).task_start(1).task(0).task(2).task_start(2).task_start(3, Failed=None).task(3)
    log.task_start(4, host='a"b').raw(log.lines[0].replace(b'"Task ID":0', b'"Task ID":007'))
    found = assert_same(log.lines)
    assert found["running"] == [1, 4]
    assert found["counts"] == [4 + 7, 1, 3, 0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"Index":0', b'"Index":0,"Extra":{"Task ID":7}'),
        (b'"Speculative":false,', b""),
        (b'"Task Metrics":{', b'"Task Metrics":{"Speculative":false,'),
        (b'"Input Metrics":', b'"Others":'),
        (b'"Host":"h1",', b""),
        (b'"Updated Blocks":[]', b'"Host Name":"h1","Updated Blocks":[]'),
        (b'"Updated Blocks":[]', b'"Updated Blocks":[]]'),
        (b'"Task Type":"ResultTask"', b'"Task Type" "ResultTask"'),
    ],
)
def test_a_changed_spelling_is_read_alike(old: bytes, new: bytes) -> None:
    (line,) = SyntheticLog(version=None).task(0).lines
    changed = line.replace(old, new, 1)
    assert changed != line
    lines = [changed, line, changed]
    assert_same([one.replace(b'"Task ID":0', b'"Task ID":%d' % n) for n, one in enumerate(lines)])


def test_a_log_of_countless_spellings_is_read_alike() -> None:
    log = SyntheticLog(version=None)
    for task in range(40):
        log.task(task, **{f"Extra {task}": task})
    assert left(log.lines) == 0
    assert_same(log.lines)


def test_a_short_line_is_not_completed_by_the_next_one() -> None:
    (line,) = task_lines(1)
    lines = [line[:cut] for cut in range(len(line) - 200, 31, -97)]
    assert left([*lines, line]) == len(lines)
    assert columns([*lines, line], True)["counts"] == [4, len(lines), 1, 0]


def test_every_number_and_text_is_in_its_column() -> None:
    """The names of columns and the values of a row are two lists."""
    values = dict.fromkeys(NUMBERS)
    keys = {
        "Task ID": "task_id", "Partition ID": "index", "Attempt": "attempt",
        "Launch Time": "launch_ms",
        "Getting Result Time": "getting_result_at", "Finish Time": "finish_ms",
        "Executor Deserialize Time": "deserialize_ms",
        "Executor Deserialize CPU Time": "deserialize_cpu_ms", "Executor Run Time": "run_ms",
        "Executor CPU Time": "cpu_ms", "Peak Execution Memory": "peak_memory_bytes",
        "Result Size": "result_bytes", "JVM GC Time": "gc_ms",
        "Result Serialization Time": "result_serialize_ms",
        "Memory Bytes Spilled": "memory_spilled_bytes",
        "Disk Bytes Spilled": "disk_spilled_bytes", "Remote Blocks Fetched": "remote_blocks",
        "Local Blocks Fetched": "local_blocks", "Fetch Wait Time": "fetch_wait_ms",
        "Remote Bytes Read": "remote_bytes", "Local Bytes Read": "local_bytes",
        "Total Records Read": "shuffle_read_records", "Shuffle Bytes Written":
        "shuffle_write_bytes", "Shuffle Write Time": "shuffle_write_ms",
        "Shuffle Records Written": "shuffle_write_records", "Bytes Read": "input_bytes",
        "Records Read": "input_records", "Bytes Written": "output_bytes",
        "Records Written": "output_records",
    }  # fmt: skip
    (line,) = SyntheticLog(version=None).task(0).lines
    event = json.loads(line)
    number = iter(range(1_000_000_000, 2_000_000_000, 1_000_001))

    def fill(fields: dict[str, Any]) -> None:
        for key, value in fields.items():
            if isinstance(value, dict):
                fill(value)
            elif key in keys:
                fields[key] = values[keys[key]] = next(number)

    fill(event)
    info = event["Task Info"]
    event["Stage ID"] = values["stage_id"] = 7
    event["Stage Attempt ID"] = values["stage_attempt"] = 3
    flags = {"speculative": "Speculative", "failed": "Failed", "killed": "Killed"}
    for flag in flags:
        for column, key in flags.items():
            info[key], values[column] = column == flag, float(column == flag)
        found = TaskColumns()
        block = block_of([json.dumps(event, separators=(",", ":")).encode()])
        found.add(TaskDecoder().decode(block))
        got = dict(zip(NUMBERS, found._blocks[0][0][0].tolist(), strict=False))
        assert np.isnan(got.pop("peak_accumulable"))
        assert got == {name: v for name, v in values.items() if name != "peak_accumulable"}
    texts = (info["Executor ID"], info["Host"], info["Locality"], "Success")
    assert found.codes == {name: {text: 0} for name, text in zip(TEXTS, texts, strict=True)}


def test_text_that_only_looks_like_a_record_is_none() -> None:
    found = {"ID": 0, "Name": TASK_RECORD, "Update": 7, "Value": 'a "quoted" value'}
    assert_same(SyntheticLog(version=None).task(0, accumulables=[found]).lines)


def test_real_tasks_are_read_alike(shared_logs: Path) -> None:
    lines = (shared_logs / "local-1642039451826").read_bytes().splitlines()
    ends = [line for line in lines if b"SparkListenerTaskEnd" in line[:40]]
    assert len(ends) == 35
    assert left(ends) == 0
    assert_same(ends)
    starts = [line for line in lines if b"SparkListenerTaskStart" in line[:40]]
    assert len(starts) == 35
    assert left(starts) == 0
    assert_same(lines)
