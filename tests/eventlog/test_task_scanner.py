"""Compiled code reads of a task's end what the decoder reads, or refuses the line."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqcar.eventlog import ingest, read_logs
from iqcar.eventlog.collect import Collector
from iqcar.eventlog.events.lines import Block
from iqcar.eventlog.tasks.accumulable_search import search
from iqcar.eventlog.tasks.task_scanner import TaskScanner, holds
from iqcar.eventlog.tasks.task_templates import template_of
from tests.support.synthetic_log import (
    SyntheticLog,
    node,
    rdd,
    realistic_accumulables,
    sql_update,
    stage_info,
    task_metrics,
)


def block_of(lines: list[bytes]) -> Block:
    return Block.of(b"".join(line + b"\n" for line in lines))


def columns(lines: list[bytes], compiled: bool, nanoseconds: bool = False) -> dict[str, Any]:
    """Columns of tasks, read by compiled code or one by one; texts as text."""
    kind = "nsTiming" if nanoseconds else "timing"
    log = Collector()
    start = SyntheticLog().app().sql(0, node("Scan", metrics=[(10, "scan time", kind)]))
    start.stage(stage_info(0, rdds=[rdd(0, "FileScanRDD")]), {"spark.sql.execution.id": "0"})
    log.add(block_of(start.lines), compiled)
    log.add(block_of(lines), compiled)
    found = log.tasks.columns()
    for name, codes in log.tasks.codes.items():
        texts = list(codes)
        found[name] = np.array([texts[code] for code in found[name]], dtype=object)
    order = np.lexsort((found["finish_ms"], found["task_id"]))
    found = {name: values[order] for name, values in found.items()}
    found["counts"] = [log.events, log.malformed, log.task_intake.ends, log.skipped]
    found["running"] = sorted(log.running)
    found["records"] = sorted(log.task_records.columns()[0].tolist())
    for name in ("speculative", "failed", "killed"):
        found[name] = found[name] == 1
    return found


def assert_same(lines: list[bytes], **how: Any) -> dict[str, Any]:
    compiled, decoded = columns(lines, True, **how), columns(lines, False, **how)
    for name, values in decoded.items():
        np.testing.assert_array_equal(compiled[name], values, err_msg=name)
    return compiled


def refused(lines: list[bytes]) -> int:
    return int((TaskScanner().scan(block_of(lines))[0].template < 0).sum())


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
def test_the_usual_line_is_read_alike_and_not_refused(nanoseconds: bool) -> None:
    lines = task_lines(40)
    assert refused(lines) == 0
    found = assert_same(lines, nanoseconds=nanoseconds)
    assert np.isfinite(found["scan_ms"]).sum() > 10
    assert found["counts"] == [44, 0, 40, 0]


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
    assert np.isnan(search(b"\n", np.zeros((1, 2), np.int64))[0][0])


LINES = task_lines(6)


@given(data=st.data())
def test_a_damaged_line_is_read_alike_or_was_damaged_where_nothing_is_read(
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
    compiled, decoded = columns(lines, True), columns(lines, False)
    # The compiled code may take a line with a flaw that it never looks at, and only then.
    if compiled["counts"] == decoded["counts"]:
        for name in ("task_id", "run_ms", "fetch_wait_ms", "input_bytes", "host", "executor_id"):
            np.testing.assert_array_equal(compiled[name], decoded[name], err_msg=name)
    else:
        assert compiled["counts"][0] == decoded["counts"][0] + 1


def test_starts_stay_only_until_their_end_wherever_it_is() -> None:
    log = SyntheticLog(version=None)
    log.task_start(0).task_start(1).task(0).task(2).task_start(2).task_start(3, Failed=None).task(3)
    log.task_start(4, host='a"b').raw(log.lines[0].replace(b'"Task ID":0', b'"Task ID":007'))
    found = assert_same(log.lines)
    assert found["running"] == [1, 4]
    assert found["counts"] == [4 + 8, 1, 3, 0]


@pytest.mark.parametrize(
    ("old", "new", "good"),
    [
        (b'"Index":0', b'"Index":0,"Extra":{"Task ID":7}', False),
        (b'"Speculative":false,', b"", True),
        (b'"Task Metrics":{', b'"Task Metrics":{"Speculative":false,', False),
        (b'"Input Metrics":', b'"Others":', False),
        (b'"Host":"h1",', b"", True),
        (b'"Updated Blocks":[]', b'"Host Name":"h1","Updated Blocks":[]', True),
        (b'"Updated Blocks":[]', b'"Updated Blocks":[]]', True),
        (b'"Task Type":"ResultTask"', b'"Task Type" "ResultTask"', False),
    ],
)
def test_a_template_is_used_only_if_it_reads_what_the_decoder_reads(
    old: bytes, new: bytes, good: bool
) -> None:
    (line,) = SyntheticLog(version=None).task(0).lines
    changed = line.replace(old, new, 1)
    assert changed != line
    template = template_of(changed)
    assert template is not None
    assert holds(template) is good
    lines = [changed, line, changed]
    assert_same([one.replace(b'"Task ID":0', b'"Task ID":%d' % n) for n, one in enumerate(lines)])


def test_a_log_of_countless_spellings_is_read_alike() -> None:
    log = SyntheticLog(version=None)
    for task in range(40):
        log.task(task, **{f"Extra {task}": task})
    assert refused(log.lines) > 0
    assert_same(log.lines)


def test_real_tasks_are_read_alike(shared_logs: Path) -> None:
    lines = (shared_logs / "local-1642039451826").read_bytes().splitlines()
    ends = [line for line in lines if b"SparkListenerTaskEnd" in line[:40]]
    assert len(ends) == 35
    assert refused(ends) == 0
    assert_same(ends)
    starts = [line for line in lines if b"SparkListenerTaskStart" in line[:40]]
    assert len(starts) == 35
    assert refused(starts) == 0
    assert_same(lines)


def test_a_large_log_is_read_the_same_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = task_lines(300)
    start = SyntheticLog().app().stage(0)
    body = [*lines[:150], json.dumps(json.loads(lines[150])).encode(), *lines[151:]]
    start.lines += body
    path = start.end().write(tmp_path / "app-1")
    plain = read_logs([path], processes=1)
    monkeypatch.setattr(ingest, "COMPILED_FROM_BYTES", 0)
    compiled = read_logs([path], processes=1)
    assert plain.inputs.equals(compiled.inputs)
    by_id = [t.tasks.sort_values("task_id", ignore_index=True) for t in (plain, compiled)]
    for name in ("host", "executor", "locality"):
        by_id = [frame.drop(columns=name) for frame in by_id]
    assert by_id[0].equals(by_id[1])
