"""Doubts: every way in which the numbers can be wrong is said in a sentence."""

from __future__ import annotations

import numpy as np
import pytest

from iqcar.doubts import find_doubts
from iqcar.tables import Tables
from iqcar.waits import measure_waits
from tiny_tables import tiny_tables

GOOD_TASK = {
    "launch_ms": 1000.0,
    "finish_ms": 2000.0,
    "run_ms": 1000.0,
    "cpu_ms": 900.0,
    "input_bytes": 0.0,
    "shuffle_write_ms": 0.0,
    "fetch_wait_ms": 0.0,
}
TWO_AT_ONCE = [
    {"tasks": 1, "start_ms": 0.0, "end_ms": 5.0},
    {"tasks": 1, "start_ms": 3.0, "end_ms": 9.0},
]
GOOD = {
    "inputs": [{"path": "a.log", "status": "complete"}],
    "tasks": [GOOD_TASK],
    "stages": [{"declared_tasks": 1}],
    "queries": TWO_AT_ONCE,
}
ALWAYS = ("waits for memory are in no event log", "CPU wait is estimated")


def doubts_of(**rows) -> list[str]:
    tables = tiny_tables(**{**GOOD, **rows})
    doubts = find_doubts(tables, measure_waits(tables))
    return [doubt for doubt in doubts if not doubt.startswith(ALWAYS)]


def test_a_whole_log_leaves_only_what_no_plain_log_can_tell() -> None:
    assert doubts_of() == []
    tables = tiny_tables(**GOOD)
    assert len(find_doubts(tables, measure_waits(tables))) == len(ALWAYS)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ({"inputs": [{"path": "a.log", "status": "truncated", "message": "cut"}]}, "a.log: trunc"),
        ({"inputs": [{"path": "b", "status": "in_progress"}]}, "b: in progress"),
        ({"stages": [{"declared_tasks": 3}]}, "2 task ends are missing from 1 completed stages"),
        ({"tasks": [{**GOOD_TASK, "cpu_ms": np.nan}]}, "CPU wait is unknown for 100%"),
        ({"stages": [{"declared_tasks": 1, "python": True}]}, "CPU wait is unknown for 100%"),
        ({"tasks": [{**GOOD_TASK, "input_bytes": 9.0}]}, "IO wait is unknown for 100%"),
        ({"tasks": [{**GOOD_TASK, "output_bytes": 9.0}]}, "IO wait is unknown for 100%"),
        ({"queries": TWO_AT_ONCE[:1]}, "no two queries ran at the same time"),
        (
            {"tasks": [GOOD_TASK, {**GOOD_TASK, "speculative": True, "index": 1}]},
            "slot wait is unknown for 50%",
        ),
    ],
)
def test_each_loss_is_said(rows, sentence) -> None:
    assert [doubt for doubt in doubts_of(**rows) if doubt.startswith(sentence)]


def test_running_tasks_are_said() -> None:
    running = {"launch_ms": 1000.0, "finish_ms": 2000.0, "status": "running", "index": 1}
    said = doubts_of(tasks=[GOOD_TASK, running])
    assert said == [
        "1 tasks had not ended when the log was read: what they waited for while running is unknown"
    ]


def test_nothing_read_leaves_nothing_to_doubt() -> None:
    tables = Tables.empty()
    assert find_doubts(tables, measure_waits(tables)) == ()
