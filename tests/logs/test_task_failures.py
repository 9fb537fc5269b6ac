"""Why attempts did not succeed: one line each, bounded, without secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from iqcar.logs import read_logs
from iqcar.logs.events.root_cause import MOST_CHARACTERS
from iqcar.logs.tasks.task_columns import MOST_REASONS
from iqcar.tables import texts
from iqcar_lab.clusters.event_log import SyntheticLog, rdd, stage_info
from tests.support.small_log import read

TRACEBACK = """Traceback (most recent call last):
  File "/opt/worker.py", line 1, in main
ValueError: bad row
"""


def ended(reason: str, **fields: Any) -> dict[str, Any]:
    return {"more": {"Task End Reason": {"Reason": reason, **fields}}}


@pytest.mark.parametrize(
    ("reason", "fields", "line"),
    [
        (
            "ExceptionFailure",
            {"Class Name": "java.io.IOException", "Description": "disk full\n\tat a.b.C(D.java)"},
            "IOException: disk full",
        ),
        (
            "ExceptionFailure",
            {"Class Name": "org.apache.spark.api.python.PythonException", "Description": TRACEBACK},
            "PythonException: ValueError: bad row",
        ),
        (
            "ExceptionFailure",
            {
                "Class Name": "org.apache.spark.api.python.PythonException",
                "Description": f"[PYTHON_EXCEPTION] Thrown: {TRACEBACK} SQLSTATE: 38000",
            },
            "PythonException: ValueError: bad row",
        ),
        (
            "ExceptionFailure",
            {"Class Name": "a.OutOfMemoryError", "Description": None},
            "OutOfMemoryError",
        ),
        ("TaskKilled", {"Kill Reason": "another attempt succeeded"}, "another attempt succeeded"),
        (
            "ExecutorLostFailure",
            {"Executor ID": "1", "Exit Caused By App": True, "Loss Reason": "exited with code 137"},
            "exited with code 137",
        ),
        ("TaskResultLost", {}, ""),
        ("TaskCommitDenied", {"Job ID": 1, "Partition ID": 2, "Attempt Number": 1}, ""),
        ("ExceptionFailure", {"Class Name": 7, "Description": ["?"]}, "7"),
    ],
)
def test_a_failure_is_kept_with_its_reason_in_a_line(
    reason: str, fields: dict[str, Any], line: str, tmp_path: Path
) -> None:
    log = SyntheticLog().app().task(0).task(1, **ended(reason, **fields)).task(2).end()
    found = read(log, tmp_path).task_failures
    assert found["task"].tolist() == [1]
    assert found["reason"].tolist() == [reason]
    assert texts(found, "message") == [line]
    assert found["source"].tolist() == [-1]


def test_a_failed_fetch_names_the_executor_that_held_the_output(tmp_path: Path) -> None:
    address = {"Executor ID": "2", "Host": "b", "Port": 7337}
    message = "\norg.apache.spark.shuffle.FetchFailedException: Connection refused\n\tat x"
    fetch = ended("FetchFailed", **{"Block Manager Address": address, "Message": message})
    log = SyntheticLog().app().executor("2", "b").task(0, **fetch).end()
    tables = read(log, tmp_path)
    (row,) = tables.task_failures.to_dict("records")
    assert texts(tables.executors, "executor_id")[row["source"]] == "2"
    assert row["message"] == "FetchFailedException: Connection refused"


def test_a_lost_output_is_told_of_the_attempt_that_wrote_it(tmp_path: Path) -> None:
    log = SyntheticLog().app().task(0, index=0).task(1, index=1)
    log.task(0, index=0, **ended("Resubmitted")).task(2, index=0, attempt=1).end()
    tables = read(log, tmp_path)
    assert tables.tasks["status"].tolist() == ["success"] * 3
    assert tables.task_failures[["task", "reason"]].values.tolist() == [[0, "Resubmitted"]]


def test_what_failures_say_holds_no_secret_and_is_bounded(tmp_path: Path) -> None:
    said = "cannot open jdbc:x://ann:hunter2@db?password=hunter2 "
    long = ended("ExceptionFailure", Description=said + "x" * 5000)
    traced = ended("ExceptionFailure", Description=f"{TRACEBACK[:-8]}{said}{'y' * 5000}")
    found = texts(
        read(SyntheticLog().app().task(0, **long).task(1, **traced), tmp_path).task_failures,
        "message",
    )
    assert "hunter2" not in "".join(found)
    assert ["redacted" in line for line in found] == [True, True]
    assert max(map(len, found)) <= MOST_CHARACTERS


def test_countless_reasons_keep_the_first_ones_in_words(tmp_path: Path) -> None:
    log = SyntheticLog().app()
    for task in range(MOST_REASONS + 20):
        log.task(task, **ended("ExceptionFailure", Description=f"row {task}"))
    found = read(log, tmp_path).task_failures
    assert len(found) == MOST_REASONS + 20
    messages = texts(found, "message")
    assert messages[0] == "row 0"
    assert messages[-20:] == [""] * 20


def test_failures_of_several_logs_keep_their_tasks(tmp_path: Path) -> None:
    paths = []
    for number in range(2):
        log = SyntheticLog(f"app-{number}").app().task(0)
        log.task(1, **ended("TaskKilled", **{"Kill Reason": f"reason {number}"}))
        paths.append(log.end().write(tmp_path / f"app-{number}"))
    tables = read_logs(paths, processes=1)
    assert tables.task_failures["task"].tolist() == [1, 3]
    assert texts(tables.task_failures, "message") == ["reason 0", "reason 1"]


def test_a_partition_is_known_by_its_number_not_by_its_place_in_a_further_attempt(
    tmp_path: Path,
) -> None:
    log = SyntheticLog().app().task(0, attempt=0, index=0, **{"Partition ID": 3}).end()
    assert read(log, tmp_path).tasks["index"].tolist() == [3]
    old = SyntheticLog(version="3.2.0").app().task(0, index=2, **{"Partition ID": -1}).end()
    assert read(old, tmp_path).tasks["index"].tolist() == [2]


def test_a_stage_is_known_by_its_last_rdd(tmp_path: Path) -> None:
    info = stage_info(0, rdds=[rdd(4), rdd(9), rdd(6)])
    log = SyntheticLog().app().job(0, [info]).stage(info).task(0).task(1, stage=5).end()
    assert read(log, tmp_path).stages["rdd"].tolist() == [9, -1]
