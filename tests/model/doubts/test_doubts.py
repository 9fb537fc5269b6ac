"""Doubts: every way in which the numbers can be wrong is said in a sentence."""

from __future__ import annotations

import numpy as np
import pytest

from iqcar.logs.attach.spark_conf import LISTENER, PLUGIN
from iqcar.model.doubts import (
    find_doubts,
    grave_doubts,
    has_lost_end,
    listener_alone,
    lost_events,
    much_lost,
)
from iqcar.model.waits.measure import measure_waits
from iqcar.tables import Tables
from tests.support.tiny_tables import tiny_tables

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
        ({"tasks": [{**GOOD_TASK, "cpu_ms": np.nan}]}, "CPU wait is unknown for 100 %"),
        ({"stages": [{"declared_tasks": 1, "python": True}]}, "CPU wait is unknown for 100 %"),
        (
            {"tasks": [{**GOOD_TASK, "gpu_wait_ms": 0.0}]},
            "CPU wait is unknown for 100 % of all task time: its tasks compute on a GPU",
        ),
        ({"tasks": [{**GOOD_TASK, "input_bytes": 9.0}]}, "IO wait is unknown for 100 %"),
        ({"tasks": [{**GOOD_TASK, "output_bytes": 9.0}]}, "IO wait is unknown for 100 %"),
        ({"queries": TWO_AT_ONCE[:1]}, "no two queries ran at the same time"),
        (
            {"tasks": [GOOD_TASK, {**GOOD_TASK, "speculative": True, "index": 1}]},
            "slot wait is unknown for 50 %",
        ),
    ],
)
def test_each_loss_is_said(rows, sentence) -> None:
    assert [doubt for doubt in doubts_of(**rows) if doubt.startswith(sentence)]


ALONE = [{"sql_execution": -1, "key": "spark.extraListeners", "value": f"x.L,{LISTENER}"}]


def test_what_could_change_the_answer_is_said_in_a_clause_with_how_much() -> None:
    whole = tiny_tables(**GOOD)
    assert grave_doubts(whole, measure_waits(whole)) == []
    several = [{"path": "a", "status": "truncated"}, {"path": "b", "status": "complete"}]
    tables = tiny_tables(
        inputs=several,
        tasks=[GOOD_TASK] * 8 + [{**GOOD_TASK, "index": 8, "input_bytes": 9.0, "cpu_ms": np.nan}],
        stages=[{"declared_tasks": 10}],
        applications=[{"dropped_events": 1200.0}],
        queries=TWO_AT_ONCE,
    )
    assert grave_doubts(tables, measure_waits(tables)) == [
        "1 of 2 logs is truncated",
        "Spark dropped 1,200 events",
        "the wait for CPU is unknown for 11 % of all task time",
        "the wait for reading is unknown for 11 % of all task time",
    ]


def test_the_listener_alone_is_said_before_all_that_it_did_not_measure() -> None:
    tables = tiny_tables(**GOOD, conf=ALONE)
    first = find_doubts(tables, measure_waits(tables))[0]
    assert first == (
        "recorded with the listener alone: waits of executors are not measured; add "
        f"spark.plugins={PLUGIN}"
    )
    two = tiny_tables(
        **{**GOOD, "applications": [{}, {}], "tasks": [GOOD_TASK, {**GOOD_TASK, "app": 1}]},
        conf=ALONE,
    )
    assert listener_alone(two).startswith("1 of 2 applications were recorded with the listener")


@pytest.mark.parametrize(
    "rows",
    [
        {"conf": [*ALONE, {"sql_execution": -1, "key": "spark.plugins", "value": f"{PLUGIN},y.P"}]},
        {"conf": [*ALONE, {"sql_execution": -1, "key": "spark.iqcar.enabled", "value": "false"}]},
        {"conf": [{**ALONE[0], "value": "x.L"}]},
        {"conf": ALONE, "task_records": [{"task": 0}]},
        {"conf": ALONE, "tasks": []},
    ],
)
def test_the_listener_is_not_alone(rows) -> None:
    assert listener_alone(tiny_tables(**{**GOOD, **rows})) == ""


def test_running_tasks_are_said() -> None:
    running = {"launch_ms": 1000.0, "finish_ms": 2000.0, "status": "running", "index": 1}
    said = doubts_of(
        applications=[{"ended": False}],
        stages=[{"declared_tasks": 2, "completed": False}],
        tasks=[GOOD_TASK, running],
    )
    assert said == ["1 tasks have no end in the log: what they waited for while running is unknown"]


def test_nothing_read_leaves_nothing_to_doubt() -> None:
    tables = Tables.empty()
    assert find_doubts(tables, measure_waits(tables)) == ()


RECORD = {"wall_ms": 900.0, "cpu_ms": 900.0, "run_queue_ms": 0.0, "off_cpu_ms": 0.0}


def test_a_log_whose_every_task_was_measured_leaves_nothing_to_doubt() -> None:
    tables = tiny_tables(**GOOD, task_records=[RECORD])
    assert find_doubts(tables, measure_waits(tables)) == ()


def test_task_ends_without_a_record_are_counted_by_reason() -> None:
    ends = [
        {"status": "success"},
        {"status": "success", "stage": 1},
        {"status": "failed"},
        {"status": "failed", "stage": 1},
        {"status": "failed", "executor": 1},
        {"status": "killed"},
        {"status": "killed"},
        {"status": "running"},
    ]
    tasks = [{**GOOD_TASK, "index": n, **end} for n, end in enumerate([{}, *ends])]
    said = doubts_of(
        tasks=tasks,
        stages=[{}, {"failure_reason": "org.apache.spark.shuffle.FetchFailedException: gone"}],
        executors=[{}, {"removed_ms": 2500.0}],
        task_records=[RECORD],
    )
    (sentence,) = [one for one in said if "have no record" in one]
    assert sentence == (
        "7 of 8 task ends have no record of the plugin (1 lost with their executor, 1 in stages "
        "that could not fetch their shuffle blocks, 1 failed, 2 killed, 1 succeeded after their "
        "stage was aborted, 1 succeeded, where the plugin was missing or failed): 88 % of the task "
        "time there is not measured"
    )
    assert [one for one in said if one.startswith("waits for memory and locks were not measured")]


def test_applications_without_the_plugin_lack_no_records() -> None:
    tables = tiny_tables(
        **{**GOOD, "tasks": [GOOD_TASK, {**GOOD_TASK, "app": 1, "index": 1}]},
        applications=[{}, {}],
        task_records=[RECORD],
    )
    said = find_doubts(tables, measure_waits(tables))
    assert not [one for one in said if "have no record" in one]
    assert "waits for memory and locks were not measured for 50 % of all task time" in "".join(said)
    assert "CPU wait is estimated for 50 % of all task time" in "".join(said)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"sampler": "off"}, "the sampler was switched off"),
        ({"sampler": "dead"}, "the sampler had stopped for 1 tasks (100 % of all task time)"),
        ({"coverage": 17.0, "off_cpu_ms": 5.0}, "the plugin took 17 % of the wanted samples"),
        ({"failures": 3}, "the plugin counted up to 3 failures of its own code"),
        ({"run_queue_ms": np.nan}, "CPU wait is unknown for 100 % of all task time: the kernel"),
    ],
)
def test_what_the_plugin_could_not_measure_is_said(record, words) -> None:
    assert [one for one in doubts_of(task_records=[{**RECORD, **record}]) if words in one]


def test_samples_left_out_of_few_tasks_or_none_are_no_doubt() -> None:
    for record in ({"coverage": 60.0}, {"coverage": np.nan}, {"coverage": 5.0, "sampler": "off"}):
        assert not [
            one for one in doubts_of(task_records=[{**RECORD, **record}]) if "wanted" in one
        ]


SAMPLE = {"duration_ms": 1000.0, "cores": 4.0, "cpu_user": 70.0, "cpu_system": 5.0}


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"jvm_cpu_ms": 2900.0, "python_cpu_ms": 100.0}, None),
        ({"jvm_cpu_ms": 2700.0}, None),
        ({"jvm_cpu_ms": 1000.0, "own_cpu_ms": 1.0}, "used 2.0 of 4 processors over the 2 s"),
        ({}, "used 3.0 of 4 processors over the 2 s"),
    ],
)
def test_programs_outside_spark_that_use_a_host_are_said(own, said) -> None:
    """Two samples of the host, the second by the executor that leads; another samples itself."""
    lacking = {"jvm_cpu_ms": np.nan, "python_cpu_ms": np.nan, "own_cpu_ms": np.nan}
    samples = [
        {**lacking, **SAMPLE, **own, "time_ms": 1000.0},
        {**lacking, **SAMPLE, **own, "time_ms": 2000.0},
        {**lacking, "duration_ms": 1000.0, "jvm_cpu_ms": 1.0, "time_ms": 2000.0},
    ]
    found = [one for one in doubts_of(samples=samples) if "processes other than" in one]
    assert len(found) == (said is not None)
    assert not said or said in found[0]


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
