"""What Spark dropped instead of logging it is said, and nothing else is taken for it."""

from __future__ import annotations

import pytest

from iqcar.model.doubts import has_lost_end, lost_events, much_lost
from tests.support.tiny_tables import tiny_tables

LOG = {"path": "a.log", "status": "complete"}
NAN = float("nan")
NO_END = {"completion_ms": NAN, "succeeded": False}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"jobs": [{}, NO_END]}, "the ends of 1 jobs are missing"),
        ({"stages": [{}, {"completed": False}]}, "the ends of 1 stages are missing"),
        (
            {"sql_executions": [{}], "jobs": [{"sql_execution": 0}]},
            "the ends of 1 SQL executions are missing",
        ),
        (
            {"stages": [{"completed": False}] * 2, "jobs": [NO_END]},
            "the ends of 1 jobs, 2 stages are missing though their applications ended",
        ),
        ({"applications": [{"dropped_events": 1234.0}]}, "Spark dropped 1,234 events of 1 appl"),
        ({"applications": [{"dropped_for_rules": 5.0}]}, "Spark dropped 5 events by which rules"),
        ({"stages": [{"declared_tasks": 2}]}, "2 task ends are missing from 1 completed stages"),
    ],
)
def test_what_is_missing_is_said(rows, said) -> None:
    (found,) = lost_events(tiny_tables(inputs=[LOG], **rows))
    assert found.startswith(said)


@pytest.mark.parametrize(
    "rows",
    [
        {"applications": [{"ended": False}], "jobs": [NO_END]},
        {"inputs": [{**LOG, "status": "truncated"}], "jobs": [NO_END]},
        {"stages": [{"completed": False, "submission_ms": NAN}]},
        {"sql_executions": [{"end_ms": 1.0}], "jobs": [{"sql_execution": 0}]},
        {"sql_executions": [{}], "jobs": [{"sql_execution": 0, "succeeded": False}]},
        {"sql_executions": [{}], "jobs": [{}]},
        {"applications": [{"dropped_events": NAN}, {"dropped_events": 0.0}]},
        {"stages": [{"declared_tasks": 2, "failure_reason": "aborted"}]},
        {"stages": [{"declared_tasks": -1}]},
        {"jobs": [NO_END, {"completion_ms": NAN}]},  # of Spark 1.2
    ],
)
def test_what_may_have_no_end_is_not(rows) -> None:
    assert list(lost_events(tiny_tables(**{"inputs": [LOG], **rows}))) == []


def test_a_task_whose_stage_completed_without_another_attempt_of_it_has_ended() -> None:
    stages = [{}, {"completed": False}, {"failure_reason": "x"}]
    running = {"status": "running"}
    tasks = [
        {"index": 0},
        {"index": 0, **running, "attempt": 1},  # a copy that lost
        {"index": 1, **running},
        {"index": 1, "stage": 1, **running},
        {"index": 1, "stage": 2, **running},
        {"index": 2, "status": "failed"},
        {"index": 1, "stage": -1, **running},
    ]
    lost = has_lost_end(tiny_tables(stages=stages, tasks=tasks))
    assert lost.tolist() == [False, False, True, False, False, False, False]


@pytest.mark.parametrize(("seen", "said"), [(10, ""), (9, "10"), (5, "50"), (0, "100")])
def test_where_much_is_missing_that_comes_first(seen: int, said: str) -> None:
    stages = [{"declared_tasks": 10}, {"declared_tasks": 90, "completed": False}]
    found = much_lost(tiny_tables(stages=stages, tasks=[{"index": at} for at in range(seen)]))
    assert bool(found) == bool(said)
    assert said in found
    assert not much_lost(tiny_tables(stages=[{"declared_tasks": -1}]))
