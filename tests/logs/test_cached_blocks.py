"""What executors held in storage memory: read alike however it is told, bounded, and named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iqcar
from iqcar.logs.events.settings import cached_name
from iqcar.logs.tasks import task_columns
from iqcar.logs.tasks.task_columns import CachedBlocks
from iqcar.logs.tasks.task_lines import BlockChange, Told
from iqcar_lab.clusters.event_log import SyntheticLog, rdd, stage_info, task_metrics

LEVEL = {"Use Disk": True, "Use Memory": True, "Deserialized": True, "Replication": 1}
COLUMNS = ["executor", "stage", "rdd", "name", "since_ms", "until_ms", "bytes"]
Sized = tuple[str, Any, bool]
"""A block, its size, and whether it is in memory."""


def status(size: Any, in_memory: bool) -> dict[str, Any]:
    return {"Storage Level": {**LEVEL, "Use Memory": in_memory}, "Memory Size": size}


def update(log: SyntheticLog, block: Any, size: Any, in_memory: bool = True) -> None:
    place = {"Executor ID": "1", "Host": "h1", "Port": 1}
    info = {"Block Manager ID": place, "Block ID": block, **status(size, in_memory)}
    log.event("SparkListenerBlockUpdated", {"Block Updated Info": info})


def begun() -> SyntheticLog:
    """An RDD is cached by stage 0, and read again by stage 1."""
    log = SyntheticLog().app().executor()
    for stage in (0, 1):
        one = {**rdd(4, "In-memory table orders"), "Storage Level": LEVEL}
        log.stage(stage_info(stage, rdds=[rdd(3), one], submission=1000.0))
    return log


def log_of(changes: list[Sized], told: Told) -> SyntheticLog:
    """A task of a second per change, told by an event or in the metrics of the task."""
    log = begun()
    for number, change in enumerate(changes):
        end, metrics = 3000 + 1000 * number, task_metrics()
        if told is Told.TASK:
            metrics["Updated Blocks"] = [{"Block ID": change[0], "Status": status(*change[1:])}]
        log.task(number, launch=end - 1000, finish=end, metrics=metrics)
        if told is Told.EVENT:
            update(log, *change)
    return log.end(20_000)


def spans(folder: Path, log: SyntheticLog) -> list[list[Any]]:
    found = iqcar.read([log.write(folder / "app")])
    assert found.inputs["malformed_lines"].tolist() == [0]
    return found.cached[COLUMNS].to_numpy().tolist()


STORED: list[Sized] = [
    ("rdd_4_0", 100, True), ("rdd_4_1", 50, True), ("rdd_4_0", 100, False), ("rdd_4_1", 0, True),
]  # fmt: skip


@pytest.mark.parametrize("told", [Told.EVENT, Told.TASK])
def test_what_an_executor_held_is_told_by_events_and_by_tasks_alike(
    tmp_path: Path, told: Told
) -> None:
    assert spans(tmp_path, log_of(STORED, told)) == [
        [0, 0, 4, "orders", 3000, 4000, 100],
        [0, 0, 4, "orders", 4000, 5000, 150],
        [0, 0, 4, "orders", 5000, 6000, 50],
    ]


def test_a_log_written_in_another_spelling_tells_the_same(tmp_path: Path) -> None:
    log = log_of(STORED, Told.EVENT)
    usual = spans(tmp_path / "usual", log)
    log.lines = [
        json.dumps(json.loads(line), separators=(", ", ": ")).encode() for line in log.lines
    ]
    assert spans(tmp_path / "spaced", log) == usual


def test_a_tasks_end_stores_no_block_that_its_events_drove_out(tmp_path: Path) -> None:
    log = begun().task_start(0, launch=2000)
    update(log, "rdd_4_0", 100)
    update(log, "rdd_4_0", 100, False)
    blocks = [{"Block ID": "rdd_4_0", "Status": status(100, True)}]
    log.task(0, launch=2000, finish=3000, metrics=task_metrics(Updated_Blocks=blocks))
    assert spans(tmp_path, log.end()) == []


def test_what_is_unpersisted_or_of_a_lost_executor_is_held_no_longer(tmp_path: Path) -> None:
    log = log_of([("rdd_4_0", 100, True), ("broadcast_1_piece0", 7, True)], Told.EVENT)
    end = log.lines.pop()
    log.task(5, launch=4000, finish=5000).event("SparkListenerUnpersistRDD", {"RDD ID": 4})
    log.executor_removed(time=9000).raw(end)
    assert spans(tmp_path, log) == [
        [0, 0, 4, "orders", 3000, 5000, 100],
        [0, -1, -1, "", 4000, 9000, 7],
    ]


def test_blocks_of_an_rdd_that_no_stage_told_of_are_of_no_stage(tmp_path: Path) -> None:
    ((_, stage, number, name, *_),) = spans(tmp_path, log_of([("rdd_9_0", 1, True)], Told.EVENT))
    assert (stage, number, name) == (-1, 9, "")


@pytest.mark.parametrize("size", [-1, 2**60, float("nan"), "x", None, [], {}])
@pytest.mark.parametrize("block", ["rdd_4_1", "rdd_99999999999_1", "rdd_", "", 7, None, "x" * 999])
def test_bad_blocks_and_sizes_change_nothing_of_others(
    tmp_path: Path, size: Any, block: Any
) -> None:
    log = log_of([("rdd_4_0", 100, True)], Told.EVENT)
    end = log.lines.pop()
    update(log, block, size)
    log.event("SparkListenerUnpersistRDD", {"RDD ID": size}).raw(end)
    assert spans(tmp_path, log) == [[0, 0, 4, "orders", 3000, 20_000, 100]]


SIZES = st.integers(0, 5)
CHANGES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), SIZES), min_size=1, max_size=40)


@given(changes=CHANGES, most=st.integers(3, 8))
def test_joined_spans_hold_the_same_bytes_over_time(
    changes: list[tuple[int, int, int]], most: int
) -> None:
    told, time = [], 1000.0
    for step, block, size in changes:
        time += step
        told.append(BlockChange(time, Told.EVENT, "1", f"rdd_4_{block}", float(size)))
    exact, joined = CachedBlocks(), CachedBlocks()
    exact.take(told, time + 5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task_columns, "MOST_CHANGES", most)
        joined.take(told, time + 5)
    (one,), (other,) = exact.held(), joined.held()
    assert len(other.times) <= most + 1
    for held in (one, other):
        assert (np.diff(held.times) > 0).all()
    ends = [np.append(held.times[1:], time + 5) for held in (one, other)]
    total = [
        ((end - held.times) * held.sizes).sum()
        for held, end in zip((one, other), ends, strict=True)
    ]
    assert total[0] == pytest.approx(total[1])
    assert one.sizes[-1] == other.sizes[-1]


def test_with_too_many_blocks_nothing_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_columns, "MOST_BLOCKS", 1)
    found = iqcar.read([log_of(STORED, Told.EVENT).write(tmp_path / "app")])
    assert len(found.cached) == 0
    assert "so many cached blocks" in found.inputs["message"][0]


def test_a_copy_since_a_time_tells_what_is_held_from_then_on() -> None:
    log = CachedBlocks()
    log.take([BlockChange(1000.0, Told.EVENT, "1", f"rdd_{n}_0", 5.0) for n in (1, 2)], 1500.0)
    log.take([BlockChange(1500.0, Told.EVENT, "1", "rdd_1_0", 0.0)], 2000.0)
    part = log.since(1800.0)
    assert [(one.rdd, one.times.tolist(), one.sizes.tolist()) for one in part.held()] == [
        (2, [1000.0], [5.0])
    ]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("MapPartitionsRDD", "MapPartitionsRDD"),
        ("", ""),
        ("*(2) Project [id#12L]\n+- Scan", "Project [id]"),
        ("Scan jdbc password=hunter2", "Scan jdbc password=*(redacted)"),
        ("x" * 5000, "x" * 79 + "…"),
    ],
)
def test_a_cached_rdd_is_called_by_its_first_operation(name: str, shown: str) -> None:
    assert cached_name(name) == shown
